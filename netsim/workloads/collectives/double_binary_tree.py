"""Two binary trees: almost every position is an inner node of one and a leaf of the other.

Each tree has half of the buffer. Chunks are added toward the root and the sums sent back down,
while later chunks are on their way up, so that both directions of every link are busy (P. Sanders,
J. Speck and J. L. Träff, Parallel Computing 35(12), 581-594, 2009). The trees are NCCL's
(NVIDIA/nccl, `src/graph/trees.cc`): the second mirrors the first, or shifts it for an odd number of
positions.
"""

from __future__ import annotations

import numpy as np

from netsim.workloads.collectives.steps import (
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Ints,
    Steps,
    Wire,
    cut,
    pieces_of,
    steps,
)

WHATS = ("all_reduce",)


def parents(n: int, second: bool) -> Ints:
    """int64[n]: the parent of each position in one of the trees; -1 for the root."""
    place = np.arange(n)
    low = place & -place
    up = (place ^ low) | (low << 1)
    up = np.where(up < n, up, place ^ low)
    up[0] = -1
    if not second:
        return up
    if n % 2:  # one further
        up = np.where(up < 0, -1, (up + 1) % n)
        return np.roll(up, 1)
    return np.where(up < 0, -1, n - 1 - up)[::-1]


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:  # noqa: ARG001
    """Sends by chunk, channel and tree, first up, then down."""
    channels = how.channels
    chunks = pieces_of(-(-size_bytes // 2), channels, how.chunk_bytes)
    trees = [_tree(parents(n, second)) for second in (False, True)]
    m = 2 * (n - 1)  # of a tree
    src, dst, pairs = (np.stack(column) for column in zip(*trees, strict=True))
    here = np.arange(chunks * channels * 2 * m).reshape(chunks, channels, 2, m)
    tree = np.arange(2)[:, None]
    part = np.arange(channels)[:, None, None] * chunks + np.arange(chunks)[:, None, None, None]
    follows = here - channels * 2 * m if chunks > 1 else np.array(-1)
    # Each chunk has the dependencies of its tree.
    block = here[..., :1]
    return steps(
        n,
        (np.broadcast_to(src, here.shape), np.broadcast_to(dst, here.shape)),
        Carried(tree * channels * chunks + part, adds=np.arange(m) < n - 1),
        cut(cut(cut(size_bytes, 2), channels), chunks).reshape(-1),
        after=(block + pairs[:, 0], block + pairs[:, 1]),
        follows=np.maximum(follows, -1),
    )


def _depth(up: Ints) -> Ints:
    """int64[n]: depth of each position below the root."""
    depth = np.zeros(up.size, np.int64)
    above = up.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, up[above], -1)
    return depth


def _tree(up: Ints) -> tuple[Ints, Ints, Ints]:
    """The sends of one tree, up then down: sources, destinations, and dependent pairs."""
    n = up.size
    order = np.argsort(_depth(up), kind="stable")[1:]  # without the root
    rising = order[::-1]
    number = np.full((2, n), -1)  # index of the send up from, and down to, a position
    number[0, rising], number[1, order] = np.arange(n - 1), n - 1 + np.arange(n - 1)
    first, then = [number[0, order]], [number[0, up[order]]]
    root = int(np.flatnonzero(up < 0)[0])
    inner = order[up[order] != root]
    top = order[up[order] == root]
    first.append(number[1, up[inner]])
    then.append(number[1, inner])
    first.append(np.repeat(number[0, top], top.size))
    then.append(np.tile(number[1, top], top.size))
    one, other = np.concatenate(first), np.concatenate(then)
    waits = other >= 0  # the root sends nothing up
    src = np.concatenate([rising, up[order]])
    dst = np.concatenate([up[rising], order])
    return src, dst, np.stack([one[waits], other[waits]])


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:  # noqa: ARG001
    """Hops in both trees by level; inner positions carry a link's bytes twice."""
    levels: dict[int, list[Ints]] = {}
    for second in (False, True):
        up = parents(n, second)
        depth = _depth(up)
        for level in range(1, int(depth.max()) + 1):
            below = np.flatnonzero(depth == level)
            levels.setdefault(level, []).append(np.stack([below, up[below]]))
    rows = []
    for found in levels.values():
        below, above = np.concatenate(found, axis=1)
        ends = np.concatenate([below, above]), np.concatenate([above, below])
        rows.append(HopRow(*ends))
    half = size_bytes // 2 // how.channels
    message = half // pieces_of(-(-size_bytes // 2), how.channels, how.chunk_bytes)
    return Hops(tuple(rows), message, 1 / 4, at_once=True)


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:  # noqa: ARG001
    """Approximate duration when positions do not share links.

    Each link carries the whole buffer twice, and a chunk goes up and down. A position shares its
    link among three directions, so this is inexact: with at least 32 chunks per tree, simulated
    times
        are 84
    to 102 % of it (one switch, 8 to 32 positions).
    """
    chunks = pieces_of(-(-size_bytes // 2), how.channels, how.chunk_bytes)
    hop = how.latency_ps + wire.send_ps(size_bytes // 2 // how.channels // chunks) + wire.delay_ps
    return 2 * wire.busiest_ps(size_bytes) + 2 * ((n - 1).bit_length()) * hop
