"""PAT, parallel aggregated trees: every shard goes along a binomial tree of its own.

In an all-gather a shard's tree begins at its position and reaches the farthest first: who is s
positions behind it gets it from who is s without its lowest bit behind. All positions do the same,
so that what goes the same way goes in one message. Without a limit that is log2 n messages, of
which the long ones go to neighbors. With a limit to messages (`chunk_bytes`) of a shards, the
first log2 a steps spread a shard over a positions, and then the a trees below go on side by side,
branch by branch with the farthest first, so that little has to be kept. A reduce-scatter is the
same backwards. As in NCCL 2.23 and later (S. Jeaugey, arXiv 2506.20252; `PatAGAlgorithm`,
NVIDIA/nccl, `src/include/collectives.h`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from netsim.workloads.collectives.options import CollectiveOptions
from netsim.workloads.collectives.steps import Carried, Steps, cut, pieces_of, steps
from netsim.workloads.collectives.wire import Hops, Wire, shifted

WHATS = ("reduce_scatter", "all_gather")


class _Message(NamedTuple):
    """What each position sends `away` positions ahead, in an all-gather: the `shards` from
    positions `behind`, `behind` + `stride`, ... behind it. It takes the messages `after`."""

    away: int
    behind: int
    stride: int
    shards: int
    after: tuple[int, ...]


def _messages(n: int, together: int) -> list[_Message]:
    """The messages of a position in their order, of `together` shards at most."""
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
    """Who is below `root` in a tree of `apart`, each before who is below it, the farthest first."""
    low = (root & -root) or apart
    while low > 1:
        low //= 2
        yield root + low
        yield from _branches(root + low, apart)


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """The sends chunk by chunk (shards are cut into them) and message by message."""
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
    else:  # who would have received it sends it back
        other, holder = (position - away) % n, (position - away) % n
    pairs = [(one, then) for then, message in enumerate(messages) for one in message.after]
    one, then = np.array(pairs, np.int64).reshape(-1, 2).T[:, :, None]
    # Position p got message `one` from where that comes from.
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
    """How many shards a message may have: a power of two."""
    most = n if how.chunk_bytes is None else max(1, how.chunk_bytes // max(1, shard_bytes))
    return 1 << (min(most, n).bit_length() - 1)


def _backwards(messages: list[_Message]) -> list[_Message]:
    """The messages of a reduce-scatter: last first, and what waited is waited for."""
    last = len(messages) - 1
    found = []
    for number in range(last, -1, -1):
        after = tuple(last - k for k, other in enumerate(messages) if number in other.after)
        found.append(messages[number]._replace(after=tuple(sorted(after))))
    return found


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    """Message by message."""
    shard = size_bytes // n
    way = 1 if what == "all_gather" else -1
    rows = [
        shifted(n, [way * one.away])._replace(share=one.shards / (n - 1))
        for one in _messages(n, _together(n, -(-size_bytes // n), how))
    ]
    return Hops(tuple(rows), shard // pieces_of(shard, 1, how.chunk_bytes))


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """How long it takes where positions have their wires to themselves.

    All positions do the same: each message begins as the one before has left and as what it waits
    for has come. Exact if shards divide evenly.
    """
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
