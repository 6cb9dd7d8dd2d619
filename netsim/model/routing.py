"""Routing tables: the local ports of every switch toward each group of hosts.

A *group* is the hosts under one edge switch. A table lists no paths: a switch looks up the
candidate ports of the destination's group, and the fabric's load balancing selects one. Equal
candidate lists are stored once, and so are equal rows. The rows of a tree are shorter still
(`up_down.py`); others grow with (switches x groups).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import HORIZON_PS
from netsim.model.circuits import Circuits

Ints = NDArray[np.int64]

COUNT_BITS = 16
COUNT_MASK = (1 << COUNT_BITS) - 1

NEVER = HORIZON_PS
"""Convergence delay of routes that do not change."""

NO_ROUTE = -1
"""Table entry of an unreachable group."""


@dataclass(frozen=True, eq=False)
class Wiring:
    """The graph that routing needs, without rates.

    Attributes:
        n_hosts, n_nodes: hosts are nodes 0..n_hosts-1, switches follow.
        node_first_port: int64[n_nodes + 1], first global port of each node.
        port_node: int32[n_ports], node of a port.
        port_peer: int32[n_ports], port at the other end of the cable.
        edge_switch: int32[n_groups], switch index (node - n_hosts) of each group, network by
            network.
        first_group: int64[n_networks + 1], first group of each network.
        switch_network: int32[n_switches], network of each switch.
        circuits: cables through circuit switches; None if there are none.
        usable: bool[n_ports], whether routes may leave by a port; None: by all.
        weight: int64[n_ports], weight of the cable at each port, of which paths have the smallest
            sum; None: 1.
        dimension: int64[n_ports], dimension of the cable at each port: of several shortest paths,
            packets take those that cross low dimensions first; None: all.
    """

    n_hosts: int
    n_nodes: int
    node_first_port: NDArray[np.int64]
    port_node: NDArray[np.int32]
    port_peer: NDArray[np.int32]
    edge_switch: NDArray[np.int32]
    first_group: NDArray[np.int64]
    switch_network: NDArray[np.int32]
    circuits: Circuits | None = None
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
        """int64[n_switches], start of each switch's row if they follow one another."""
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


@dataclass(frozen=True, eq=False)
class RoutingTable:
    """Candidate ports of every switch for every group of its network.

    Attributes:
        route: int64[...], the rows of all switches, with an entry for each group of the switch's
            network: `offset << 16 | count`. Count 0: the switch's own group. NO_ROUTE: unreachable.
        route_ports: int32[...]; the candidates of an entry are `route_ports[offset : offset +
            count]`, local port numbers, ascending.
        first: int64[n_switches], start of each switch's row; rows may overlap. None: they follow
            one another (`Wiring.route_first`).
    """

    route: NDArray[np.int64]
    route_ports: NDArray[np.int32]
    first: Ints | None = None

    def row_first(self, wiring: Wiring) -> Ints:
        """Return int64[n_switches], the start of each switch's row."""
        return wiring.route_first if self.first is None else self.first

    def dense(self, wiring: Wiring) -> Ints:
        """Return the rows of all switches one after the other, in the layout of
        `Wiring.route_first`."""
        if self.first is None:
            return self.route
        moved = np.repeat(self.first - wiring.route_first, wiring.row_lengths)
        return self.route[moved + np.arange(moved.size)]


@dataclass(frozen=True, eq=False)
class RouteChanges:
    """Rows of every switch's routing table over time.

    Attributes:
        row_ptr: int64[n_switches + 1]. Switch s (its index) has rows row_ptr[s] to row_ptr[s + 1],
            at least one; the first applies from 0, each until the next.
        row_from_ps: int64[k], time from which a row applies to arriving packets.
        row_first: int64[k], start of the row in `route`.
        route, route_ports: as in `RoutingTable`.
        cut_off: hosts that at some time could not communicate with some other host.
    """

    row_ptr: NDArray[np.int64]
    row_from_ps: NDArray[np.int64]
    row_first: NDArray[np.int64]
    route: NDArray[np.int64]
    route_ports: NDArray[np.int32]
    cut_off: NDArray[np.int64]

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
    """Return what is wrong with a routing table, "" if nothing: its arrays, its ports, or packets
    that it sends in a circle."""
    if table.route.dtype != np.int64 or table.route.ndim != 1 or table.route_ports.ndim != 1:
        return "arrays of other types"
    first, lengths = table.row_first(wiring), wiring.row_lengths
    if first.size != wiring.n_switches or (first < 0).any():
        return "rows that do not fit"
    if (first + lengths > table.route.size).any():
        return "rows that do not fit"
    entry = table.dense(wiring)
    switch = np.repeat(np.arange(wiring.n_switches), lengths)
    group = np.arange(entry.size) - np.repeat(wiring.route_first, lengths)
    edge = wiring.edge_switch[wiring.first_group[wiring.switch_network[switch]] + group]
    offset, count = entry >> COUNT_BITS, np.where(entry == NO_ROUTE, 0, entry & COUNT_MASK)
    if (entry < NO_ROUTE).any() or (offset + count > table.route_ports.size).any():
        return "entries without ports"
    if ((entry == 0) != (edge == switch)).any() or ((entry > 0) & (count == 0)).any():
        return "entry 0 for another switch's group, or another one for its own"
    at = np.repeat(np.arange(entry.size), count)  # a row for each candidate of each entry
    nth = np.arange(at.size) - np.repeat(np.cumsum(count) - count, count)
    local = table.route_ports[offset[at] + nth]
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
    `wiring.fabric_ports(switch)` so that routes avoid links that are down, in any order. No ports:
    no route. Raises InputError, without a file, for a port that is listed twice: a table has no
    weights.
    """
    writer, entries = TableWriter(), np.zeros(wiring.n_entries, np.int64)
    at = 0
    for switch, network in enumerate(wiring.switch_network.tolist()):
        for edge in wiring.edges_of(network).tolist():
            if edge != switch:
                given = np.asarray(ports_of(switch, edge), np.int64)
                ports = np.unique(given)
                if ports.size < given.size:
                    raise InputError(
                        f"switch {switch} lists a port twice in its route to switch {edge}",
                        hint='routing = "wcmp" weights ports',
                    )
                entries[at] = writer.entry(ports) if ports.size else NO_ROUTE
            at += 1
    return writer.table(entries)


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
        the start of each switch's row (default: they follow one another)."""
        ports = np.concatenate(self._lists) if self._lists else np.zeros(0, np.int32)
        return RoutingTable(np.ascontiguousarray(route, np.int64).reshape(-1), ports, first)
