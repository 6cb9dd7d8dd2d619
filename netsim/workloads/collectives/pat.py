"""PAT, parallel aggregated trees: every shard follows its own binomial tree.

In an all-gather, a shard's tree starts at its position and reaches the farthest positions first:
the position s behind it gets the shard from s without its lowest bit. All positions do the same, so
shards with the same next hop share a message. Without a limit there are log2 n messages, and the
long ones go to neighbors. If messages are limited (`chunk_bytes`) to m shards, log2 m steps spread
a shard over m positions, and the m subtrees then proceed side by side, branch by branch with the
farthest first, to keep buffers small. A reduce-scatter runs this backward. As in NCCL 2.23 and
later (S. Jeaugey, arXiv 2506.20252; `PatAGAlgorithm`, NVIDIA/nccl, `src/include/collectives.h`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from netsim.workloads.collectives.steps import (
    Carried,
    CollectiveOptions,
    Hops,
    Steps,
    Wire,
    cut,
    pieces_of,
    shifted,
    steps,
)

WHATS = ("reduce_scatter", "all_gather")


class _Message(NamedTuple):
    """A message of an all-gather that each position sends `away` positions ahead.

    It carries the `shards` of the positions `behind`, `behind` + `stride`, ... behind the sender,
    and waits for the messages `after`.
    """

    away: int
    behind: int
    stride: int
    shards: int
    after: tuple[int, ...]


def _messages(n: int, together: int) -> list[_Message]:
    """Return the messages of a position in order, each of at most `together` shards."""
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


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Sends by chunk of the shards, and by message."""
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


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    shard = size_bytes // n
    way = 1 if what == "all_gather" else -1
    rows = [
        shifted(n, [way * one.away])._replace(share=one.shards / (n - 1))
        for one in _messages(n, _together(n, -(-size_bytes // n), how))
    ]
    return Hops(tuple(rows), shard // pieces_of(shard, 1, how.chunk_bytes))


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links; exact if shards divide evenly.

    All positions do the same: a message begins when the previous one has left and its dependencies
    have arrived.
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
