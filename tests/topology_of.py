"""Build networks from [topology] tables, and check them with networkx."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netsim.experiment import Experiment
from netsim.model.network import Network
from netsim.plugins.registry import call


def topology_of(tree: dict[str, Any], directory: Path = Path()) -> Network:
    """Return the network of a [topology] table, with errors as from an experiment file."""
    whole = {"transport": "datagram", "traffic": "permutation", "topology": tree}
    use = Experiment.from_tree(whole, "e.toml", directory).points()[0].topology
    network: Network = call(use, "build", use.params)
    return network


def check_routes(network: Network) -> None:
    """Check that every switch's candidates are exactly its cables on shortest paths. Hosts do not
    forward, so paths lead only through switches."""
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
    """Return networkx's maximum flow from hosts below `middle` to the others, over all cables."""
    graph: nx.DiGraph[object] = nx.DiGraph()
    for port in range(network.n_ports):
        ends = [int(network.port_node[port]), int(network.port_node[network.port_peer[port]])]
        a, b = (("low" if n < middle else "high") if n < network.n_hosts else n for n in ends)
        before = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
        graph.add_edge(a, b, capacity=before + int(network.port_rate_bps[port]))
    return int(nx.maximum_flow_value(graph, "low", "high"))
