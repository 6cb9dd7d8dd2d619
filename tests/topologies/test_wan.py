"""Datacenters connected by long links: wiring, rates, delays and border queues."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from experiment_text import load
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_of import check_routes, topology_of

from netsim.network import Network
from netsim.running.point import simulate

GBPS, US, MS = 10**9, 10**6, 10**9
TREE = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 3, "host_rate": "200Gbps"}


def wan(datacenter: Any, **given: Any) -> Network:
    given = {"link_rate": "100Gbps", **given} if "capacity_per_host" not in given else given
    return topology_of({"kind": "wan", "datacenter": datacenter, **given})


def long_links(network: Network) -> np.ndarray:
    return np.flatnonzero(network.port_delay_ps == 30 * MS)


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
@settings(max_examples=20, deadline=None)
def test_border_switches_connect_trees_at_their_spines(
    datacenters: int, leaves: int, spines: int, links: int
) -> None:
    tree = {**TREE, "leaves": leaves, "spines": spines}
    network = wan(tree, datacenters=datacenters, links=links)
    check_routes(network)
    alone = topology_of(tree)
    assert network.n_hosts == datacenters * alone.n_hosts
    assert network.n_switches == datacenters * (alone.n_switches + 1)
    assert len(long_links(network)) == datacenters * (datacenters - 1) * links
    graph = network.to_networkx()
    inside, across = alone.n_hosts - 1, alone.n_hosts
    hops = nx.single_source_shortest_path_length(graph, 0)
    assert hops[inside] == alone.diameter
    # leaf, spine, border, border, spine, leaf
    assert hops[across] == 7 == network.diameter
    names = {network.node_name(n): n for n in graph.nodes}
    for number in range(datacenters):
        border = names[f"dc{number}.border0"]
        assert graph.degree[border] == spines + (datacenters - 1) * links
    # The long links bound what one datacenter sends to another.
    capacity = nx.DiGraph()
    for a, b, data in graph.edges(data=True):
        rate = data["rate_bps"]
        for x, y in ((a, b), (b, a)):
            before = capacity.get_edge_data(x, y, {"capacity": 0})["capacity"]
            capacity.add_edge(x, y, capacity=before + rate)
    ends = [names[f"dc{number}.border0"] for number in (0, 1)]
    flow = nx.maximum_flow_value(capacity, *ends)
    assert flow == links * 100 * GBPS * (datacenters - 1)  # through the other datacenters, too


def test_capacity_per_host_sets_the_link_rate() -> None:
    network = wan(TREE, capacity_per_host="5Gbps", links=2)
    assert network.port_rate_bps[long_links(network)].tolist() == [15 * GBPS] * 4
    smaller = {**TREE, "leaves": 2}
    network = wan(TREE, capacity_per_host="5Gbps", other_datacenter=smaller)
    assert network.n_hosts == 10
    assert network.port_rate_bps[long_links(network)].tolist() == [20 * GBPS] * 2


DEEP = """
transport = "datagram"
[topology]
kind = "wan"
link_rate = "10Gbps"
delay = "100us"
border_queue = {queue}
[topology.datacenter]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 1
[traffic]
kind = "incast"
fan_in = 2
senders = "linear"
receiver = 1
size = "400KB"
[fabric]
queue_bytes = "20pkt"
"""


def test_deep_border_queue_prevents_drops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The senders' 100 Gbps share a 10 Gbps long link, so packets queue at their border switch."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    def drops(queue: str) -> tuple[int, int]:
        (point,) = load(tmp_path, DEEP.format(queue=queue)).points()
        result = simulate(point)
        links = result.links
        at_border = np.char.startswith(np.array(links["from_name"], str), "dc1.border")
        dropped = np.array(links["drops"])
        return int(dropped[at_border].sum()), int(dropped[~at_border].sum())

    shallow, deep = drops('"none"'), drops('"1MB"')
    assert shallow[0] > 0
    assert deep == (0, 0)
