"""Collectives as data: options, sends with their contents and dependencies, wires and hops.

A group has n positions. The data is cut into pieces: the buffer of an all-reduce, the consecutive
shards of an all-gather, or the blocks of an all-to-all, with the block from i to j at index i * n +
j. A send carries pieces, which determine its size and let an algorithm be verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.frozen import frozen
from netsim.limits import PS_BITS
from netsim.model.columns import Flags, Ints, rows_of

COLLECTIVES = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
)


@frozen(eq=False)
class Steps:
    """The m sends of a group of n positions. A send depends only on earlier ones."""

    n: int  # positions of the group and its `units`
    # src, dst: int32[m], positions
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    # first, count, stride: int64[m]; send k carries the pieces first[k] + i * stride[k], for i
    # below count[k], modulo the number of pieces
    first: Ints
    count: Ints
    stride: Ints
    adds: Flags  # bool[m]; whether the receiver adds to its pieces or replaces them
    # after_ptr, after: int64[m + 1], int64[...]; send k starts when the sends
    # `after[after_ptr[k]:after_ptr[k + 1]]`, all to src[k], have been delivered,
    after_ptr: Ints
    after: Ints
    follows: Ints  # int64[m]; and send follows[k], also from src[k], has left; -1: none
    piece_bytes: Ints  # int64[p], size of each piece
    size_bytes: Ints  # int64[m], size of each send: the sum of its pieces, at least 1
    # number of positions, at the end, that are reduction units: no software latency or reduction
    # time
    units: int = 0

    def __len__(self) -> int:
        return int(self.src.size)

    @property
    def waiting(self) -> Ints:
        """int64[...]: the send that waits for each delivery of `after`."""
        return np.repeat(np.arange(len(self)), np.diff(self.after_ptr))

    def software(self) -> tuple[Flags, Flags]:
        """bool[m] twice: the sends, and the deliveries, that take software latency.

        A send takes it before it starts. If it follows another send, the latency overlaps with that
        send, so it counts from the delivery that the send waits for.
        """
        waiting = self.waiting
        delivered, told = np.zeros(len(self), bool), np.zeros(len(self), bool)
        delivered[self.after[self.follows[waiting] >= 0]] = True
        told[waiting[delivered[self.after]]] = True
        rank = self.n - self.units
        return (self.follows < 0) & ~told & (self.src < rank), delivered & (self.dst < rank)

    def noticed(self) -> Flags:
        """bool[m]: deliveries with software latency that trigger sends without `follows`."""
        sends, delivered = self.software()
        waiting, noticed = self.waiting, np.zeros(len(self), bool)
        noticed[self.after[(self.follows[waiting] < 0) & ~sends[waiting]]] = True
        return noticed & delivered

    def bytes_of(self, piece_bytes: Ints) -> Ints:
        """int64[g, m]: bytes of each send for each of g rows of pieces; 0 means nothing to send."""
        if (self.count == 1).all():
            return np.asarray(piece_bytes[:, self.first % piece_bytes.shape[1]])
        carried = (self.first, self.count, self.stride)
        return np.array([_sizes(row, *carried) for row in piece_bytes]).reshape(-1, len(self))


@dataclass
class Carried:
    """Properties of sends, each an array or a single value: see `Steps`."""

    first: ArrayLike
    count: ArrayLike = 1
    stride: ArrayLike = 1
    adds: ArrayLike = False


def steps(
    n: int,
    ends: tuple[ArrayLike, ArrayLike],
    carried: Carried,
    piece_bytes: Ints,
    *,
    after: tuple[ArrayLike, ArrayLike] | None = None,
    follows: ArrayLike = -1,
) -> Steps:
    """Build the sends from `ends[0]` to `ends[1]`, flattened. `after` are pairs of sends: the first
    of each must be delivered before the second starts."""
    shape = np.broadcast_shapes(*(np.shape(one) for one in (*ends, carried.first)))
    m = int(np.prod(shape))

    def column(values: ArrayLike, dtype: type = np.int64) -> NDArray[Any]:
        return np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype), shape)).reshape(-1)

    pairs = (np.zeros(0, np.int64), np.zeros(0, np.int64)) if after is None else after
    before, then = (np.asarray(side, np.int64).reshape(-1) for side in pairs)
    counts = np.bincount(then, minlength=m)
    first, count, stride = (column(c) for c in (carried.first, carried.count, carried.stride))
    sizes = _sizes(piece_bytes, first, count, stride)
    return Steps(
        n=n,
        src=column(ends[0], np.int32),
        dst=column(ends[1], np.int32),
        first=first,
        count=count,
        stride=stride,
        adds=column(carried.adds, np.bool_),
        after_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        after=before[np.argsort(then, kind="stable")],
        follows=column(follows),
        piece_bytes=piece_bytes,
        size_bytes=np.maximum(sizes, 1),
    )


def cut(n_bytes: ArrayLike, parts: int) -> Ints:
    """int64[..., parts]: bytes cut into parts; the first ones take the remainder."""
    whole = np.asarray(n_bytes, np.int64)[..., None]
    return whole // parts + (np.arange(parts) < whole % parts)


def pieces_of(shard_bytes: int, channels: int, chunk_bytes: int | None) -> int:
    """Return the number of chunks of each channel's part of a shard."""
    if chunk_bytes is None:
        return 1
    return max(1, -(-shard_bytes // (channels * chunk_bytes)))


def one_after_the_other(n: int, parts: Sequence[Steps], piece_bytes: Ints) -> Steps:
    """Concatenate phases: at each position, a phase begins when the previous one has ended there.

    A phase ends when its last deliveries have arrived and its last send has left. (So a phase's
    dependent sends must be consecutive.) `piece_bytes` are the pieces of all phases.
    """
    sizes = np.cumsum([0, *map(len, parts)]).tolist()
    pairs, follows = [], []
    for k, part in enumerate(parts):
        at = sizes[k]
        pairs.append((at + part.after, at + part.waiting))
        last = np.full(n, -1)
        if k:
            before, begin = parts[k - 1], sizes[k - 1]
            kept = np.setdiff1d(np.arange(len(before)), before.after)
            first, then = _pairs_at(before.dst, kept, part.src)
            pairs.append((begin + first, at + then))
            last[before.src] = begin + np.arange(len(before))
        follows.append(np.where(part.follows >= 0, part.follows + at, last[part.src]))

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    return steps(
        n,
        (column("src"), column("dst")),
        Carried(*(column(name) for name in ("first", "count", "stride", "adds"))),
        piece_bytes,
        after=(np.concatenate([p for p, _ in pairs]), np.concatenate([p for _, p in pairs])),
        follows=np.concatenate(follows),
    )


def side_by_side(alone: Steps, parts: int, piece_bytes: Ints) -> Steps:
    """Repeat sends for each part of the buffer; piece p of part k is p * parts + k."""
    m = len(alone)
    part = np.arange(parts)[:, None]
    shape = (parts, m)
    return steps(
        alone.n,
        (np.broadcast_to(alone.src, shape), np.broadcast_to(alone.dst, shape)),
        Carried(alone.first * parts + part, alone.count, alone.stride * parts, alone.adds),
        piece_bytes,
        after=(part * m + alone.after, part * m + alone.waiting),
        follows=np.where(alone.follows < 0, -1, part * m + alone.follows),
    )


def _pairs_at(dst: NDArray[np.int32], which: Ints, src: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Pairs of a send (of `which`) to position `dst` and a send from there."""
    order = which[np.argsort(dst[which], kind="stable")]
    begin = np.searchsorted(dst[order], src)
    counts = np.searchsorted(dst[order], src, "right") - begin
    return order[rows_of(begin, counts)], np.repeat(np.arange(src.size), counts)


def _sizes(piece_bytes: Ints, first: Ints, count: Ints, stride: Ints) -> Ints:
    """int64[m]: the bytes of the pieces of each send."""
    n = piece_bytes.size
    if not first.size:
        return np.zeros(0, np.int64)
    if (count == 1).all():
        return piece_bytes[first % n]
    if (stride == 1).all() and (count <= n).all():
        until = np.concatenate([[0], np.cumsum(np.concatenate([piece_bytes, piece_bytes]))])
        start = first % n
        return np.asarray(until[start + count] - until[start])
    sizes = np.zeros(first.size, np.int64)
    for i in range(int(count.max())):
        sizes += np.where(i < count, piece_bytes[(first + i * stride) % n], 0)
    return sizes


SAME, ROTATED, ALTERNATING = RING_ORDERS = ("same", "rotated", "alternating")


@frozen
class CollectiveOptions:
    """The options of a collective; each algorithm uses only some.

    Attributes:
        algorithm: a name; "auto", the shortest closed form, on the network if known
            (`Operations.lower`), else on wires of `rate_bps`; or the path of a file of sends
            (`netsim.workloads.collectives`), which determines everything except
            `latency_ps`, `reduce_bps` and `root`.
        chunk_bytes: largest unit of forwarding: each chunk is forwarded when it arrives; None: not
            chunked. For `pat`, the largest message.
        channels: number of equal parts of the buffer that proceed independently. A position's sends
            of one channel leave in order.
        latency_ps: software time of each send, after its dependencies; consecutive sends overlap it
            with the previous one.
        reduce_bps: bits per second at which a position reduces arrived data, after its own
            operation begins and before it forwards the result; None: no time.
        window: for `direct`, the largest number of sends a position has in progress; None:
            unlimited.
        node: consecutive positions per node, for `hierarchical`, "auto" and `ring_order`.
        root: the position that broadcasts, scatters, gathers, or gets the sum.
        rate_bps: bits per second of a position's wire, for "auto" without a network.
        ring_order: for `ring`, the order of positions in its channels.
    """

    algorithm: str = "auto"
    chunk_bytes: int | None = None
    channels: int = 1
    latency_ps: int = 0
    reduce_bps: int | None = None
    window: int | None = None
    node: int | None = None
    root: int = 0
    rate_bps: int = 400_000_000_000
    ring_order: str = SAME


@frozen
class Wire:
    """The path from one position to another, without other traffic."""

    rate_bps: int  # bits per second in each direction
    # from the end of a message's transmission to its delivery: cables, switches, and its last
    # packet's transmission by each switch
    delay_ps: int = 0
    # payload_bytes, header_bytes: of a full packet; 0, 0: no headers
    payload_bytes: int = 0
    header_bytes: int = 0
    # rate of the slowest hop of a chain with mean rate `rate_bps`; None: all are equal
    busiest_bps: int | None = None
    far: Wire | None = None  # the wire between nodes, for hierarchical algorithms; None: this one
    # mean rate of a single message on its hops; None: `rate_bps`, which counts everything that a
    # position sends at the same time, on all its ports
    message_bps: int | None = None

    def send_ps(self, n_bytes: int) -> int:
        """Return the transmission time of a message, at least one byte."""
        return self._on_wire(n_bytes) * PS_BITS // self.rate_bps

    def busiest_ps(self, n_bytes: int) -> int:
        """Return the transmission time at the slowest hop."""
        return self._on_wire(n_bytes) * PS_BITS // (self.busiest_bps or self.rate_bps)

    def message_ps(self, n_bytes: int) -> int:
        """Return the transmission time of a single message."""
        return self._on_wire(n_bytes) * PS_BITS // (self.message_bps or self.rate_bps)

    def _on_wire(self, n_bytes: int) -> int:
        n_bytes = max(1, n_bytes)
        packets = -(-n_bytes // self.payload_bytes) if self.payload_bytes else 0
        return n_bytes + packets * self.header_bytes


class HopRow(NamedTuple):
    """Sends from positions `src` to positions `dst`, and their share of all bytes."""

    src: Ints
    dst: Ints
    share: float = 1.0


@frozen(eq=False)
class Hops:
    """The pairs of positions between which an algorithm sends, to be measured in a network."""

    rows: tuple[HopRow, ...]  # concurrent sends; rows are sequential unless `at_once`
    message_bytes: int  # of a send
    # share of one send in all bytes that a position sends in a row, or in all rows
    weight: float = 1.0
    at_once: bool = False  # whether all rows are concurrent
    # whether bytes pass a row's hops in sequence, so that the mean hop counts, not the slowest
    chain: bool = False
    far: Hops | None = None  # hops between nodes, for hierarchical algorithms


WHOLE_PACKETS = 1 << 30  # bytes of a message whose packets are all full, for any group

ONE_WAY = Hops((HopRow(np.zeros(1, np.int64), np.ones(1, np.int64)),), WHOLE_PACKETS)
"""From position 0 to position 1."""

MAX_SHIFTS = 16  # an all-to-all's hops are measured for at most this many distances in rank


def shifted(n: int, away: Sequence[int]) -> HopRow:
    """Sends from every position to the position `away` further."""
    src = np.tile(np.arange(n), len(away))
    return HopRow(src, (src + np.repeat(np.array(away, np.int64), n)) % n)


def some_of(n: int) -> list[int]:
    """Return distances from 1 to n - 1: all, or an evenly spread sample."""
    return sorted(set(np.linspace(1, n - 1, min(n - 1, MAX_SHIFTS)).astype(int).tolist()))


class Algorithm(NamedTuple):
    """An algorithm for the collectives `whats`: functions of the collective, the number of
    positions, the size in bytes and the options.

    `schedule` returns the sends of one group, `hops` the pairs of positions that send (None: the
    algorithm is never selected automatically), and `closed_form_ps`, which also takes the wire, the
    duration without other traffic.
    """

    whats: tuple[str, ...]
    schedule: Callable[[str, int, int, CollectiveOptions], Steps]
    hops: Callable[[str, int, int, CollectiveOptions], Hops] | None
    closed_form_ps: Callable[[str, int, int, Wire, CollectiveOptions], int]
