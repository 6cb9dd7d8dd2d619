"""Routing by all shortest paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.limits import INT64
from netsim.model.routing import NO_ROUTE, RoutingTable, TableWriter, Wiring
from netsim.model.up_down import up_down_rows

Ints = NDArray[np.int64]

FAR = 1 << 60
"""More than the sum of any path's weights."""

ENTRY_BYTES = 20
"""Memory needed to find an entry of the routing table."""


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
    """Return the distinct rows of a network, which begin at ``at``; set those of its switches in
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
                lists, which = _distinct_columns(leads)
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


def _distinct_columns(matrix: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Ints]:
    """Return distinct columns of a boolean matrix, bool[k, rows], and the index of each
    column's."""
    rows = matrix.shape[0]
    packed = np.ascontiguousarray(np.packbits(matrix, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    distinct = np.unpackbits(packed[first], axis=1, count=rows).view(bool)
    return distinct, which.reshape(-1).astype(np.int64)
