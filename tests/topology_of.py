"""Networks from [topology] as an experiment has it, and what networkx says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netsim.experiment import Experiment
from netsim.model.network import Network
from netsim.plugins.calls import call


def topology_of(tree: dict[str, Any]) -> Network:
    """The network of a [topology] table; InputError as from an experiment's file or its build."""
    whole = {"transport": "datagram", "traffic": "permutation", "topology": tree}
    use = Experiment.from_tree(whole, "e.toml", Path()).points()[0].topology
    network: Network = call(use, "build", use.params)
    return network


def check_routes(network: Network) -> None:
    """Every switch's candidates are its cables on shortest paths, and there are no others.

    Hosts pass nothing on, so that paths go over switches alone.
    """
    switches = nx.MultiGraph()
    first = network.node_first_port
    switches.add_nodes_from(range(network.n_hosts, network.n_nodes))
    for port in range(int(first[network.n_hosts]), network.n_ports):
        a, b = int(network.port_node[port]), int(network.port_node[network.port_peer[port]])
        if b >= network.n_hosts and a < b:
            switches.add_edge(a, b)
    for number in range(network.first_group.size - 1):
        begin, end = network.first_group[number : number + 2].tolist()
        for group, edge in enumerate(network.edge_switch[begin:end].tolist()):
            far = nx.single_source_shortest_path_length(switches, network.n_hosts + edge)
            for switch in np.flatnonzero(network.switch_network == number).tolist():
                node = network.n_hosts + switch
                wanted = [
                    port - int(first[node])
                    for port in range(int(first[node]), int(first[node + 1]))
                    if far.get(int(network.port_node[network.port_peer[port]]), 1 << 30)
                    == far[node] - 1
                ]
                assert network.candidates(switch, group).tolist() == wanted


def largest_flow_bps(network: Network, middle: int) -> int:
    """From hosts below `middle` to the others, by networkx on every cable of the network."""
    graph: nx.DiGraph[object] = nx.DiGraph()
    for port in range(network.n_ports):
        ends = [int(network.port_node[port]), int(network.port_node[network.port_peer[port]])]
        a, b = (("low" if n < middle else "high") if n < network.n_hosts else n for n in ends)
        before = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
        graph.add_edge(a, b, capacity=before + int(network.port_rate_bps[port]))
    return int(nx.maximum_flow_value(graph, "low", "high"))
