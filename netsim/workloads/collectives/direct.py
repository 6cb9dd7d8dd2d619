"""Direct: every position sends to each receiver without intermediaries.

Position i sends to i + 1 first, then to i + 2, and so on, so that no two positions start with the
same receiver. All sends start at once, or with a `window` each starts when the send `window` before
it has left.
"""

from __future__ import annotations

import numpy as np

from netsim.workloads.collectives.steps import (
    COLLECTIVES,
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

WHATS = COLLECTIVES


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Sends in the order in which each position makes them, by position within each round."""
    if what == "all_reduce":
        shards = cut(size_bytes, n)
        two = [schedule(one, n, size_bytes, how) for one in ("reduce_scatter", "all_gather")]
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


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
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


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration of the busiest position's sends or receives, without other traffic.

    Exact if shards divide evenly, all sends start at once, and no arrival queues longer than it is
    sent, as staggered receivers ensure.
    """
    whole = what in ("broadcast", "reduce")
    rounds = 2 if what == "all_reduce" else 1
    each = wire.send_ps(1 if what == "barrier" else size_bytes if whole else size_bytes // n)
    return rounds * (how.latency_ps + (n - 1) * each + wire.delay_ps)
