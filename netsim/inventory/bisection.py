"""Bisection by max-flow: what low-numbered hosts can send to the others at once.

A maximum flow can be spread evenly over links between equivalent nodes, so it is computed between
colors (`symmetry.py`) and exact. A regular network of any size has a handful of colors; one without
symmetry has one per node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.inventory.circuits import up_shares
from netsim.model.network import Network

Ints = NDArray[np.int64]

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
