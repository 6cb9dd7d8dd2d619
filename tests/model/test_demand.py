"""Demand between edge switches and the dependency level of each flow."""

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netsim.model.demand import demand_of, levels
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.workload import Workload
from netsim.network import build_topology

PACKETS = PacketFormat(payload_bytes=1000, header_bytes=100, control_bytes=64)


def test_demand_between_edge_switches_counts_wire_bytes() -> None:
    network = build_topology("fat_tree", hosts_per_leaf=2, leaves=3)
    flows = FlowTable([0, 1, 4, 2, 3], [2, 3, 5, 0, 1], [1000, 2500, 9000, 1, 1000])
    flows.wait_for([[], [], [0], [0, 1], []])
    demand = demand_of(network, Workload(flows), PACKETS, seed=7)
    assert (demand.n_edges, demand.seed) == (3, 7)
    # Traffic between hosts 4 and 5 stays inside their switch.
    assert demand.entries() == [(0, 1, 1100 + 2800), (1, 0, 101 + 1100)]
    assert demand.level.tolist() == [0, 0, 1, 1, 0]
    assert demand.entries(demand.level == 1) == [(1, 0, 101)]


@given(st.lists(st.lists(st.integers(0, 20), max_size=4), min_size=1, max_size=20))
def test_flow_level_is_the_longest_dependency_chain(after: list[list[int]]) -> None:
    n = len(after)
    after = [[flow for flow in flows if flow < number] for number, flows in enumerate(after)]
    flows = FlowTable(np.zeros(n, int), np.ones(n, int), 1)
    flows.wait_for(after)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((one, number) for number, flows in enumerate(after) for one in flows)
    known = {
        node: place
        for place, nodes in enumerate(nx.topological_generations(graph))
        for node in nodes
    }
    assert levels(flows, None).tolist() == [known[node] for node in range(n)]
