"""The admission block in plain Python, with a list instead of the host's timers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.blocks import admission

CAPACITY = 100


class Host:
    """A host with flows of given rates; records which flows the block wakes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rates: list[int]) -> None:
        names = dict.fromkeys(admission.TX_STATE, 0) | {"finished": 0, "next_send_ps": 0}
        flows = [SimpleNamespace(**names | {"flow": i}) for i in range(len(rates))]
        for flow, rate in zip(flows, rates, strict=True):
            flow.rate_bps = rate
        self.record = SimpleNamespace(**dict.fromkeys(admission.HOST_STATE, 0))
        self.env = SimpleNamespace(host=self.record, tx=flows)
        self.woken: list[int] = []
        monkeypatch.setattr(
            admission, "set_timer", lambda _env, _now, tx, *_: self.woken.append(tx.flow)
        )

    def ask(self, flow: int, *, now: int = 0, first: bool = False) -> None:
        admission.ask(self.env, now, self.env.tx[flow], CAPACITY, first)
        self.check()

    def release(self, flow: int, *, now: int = 0) -> None:
        admission.release(self.env, now, self.env.tx[flow], CAPACITY)
        self.check()

    def admitted(self) -> list[int]:
        return [tx.flow for tx in self.env.tx if tx.admitted]

    def check(self) -> None:
        rates = [self.env.tx[flow].rate_bps for flow in self.admitted()]
        assert self.record.admitted_bps == sum(rates) <= CAPACITY


def test_flows_are_admitted_in_order_of_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small flow does not overtake a large one that waits, so no flow starves."""
    host = Host(monkeypatch, [60, 50, 10])
    for flow in range(3):
        host.ask(flow)
    assert host.admitted() == [0]
    host.release(0)
    assert host.admitted() == [1, 2]
    assert host.woken == [0, 1, 2]


def test_admitted_flow_starts_after_its_predecessors_last_packet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(monkeypatch, [100, 100])
    host.ask(0, now=5)
    host.ask(1, now=6)
    host.env.tx[0].next_send_ps = 17
    host.release(0, now=10)
    assert host.env.tx[1].next_send_ps == 17


@given(
    rates=st.lists(st.integers(1, CAPACITY), min_size=1, max_size=12),
    releases=st.lists(st.integers(0, 11)),
)
def test_any_order_of_releases_keeps_order_and_capacity(
    rates: list[int], releases: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        host = Host(monkeypatch, rates)
        for flow in range(len(rates)):
            host.ask(flow)
        for choice in releases:
            if host.admitted():
                host.release(host.admitted()[choice % len(host.admitted())])
        while host.admitted():
            host.release(host.admitted()[0])
        assert host.woken == list(range(len(rates)))
        assert host.record.has_waiting == 0
