"""Names that a topology imports; topologies/README.md is the guide.

builder = NetworkBuilder()
hosts = builder.add_hosts(2)
switch = builder.add_switch("tor")
for host in hosts:
    builder.cable(host, switch, rate_bps=100_000_000_000, delay_ps=1_000_000)
network = builder.build("pair")
"""

from __future__ import annotations

from netsim.model.builder import NetworkBuilder, build_subtopology, build_topology, with_reduction
from netsim.model.circuits import (
    CircuitSwitch,
    Schedule,
    pairs_by_circuits,
    random_rounds,
    round_robin_matchings,
)
from netsim.model.demand import Demand
from netsim.model.graphs import GraphDefaults, from_networkx, read_graph
from netsim.model.network import Network
from netsim.model.relays import RelayRule
from netsim.model.routing import (
    Routing,
    RoutingTable,
    TableWriter,
    Wiring,
    shortest_paths,
    table_from,
)
from netsim.model.routing_policy import (
    Expander,
    NamedRouting,
    RoutingPolicy,
    circuit_routes,
    direct_circuit_routes,
    packet_fabric_routes,
    routes_in_slot,
)
from netsim.model.trees import TIERS, Tree, add_tree, read_topo, reserve_trees

__all__ = [
    "TIERS", "CircuitSwitch", "Demand", "Expander", "GraphDefaults", "NamedRouting", "Network",
    "NetworkBuilder", "RelayRule", "Routing", "RoutingPolicy", "RoutingTable", "Schedule",
    "TableWriter", "Tree", "Wiring", "add_tree", "build_subtopology", "build_topology",
    "circuit_routes", "direct_circuit_routes", "from_networkx", "packet_fabric_routes",
    "pairs_by_circuits", "random_rounds", "read_graph", "read_topo", "reserve_trees",
    "round_robin_matchings", "routes_in_slot", "shortest_paths", "table_from", "with_reduction",
]  # fmt: skip
