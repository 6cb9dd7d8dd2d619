"""Building blocks: admission, order, erasure codes, reports."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.blocks import admission, erasure, shortest_first
from netsim.transport import bit_get, bit_set

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


def order(env: SimpleNamespace) -> list[int]:
    """Flows from first to last; checks that the reverse links give the same order."""
    there, link = [], env.host.first
    while link:
        there.append(link - 1)
        link = env.rx[link - 1].below
    back, link = [], env.host.last
    while link:
        back.append(link - 1)
        link = env.rx[link - 1].above
    assert there == back[::-1]
    return there


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    steps=st.lists(st.tuples(st.sampled_from("irl"), st.integers(0, 11), st.integers(1, 4))),
)
def test_list_stays_sorted_and_stable(sizes: list[int], steps: list[tuple[str, int, int]]) -> None:
    flows = [
        SimpleNamespace(flow=i, peer=i % 5, size_bytes=10 * n, received_bytes=0, above=0, below=0)
        for i, n in enumerate(sizes)
    ]
    env = SimpleNamespace(rx=flows, host=SimpleNamespace(first=0, last=0, active=[-1] * 8))
    expected: list[int] = []

    def left(i: int) -> int:
        return flows[i].size_bytes - flows[i].received_bytes

    for what, which, n_bytes in steps:
        i = which % len(flows)
        if what == "i" and i not in expected:
            shortest_first.insert(env, flows[i])
            expected = sorted([*expected, i], key=left)
        elif what == "r" and i in expected:
            shortest_first.remove(env, flows[i])
            expected.remove(i)
        elif what == "l" and i in expected:
            flows[i].received_bytes = min(flows[i].size_bytes, flows[i].received_bytes + n_bytes)
            passed = sum(left(j) > left(i) for j in expected[: expected.index(i)])
            assert shortest_first.lift(env, flows[i]) == (passed > 0)
            at = expected.index(i)
            expected.insert(at - passed, expected.pop(at))
        assert order(env) == expected
        for most in (1, 3, 8):
            shortest_first.choose_active(env, most)
            best = list({flows[i].peer: i for i in reversed(expected)}.values())[::-1]
            chosen = sorted(best, key=expected.index)[:most]
            assert env.host.active[: env.host.n_active] == chosen


def receiver(n: int, k: int, interleave: int) -> tuple[SimpleNamespace, SimpleNamespace]:
    """An environment and the receiving side of a flow of ``n`` packets."""
    words = erasure.RX_BITMAPS * ((n + 31) // 32)
    par = SimpleNamespace(k=k, interleave=interleave)
    return SimpleNamespace(par=par, bits=np.zeros(words, np.int64)), SimpleNamespace(
        n_packets=n, bits=0, bits_end=words
    )


@given(n=st.integers(1, 200), k=st.integers(1, 20), interleave=st.integers(1, 7))
def test_every_packet_is_in_exactly_one_block(n: int, k: int, interleave: int) -> None:
    """No block has more than k packets, and sizes within a group differ by at most one."""
    env, rx = receiver(n, k, interleave)
    seen = []
    for group in range(erasure.n_groups(env, rx)):
        blocks = range(group * interleave, (group + 1) * interleave)
        sizes = [len(erasure.members(env, rx, b)) for b in blocks]
        assert max(sizes) <= k
        assert max(sizes) - min(sizes) <= 1
        assert sum(size > 0 for size in sizes) == erasure.blocks_in(env, rx, group)
        assert all(sizes[: erasure.blocks_in(env, rx, group)])
        for b in blocks:
            assert all(erasure.block_of(env, seq) == b for seq in erasure.members(env, rx, b))
            seen += list(erasure.members(env, rx, b))
    assert sorted(seen) == list(range(n))


@given(n=st.integers(1, 100), interleave=st.integers(1, 6))
def test_neighboring_packets_are_in_different_blocks(n: int, interleave: int) -> None:
    env, _ = receiver(n, 10, interleave)
    for start in range(n):
        burst = range(start, start + interleave)
        groups = {seq // (10 * interleave) for seq in burst}
        if len(groups) == 1:
            assert len({erasure.block_of(env, seq) for seq in burst}) == interleave


@pytest.mark.parametrize("block", [0, 1, 2, 3])
@given(data=st.data())
def test_any_k_packets_restore_a_block(block: int, data: st.DataObject) -> None:
    """Any k of the data and parity packets suffice, in any order."""
    env, rx = receiver(25, 8, 2)
    members = list(erasure.members(env, rx, block))
    parity = [-1] * 5
    arrivals = data.draw(st.permutations(members + parity))
    for i, seq in enumerate(arrivals[: len(members)]):
        assert erasure.lacking(env, rx, block) == len(members) - i
        if seq < 0:
            erasure.add_parity(env, rx, block)
            assert erasure.has_parity(env, rx, block)
        else:
            bit_set(env, rx, erasure.GOT, seq)
    assert erasure.lacking(env, rx, block) == 0
    others = [b for b in range(4) if b != block]
    assert all(erasure.lacking(env, rx, b) == len(erasure.members(env, rx, b)) for b in others)
    erasure.clear_parity(env, rx, block)
    assert not erasure.has_parity(env, rx, block)
    assert sum(bit_get(env, rx, erasure.GOT, seq) for seq in members) == sum(
        seq >= 0 for seq in arrivals[: len(members)]
    )
