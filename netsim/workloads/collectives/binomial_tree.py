"""Binomial trees: the number of positions with the message doubles in each round.

The root is s = 0; position s gets the message from s without its lowest bit. A position sends to
the farthest first, which has the largest subtree. A reduction runs the tree backward.
"""

from __future__ import annotations

import numpy as np

from netsim.workloads.collectives.steps import (
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Steps,
    Wire,
    steps,
)

WHATS = ("broadcast", "reduce")


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Sends: farthest first in a broadcast, nearest first in a reduction."""
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


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    rows = []
    for k in reversed(range((n - 1).bit_length())):
        place = np.arange(1 << k, n, 2 << k)
        ends = (how.root + place - (1 << k)) % n, (how.root + place) % n
        rows.append(HopRow(*(ends if what == "broadcast" else ends[::-1])))
    return Hops(tuple(rows), size_bytes)


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links.

    Exact for broadcasts, and for reductions of powers of two; others take no longer.
    """
    message_ps = wire.send_ps(size_bytes)
    hop = how.latency_ps + wire.delay_ps
    if what == "reduce":
        return (n - 1).bit_length() * (hop + message_ps)
    place = np.arange(1, n)
    low = place & -place
    hops = np.array([one.bit_count() for one in place.tolist()])
    behind = (n - 1).bit_length() - np.log2(low).astype(np.int64)  # messages, including this one
    return int((hops * hop + behind * message_ps).max())
