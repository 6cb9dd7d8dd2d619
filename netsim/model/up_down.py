"""Routes of trees, from their shape: few rows, which many switches share.

A network is a tree here if its switches are in levels, with the edge switches at level 0 and every
cable between adjacent levels, and if

- the groups *below* a switch, to which cables lead downward, have consecutive numbers;
- all switches above the switches of one level that have the same groups below them have the same
  groups below them, and every switch has a switch above it or all groups below it.

Then all shortest paths go up by any cable until the group is below, and then down by the cables to
it. Proof: let k be the level of a switch, and j that of the first switches on the way up that have
the group below them. Such a path has j - k cables up and j down. Every cable of the switch leads to
one for which this sum differs by 1, and only those on such paths to one for which it is less.

So a row has one entry for all groups that are not below. Switches whose rows differ only in where
the groups below begin share a stretch of the table, in which their rows begin at different places:
the leaves of a fat tree of n leaves need 2 n - 1 entries together.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.model.routing import TableWriter, Wiring

Ints = NDArray[np.int64]

UP = -1


class _Tree(NamedTuple):
    """A network that is a tree: its switches and the first and last group below each.

    `ports`, int32[..., 3], are its ports to other switches: local number, and the first and last
    group below the other switch, counted from the first below its own; UP for cables upward. Those
    of switch k of `switches` begin at `first[k]`.
    """

    switches: Ints
    low: Ints
    high: Ints
    first: Ints
    ports: NDArray[np.int32]


def up_down_rows(wiring: Wiring, writer: TableWriter, first: Ints) -> tuple[list[int], list[Ints]]:
    """Return which networks are trees, and the stretches of a table that have the rows of their
    switches; set the start of these rows in `first` (int64[n_switches])."""
    alike: dict[bytes, list[tuple[int, int, int]]] = defaultdict(list)
    trees = []
    for network in range(wiring.n_networks if wiring.usable is None else 0):
        if (tree := tree_of(wiring, network)) is not None:
            trees.append(network)
            behind = wiring.edges_of(network).size - 1 - tree.high
            own = zip(tree.switches.tolist(), tree.low.tolist(), behind.tolist(), strict=True)
            for row, begin, end in zip(own, tree.first, tree.first[1:], strict=False):
                alike[tree.ports[begin:end].tobytes()].append(row)
    stretches: list[Ints] = []
    at = 0
    for ports, rows in alike.items():
        switch, before, behind = np.array(rows).T
        left, right = int(before.max()), int(behind.max())
        below, up = _entries(np.frombuffer(ports, np.int32).reshape(-1, 3), writer)
        what = f"the routes of {wiring.n_switches:,} switches"
        require_room(16 * (at + left + below.size + right), what=what, key="topology")
        stretches.append(np.concatenate([np.full(left, up), below, np.full(right, up)]))
        first[switch] = at + left - before
        at += stretches[-1].size
    return trees, stretches


def _entries(ports: NDArray[np.int32], writer: TableWriter) -> tuple[Ints, int]:
    """Return the entries for the groups below a switch, and the one for all others."""
    local, low, high = ports.T
    below = np.zeros(int(high.max(initial=0)) + 1, np.int64)
    order = np.argsort(low, kind="stable")
    order = order[low[order] != UP]
    for these in np.split(order, np.flatnonzero(np.diff(low[order])) + 1) if order.size else []:
        below[low[these[0]] : high[these[0]] + 1] = writer.entry(local[these])
    return below, writer.entry(local[low == UP])


def tree_of(wiring: Wiring, network: int) -> _Tree | None:
    """Return a network if it is a tree."""
    switches, edges = wiring.switches_of(network), wiring.edges_of(network)
    n, place = switches.size, np.zeros(wiring.n_switches, np.int64)
    place[switches] = np.arange(n)
    begin, end = (wiring.node_first_port[wiring.n_hosts + switches + k] for k in (0, 1))
    own = np.repeat(np.arange(n, dtype=np.int32), end - begin)
    before = np.cumsum(end - begin) - (end - begin)
    local = (np.arange(own.size) - before[own]).astype(np.int32)
    peer = wiring.port_node[wiring.port_peer[begin[own] + local]] - wiring.n_hosts
    fabric = peer >= 0
    own, local, other = own[fabric], local[fabric], place[peer[fabric]].astype(np.int32)

    level, low, high = np.full(n, -1), np.zeros(n, np.int64), np.zeros(n, np.int64)
    level[place[edges]] = 0
    low[place[edges]] = high[place[edges]] = np.arange(edges.size)
    for depth in count(1):
        if ((level[own] == level[other]) & (level[own] >= 0)).any():
            return None
        down = (level[own] < 0) & (level[other] == depth - 1)
        if not down.any():
            break
        level[own[down]] = depth
        if not _set_below(own[down], other[down], low, high):
            return None

    sets = (level * edges.size + low) * edges.size + high
    is_up = level[other] > level[own]
    _, which = np.unique(sets[own[is_up]], return_inverse=True)
    above = np.zeros(which.size, np.int64)
    above[which] = sets[other[is_up]]
    if (above[which] != sets[other[is_up]]).any():
        return None
    has_all = high - low + 1 == edges.size
    has_all[own[is_up]] = True
    if not has_all.all():
        return None
    spans = (np.where(is_up, UP, of[other] - low[own]) for of in (low, high))
    ports = np.stack([local, *spans], axis=1).astype(np.int32)
    return _Tree(switches, low, high, np.searchsorted(own, np.arange(n + 1)), ports)


def _set_below(own: Ints, other: Ints, low: Ints, high: Ints) -> bool:
    """Set the first and last group below switches, which have cables down to others; return
    whether those between are below them, too."""
    order = np.lexsort((low[other], own))
    own, lows, highs = own[order], low[other[order]], high[other[order]]
    same = own[1:] == own[:-1]
    again = (lows[1:] == lows[:-1]) & (highs[1:] == highs[:-1])
    if not (~same | again | (lows[1:] == highs[:-1] + 1)).all():
        return False
    begins = np.flatnonzero(np.append(True, ~same))
    low[own[begins]] = lows[begins]
    high[own[begins]] = highs[np.append(begins[1:], own.size) - 1]
    return True
