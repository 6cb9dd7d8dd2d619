"""Random small networks of every kind: distances, bisection and disjoint paths match networkx."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_of import check_routes, largest_flow_bps, topology_of

from netsim.model.inventory import inventory
from netsim.model.network import Network

Table = dict[str, Any]


@st.composite
def trees(draw: st.DrawFn) -> Table:
    """Fat trees of two or three tiers, some oversubscribed or with parallel cables."""
    table: Table = {"kind": "fat_tree", "host_rate": draw(st.sampled_from(["100Gbps", "400Gbps"]))}
    if draw(st.booleans()):
        radix, over = draw(st.sampled_from([(4, 1), (6, {"leaf": 2})]))
        return {**table, "tiers": 3, "radix": radix, "oversubscription": over}
    hosts, spines = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2), (3, 3)]))
    counts = {"hosts_per_leaf": hosts, "leaves": draw(st.integers(2, 4)), "spines": spines}
    return {**table, **counts, "uplinks": spines * draw(st.integers(1, 2))}


def planes(of: st.SearchStrategy[Table]) -> st.SearchStrategy[Table]:
    """One to three planes; the last one may be slower."""
    return st.builds(
        lambda n, one, last: {"kind": "multi_plane", "planes": n, "plane": one,
        "last_plane_rate_fraction": last},
        st.integers(1, 3), of, st.sampled_from([1.0, 0.5]),
    )  # fmt: skip


def rails(of: st.SearchStrategy[Table]) -> st.SearchStrategy[Table]:
    """Multi-rail networks with one to three GPUs per rack."""
    return st.builds(
        lambda gpus, rail: {"kind": "multi_rail", "gpus_per_rack": gpus, "rail": rail},
        st.integers(1, 3),
        of,
    )


def datacenters(of: st.SearchStrategy[Table]) -> st.SearchStrategy[Table]:
    """Two or three datacenters, with one or two long links between each pair."""
    return st.builds(
        lambda n, one, links: {
            "kind": "wan", "datacenters": n, "datacenter": one, "links": links,
            "link_rate": "150Gbps",
        },
        st.integers(2, 3), of, st.integers(1, 2),
    )  # fmt: skip


CIRCUITS = st.builds(
    lambda racks, hosts: {
        "kind": "ocs", "schedule": "static", "racks": racks, "hosts_per_rack": hosts,
        "circuit_switches": racks - 1 + racks % 2,
    },
    st.integers(2, 6), st.integers(1, 2),
)  # fmt: skip

PARTS = st.one_of(trees(), planes(trees()))
KINDS = st.one_of(PARTS, rails(PARTS), datacenters(PARTS), datacenters(rails(trees())), CIRCUITS)


def cables_of(network: Network, number: int) -> nx.Graph[Any]:
    """Return one of the networks as a graph: a leaf per host port, `capacity` counts cables."""
    graph: nx.Graph[Any] = nx.Graph()
    for port in range(network.n_host_ports):
        if network.port_network[port] == number:
            graph.add_edge(("port", port), int(network.port_node[network.port_peer[port]]))
    for port in range(network.n_host_ports, network.n_ports):
        a, b = int(network.port_node[port]), int(network.port_node[network.port_peer[port]])
        here = network.switch_network[a - network.n_hosts] == number
        if here and network.n_hosts <= a < b:
            before = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
            graph.add_edge(a, b, capacity=before + 1)
    return graph


@given(KINDS)
@settings(max_examples=60, deadline=None)
def test_distances_and_bisection_match_networkx(table: Table) -> None:
    network = topology_of(table)
    check_routes(network)
    counted = inventory(network)
    degrees = dict(network.to_networkx().degree())
    assert [degrees[node] for node in range(network.n_nodes)] == np.diff(
        network.node_first_port
    ).tolist()
    assert counted.bisection.rate_bps == largest_flow_bps(network, network.n_hosts // 2)
    longest = 2
    for number in range(network.first_group.size - 1):
        graph = cables_of(network, number)
        ports = [node for node in graph if isinstance(node, tuple)]
        hops = [nx.single_source_shortest_path_length(graph, port) for port in ports]
        longest = max([longest, *(far[port] for far in hops for port in ports)])
        check_disjoint_paths(network, graph)
    assert counted.diameter == network.diameter == longest


def check_disjoint_paths(network: Network, graph: nx.Graph[Any]) -> None:
    """Within a datacenter, disjoint paths between edge switches equal the smaller uplink count."""
    between = graph.subgraph(node for node in graph if not isinstance(node, tuple))
    edges = [n for n in between if any(isinstance(peer, tuple) for peer in graph[n])]
    for a, b in itertools.islice(itertools.combinations(edges, 2), 6):
        place = [network.node_name(node).rpartition(".")[0] for node in (a, b)]
        if place[0] != place[1]:
            continue
        upwards = [sum(way["capacity"] for way in between[node].values()) for node in (a, b)]
        found = nx.maximum_flow_value(between, a, b, capacity="capacity")
        assert found == min(upwards)
