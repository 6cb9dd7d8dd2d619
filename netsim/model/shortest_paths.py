"""Routing by all shortest paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.memory import require_room
from netsim.model.routing import NO_ROUTE, RoutingTable, TableWriter, Wiring
from netsim.model.up_down import up_down_rows

Ints = NDArray[np.int64]

ENTRY_BYTES = 20
"""Memory needed to find an entry of the routing table."""


def shortest_paths(wiring: Wiring) -> RoutingTable:
    """Return all shortest paths by hop count; parallel cables are separate candidates. Paths of
    networks with the same wiring, such as planes, are computed once. Raises InputError if the rows
    of a network that is no tree do not fit into memory."""
    writer, first = TableWriter(), np.zeros(wiring.n_switches, np.int64)
    trees, rows = up_down_rows(wiring, writer, first)
    known: dict[tuple[bytes, ...], Ints] = {}  # wiring -> its switches
    for network in np.setdiff1d(np.arange(wiring.n_networks), trees).tolist():
        switches = wiring.switches_of(network)
        like = known.setdefault(_cabling(wiring, network), switches)
        if like is switches:
            rows += _rows(wiring, network, writer, first, sum(map(len, rows)))
        else:
            first[switches] = first[like]
    return writer.table(np.concatenate(rows), first)


def _cabling(wiring: Wiring, network: int) -> tuple[bytes, ...]:
    """Return everything that determines the rows of a network, with switches counted within it."""
    switches = wiring.switches_of(network)
    index = _indices(wiring, switches)
    ports = [wiring.fabric_ports(switch) for switch in switches.tolist()]
    peers = [index[wiring.fabric_peers(switch)] for switch in switches.tolist()]
    counts = np.array([one.size for one in ports])
    edges = index[wiring.edges_of(network)]
    return tuple(
        one.tobytes() for one in (counts, np.concatenate(ports), np.concatenate(peers), edges)
    )


def _rows(wiring: Wiring, network: int, writer: TableWriter, first: Ints, at: int) -> list[Ints]:
    """Return the distinct rows of a network, which begin at ``at``; set those of its switches in
    ``first``."""
    switches = wiring.switches_of(network)
    distance = switch_distances(wiring, network)
    index = _indices(wiring, switches)
    known: dict[tuple[bytes, bytes, bytes], int] = {}
    rows: list[Ints] = []
    for row_distance, switch in zip(distance, switches.tolist(), strict=True):
        ports, peers = wiring.fabric_ports(switch), wiring.fabric_peers(switch)
        key = (ports.tobytes(), peers.tobytes(), row_distance.tobytes())
        if key not in known:
            known[key] = at + len(rows) * row_distance.size
            row = np.zeros(row_distance.size, np.int64)
            if ports.size:
                near = distance[index[peers]]
                lists, which = _distinct_columns((near == row_distance - 1) & (near >= 0))
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


def switch_distances(wiring: Wiring, network: int) -> NDArray[np.int16]:
    """Return int16[switches, groups], hops from each switch of a network to each group's edge
    switch.

    Uses one breadth-first search for all groups: the groups that reach a switch in a number of hops
    are a row of bits. Switches with the same neighbors, such as all spines of a tree, share a row.
    -1 means unreachable.
    """
    switches, edges = wiring.switches_of(network), wiring.edges_of(network)
    what = f"the routes of {switches.size:,} switches to {edges.size:,} edge switches"
    require_room(switches.size * edges.size * ENTRY_BYTES, what=what, key="topology")
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


def _distinct_columns(matrix: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Ints]:
    """Return distinct columns of a boolean matrix, bool[k, rows], and the index of each
    column's."""
    rows = matrix.shape[0]
    packed = np.ascontiguousarray(np.packbits(matrix, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    distinct = np.unpackbits(packed[first], axis=1, count=rows).view(bool)
    return distinct, which.reshape(-1).astype(np.int64)
