"""Lossless switches whose pauses are planned do what they would do in the order of time.

That each departure is right is for `test_against_reference.py`; here it is without a plan, for
want of room or because none is found, that they do the same.
"""

from __future__ import annotations

import pytest
from engine_case import NARROW
from engine_runs import PACKET, build, fabric_with, fat_tree, flow_table, run

from netsim.engine.engine import Engine
from netsim.engine.kernels import pause_prediction

CLOSE = fabric_with("lossless", xoff_bytes=5 * PACKET, xon_bytes=4 * PACKET)


def paused_often(transport: str = "roce", **options: object) -> Engine:
    """Some flows collide, and five go to one host."""
    network = fat_tree(4, 3, "100Gbps", spines=2)
    pairs = [(src, (src * 5 + 3) % 12) for src in range(12)]
    incast = [(src, 7) for src in range(4)]
    flows = flow_table([(src, dst, 200_000, 0) for src, dst in (*pairs, *incast) if src != dst])
    return build(network, flows, transport, CLOSE, jit=False, **options)


@pytest.fixture(scope="module")
def planned() -> Engine:
    return run(paused_often())


def test_somebody_is_paused(planned: Engine) -> None:
    assert planned.link_counters().pfc_pauses.sum() > 20


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_without_a_plan_all_is_in_order(planned: Engine, monkeypatch, rounds: int) -> None:
    """No plan at all, where anybody is paused, or where a frame leads to another."""
    monkeypatch.setattr(pause_prediction, "MAX_ROUNDS", rounds)
    assert run(paused_often()).digest() == planned.digest()


def test_little_room_for_a_plan(planned: Engine) -> None:
    assert run(paused_often(sizes=NARROW)).digest() == planned.digest()
