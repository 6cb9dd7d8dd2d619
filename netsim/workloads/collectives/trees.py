"""Algorithms by trees: chains, binomial trees, two binary trees, and a tree for each shard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from netsim.model.columns import Ints
from netsim.workloads.collectives.steps import (
    Algorithm,
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Steps,
    Wire,
    cut,
    pieces_of,
    shifted,
    steps,
)


def _chain(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Chains: from the root to the next position, and so on.

    A broadcast is pipelined along the chain in chunks; with small chunks it takes little longer
    than one message. A reduction runs toward the root and adds on its way. NCCL does both this way.

    Sends by chunk and channel, along the chain.
    """
    chunks = pieces_of(size_bytes, how.channels, how.chunk_bytes)
    here = np.arange(chunks * how.channels * (n - 1)).reshape(chunks, how.channels, n - 1)
    chain = (how.root + np.arange(n)) % n
    if what == "reduce":
        chain = chain[::-1]
    part = np.arange(how.channels)[:, None] * chunks + np.arange(chunks)[:, None, None]
    follows = here - how.channels * (n - 1) if chunks > 1 else np.array(-1)
    return steps(
        n,
        (np.broadcast_to(chain[:-1], here.shape), np.broadcast_to(chain[1:], here.shape)),
        Carried(part, adds=what == "reduce"),
        cut(cut(size_bytes, how.channels), chunks).reshape(-1),
        after=(here[..., :-1], here[..., 1:]),
        follows=np.maximum(follows, -1),
    )


def _chain_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    chain = (how.root + np.arange(n)) % n
    row = HopRow(chain[:-1], chain[1:]) if what == "broadcast" else HopRow(chain[1:], chain[:-1])
    chunks = pieces_of(size_bytes, how.channels, how.chunk_bytes)
    return Hops((row,), size_bytes // how.channels // chunks, at_once=True, chain=True)


def _chain_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links. Exact for one channel if the chunks divide evenly
    and all hops are alike."""
    chunks = pieces_of(size_bytes, how.channels, how.chunk_bytes)
    chunk = size_bytes // chunks
    on_its_way = how.latency_ps + wire.send_ps(chunk) + wire.delay_ps
    return (n - 1) * on_its_way + (chunks - 1) * wire.busiest_ps(chunk)


CHAIN = Algorithm(("broadcast", "reduce"), _chain, _chain_hops, _chain_ps)


def _binomial(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Binomial trees: the number of positions with the message doubles in each round.

    The root is s = 0; position s gets the message from s without its lowest bit. A position sends
    to the farthest first, which has the largest subtree. A reduction runs the tree backward.

    Sends: farthest first in a broadcast, nearest first in a reduction.
    """
    place = np.arange(1, n)
    low = place & -place
    order = np.lexsort((place, low if what == "reduce" else -low))
    place, low = place[order], low[order]
    number = np.full(n, -1)  # index of the send to or from each place
    number[place] = np.arange(n - 1)
    above = place - low
    inner = np.flatnonzero(above > 0)
    follows = np.full(n - 1, -1)
    if what == "broadcast":
        after = number[above[inner]], inner
        # The previous send from the same place reaches at least twice as far.
        of_src = np.lexsort((np.arange(n - 1), above))
        same = above[of_src[1:]] == above[of_src[:-1]]
        follows[of_src[1:][same]] = of_src[:-1][same]
    else:
        after = inner, number[above[inner]]
    ends = (how.root + above) % n, (how.root + place) % n
    return steps(
        n,
        ends if what == "broadcast" else ends[::-1],
        Carried(np.zeros(n - 1, np.int64), adds=what == "reduce"),
        np.array([size_bytes], np.int64),
        after=after,
        follows=follows,
    )


def _binomial_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    rows = []
    for k in reversed(range((n - 1).bit_length())):
        place = np.arange(1 << k, n, 2 << k)
        ends = (how.root + place - (1 << k)) % n, (how.root + place) % n
        rows.append(HopRow(*(ends if what == "broadcast" else ends[::-1])))
    return Hops(tuple(rows), size_bytes)


def _binomial_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links. Exact for broadcasts, and for reductions of
    powers of two; others take no longer."""
    message_ps = wire.send_ps(size_bytes)
    hop = how.latency_ps + wire.delay_ps
    if what == "reduce":
        return (n - 1).bit_length() * (hop + message_ps)
    place = np.arange(1, n)
    low = place & -place
    n_hops = np.array([one.bit_count() for one in place.tolist()])
    behind = (n - 1).bit_length() - np.log2(low).astype(np.int64)  # messages, including this one
    return int((n_hops * hop + behind * message_ps).max())


BINOMIAL_TREE = Algorithm(("broadcast", "reduce"), _binomial, _binomial_hops, _binomial_ps)


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


def _two_trees(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Two binary trees: almost every position is an inner node of one and a leaf of the other.

    Each tree has half of the buffer. Chunks are added toward the root and the sums sent back down,
    while later chunks are on their way up, so that both directions of every link are busy (P.
    Sanders, J. Speck and J. L. Träff, Parallel Computing 35(12), 581-594, 2009). The trees are
    NCCL's (NVIDIA/nccl, `src/graph/trees.cc`): the second mirrors the first, or shifts it for an
    odd number of positions.

    Sends by chunk, channel and tree, first up, then down.
    """
    channels = how.channels
    chunks = pieces_of(-(-size_bytes // 2), channels, how.chunk_bytes)
    trees = [_tree(parents(n, second)) for second in (False, True)]
    m = 2 * (n - 1)  # of a tree
    src, dst, pairs = (np.stack(column) for column in zip(*trees, strict=True))
    here = np.arange(chunks * channels * 2 * m).reshape(chunks, channels, 2, m)
    tree = np.arange(2)[:, None]
    part = np.arange(channels)[:, None, None] * chunks + np.arange(chunks)[:, None, None, None]
    follows = here - channels * 2 * m if chunks > 1 else np.array(-1)
    # Each chunk has its tree's dependencies.
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


def _two_trees_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
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


def _two_trees_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Approximate duration when positions do not share links.

    Each link carries the whole buffer twice, and a chunk goes up and down. A position shares its
    link among three directions, so this is inexact: with at least 32 chunks per tree, simulated
    times are 84 to 102 % of it (one switch, 8 to 32 positions).
    """
    chunks = pieces_of(-(-size_bytes // 2), how.channels, how.chunk_bytes)
    hop = how.latency_ps + wire.send_ps(size_bytes // 2 // how.channels // chunks) + wire.delay_ps
    return 2 * wire.busiest_ps(size_bytes) + 2 * ((n - 1).bit_length()) * hop


DOUBLE_BINARY_TREE = Algorithm(("all_reduce",), _two_trees, _two_trees_hops, _two_trees_ps)


class _Message(NamedTuple):
    """A message of an all-gather that each position sends `away` positions ahead.

    It carries `shards` shards from the positions `behind`, `behind` + `stride`, ... behind the
    sender, and starts when the messages `after` have arrived.
    """

    away: int
    behind: int
    stride: int
    shards: int
    after: tuple[int, ...]


def _messages(n: int, together: int) -> list[_Message]:
    """Return the messages of a position in order, each with at most `together` shards."""
    power = 1 << (n - 1).bit_length()
    apart = power // min(together, max(1, power // 2))  # of positions that share branches
    found: list[_Message] = []
    away = power // 2
    while away >= apart:
        count = -(-(n - away) // (2 * away))
        found.append(_Message(away, 0, 2 * away, count, tuple(range(len(found)))))
        away //= 2
    spread = tuple(range(len(found)))
    number: dict[int, int] = {}
    for behind in _branches(0, apart):
        low = behind & -behind
        count = -(-(n - behind) // apart)
        if count > 0:
            before = number.get(behind - low)
            number[behind] = len(found)
            after = spread if before is None else (before,)
            found.append(_Message(low, behind - low, apart, count, after))
    return found


def _branches(root: int, apart: int) -> Iterator[int]:
    """Yield the descendants of `root` in a tree of `apart`, parents first, the farthest first."""
    low = (root & -root) or apart
    while low > 1:
        low //= 2
        yield root + low
        yield from _branches(root + low, apart)


def _pat(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """PAT, parallel aggregated trees: every shard follows its own binomial tree.

    In an all-gather, a shard's tree starts at its position and reaches the farthest positions
    first: the position s behind it gets the shard from s without its lowest bit. All positions do
    the same, so shards with the same next hop share a message. Without a limit there are log2 n
    messages, and the long ones go to neighbors. If messages are limited (`chunk_bytes`) to m
    shards, log2 m steps spread a shard over m positions, and the m subtrees then proceed side by
    side, branch by branch with the farthest first, to keep buffers small. A reduce-scatter runs
    this backward. As in NCCL 2.23 and later (S. Jeaugey, arXiv 2506.20252; `PatAGAlgorithm`,
    NVIDIA/nccl, `src/include/collectives.h`).

    Sends by chunk of the shards, and by message.
    """
    shard = -(-size_bytes // n)
    chunks = pieces_of(shard, 1, how.chunk_bytes)
    messages = _messages(n, _together(n, shard, how))
    if what == "reduce_scatter":
        messages = _backwards(messages)
    k = len(messages)
    position = np.arange(n)
    chunk = np.arange(chunks)[:, None, None]
    away, behind, stride, count = (
        np.array(column)[:, None] for column in list(zip(*messages, strict=True))[:4]
    )
    here = (chunk * k + np.arange(k)[:, None]) * n + position
    if what == "all_gather":
        other, holder = (position + away) % n, np.broadcast_to(position, (k, n))
    else:  # the receiver sends it back
        other, holder = (position - away) % n, (position - away) % n
    pairs = [(one, then) for then, message in enumerate(messages) for one in message.after]
    one, then = np.array(pairs, np.int64).reshape(-1, 2).T[:, :, None]
    # The source of message `one` at each position.
    source = position - away[one[:, 0]] if what == "all_gather" else position + away[one[:, 0]]
    first = (chunk * k + one) * n + source % n
    follows = here - n
    follows[0, 0] = -1
    return steps(
        n,
        (np.broadcast_to(position, here.shape), np.broadcast_to(other, here.shape)),
        Carried((holder - behind) * chunks + chunk, count, -stride * chunks, what != "all_gather"),
        cut(cut(size_bytes, n), chunks).reshape(-1),
        after=(first, np.broadcast_to((chunk * k + then) * n + position, first.shape)),
        follows=follows,
    )


def _together(n: int, shard_bytes: int, how: CollectiveOptions) -> int:
    """Return the largest number of shards per message, a power of two."""
    most = n if how.chunk_bytes is None else max(1, how.chunk_bytes // max(1, shard_bytes))
    return 1 << (min(most, n).bit_length() - 1)


def _backwards(messages: list[_Message]) -> list[_Message]:
    """Return the messages of a reduce-scatter: reversed, with reversed dependencies."""
    last = len(messages) - 1
    found = []
    for number in range(last, -1, -1):
        after = tuple(last - k for k, other in enumerate(messages) if number in other.after)
        found.append(messages[number]._replace(after=tuple(sorted(after))))
    return found


def _pat_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    shard = size_bytes // n
    way = 1 if what == "all_gather" else -1
    rows = [
        shifted(n, [way * message.away])._replace(share=message.shards / (n - 1))
        for message in _messages(n, _together(n, -(-size_bytes // n), how))
    ]
    return Hops(tuple(rows), shard // pieces_of(shard, 1, how.chunk_bytes))


def _pat_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links; exact if shards divide evenly. All positions do
    the same: a message begins when the previous one has left and its dependencies have arrived."""
    shard = size_bytes // n
    chunks = pieces_of(shard, 1, how.chunk_bytes)
    messages = _messages(n, _together(n, shard, how))
    if what == "reduce_scatter":
        messages = _backwards(messages)
    free, last = how.latency_ps, 0
    for _ in range(chunks):
        come: list[int] = []
        for message in messages:
            ready = max((come[k] + how.latency_ps for k in message.after), default=0)
            free = max(free, ready) + wire.send_ps(message.shards * shard // chunks)
            come.append(free + wire.delay_ps)
        last = max(last, *come)
    return last


PAT = Algorithm(("reduce_scatter", "all_gather"), _pat, _pat_hops, _pat_ps)
