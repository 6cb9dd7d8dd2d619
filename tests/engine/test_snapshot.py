"""A run that goes on from a snapshot ends as if it had never been stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_case import kept
from engine_runs import DROP_TAIL, LOSSLESS, build, fat_tree, flow_table

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF
from netsim.engine.snapshot import ForeignSnapshotError


def small(transport: str = "datagram", **given: Any) -> Engine:
    """An engine in plain Python whose flows have just begun."""
    network = fat_tree(2, 2, "100Gbps")
    flows = flow_table([(0, 2, 50_000, 0), (1, 3, 50_000, 0), (2, 1, 9_000, 0)])
    engine = build(network, flows, transport, **{"fabric": DROP_TAIL, "jit": False, **given})
    engine.advance(3, INF)
    return engine


@pytest.mark.parametrize(
    "given",
    [{"transport": "roce", "fabric": LOSSLESS}, {"trace": [0]}],
    ids=["other records", "one group more"],
)
def test_a_state_that_is_made_of_other_things_is_refused(given: dict[str, Any]) -> None:
    engine, other = small(), small(**given)
    before = engine.digest()
    with pytest.raises(ForeignSnapshotError):
        engine.restore(other.snapshot())
    assert engine.digest() == before


def test_a_snapshot_has_the_packets_but_not_the_room_for_them() -> None:
    engine = small()
    pool, packets = engine.state.links.pool, engine.conservation().packets.in_flight
    taken = engine.snapshot()["links.pool"]
    assert packets > 0
    assert taken.raw.size >= packets * pool.itemsize
    assert taken.raw.size < pool.nbytes / 100


def test_what_was_recorded_of_traced_flows_goes_with_it() -> None:
    engine, other = small(trace=[0]), small(trace=[0])
    recorded = kept(engine)
    assert other.drain_trace().entries.size > 0
    other.restore(recorded)
    assert np.array_equal(other.drain_trace().entries, engine.drain_trace().entries)
