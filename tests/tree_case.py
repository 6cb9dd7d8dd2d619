"""Build fat trees from parameters as a user writes them, and list their ports."""

from typing import Any

from netsim.model.network import Network
from netsim.params import resolve_params
from netsim.topologies import fat_tree

GBPS = 10**9
US = 10**6


def tree_params(**given: Any) -> dict[str, Any]:
    """Return all parameters of a fat tree, given some of them."""
    return resolve_params(fat_tree.PARAMS, {}, given, None, file=None, key="topology")


def build(**given: Any) -> Network:
    """Return the network of a fat tree."""
    return fat_tree.build(tree_params(**given))


def ports_of(network: Network, name: str) -> list[str]:
    """Return the names of the nodes at the other ends of a node's ports, in port order."""
    names = [network.node_name(node) for node in range(network.n_nodes)]
    first, end = network.node_first_port[names.index(name) :][:2].tolist()
    return [names[node] for node in network.port_node[network.port_peer[first:end]]]
