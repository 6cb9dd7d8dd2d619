"""Halving and doubling: exchanges with partners at halving distances, then doubling ones.

In a reduce-scatter each position exchanges half of the buffer with the position half a group away,
which adds it to its own half, then half of that with the one a quarter away, and so on. An
all-gather runs these steps in reverse, doubling what is exchanged; an all-reduce does both (R.
Thakur, R. Rabenseifner and W. Gropp, International Journal of High Performance Computing
Applications 19(1), 49-66, 2005). Groups are powers of two; in other all-reduces, each surplus
position first hands its buffer to a neighbor, and gets the sum at the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.collectives.steps import (
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Ints,
    Steps,
    Wire,
    one_after_the_other,
    steps,
)

WHATS = ("all_reduce", "reduce_scatter", "all_gather")


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:  # noqa: ARG001
    """Sends by step, by position within each."""
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


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:  # noqa: ARG001
    core = _core(what, n)
    pair = 2 * np.arange(n - core)
    members = np.concatenate([pair, np.arange(2 * (n - core), n)])
    member = np.arange(core)
    away = [core >> k for k in range(1, core.bit_length())]
    rows = [HopRow(members, members[member ^ one], one / core) for one in away]
    if pair.size:
        rows.append(HopRow(pair + 1, pair))
    return Hops(tuple(rows), size_bytes >> 1)


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
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
