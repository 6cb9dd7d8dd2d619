"""Routing tables: for every switch, which local ports lead to which group of hosts.

A *group* is the set of hosts under one edge switch. A table does not list paths: a
switch looks up the destination's group and finds its candidate ports, and the fabric's
load balancing takes one of them. Equal candidate lists are stored once, so a table grows
with (switches x groups) and not with the ports of each entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COUNT_BITS = 16
COUNT_MASK = (1 << COUNT_BITS) - 1


@dataclass(frozen=True, eq=False)
class Wiring:
    """Who is joined to whom, without rates: all that routing needs to know.

    Attributes:
        n_hosts, n_nodes: hosts are nodes 0..n_hosts-1, switches follow.
        node_first_port: int64[n_nodes + 1], first global port of each node.
        port_node: int32[n_ports], the node a port belongs to.
        port_peer: int32[n_ports], the port at the other end of the cable.
        edge_switch: int32[n_groups], switch index (node - n_hosts) of each group.
    """

    n_hosts: int
    n_nodes: int
    node_first_port: NDArray[np.int64]
    port_node: NDArray[np.int32]
    port_peer: NDArray[np.int32]
    edge_switch: NDArray[np.int32]

    @property
    def n_switches(self) -> int:
        return self.n_nodes - self.n_hosts

    @property
    def n_groups(self) -> int:
        return int(self.edge_switch.size)

    def fabric_ports(self, switch: int) -> NDArray[np.int64]:
        """Local numbers, ascending, of the ports of `switch` that lead to other switches."""
        first, end = self._ports_of(switch)
        peers = self.port_node[self.port_peer[first:end]]
        return np.flatnonzero(peers >= self.n_hosts)

    def fabric_peers(self, switch: int) -> NDArray[np.int64]:
        """Switch indices at the far ends of `fabric_ports(switch)`, in the same order."""
        first, _ = self._ports_of(switch)
        peers = self.port_peer[first + self.fabric_ports(switch)]
        return self.port_node[peers].astype(np.int64) - self.n_hosts

    def _ports_of(self, switch: int) -> tuple[int, int]:
        node = self.n_hosts + switch
        return int(self.node_first_port[node]), int(self.node_first_port[node + 1])


@dataclass(frozen=True, eq=False)
class RoutingTable:
    """Candidate ports of every switch for every group.

    Attributes:
        route: int64[n_switches * n_groups]; entry `switch * n_groups + group` is
            `offset << 16 | count`. Count 0: the group is the switch's own.
        route_ports: int32[...]; the candidates of an entry are
            `route_ports[offset : offset + count]`, local port numbers, ascending.
    """

    route: NDArray[np.int64]
    route_ports: NDArray[np.int32]


Routing = Callable[[Wiring], RoutingTable]


class TableWriter:
    """Collects candidate lists into a `RoutingTable`, storing equal lists once."""

    def __init__(self) -> None:
        self._entry_of: dict[bytes, int] = {b"": 0}
        self._lists: list[NDArray[np.int32]] = []
        self._length = 0

    def entry(self, local_ports: NDArray[np.integer]) -> int:
        """The table entry of a list of local ports, given in ascending order."""
        ports = np.ascontiguousarray(local_ports, np.int32)
        key = ports.tobytes()
        entry = self._entry_of.get(key)
        if entry is None:
            entry = self._length << COUNT_BITS | ports.size
            self._entry_of[key] = entry
            self._lists.append(ports)
            self._length += ports.size
        return entry

    def table(self, route: NDArray[np.int64]) -> RoutingTable:
        """The finished table; `route` holds what `entry` returned, int64[switches, groups]."""
        ports = np.concatenate(self._lists) if self._lists else np.zeros(0, np.int32)
        return RoutingTable(np.ascontiguousarray(route, np.int64).reshape(-1), ports)


def shortest_paths(wiring: Wiring) -> RoutingTable:
    """All shortest paths by hop count; parallel cables are separate candidates."""
    distance = switch_distances(wiring)
    route = np.zeros((wiring.n_switches, wiring.n_groups), np.int64)
    writer = TableWriter()
    for switch in range(wiring.n_switches):
        ports = wiring.fabric_ports(switch)
        if not ports.size:
            continue
        nearer = distance[wiring.fabric_peers(switch)] == distance[switch] - 1
        lists, which = _distinct_columns(nearer)
        entries = np.array([writer.entry(ports[column]) for column in lists], np.int64)
        route[switch] = entries[which]
    return writer.table(route)


def switch_distances(wiring: Wiring) -> NDArray[np.int16]:
    """Hops from every switch to every group's edge switch, int16[n_switches, n_groups].

    One breadth-first search for all groups at once: the set of groups that reach a switch
    in a given number of hops is a row of bits. -1 marks what cannot be reached.
    """
    n_switches, n_groups = wiring.n_switches, wiring.n_groups
    distance = np.full((n_switches, n_groups), -1, np.int16)
    distance[wiring.edge_switch, np.arange(n_groups)] = 0
    seen = np.packbits(distance == 0, axis=1)
    complete = np.packbits(np.ones(n_groups, bool))
    neighbours = [np.unique(wiring.fabric_peers(switch)) for switch in range(n_switches)]
    frontier, hops = seen.copy(), 0
    while frontier.any():
        hops += 1
        reached = np.zeros_like(frontier)
        for switch in range(n_switches):
            if not neighbours[switch].size or np.array_equal(seen[switch], complete):
                continue
            arriving = np.bitwise_or.reduce(frontier[neighbours[switch]], axis=0)
            reached[switch] = arriving & ~seen[switch]
        new = np.unpackbits(reached, axis=1, count=n_groups).view(bool)
        distance[new] = hops
        seen |= reached
        frontier = reached
    return distance


def _distinct_columns(
    matrix: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Distinct columns of a boolean matrix, bool[k, rows], and which one each column is."""
    rows = matrix.shape[0]
    packed = np.ascontiguousarray(np.packbits(matrix, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    distinct = np.unpackbits(packed[first], axis=1, count=rows).view(bool)
    return distinct, which.reshape(-1).astype(np.int64)
