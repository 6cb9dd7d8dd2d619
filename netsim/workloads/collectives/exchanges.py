"""Algorithms by exchanges: among all at once, or with partners at doubling or halving distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.collectives.steps import (
    COLLECTIVES,
    Algorithm,
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Ints,
    Steps,
    Wire,
    cut,
    one_after_the_other,
    shifted,
    some_of,
    steps,
)


def _direct(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Direct: every position sends to each receiver without intermediaries.

    Position i sends to i + 1 first, then to i + 2, and so on, so that no two positions start with
    the same receiver. All sends start at once, or with a `window` each starts when the send
    `window` before it has left.

    Sends in the order in which each position makes them, by position within each round.
    """
    if what == "all_reduce":
        shards = cut(size_bytes, n)
        two = [_direct(one, n, size_bytes, how) for one in ("reduce_scatter", "all_gather")]
        return one_after_the_other(n, two, shards)
    if what in ("broadcast", "reduce", "gather", "scatter"):
        return _with_root(what, n, size_bytes, how)
    away = np.arange(1, n)[:, None]
    src = np.broadcast_to(np.arange(n), (n - 1, n))
    dst = (src + away) % n
    number = np.arange(src.size).reshape(src.shape)
    if what == "all_to_all":
        carried, pieces = Carried(src * n + dst), np.tile(cut(size_bytes, n), n)
    elif what == "reduce_scatter":
        carried, pieces = Carried(dst, adds=True), cut(size_bytes, n)
    elif what == "all_gather":
        carried, pieces = Carried(src), cut(size_bytes, n)
    else:  # barrier
        carried, pieces = Carried(np.zeros_like(src), adds=True), np.zeros(1, np.int64)
    return steps(n, (src, dst), carried, pieces, follows=_windowed(number, how.window))


def _windowed(number: Ints, window: int | None) -> Ints:
    """Predecessors of sends in rows of [round, position]."""
    follows = np.full(number.shape, -1)
    if window is not None:
        follows[window:] = number[:-window]
    return follows


def _with_root(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    other = (how.root + np.arange(1, n)) % n
    root = np.full(n - 1, how.root)
    sends = what in ("broadcast", "scatter")
    whole = what in ("broadcast", "reduce")
    pieces = np.array([size_bytes], np.int64) if whole else cut(size_bytes, n)
    follows = _windowed(np.arange(n - 1), how.window if sends else None)
    return steps(
        n,
        (root, other) if sends else (other, root),
        Carried(np.zeros_like(other) if whole else other, adds=what == "reduce"),
        pieces,
        follows=follows,
    )


def _direct_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    message = size_bytes if what in ("broadcast", "reduce") else size_bytes // n
    if what == "barrier":
        message = 1
    away = some_of(n)
    if what in ("broadcast", "reduce", "gather", "scatter"):
        root, other = np.full(len(away), how.root), (how.root + np.array(away)) % n
        row = HopRow(root, other) if what in ("broadcast", "scatter") else HopRow(other, root)
    else:
        row = shifted(n, away)
    return Hops((row,), message, 1 / len(away), at_once=True)


def _direct_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration of the busiest position's sends or receives, without other traffic.

    Exact if shards divide evenly, all sends start at once, and no arrival queues longer than it is
    sent, as staggered receivers ensure.
    """
    whole = what in ("broadcast", "reduce")
    rounds = 2 if what == "all_reduce" else 1
    each = wire.send_ps(1 if what == "barrier" else size_bytes if whole else size_bytes // n)
    return rounds * (how.latency_ps + (n - 1) * each + wire.delay_ps)


DIRECT = Algorithm(COLLECTIVES, _direct, _direct_hops, _direct_ps)


def _dissemination(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Dissemination barrier: in round k each position notifies the one 2^k ahead.

    After ceil(log2 n) rounds all have heard from all (D. Hensgen, R. Finkel and U. Manber,
    International Journal of Parallel Programming 17(1), 1-17, 1988). A message is one byte.
    """
    away = 1 << np.arange((n - 1).bit_length())[:, None]
    position = np.arange(n)
    here = np.arange(away.size)[:, None] * n + position
    return steps(
        n,
        (np.broadcast_to(position, here.shape), (position + away) % n),
        Carried(np.zeros_like(here), adds=True),
        np.zeros(1, np.int64),
        after=(here[:-1, :1] + (position - away[:-1]) % n, here[1:]),
        follows=np.maximum(here - n, -1),
    )


def _dissemination_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    return Hops(tuple(shifted(n, [1 << k]) for k in range((n - 1).bit_length())), 1)


def _dissemination_ps(
    what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions
) -> int:
    return (n - 1).bit_length() * (how.latency_ps + wire.send_ps(1) + wire.delay_ps)


DISSEMINATION = Algorithm(("barrier",), _dissemination, _dissemination_hops, _dissemination_ps)


def _halving(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Halving and doubling: exchanges with partners at halving distances, then doubling ones.

    In a reduce-scatter each position exchanges half of the buffer with the position half a group
    away, which adds it to its own half, then half of that with the one a quarter away, and so on.
    An all-gather runs these steps in reverse, doubling what is exchanged; an all-reduce does both
    (R. Thakur, R. Rabenseifner and W. Gropp, International Journal of High Performance Computing
    Applications 19(1), 49-66, 2005). Groups are powers of two; in other all-reduces, each surplus
    position first hands its buffer to a neighbor, and gets the sum at the end.

    Sends by step, by position within each.
    """
    core = _core(what, n)
    if core == n:
        return _exchanges(what, np.arange(n), size_bytes)
    # The first pairs are (0, 1), (2, 3) ...; their odd positions drop out.
    away = 2 * np.arange(n - core)
    members = np.concatenate([away, np.arange(2 * (n - core), n)])
    inner = _exchanges(what, members, size_bytes)
    whole = Carried(np.zeros_like(away), count=core, adds=True)
    back = Carried(np.zeros_like(away), count=core)
    pieces = inner.piece_bytes
    before = steps(n, (away + 1, away), whole, pieces)
    after = steps(n, (away, away + 1), back, pieces)
    return one_after_the_other(n, [before, inner, after], pieces)


def _core(what: str, n: int) -> int:
    """Return the largest power of two up to n, the positions that take part in all steps."""
    core = 1 << (n.bit_length() - 1)
    if core < n and what != "all_reduce":
        raise InputError(f"{what} by halving_doubling needs a power of two, not {n} positions")
    return core


def _exchanges(what: str, members: Ints, size_bytes: int) -> Steps:
    """All steps among members, a power of two; piece i is the share that member i ends with."""
    n = members.size
    away = n >> np.arange(1, n.bit_length())
    halving = np.ones(away.size, bool)
    if what == "all_gather":
        away, halving = away[::-1], ~halving
    elif what == "all_reduce":
        away, halving = np.concatenate([away, away[::-1]]), np.arange(2 * away.size) < away.size
    away, halving = away[:, None], halving[:, None]
    member = np.arange(n)
    partner = member ^ away
    # Halving sends a partner its half of the common data; doubling sends everything.
    first = np.where(halving, partner, member) // away * away
    step = np.arange(away.size)[1:, None]
    received = (step - 1) * n + partner[:-1]
    return steps(
        int(members.max()) + 1,
        (members[np.broadcast_to(member, partner.shape)], members[partner]),
        Carried(first, count=away, adds=halving),
        _halves(size_bytes, n),
        after=(received, step * n + member),
        # Data of two steps ago has also arrived: the previous step waited for it.
        follows=np.arange(-n, partner.size - n).reshape(partner.shape).clip(-1),
    )


def _halves(size_bytes: int, n: int) -> NDArray[np.int64]:
    """int64[n]: bytes halved repeatedly; the first half is larger if they do not divide."""
    parts = np.array([size_bytes], np.int64)
    while parts.size < n:
        parts = np.stack([parts - parts // 2, parts // 2], axis=1).reshape(-1)
    return parts


def _halving_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    core = _core(what, n)
    pair = 2 * np.arange(n - core)
    members = np.concatenate([pair, np.arange(2 * (n - core), n)])
    member = np.arange(core)
    away = [core >> k for k in range(1, core.bit_length())]
    rows = [HopRow(members, members[member ^ one], one / core) for one in away]
    if pair.size:
        rows.append(HopRow(pair + 1, pair))
    return Hops(tuple(rows), size_bytes >> 1)


def _halving_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links.

    Exact for powers of two if the buffer halves evenly; otherwise approximate, as positions with
    and without a neighbor to serve proceed at different times.
    """
    core = 1 << (n.bit_length() - 1)
    each = how.latency_ps + wire.delay_ps
    once = sum(each + wire.send_ps(size_bytes >> k) for k in range(1, core.bit_length()))
    if what != "all_reduce":
        return once
    if core == n:
        return 2 * once
    # A half from an unpaired position meets a whole buffer at a paired one.
    pairs = 2 * (each + wire.send_ps(size_bytes)) + wire.send_ps(size_bytes >> 1)
    return 2 * once + pairs


HALVING_DOUBLING = Algorithm(
    ("all_reduce", "reduce_scatter", "all_gather"), _halving, _halving_hops, _halving_ps
)
