"""The list of messages ordered by remaining bytes, compared with sorting."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from netsim.blocks import shortest_first


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
