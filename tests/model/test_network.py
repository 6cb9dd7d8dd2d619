"""Networks: builder validation, port numbering and routes; flow table validation."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import blocks, marked
from raises_input import raises_input
from random_networks import networks

from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.routing import (
    COUNT_BITS,
    TableWriter,
    Wiring,
    table_from,
)

ROOT = Path(__file__).parents[2]

GBPS = 10**9
US = 10**6


def two_switches() -> Network:
    """Hosts 0, 1 at switch a, host 2 at switch b, two cables a-b; 100 Gbps, 1 us, 300 ns in b."""
    builder = NetworkBuilder()
    builder.add_hosts(3)
    a, b = builder.add_switch("a"), builder.add_switch("b", latency_ps=300_000)
    builder.cable(0, a, 100 * GBPS, US)
    builder.cable(a, b, 400 * GBPS, 2 * US)
    builder.cable(a, 1, 100 * GBPS, US)
    builder.cable(2, b, 100 * GBPS, US)
    builder.cable(b, a, 400 * GBPS, 2 * US)
    return builder.build("two switches")


@given(networks())
@settings(max_examples=150, deadline=None)
def test_candidates_are_exactly_the_ports_on_shortest_paths(network: Network) -> None:
    graph = network.to_networkx()
    for switch, group in itertools.product(range(network.n_switches), range(network.n_groups)):
        node = network.n_hosts + switch
        distance = networkx.single_source_shortest_path_length(
            graph, network.n_hosts + int(network.edge_switch[group])
        )
        first, end = network.node_first_port[node : node + 2].tolist()
        peers = network.port_node[network.port_peer[first:end]].tolist()
        expected = [
            local
            for local, peer in enumerate(peers)
            if peer >= network.n_hosts and distance[peer] == distance[node] - 1
        ]
        assert network.candidates(switch, group).tolist() == expected


@given(networks(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_every_candidate_choice_reaches_the_destination(network, random) -> None:
    graph = network.to_networkx()
    for src, dst in itertools.permutations(range(network.n_hosts), 2):
        shortest = networkx.shortest_path_length(graph, src, dst)
        path = network.path(src, dst)
        assert len(path) == shortest <= network.diameter
        assert network.port_peer[path[-1]] == dst
        port, links = src, 1
        while True:
            switch = int(network.port_node[network.port_peer[port]]) - network.n_hosts
            local = network.candidates(switch, int(network.host_group[dst])).tolist()
            choice = random.choice(local) if local else int(network.host_port[dst])
            port = int(network.node_first_port[network.n_hosts + switch]) + choice
            links += 1
            if not local:
                break
        assert links == shortest
        assert network.port_node[network.port_peer[port]] == dst


@given(networks())
@settings(max_examples=50, deadline=None)
def test_ports_are_numbered_by_node_hosts_first(network: Network) -> None:
    ports = np.arange(network.n_ports)
    assert (network.port_peer[network.port_peer] == ports).all()
    assert (network.port_rate_bps == network.port_rate_bps[network.port_peer]).all()
    assert (np.repeat(np.arange(network.n_nodes), np.diff(network.node_first_port))).tolist() == (
        network.port_node.tolist()
    )
    assert (network.node_first_port[: network.n_hosts + 1] == np.arange(network.n_hosts + 1)).all()
    assert network.lookahead_ps == network.port_delay_ps.min() > 0


def test_to_networkx_keeps_names_rates_and_delays() -> None:
    graph = two_switches().to_networkx()
    assert graph.number_of_edges() == 5
    assert graph.nodes[4] == {"kind": "switch", "tier": 0, "name": "b"}
    assert graph.nodes[0] == {"kind": "host", "tier": -1, "name": "h0"}
    assert graph.edges[3, 4, 0]["rate_bps"] == 400 * GBPS
    assert graph.edges[2, 4, 0]["delay_ps"] == (US + 300_000, US)


def test_routing_function_replaces_shortest_paths() -> None:
    def last_uplink_only(_: Wiring):
        writer = TableWriter()
        route = np.array([[0, writer.entry(np.array([3]))], [writer.entry(np.array([2])), 0]])
        return writer.table(route)

    builder = NetworkBuilder()
    builder.add_hosts(3)
    a, b = builder.add_switch("a"), builder.add_switch("b")
    for ends in ((0, a), (a, b), (a, 1), (2, b), (b, a)):
        builder.cable(*ends, GBPS, US)
    assert builder.build("x", routing=last_uplink_only).path(0, 2) == [0, 6, 8]


def test_ring_example_of_the_guide_routes_clockwise() -> None:
    guide = (ROOT / "topologies" / "README.md").read_text("utf-8")
    (code,) = blocks(marked(guide, "table"), "python")
    builder, n = NetworkBuilder(), 3
    hosts, ring = np.array(builder.add_hosts(n)), np.array([builder.add_switch() for _ in range(n)])
    builder.cables(hosts, ring, GBPS, US)
    builder.cables(ring, np.roll(ring, -1), GBPS, US)
    names = {"builder": builder, "table_from": table_from}
    exec(code, names)
    network = names["network"]
    assert isinstance(network, Network)
    assert network.route.tolist() == [0, 1, 1, 65537, 0, 65537, 65537, 65537, 0]
    assert network.route_ports.tolist() == [1, 2]
    assert [len(network.path(0, dst)) for dst in range(1, n)] == [3, 4]
    wiring = network.wiring()
    down = table_from(wiring, lambda switch, _: wiring.fabric_ports(switch)[:0])
    assert sorted(set(down.route.tolist())) == [-1, 0]
    with raises_input("switch 0", "wcmp"):
        table_from(wiring, lambda switch, _: np.repeat(wiring.fabric_ports(switch), 2))


def test_equal_candidate_lists_are_stored_once() -> None:
    writer = TableWriter()
    first = writer.entry(np.array([1, 2]))
    second = writer.entry(np.array([4]))
    assert writer.entry(np.array([1, 2])) == first == 2
    assert second == 2 << COUNT_BITS | 1
    assert writer.table(np.array([first])).route_ports.tolist() == [1, 2, 4]


def broken(*cables: tuple[int, int], rate: int = GBPS, delay: int = US) -> NetworkBuilder:
    """Return a builder with hosts 0 and 1, switches left (2) and right (3), and these cables."""
    builder = NetworkBuilder()
    builder.add_hosts(2)
    builder.add_switch("left")
    builder.add_switch("right")
    for a, b in cables:
        builder.cable(a, b, rate, delay)
    return builder


def test_invalid_network_error_names_the_node() -> None:
    for builder, message in [
        (NetworkBuilder(), "host"),
        (broken((0, 2)), "host 1"),
        (broken((0, 1), (2, 3)), ("host 0", "host 1")),
        (broken((0, 2), (1, 2)), "host"),
        (broken((0, 2), (1, 3), (2, 2)), "cable"),
        (broken((0, 2), (1, 4)), ("1", "4", "0", "3")),
        (broken((0, 2), rate=0), ("h0", "0", "bit/s")),
        (broken((0, 2), delay=0), "h0"),
    ]:
        with raises_input(message):
            builder.build("broken")


def test_builder_rejects_invalid_arguments() -> None:
    builder = NetworkBuilder()
    builder.add_hosts(1)
    switch = builder.add_switch("tor")
    with raises_input("1e9"):
        builder.cable(0, switch, "1e9", US)  # type: ignore[arg-type]
    with raises_input("1000000000.0"):
        builder.cable(0, switch, 1e9, US)  # type: ignore[arg-type]
    with raises_input("host"):
        builder.add_hosts(1)
    with raises_input("latency"):
        builder.add_switch("slow", latency_ps=-1)
    with raises_input("node"):
        builder.cables([0.5], switch, GBPS, US)
    builder.add_switch("tor")
    with raises_input("tor"):
        builder.build("twins")


def table(**columns) -> FlowTable:
    return FlowTable(**{"src": [0, 1, 2], "dst": [1, 2, 0], "size_bytes": 10} | columns)


def test_invalid_flow_error_names_the_flow() -> None:
    for flows, message in [
        (table(dst=[1, 1, 0]), ("flow 1", "host 1")),
        (table(src=[0, 1, 9]), ("flow 2", "9", "0..2")),
        (table(dst=[1, -1, 0]), ("flow 1", "-1")),
        (table(size_bytes=[5, 0, 5]), ("flow 1", "0")),
        (table(start_ps=[0, 0, -5]), "flow 2"),
        (table(cls=8), ("flow 0", "class 8")),
        (table(src=[], dst=[]), "flow"),
        (table(after_ptr=[0, 0, 1, 1], after_flow=[7]), ("flow 1", "flow 7")),
        (table(after_ptr=[0, 1, 2, 3], after_flow=[0, 2, 1]), "flow 0"),
        (table(after_ptr=[0, 0, 1, 2], after_flow=[2, 1]), "flow"),
        (table(after_ptr=[0, 1, 1, 2], after_flow=[0]), "after_ptr"),
    ]:
        with raises_input(message):
            flows.validate(3)


def test_invalid_flow_columns_are_rejected() -> None:
    for columns in [
        {"size_bytes": 1.5},
        {"size_bytes": [1, 2]},
        {"src": [0, 1, 2**40]},
        {"after_flow": [0]},
        {"label": ["one"]},
    ]:
        with raises_input("flow"):
            table(**columns)


@given(
    st.integers(2, 8).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
    )
)
@settings(max_examples=100, deadline=None)
def test_dependency_cycles_are_rejected_as_networkx_finds_them(after: list[list[int]]) -> None:
    n = len(after)
    flows = FlowTable(np.zeros(n, int), 1, 1)
    flows.set_dependencies(after)
    graph = networkx.DiGraph([(before, flow) for flow in range(n) for before in after[flow]])
    if networkx.is_directed_acyclic_graph(graph):
        flows.validate(2)
    else:
        with raises_input() as error:
            flows.validate(2)
        flow = int(str(error.value).split(":")[0].removeprefix("flow "))
        assert any(flow in cycle for cycle in networkx.simple_cycles(graph))
