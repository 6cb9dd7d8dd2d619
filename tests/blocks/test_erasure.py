"""Blocks of the erasure code, in plain Python."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.blocks import erasure
from netsim.transport import bit_get, bit_set


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
