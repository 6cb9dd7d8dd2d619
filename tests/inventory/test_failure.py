"""Reports of hosts and flows affected by one failure, against networkx and known topologies."""

from __future__ import annotations

import itertools
from typing import Any

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from random_networks import networks
from small_networks import three_tiers

from netsim.experiment.place_faults import ports_named
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.paths import Failure, failure
from netsim.model.port_pairs import port_pairs_of


def pairs_of(network: Network, hosts: list[tuple[int, int]]) -> Any:
    """Return the port pairs of one flow for each (src, dst) host pair."""
    src, dst = np.array(hosts).T
    flows = FlowTable(src=src, dst=dst, size_bytes=np.full(len(hosts), 1000))
    return port_pairs_of(network, flows)


def without(network: Network, name: str, hosts: list[tuple[int, int]]) -> Failure:
    return failure(network, name, ports_named(name, network), pairs_of(network, hosts))


def test_failure_report_of_a_core_leaf_host_and_link() -> None:
    network = three_tiers(4)  # two hosts on a leaf, four in a pod
    flows = [(0, 1), (0, 2), (0, 4), (4, 8), (9, 15)]
    core = without(network, "core0", flows)
    assert (core.cables, core.hosts_cut_off, core.hosts_fewer_paths) == (4, 0, 16)
    assert core.paths_left == 0.75
    assert (core.flows_cut_off, core.flows_touched) == (0, 3)
    leaf = without(network, "pod0.leaf0", flows)
    assert (leaf.cables, leaf.hosts_cut_off, leaf.flows_cut_off) == (4, 2, 3)
    assert leaf.flows_touched == 0
    host = without(network, "h0", flows)
    assert (host.cables, host.hosts_cut_off, host.flows_cut_off, host.flows_touched) == (1, 1, 3, 0)
    link = without(network, "pod0.leaf0 - pod0.agg1", flows)
    assert (link.cables, link.hosts_fewer_paths, link.paths_left) == (1, 16, 0.5)
    assert (link.flows_cut_off, link.flows_touched) == (0, 2)


@given(networks(), st.data())
@settings(max_examples=60, deadline=None)
def test_failure_report_matches_networkx(network: Network, data: st.DataObject) -> None:
    if network.n_hosts < 2:
        return
    port = data.draw(st.integers(0, network.n_ports - 1))
    cable = np.array([port, network.port_peer[port]])
    hosts = list(itertools.permutations(range(network.n_hosts), 2))
    found = failure(network, "one", cable, pairs_of(network, hosts))
    graph = network.to_networkx()
    rest = graph.copy()
    a, b = (int(network.port_node[one]) for one in cable)
    key = next(k for k, at in graph[a][b].items() if set(at["ports"]) == set(cable.tolist()))
    rest.remove_edge(a, b, key)
    cut = sum(not networkx.has_path(rest, *pair) for pair in hosts)
    assert found.flows_cut_off == cut
    touched = 0
    for pair in hosts:
        on_it = (a, b) in _hops(graph, pair) or (b, a) in _hops(graph, pair)
        touched += on_it and networkx.has_path(rest, *pair)
    assert found.flows_touched == touched
    parts = [
        {one for one in part if one < network.n_hosts}
        for part in networkx.connected_components(rest)
    ]
    assert found.hosts_cut_off in {network.n_hosts - len(part) for part in parts}


def _hops(graph: Any, pair: tuple[int, int]) -> set[tuple[int, int]]:
    ways = networkx.all_shortest_paths(networkx.Graph(graph), *pair)
    return {hop for way in ways for hop in itertools.pairwise(way)}


def test_unknown_node_is_rejected() -> None:
    with raises_input("core9"):
        ports_named("core9", three_tiers(4))
