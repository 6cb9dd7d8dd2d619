"""Routes that follow failures: rows of the routing table and the times from which they apply.

When links go down or come back, the network's routing is computed again without the links that are
down. Every switch applies its new row after its own convergence delay. Unchanged rows are not
stored again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.model.faults import LinkFaults
from netsim.model.network import Network
from netsim.model.routing import NEVER, NO_ROUTE, RouteChanges, RoutingTable, TableWriter

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_CHANGES = 20_000
"""Limit on link changes, each of which recomputes all routes: 20 ms each for 8,192 hosts."""


class RowWriter:
    """Collects the rows of all switches with the times from which they apply."""

    def __init__(self, network: Network) -> None:
        self._wiring, self._n_tables = network.wiring(), network.n_tables
        self._writer = TableWriter()
        self._rows: list[list[tuple[int, Ints]]] = [[] for _ in range(network.n_switches)]
        self._n_bytes = 0
        self.add(network.table, np.zeros(network.n_switches, np.int64))

    def add(self, table: RoutingTable, from_ps: Ints) -> None:
        """Add a table that each switch applies from its own time on, int64[n_switches].

        Times of a switch must rise; `NEVER` or later adds nothing. Raises InputError if the rows do
        not fit into memory.
        """
        route = self._writer.translated(table.route, table.route_ports)
        first, lengths = table.row_first(self._wiring), self._n_tables * self._wiring.row_lengths
        for switch in np.flatnonzero(from_ps < NEVER).tolist():
            row = route[first[switch] :][: lengths[switch]]
            rows = self._rows[switch]
            if not rows or not np.array_equal(rows[-1][1], row):
                rows.append((int(from_ps[switch]), row.copy()))
                self._n_bytes += 2 * row.nbytes  # here, and in the finished table
        require_room(self._n_bytes, what="the routes while links are down", key="routing")

    def changes(self, cut_off: Ints) -> RouteChanges:
        rows = [row for of_switch in self._rows for _, row in of_switch]
        times = [time for of_switch in self._rows for time, _ in of_switch]
        lengths = np.array([len(row) for row in rows], np.int64)
        table = self._writer.table(np.concatenate(rows))
        return RouteChanges(
            row_ptr=np.cumsum([0, *map(len, self._rows)]).astype(np.int64),
            row_from_ps=np.array(times, np.int64),
            row_first=np.cumsum(lengths) - lengths,
            route=table.route,
            route_ports=table.route_ports,
            cut_off=cut_off,
        )


def constant_routes(network: Network) -> RouteChanges:
    """Return the rows of every switch without changes."""
    return RouteChanges(
        row_ptr=np.arange(network.n_switches + 1),
        row_from_ps=np.zeros(network.n_switches, np.int64),
        row_first=network.route_first,
        route=network.route,
        route_ports=network.route_ports,
        cut_off=np.zeros(0, np.int64),
    )


def follow_failures(
    network: Network, faults: LinkFaults, convergence_delay_ps: Ints
) -> RouteChanges:
    """Return the rows of every switch as links go down and come back.

    `convergence_delay_ps` (int64[n_switches]) is the time from a change to a switch's new row. A
    link that is down in one direction is not used in that direction. Links to hosts are in no
    table. Raises InputError for too many changes, time-slotted routes, or rows that do not fit into
    memory.
    """
    if network.time_slots is not None:
        message = "time-slotted routes cannot follow failures"
        raise InputError(message, key="routing.convergence_delay", hint='"never"')
    writer = RowWriter(network)
    alone = np.zeros(network.n_hosts, bool)
    for time, down in _states(network, faults):
        table = network.routing(network.wiring(~down))
        writer.add(table, np.minimum(time + convergence_delay_ps, NEVER))
        alone |= cut_off(network, table, down)
    return writer.changes(np.flatnonzero(alone & ~never_joined(network)))


def _states(network: Network, faults: LinkFaults) -> Iterator[tuple[int, Flags]]:
    """Yield the times at which links go down or come back, and bool[n_ports], those down then."""
    port = np.repeat(np.arange(network.n_ports), np.diff(faults.outage_ptr))
    if not port.size:
        return
    times = faults.outages_ps[: port.size]
    at = np.concatenate([times[:, 0], times[:, 1]])
    step = np.repeat([1, -1], port.size)
    both = np.concatenate([port, port])
    order = np.argsort(at, kind="stable")
    at, step, both = at[order], step[order], both[order]
    depth = np.zeros(network.n_ports, np.int64)
    begins = np.flatnonzero(np.diff(at, prepend=-1))
    if begins.size > MAX_CHANGES:
        message = f"routes would change {begins.size:,} times"
        hint = f"at most {MAX_CHANGES:,} link changes"
        raise InputError(message, key="routing.convergence_delay", hint=hint)
    for begin, end in zip(begins, np.append(begins[1:], at.size), strict=True):
        if at[begin] >= NEVER:
            return
        before = depth > 0
        np.add.at(depth, both[begin:end], step[begin:end])
        down = depth > 0
        if not np.array_equal(down, before):
            yield int(at[begin]), down


def never_joined(network: Network) -> Flags:
    """Return bool[n_hosts], hosts that are `cut_off` without failures."""
    if network.reaches_all:
        return np.zeros(network.n_hosts, bool)
    return cut_off(network, network.table, np.zeros(network.n_ports, bool))


def cut_off(network: Network, table: RoutingTable, down: Flags) -> Flags:
    """Return bool[n_hosts], hosts not connected to the largest part of any of their networks.
    Connected means in both directions, by any routing table."""
    uplink, wiring = np.arange(network.n_host_ports), network.wiring()
    lone: Flags = down[uplink] | down[network.port_peer[uplink]]
    for number, (begin, end) in enumerate(pairwise(network.first_group.tolist())):
        first = table.row_first(wiring)[network.edge_switch[begin:end]]
        joined = np.zeros((end - begin, end - begin), bool)
        for which in range(network.n_tables):
            at = which * (end - begin) + np.arange(end - begin)
            joined |= table.route[first[:, None] + at] != NO_ROUTE
        joined &= joined.T
        part = joined[int(joined.sum(axis=1).argmax())]
        here = network.port_network == number
        lone[here] |= ~part[network.port_group[here]]
    of_host: Flags = np.logical_and.reduceat(lone, network.node_first_port[: network.n_hosts])
    return of_host
