"""Path diversity, and the bisection by max-flow.

Paths between hosts follow the routes of the network. The bisection is the rate at which
low-numbered hosts can send to the others.

A maximum flow can be spread evenly over links between equivalent nodes, so it is computed between
colors (`symmetry.py`) and exact. A regular network of any size has a handful of colors; one without
symmetry has one per node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.model.circuit_rows import up_shares
from netsim.model.network import Network
from netsim.model.routing import COUNT_BITS, COUNT_MASK, NO_ROUTE, RoutingTable
from netsim.model.routing_policy import TimeSlotRouting
from netsim.model.schedules import pairs_by_circuits

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_STEPS = 3_000_000
"""Limit on candidate ports examined; beyond it, only paths to some edge switches count."""


class Distance(NamedTuple):
    """Pairs of hosts that are `links` apart: their share of all pairs, fewest and most paths.

    `by` names the routing table if the network has several.
    """

    links: int
    share: float
    fewest: float
    most: float
    by: str = ""


class PathCounts(NamedTuple):
    """Paths from each switch of a network to some of its edge switches.

    `groups` are their numbers in the network, `hops` (int64[switches, groups]) the links between
    switches, -1 without a path, and `paths` (float64, likewise) the number of paths.
    """

    groups: Ints
    hops: Ints
    paths: Floats


def path_counts(
    network: Network, number: int, most: int = MAX_STEPS, table_number: int = 0
) -> PathCounts:
    """Return a network's paths in one routing table, to as many edge switches as `most` allows."""
    n_groups = int(np.diff(network.first_group)[number])
    switches = np.flatnonzero(network.switch_network == number)
    first = network.route_first[switches] + table_number * n_groups
    before = np.concatenate([[0], np.cumsum(_counts(network.route))])
    steps = int((before[first + n_groups] - before[first]).sum())
    n_chosen = min(n_groups, max(1, n_groups * most // max(steps, 1)))
    groups = np.unique(np.linspace(0, n_groups - 1, n_chosen).round().astype(np.int64))
    return reach_by(network, number, network.table, groups, table_number)


def reach_by(
    network: Network, number: int, table: RoutingTable, groups: Ints, table_number: int = 0
) -> PathCounts:
    """Return the paths of a network to some edge switches, by the routes of one routing table."""
    switches = np.flatnonzero(network.switch_network == number)
    places = table_number * np.diff(network.first_group)[number] + groups
    first = table.row_first(network.wiring())[switches]
    entries = table.route[first[:, None] + places].reshape(-1)
    return PathCounts(groups, *_walk(network, switches, entries, table.route_ports))


def _counts(entries: Ints) -> Ints:
    return np.where(entries == NO_ROUTE, 0, entries & COUNT_MASK)


class Steps(NamedTuple):
    """The candidate ports of table entries, of which entry i has those from `begin[i]` on.

    `pairs` are the entries that have any, `ports` their global ports, and `onward` the entries
    toward the same group at the other end. Entries count switch by switch, group by group.
    """

    pairs: Ints
    counts: Ints
    begin: Ints
    ports: Ints
    onward: Ints


def steps_of(
    network: Network, switches: Ints, entries: Ints, route_ports: NDArray[np.int32]
) -> Steps:
    """Return the candidates of all entries of some switches, int64[switches * groups]."""
    n_groups = entries.size // switches.size
    place = np.zeros(network.n_switches, np.int64)
    place[switches] = np.arange(switches.size)
    counts = _counts(entries)
    pairs = np.flatnonzero(counts > 0)
    count = counts[pairs]
    begin = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(begin, count)
    local = route_ports[np.repeat(entries[pairs] >> COUNT_BITS, count) + within]
    own_first = network.node_first_port[switches[pairs // n_groups] + network.n_hosts]
    ports = np.repeat(own_first, count) + local
    onward = place[network.next_switch(ports)] * n_groups + np.repeat(pairs % n_groups, count)
    return Steps(pairs, count, begin, ports, onward)


def _walk(
    network: Network, switches: Ints, entries: Ints, route_ports: NDArray[np.int32]
) -> tuple[Ints, Floats]:
    """Return hops and paths of each table entry, computed backward from the destinations."""
    steps = steps_of(network, switches, entries, route_ports)
    hops = np.where((_counts(entries) == 0) & (entries != NO_ROUTE), 0, -1)
    paths = np.where(hops == 0, 1.0, 0.0)
    while steps.pairs.size:
        onward = hops[steps.onward] >= 0
        ready = np.logical_and.reduceat(onward, steps.begin) & (hops[steps.pairs] < 0)
        if not ready.any():
            break
        done = steps.pairs[ready]
        hops[done] = np.maximum.reduceat(hops[steps.onward], steps.begin)[ready] + 1
        paths[done] = np.add.reduceat(paths[steps.onward], steps.begin)[ready]
    shape = (switches.size, entries.size // switches.size)
    return hops.reshape(shape), paths.reshape(shape)


def path_diversity(
    network: Network, number: int, found: PathCounts, by: str = ""
) -> tuple[Distance, ...]:
    """Return all pairs of hosts of a network (to the edge switches of `found`) by distance."""
    edges = network.wiring().edges_of(number)
    switches = np.flatnonzero(network.switch_network == number)
    rows = np.searchsorted(switches, edges)
    ports = np.flatnonzero(network.port_network == number)
    hosts = np.bincount(network.port_group[ports], minlength=edges.size).astype(float)
    pairs = hosts[:, None] * hosts[found.groups]
    pairs[found.groups, np.arange(found.groups.size)] -= hosts[found.groups]
    hops, paths = found.hops[rows], found.paths[rows]
    there = (pairs > 0) & (hops >= 0)
    total = float(pairs.sum())
    rows_found = []
    for n in np.unique(hops[there]).tolist():
        these = there & (hops == n)
        some = paths[these]
        share = float(pairs[these].sum()) / total
        rows_found.append(Distance(n + 2, share, float(some.min()), float(some.max()), by))
    return tuple(rows_found)


@dataclass(frozen=True)
class SlotPaths:
    """Path lengths between edge switches, in links, in a time-slotted routing table.

    Attributes:
        by: name of the table.
        slots: number of slots.
        shortest, longest: minimum and maximum over slots of the longest path.
        mean: mean of all pairs in all slots.
    """

    by: str
    slots: int
    shortest: int
    longest: int
    mean: float


def slot_paths(network: Network, number: int) -> SlotPaths | None:
    """Return the path lengths of a network by its number; None without time slots."""
    slots, policy = network.time_slots, network.policy
    begin, end = network.first_group[number : number + 2].tolist()
    n = end - begin
    if slots is None or n < 2:
        return None
    which = 0
    if policy is not None:
        which = [isinstance(one.routing, TimeSlotRouting) for one in policy.routings].index(True)
    edges = network.edge_switch[begin:end].astype(np.int64)
    first_port = network.node_first_port[network.n_hosts + edges]
    place = np.full(network.n_nodes, -1)
    place[network.n_hosts + edges] = np.arange(n)
    own = np.arange(n)
    lengths, links, pairs = [], 0, 0
    for slot in range(slots.slots_ps.size):
        rows = slots.row_first[slot, edges][:, None] + which * n + own
        entries = slots.route[rows]
        led = (entries != NO_ROUTE) & (entries & COUNT_MASK > 0)
        ports = slots.route_ports[np.where(led, entries >> COUNT_BITS, 0)]
        ends = place[network.port_node[network.port_peer[first_port[:, None] + ports]]]
        counts = pairs_by_circuits(np.where(led & (ends == own), own, own[:, None]))
        lengths.append(len(counts))
        links += sum((circuits + 1) * count for circuits, count in enumerate(counts))
        pairs += sum(counts)
    name = "" if policy is None else policy.routings[which].name
    return SlotPaths(name, len(lengths), min(lengths), max(lengths), links / max(1, pairs))


MAX_LINKS = 6_000
"""Limit on links between colors for max-flow, which then takes some seconds."""

MAX_FLOW, TIERS = "max-flow", "narrowest tier"


class Bisection(NamedTuple):
    """A rate in one direction, and `how` it was found.

    MAX_FLOW, or TIERS (half of the smallest capacity between two tiers) if the network is too
    irregular.
    """

    rate_bps: int
    how: str


class _Graph(NamedTuple):
    """A network's switches from 0, then the two halves of its hosts; directed links."""

    n_nodes: int
    node: Ints
    peer: Ints
    capacity_bps: Ints


def bisection(network: Network, number: int, middle: int) -> Bisection:
    """Return the bisection from hosts below `middle` to the others, through one network."""
    import networkx as nx

    graph = _halved(network, number, middle)
    source, sink = graph.n_nodes - 2, graph.n_nodes - 1
    start = np.zeros(graph.n_nodes, np.int64)
    start[[source, sink]] = 1, 2
    color = refine_colors(start, graph.node, graph.peer, graph.capacity_bps)
    n_colors = int(color.max()) + 1
    key = color[graph.node] * n_colors + color[graph.peer]
    keys, which = np.unique(key, return_inverse=True)
    if keys.size > MAX_LINKS:
        return Bisection(_narrowest_bps(network, number) // 2, TIERS)
    sums = np.zeros(keys.size, object)
    np.add.at(sums, which.reshape(-1), graph.capacity_bps.astype(object))
    flow: nx.DiGraph[int] = nx.DiGraph()
    flow.add_nodes_from(range(n_colors))
    for pair, capacity_bps in zip(keys.tolist(), sums.tolist(), strict=True):
        if pair // n_colors != pair % n_colors:
            flow.add_edge(pair // n_colors, pair % n_colors, capacity=capacity_bps)
    value = nx.maximum_flow_value(flow, int(color[source]), int(color[sink]))
    return Bisection(int(value), MAX_FLOW)


def halves(network: Network, number: int, middle: int) -> tuple[Ints, Ints]:
    """Return the ports into a network of its hosts below `middle`, and of its others."""
    ports = np.flatnonzero(network.port_network == number)
    low = network.port_node[ports] < middle
    return ports[low], ports[~low]


def middle_of(network: Network, number: int) -> int:
    """Return the first host of the second half of a network's hosts."""
    hosts = np.unique(network.port_node[np.flatnonzero(network.port_network == number)])
    return int(hosts[hosts.size // 2])


def _halved(network: Network, number: int, middle: int) -> _Graph:
    switches = np.flatnonzero(network.switch_network == number)
    place = np.full(network.n_nodes, -1, np.int64)
    place[switches + network.n_hosts] = np.arange(switches.size)
    capacity_bps = network.port_rate_bps.copy()
    if network.circuits is not None:
        shares = up_shares(network.circuits)
        dated = shares < 1
        capacity_bps[dated] = (capacity_bps[dated] * shares[dated]).astype(np.int64)
    own, far = place[network.port_node], place[network.port_node[network.port_peer]]
    for half, ports in enumerate(halves(network, number, middle)):
        own[ports] = far[network.port_peer[ports]] = switches.size + half
    inside = (own >= 0) & (far >= 0)
    return _Graph(switches.size + 2, own[inside], far[inside], capacity_bps[inside])


def _narrowest_bps(network: Network, number: int) -> int:
    """Return the smallest capacity in one direction between two adjacent tiers of a network."""
    inside = network.switch_network == number
    nodes = np.zeros(network.n_nodes, bool)
    nodes[network.n_hosts :] = inside
    own, far = network.port_node, network.port_node[network.port_peer]
    below, above = network.tier[own], network.tier[far]
    up = (nodes[own] | nodes[far]) & (nodes[own] | (own < network.n_hosts)) & nodes[far]
    top = int(network.tier[network.n_hosts :][inside].max())
    sums = [
        int(network.port_rate_bps[up & (below <= tier) & (above > tier)].sum())
        for tier in range(-1, top)
    ]
    return min(sums)


Words = NDArray[np.uint64]

_STEP, _FIRST, _SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def hash_words(values: NDArray[np.integer]) -> Words:
    """Return a pseudo-random 64-bit word for each number (SplitMix64)."""
    words: Words = (np.asarray(values).astype(np.uint64) + np.uint64(1)) * _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def refine_colors(color: Ints, node: Ints, peer: Ints, label: NDArray[np.integer]) -> Ints:
    """Return the coarsest regular refinement of `color`, numbered from 0.

    Args:
        color: int64[n], initial colors of nodes.
        node, peer: int64[k], both ends of each link, with both directions of a cable.
        label: integers [k]; nodes of one color have equal sums of labels over links to each color.
    """
    label_words = label.astype(np.uint64)
    while True:
        known = int(color.max(initial=-1)) + 1
        seen = hash_words(color)
        np.add.at(seen, node, label_words * hash_words(hash_words(color)[peer]))
        finer = np.unique(seen, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if int(finer.max(initial=-1)) + 1 == known:
            return color
        color = finer


def kinds_of_networks(network: Network) -> list[Ints]:
    """Return the networks of hosts' ports, with equal ones grouped, in order."""
    far = network.port_node[network.port_peer].astype(np.int64)
    start = network.tier.astype(np.int64) + 1
    cable = hash_words(network.port_rate_bps) ^ hash_words(hash_words(network.port_delay_ps))
    color = refine_colors(start, network.port_node.astype(np.int64), far, cable)
    makeup = np.zeros(int(network.switch_network.max()) + 1, np.uint64)
    np.add.at(makeup, network.switch_network, hash_words(color[network.n_hosts :]))
    first = np.unique(makeup, return_index=True)[1]
    return [np.flatnonzero(makeup == makeup[one]) for one in np.sort(first).tolist()]
