"""The retransmission timeout watches the oldest missing packet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from netsim.blocks import selective, timeouts

N = 40
RTO = 1000


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A flow with ten packets sent at time 0; `flow.deadline` is its timer's, None if not set."""
    names = [*selective.TX_STATE, *timeouts.TX_STATE, "bits"]
    tx = SimpleNamespace(**dict.fromkeys(names, 0), n_packets=N, bits_end=4)
    tx.rto_ps = RTO
    flow = SimpleNamespace(tx=tx, env=SimpleNamespace(bits=[0] * 4), deadline=None)

    def set_timer(_env: Any, _now: int, _side: Any, _k: int, deadline: int) -> None:
        flow.deadline = deadline

    def cancel_timer(*_: Any) -> None:
        flow.deadline = None

    monkeypatch.setattr(timeouts, "set_timer", set_timer)
    monkeypatch.setattr(timeouts, "cancel_timer", cancel_timer)
    monkeypatch.setattr(timeouts, "armed", lambda *_: flow.deadline is not None)
    send(flow, 0, 10)
    return flow


def send(flow: SimpleNamespace, now: int, n: int) -> list[int]:
    sent = []
    for _ in range(n):
        sent.append(selective.take(flow.env, flow.tx))
        timeouts.on_send(flow.env, now, flow.tx)
    return sent


def acknowledge(flow: SimpleNamespace, now: int, *seqs: int) -> None:
    for seq in seqs:
        selective.acknowledge(flow.env, flow.tx, seq)
    timeouts.on_acknowledged(flow.env, now, flow.tx)


def test_only_the_oldest_restarts_it(flow: SimpleNamespace) -> None:
    assert flow.deadline == RTO
    acknowledge(flow, 500, 1, 2, 3)
    assert flow.deadline == RTO
    acknowledge(flow, 600, 0)
    assert flow.deadline == 600 + RTO
    assert flow.tx.oldest == 4


def test_what_was_sent_before_the_watch_is_lost(flow: SimpleNamespace) -> None:
    acknowledge(flow, 500, 1, 3)
    send(flow, 900, 5)
    assert timeouts.on_timer(flow.env, RTO, flow.tx) == 1
    assert flow.deadline == 2 * RTO
    assert timeouts.on_timer(flow.env, 2 * RTO, flow.tx) == 12
    assert send(flow, 2 * RTO, 3) == [0, 2, 4]


def test_a_refusal_of_the_oldest_restarts_it(flow: SimpleNamespace) -> None:
    timeouts.on_refused(flow.env, 400, flow.tx, 3)
    assert flow.deadline == RTO
    timeouts.on_refused(flow.env, 500, flow.tx, 0)
    assert flow.deadline == 500 + RTO


def test_it_ends_with_the_last_packet(flow: SimpleNamespace) -> None:
    send(flow, 10, 30)
    acknowledge(flow, 100, *range(N))
    assert flow.deadline is None
