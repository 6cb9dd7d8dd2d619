"""Routing tables: the local ports of every switch toward each group of hosts.

A *group* is the hosts under one edge switch. A table lists no paths: a switch looks up the
candidate ports of the destination's group, and the fabric's load balancing selects one. Equal
candidate lists are stored once, and so are equal rows. The rows of a tree are shorter still
(`up_down_rows`); others grow with (switches x groups).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, INT64
from netsim.model.circuits import Circuits
from netsim.model.columns import Ints, distinct_columns, ranks_within, rows_of

COUNT_BITS = 16
COUNT_MASK = (1 << COUNT_BITS) - 1

NEVER = HORIZON_PS  # convergence delay of routes that do not change
NO_ROUTE = -1  # table entry of an unreachable group


WIRED = (
    *("n_hosts", "n_nodes", "node_first_port", "port_node", "port_peer", "port_rate_bps"),
    *("edge_switch", "first_group", "switch_network", "circuits"),
)
"""Common fields of a `Wiring` and its `Network`."""


@frozen(eq=False)
class Wiring:
    """The graph that routing needs.

    Attributes:
        n_hosts to circuits: as in `Network`.
        usable: bool[n_ports], whether routes may leave by a port; None: by all.
        weight: int64[n_ports], weight of each port's cable (paths minimize the sum); None: 1.
        dimension: int64[n_ports], dimension of the cable at each port: of several shortest paths,
        packets take the paths that cross low dimensions first; None: all.
    """

    n_hosts: int
    n_nodes: int
    node_first_port: NDArray[np.int64]
    port_node: NDArray[np.int32]
    port_peer: NDArray[np.int32]
    port_rate_bps: NDArray[np.int64]
    edge_switch: NDArray[np.int32]
    first_group: NDArray[np.int64]
    switch_network: NDArray[np.int32]
    circuits: Circuits | None
    usable: NDArray[np.bool_] | None = None
    weight: Ints | None = None
    dimension: Ints | None = None

    def only(self, ports: NDArray[np.bool_]) -> Wiring:
        """Return this wiring with routes that leave only by `ports` (bool[n_ports])."""
        return replace(self, usable=ports if self.usable is None else ports & self.usable)

    @property
    def n_switches(self) -> int:
        return self.n_nodes - self.n_hosts

    @property
    def n_groups(self) -> int:
        return int(self.edge_switch.size)

    @property
    def n_networks(self) -> int:
        return int(self.first_group.size) - 1

    @property
    def row_lengths(self) -> Ints:
        """int64[n_switches], entries of each switch's row of a routing table: one for each group
        of the switch's own network."""
        lengths: Ints = np.diff(self.first_group)[self.switch_network]
        return lengths

    @cached_property
    def route_first(self) -> Ints:
        """int64[n_switches], start of each switch's row if rows are consecutive."""
        first: Ints = np.cumsum(self.row_lengths) - self.row_lengths
        return first

    @property
    def n_entries(self) -> int:
        """Total number of entries of these rows."""
        return int(self.row_lengths.sum())

    def switches_of(self, network: int) -> Ints:
        return np.flatnonzero(self.switch_network == network)

    def edges_of(self, network: int) -> NDArray[np.int32]:
        """Return the edge switches of a network, in the order of its groups."""
        return self.edge_switch[self.first_group[network] : self.first_group[network + 1]]

    @cached_property
    def peer_switch(self) -> Ints:
        """int64[n_ports], switch index at the far end of each port's cable, negative for a host."""
        return self.port_node[self.port_peer].astype(np.int64) - self.n_hosts

    def fabric_ports(self, switch: int) -> Ints:
        """Return the local numbers, ascending, of a switch's usable ports to other switches."""
        first, end = self._ports_of(switch)
        fabric = self.peer_switch[first:end] >= 0
        return np.flatnonzero(fabric if self.usable is None else fabric & self.usable[first:end])

    def fabric_peers(self, switch: int) -> Ints:
        """Return the switch indices at the far ends of `fabric_ports(switch)`, in order."""
        first, _ = self._ports_of(switch)
        peers: Ints = self.peer_switch[first + self.fabric_ports(switch)]
        return peers

    def _ports_of(self, switch: int) -> tuple[int, int]:
        node = self.n_hosts + switch
        return int(self.node_first_port[node]), int(self.node_first_port[node + 1])


@frozen(eq=False)
class RoutingTable:
    """Candidate ports of every switch for every group of its network.

    Attributes:
        route: int64[...], the rows of all switches, with an entry for each group of the switch's
            network: `offset << 16 | count`. Count 0: the switch's own group. NO_ROUTE: unreachable.
        route_ports: int32[...]; the candidates of an entry are `route_ports[offset : offset +
            count]`, local port numbers, ascending. A port may be repeated: its weight.
        first: int64[n_switches], start of each switch's row; rows may overlap. None: they are
        consecutive (`Wiring.route_first`).
    """

    route: NDArray[np.int64]
    route_ports: NDArray[np.int32]
    first: Ints | None = None

    def row_first(self, wiring: Wiring) -> Ints:
        """Return int64[n_switches], the start of each switch's row."""
        return wiring.route_first if self.first is None else self.first

    def dense(self, wiring: Wiring) -> Ints:
        """Return the rows of all switches in sequence, in the layout of `Wiring.route_first`."""
        if self.first is None:
            return self.route
        moved = np.repeat(self.first - wiring.route_first, wiring.row_lengths)
        return self.route[moved + np.arange(moved.size)]


@frozen(eq=False)
class RouteChanges:
    """Rows of every switch's routing table over time."""

    # int64[n_switches + 1]. Switch s (its index) has rows row_ptr[s] to row_ptr[s + 1], at least
    # one; the first applies from 0, each until the next.
    row_ptr: NDArray[np.int64]
    row_from_ps: NDArray[np.int64]  # int64[k], time from which a row applies to arriving packets
    row_first: NDArray[np.int64]  # int64[k], start of the row in `route`
    # route, route_ports: as in `RoutingTable`
    route: NDArray[np.int64]
    route_ports: NDArray[np.int32]
    cut_off: NDArray[np.int64]  # hosts that at some time could not communicate with some other host

    @property
    def n_changes(self) -> int:
        """Number of rows that replace another."""
        return int(self.row_from_ps.size - self.row_ptr.size + 1)


def networks_of(
    port_switch: NDArray[np.integer], port_peer: NDArray[np.integer], n_switches: int
) -> Ints:
    """Return int64[n_switches], the part of each switch if the hosts are removed.

    `port_switch` is the switch of each port, negative for a host. Parts are numbered in the order
    of their lowest switch.
    """
    a, b = port_switch, port_switch[port_peer]
    inside = (a >= 0) & (b >= 0)
    a, b = a[inside], b[inside]
    lowest = np.arange(n_switches)
    while True:
        before = lowest.copy()
        np.minimum.at(lowest, a, before[b])
        lowest = lowest[lowest]
        if (lowest == before).all():
            break
    return np.unique(lowest, return_inverse=True)[1].reshape(-1)


Routing = Callable[[Wiring], RoutingTable]


def wrong_table(table: RoutingTable, wiring: Wiring) -> str:
    """Describe a fault in a routing table's arrays or ports, or a loop; "" if it is valid."""
    if table.route.dtype != np.int64 or table.route.ndim != 1 or table.route_ports.ndim != 1:
        return "arrays of other types"
    first, lengths = table.row_first(wiring), wiring.row_lengths
    if first.size != wiring.n_switches or (first < 0).any():
        return "rows that do not fit"
    if (first + lengths > table.route.size).any():
        return "rows that do not fit"
    entry = table.dense(wiring)
    switch = np.repeat(np.arange(wiring.n_switches), lengths)
    group = ranks_within(lengths)
    edge = wiring.edge_switch[wiring.first_group[wiring.switch_network[switch]] + group]
    offset, count = entry >> COUNT_BITS, np.where(entry == NO_ROUTE, 0, entry & COUNT_MASK)
    if (entry < NO_ROUTE).any() or (offset + count > table.route_ports.size).any():
        return "entries without ports"
    if ((entry == 0) != (edge == switch)).any() or ((entry > 0) & (count == 0)).any():
        return "entry 0 for another switch's group, or another one for its own"
    at = np.repeat(np.arange(entry.size), count)  # a row for each candidate of each entry
    local = table.route_ports[rows_of(offset, count)]
    begin, end = wiring.node_first_port[wiring.n_hosts :][switch[at] + np.arange(2)[:, None]]
    if (local < 0).any() or (local >= end - begin).any():
        return "ports that there are not"
    peer = wiring.peer_switch[begin + local]
    if (peer < 0).any():
        return "ports that lead to hosts"
    after = wiring.route_first[peer] + group[at]
    is_done = entry <= 0
    while True:  # entries whose candidates all lead on
        waits = np.bincount(at, ~is_done[after], entry.size) > 0
        if (is_done | waits).all():
            break
        is_done |= ~waits
    if not is_done.all():
        one = int(np.flatnonzero(~is_done)[0])
        return f"a circle from switch {switch[one]} to switch {edge[one]}"
    return ""


def table_from(wiring: Wiring, ports_of: Callable[[int, int], Sequence[int]]) -> RoutingTable:
    """Return the table in which a switch has candidates `ports_of(switch, edge)` to an edge switch.

    Both are switch indices (node - n_hosts), and differ; the ports are local numbers, of
    `wiring.fabric_ports(switch)` so that routes avoid links that are down, in any order. A port
    that is listed k times has weight k. No ports: no route.
    """
    writer, entries = TableWriter(), np.zeros(wiring.n_entries, np.int64)
    at = 0
    for switch, network in enumerate(wiring.switch_network.tolist()):
        for edge in wiring.edges_of(network).tolist():
            if edge != switch:
                ports = np.sort(np.asarray(ports_of(switch, edge), np.int64))
                entries[at] = writer.entry(ports) if ports.size else NO_ROUTE
            at += 1
    return writer.table(entries)


MAX_WEIGHT = 64  # of a port in a list
INEXACT = 0.01  # relative error of weights
BLOCK = 1 << 17  # candidates at a time while weights are computed


def weighted(table: RoutingTable, wiring: Wiring) -> RoutingTable:
    """Return a table whose lists name each port in proportion to the rates of the paths that begin
    with it; see WEIGHTED in MODEL.md, "Switch: routing"."""
    entry, lengths = table.dense(wiring), wiring.row_lengths
    count = np.where(entry == NO_ROUTE, 0, entry & COUNT_MASK)
    switch, group = np.repeat(np.arange(wiring.n_switches), lengths), ranks_within(lengths)
    fabric = np.flatnonzero(wiring.peer_switch >= 0)
    rates, rate_of = np.unique(wiring.port_rate_bps[fabric], return_inverse=True)
    rate_index = np.zeros(wiring.port_rate_bps.size, np.int64)
    rate_index[fabric] = rate_of
    most = min(MAX_WEIGHT, COUNT_MASK // max(1, int(count.max(initial=0))))
    writer, place = TableWriter(), np.zeros(entry.size, np.int64)
    route = writer.translated(entry, table.route_ports)
    is_even = True
    n_blocks = -(-int(count.sum()) // BLOCK)
    for block in range(n_blocks):  # of groups, whose paths are independent
        own = np.flatnonzero(group % n_blocks == block)
        place[own] = np.arange(own.size)
        n = count[own]
        at = np.repeat(np.arange(own.size), n)  # a row for each candidate of each entry
        local = table.route_ports[rows_of(entry[own] >> COUNT_BITS, n)]
        port = wiring.node_first_port[wiring.n_hosts + switch[own]][at] + local
        after = place[wiring.route_first[wiring.peer_switch[port]] + group[own][at]]
        through = _paths_through(entry[own], at, after, rate_index[port], rates.size)
        worth = through @ rates
        begin = (np.cumsum(n) - n)[n > 0]
        share = worth / np.repeat(np.maximum.reduceat(worth, begin), n[n > 0])
        uneven = np.flatnonzero(n > 0)[np.minimum.reduceat(share, begin) < 1 - INEXACT]
        rows = rows_of((np.cumsum(n) - n)[uneven], n[uneven])
        times = np.split(_multiples(share[rows], n[uneven], most), np.cumsum(n[uneven])[:-1])
        ports = np.split(local[rows], np.cumsum(n[uneven])[:-1])
        for number, these, copies in zip(own[uneven].tolist(), ports, times, strict=False):
            route[number] = writer.entry(np.repeat(these, copies))
            is_even = False
    return table if is_even else writer.table(route)


def _paths_through(
    entry: Ints, at: Ints, after: Ints, lowest: Ints, n_rates: int
) -> NDArray[np.float64]:
    """Return [rows, rates], the number of paths through each candidate by the lowest rate on them;
    row k is of entry `at[k]`, leads to entry `after[k]` and has rate `lowest[k]` itself."""
    paths, through = np.zeros((entry.size, n_rates)), np.zeros((at.size, n_rates))
    paths[entry == 0, -1] = 1
    is_done = entry <= 0
    while True:
        ready = ~is_done & (np.bincount(at, ~is_done[after], entry.size) == 0)
        if not ready.any():
            return through
        now = np.flatnonzero(ready[at])
        onward = paths[after[now]]
        through[now] = np.where(np.arange(n_rates) < lowest[now, None], onward, 0)
        through[now, lowest[now]] = onward.sum(axis=1) - through[now].sum(axis=1)
        np.add.at(paths, at[now], through[now])
        is_done |= ready


def _multiples(share: NDArray[np.float64], counts: Ints, most: int) -> Ints:
    """Return the smallest integers in proportion to the shares of each list of `counts`; shares
    rounded to parts of `most` if no smaller ones are exact."""
    begin = np.cumsum(counts) - counts
    times = np.maximum(1, np.floor(most * share + 0.5)).astype(np.int64)
    undecided = np.ones(begin.size, bool)
    for multiple in range(2, most + 1):
        if not undecided.any():
            break
        exact = multiple * share
        whole = np.floor(exact + 0.5)
        fits = (exact >= 1 - INEXACT) & (abs(exact - whole) <= INEXACT * whole)
        new = undecided & np.logical_and.reduceat(fits, begin)
        times = np.where(np.repeat(new, counts), whole.astype(np.int64), times)
        undecided &= ~new
    return times


class TableWriter:
    """Collects candidate lists into a `RoutingTable`, storing equal lists once."""

    def __init__(self) -> None:
        self._entry_of: dict[bytes, int] = {b"": 0}
        self._lists: list[NDArray[np.int32]] = []
        self._length = 0

    def entry(self, local_ports: NDArray[np.integer]) -> int:
        """Return the table entry of a list of local ports in ascending order."""
        ports = np.ascontiguousarray(local_ports, np.int32)
        key = ports.tobytes()
        entry = self._entry_of.get(key)
        if entry is None:
            entry = self._length << COUNT_BITS | ports.size
            self._entry_of[key] = entry
            self._lists.append(ports)
            self._length += ports.size
        return entry

    def translated(self, route: Ints, route_ports: NDArray[np.int32]) -> Ints:
        """Return the entries of another table with this writer's offsets."""
        entries, which = np.unique(route, return_inverse=True)
        own = [
            entry
            if entry == NO_ROUTE
            else self.entry(route_ports[entry >> COUNT_BITS :][: entry & COUNT_MASK])
            for entry in entries.tolist()
        ]
        found: Ints = np.array(own, np.int64)[which.reshape(-1)]
        return found

    def table(self, route: Ints, first: Ints | None = None) -> RoutingTable:
        """Return the finished table; `route` has the results of `entry`, row by row, and `first`
        the start of each switch's row (default: consecutive)."""
        ports = np.concatenate(self._lists) if self._lists else np.zeros(0, np.int32)
        return RoutingTable(np.ascontiguousarray(route, np.int64).reshape(-1), ports, first)


# --- trees ----------------------------------------------------------------------------------------

UP = -1


class _Tree(NamedTuple):
    """A network that is a tree: its switches and the first and last group below each.

    `ports`, int32[..., 3], are its ports to other switches: local number, and the first and last
    group below the other switch, counted from the first below its own; UP for cables upward.
    Entries of switch k of `switches` begin at `first[k]`.
    """

    switches: Ints
    low: Ints
    high: Ints
    first: Ints
    ports: NDArray[np.int32]


def up_down_rows(wiring: Wiring, writer: TableWriter, first: Ints) -> tuple[list[int], list[Ints]]:
    """Return which networks are trees, and the stretches of a table that have the rows of their
    switches; set the start of these rows in `first` (int64[n_switches]).

    A network is a tree here if its switches are in levels, with the edge switches at level 0 and
    every cable between adjacent levels, and if

    - the groups *below* a switch, to which cables lead downward, have consecutive numbers;
    - switches of one level with the same groups below form a set, and all switches above a set have
      the same groups below. Every switch has a switch above it or all groups below it.

    Then all shortest paths go up by any cable until the group is below, and then down by the cables
    to it. Proof: let k be the level of a switch, and j the level of the first switches on the way
    up that have the group below them. Such a path goes up by j - k cables and down by j. Every
    cable of the switch leads to one for which this sum differs by 1, and only cables on such paths
    lead to one for which it is less.

    So a row has one entry for all groups that are not below. Switches whose rows differ only in
    where the groups below begin share a stretch of the table, in which their rows begin at
    different places: the leaves of a fat tree of n leaves need 2 n - 1 entries together.
    """
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
    """Return the entries for the groups below a switch, and the entry for all other groups."""
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
    local = ranks_within(end - begin).astype(np.int32)
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
    """Set the first and last group below switches, which have cables down to others; return whether
    all groups in between are below them, too."""
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


# --- all shortest paths ---------------------------------------------------------------------------

FAR = 1 << 60  # more than the sum of any path's weights
ENTRY_BYTES = 20  # memory needed to find an entry of the routing table


def shortest_paths(wiring: Wiring) -> RoutingTable:
    """Return all paths with the smallest sum of weights that cross cables in the order of their
    dimensions. Parallel cables are separate candidates. Paths of networks with the same wiring,
    such as planes, are computed once. Raises InputError if the rows of a network that is not a tree
    do not fit into memory."""
    writer, first = TableWriter(), np.zeros(wiring.n_switches, np.int64)
    trees, rows = ([], []) if _costs(wiring) else up_down_rows(wiring, writer, first)
    known: dict[tuple[bytes, ...], Ints] = {}  # wiring -> its switches
    for network in np.setdiff1d(np.arange(wiring.n_networks), trees).tolist():
        switches = wiring.switches_of(network)
        like = known.setdefault(_cabling(wiring, network), switches)
        if like is switches:
            rows += _rows(wiring, network, writer, first, sum(map(len, rows)))
        else:
            first[switches] = first[like]
    return writer.table(np.concatenate(rows), first)


def _costs(wiring: Wiring) -> list[Ints]:
    """Return the weights and dimensions of cables, if they differ."""
    return [of_ports for of_ports in (wiring.weight, wiring.dimension) if of_ports is not None]


def _cabling(wiring: Wiring, network: int) -> tuple[bytes, ...]:
    """Return everything that determines the rows of a network, with switches counted within it."""
    switches = wiring.switches_of(network)
    index = _indices(wiring, switches)
    ports = [wiring.fabric_ports(switch) for switch in switches.tolist()]
    peers = [index[wiring.fabric_peers(switch)] for switch in switches.tolist()]
    counts = np.array([one.size for one in ports])
    edges = index[wiring.edges_of(network)]
    begins = np.repeat(wiring.node_first_port[wiring.n_hosts + switches], counts)
    local = np.concatenate(ports)
    costs = [of_ports[begins + local] for of_ports in _costs(wiring)]
    return tuple(one.tobytes() for one in (counts, local, np.concatenate(peers), edges, *costs))


def _rows(wiring: Wiring, network: int, writer: TableWriter, first: Ints, at: int) -> list[Ints]:
    """Return the distinct rows of a network, which begin at ``at``; set its switches' rows in
    ``first``."""
    switches = wiring.switches_of(network)
    distance = switch_distances(wiring, network)
    index = _indices(wiring, switches)
    known: dict[tuple[bytes, ...], int] = {}
    rows: list[Ints] = []
    for row_distance, switch in zip(distance, switches.tolist(), strict=True):
        ports, peers = wiring.fabric_ports(switch), wiring.fabric_peers(switch)
        own = int(wiring.node_first_port[wiring.n_hosts + switch]) + ports
        costs = [of_ports[own] for of_ports in _costs(wiring)]
        key = tuple(one.tobytes() for one in (ports, peers, *costs, row_distance))
        if key not in known:
            known[key] = at + len(rows) * row_distance.size
            row = np.zeros(row_distance.size, np.int64)
            if ports.size:
                near = distance[index[peers]]
                step = 1 if wiring.weight is None else wiring.weight[own, None]
                leads = (near == row_distance - step) & (near >= 0)
                if wiring.dimension is not None:
                    dimension = np.where(leads, wiring.dimension[own, None], INT64)
                    leads &= dimension == dimension.min(axis=0)
                lists, which = distinct_columns(leads)
                entries = np.array([writer.entry(ports[column]) for column in lists], np.int64)
                row = entries[which]
            row[row_distance < 0] = NO_ROUTE
            rows.append(row)
        first[switch] = known[key]
    return rows


def _indices(wiring: Wiring, switches: Ints) -> Ints:
    """Return int64[n_switches], the position of each of ``switches`` among them."""
    index = np.zeros(wiring.n_switches, np.int64)
    index[switches] = np.arange(switches.size)
    return index


def switch_distances(wiring: Wiring, network: int) -> NDArray[np.signedinteger]:
    """Return [switches, groups], the sum of weights on a shortest path from each switch of a
    network to each group's edge switch; -1 means unreachable. Raises InputError if that does not
    fit into memory."""
    n_switches, n_edges = wiring.switches_of(network).size, wiring.edges_of(network).size
    what = f"the routes of {n_switches:,} switches to {n_edges:,} edge switches"
    require_room(n_switches * n_edges * ENTRY_BYTES, what=what, key="topology")
    return _hops(wiring, network) if wiring.weight is None else _distances(wiring, network)


def _distances(wiring: Wiring, network: int) -> Ints:
    """Return `switch_distances` by the Bellman-Ford algorithm, for all groups at once."""
    assert wiring.weight is not None
    switches, edges = wiring.switches_of(network), wiring.edges_of(network)
    index = _indices(wiring, switches)
    distance = np.full((switches.size, edges.size), FAR, np.int64)
    distance[index[edges], np.arange(edges.size)] = 0
    peers, weights = [], []
    for switch in switches.tolist():
        own = int(wiring.node_first_port[wiring.n_hosts + switch]) + wiring.fabric_ports(switch)
        peers.append(index[wiring.fabric_peers(switch)])
        weights.append(wiring.weight[own, None])
    changed = True
    while changed:
        changed = False
        for at, (near, weight) in enumerate(zip(peers, weights, strict=True)):
            if near.size:
                found = np.minimum(distance[at], (distance[near] + weight).min(axis=0))
                changed |= not np.array_equal(found, distance[at])
                distance[at] = found
    return np.where(distance < FAR, distance, -1)


def _hops(wiring: Wiring, network: int) -> NDArray[np.int16]:
    """Return `switch_distances` without weights: hops.

    Uses one breadth-first search for all groups: the groups that reach a switch in a number of hops
    are a row of bits. Switches with the same neighbors, such as all spines of a tree, share a row.
    """
    switches, edges = wiring.switches_of(network), wiring.edges_of(network)
    index = _indices(wiring, switches)
    distance = np.full((switches.size, edges.size), -1, np.int16)
    distance[index[edges], np.arange(edges.size)] = 0
    seen = np.packbits(distance == 0, axis=1)
    number_of: dict[bytes, int] = {}
    neighbors: list[Ints] = []  # the distinct sets of neighbors
    which = np.empty(switches.size, np.int64)
    for at, switch in enumerate(switches.tolist()):
        peers = wiring.fabric_peers(switch)
        which[at] = number_of.setdefault(peers.tobytes(), len(neighbors))
        if which[at] == len(neighbors):
            neighbors.append(index[np.unique(peers)])
    arriving = np.zeros((len(neighbors), seen.shape[1]), np.uint8)
    frontier, hops = seen.copy(), 0
    while frontier.any():
        hops += 1
        for number, peers in enumerate(neighbors):
            if peers.size:
                arriving[number] = np.bitwise_or.reduce(frontier[peers], axis=0)
        frontier = arriving[which] & ~seen
        new = np.unpackbits(frontier, axis=1, count=edges.size).view(bool)
        distance[new] = hops
        seen |= frontier
    return distance
