"""Networks: candidates, wiring, symmetric paths."""

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import networkx
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import blocks, marked
from raises_input import mentions, raises_input
from small_networks import networks, rails

from netsim.errors import InputError
from netsim.model import routing
from netsim.model.builder import NetworkBuilder, build_topology, with_tables
from netsim.model.checks import check_symmetric, heights
from netsim.model.columns import NARROW, find_cycle
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import PLANE_BALANCING
from netsim.model.routing import COUNT_BITS, COUNT_MASK, TableWriter, table_from
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

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
@settings(max_examples=60, deadline=None)
def test_weights_are_the_rates_of_all_paths_behind_a_port(network, random) -> None:
    """A path counts with the lowest rate of its links. Shares are within 1 %, or within 1/128."""
    rates = [random.choice((50, 100, 100, 400)) * GBPS for _ in range(network.n_ports)]
    network = replace(network, port_rate_bps=np.array(rates))
    with patch.object(routing, "BLOCK", random.choice((1, 7, 1 << 17))):
        weighed = with_tables(network, PluginSpec(registry.find("routing", "wcmp"), {}))

    def paths(switch: int, group: int, lowest_bps: float) -> list[float]:
        local = network.candidates(switch, group)
        if not local.size:
            return [lowest_bps]
        ports = network.node_first_port[network.n_hosts + switch] + local
        return [
            path
            for port in ports
            for path in paths(int(network.next_switch(port)), group, min(lowest_bps, rates[port]))
        ]

    for switch, group in itertools.product(range(network.n_switches), range(network.n_groups)):
        local = network.candidates(switch, group)
        if not local.size:
            continue
        ports = network.node_first_port[network.n_hosts + switch] + local
        worth = [sum(paths(int(network.next_switch(p)), group, rates[p])) for p in ports]
        listed = weighed.candidates(switch, group).tolist()
        times = [listed.count(port) for port in local.tolist()]
        assert listed == sorted(listed)
        assert set(listed) == set(local.tolist())
        share = np.array(worth) / max(worth)
        assert np.array(times) == pytest.approx(max(times) * share, rel=0.021, abs=0.51)
        assert max(times) == 1 or min(times) / max(times) < 1


@pytest.mark.parametrize(("ways", "cables"), [(2, 1), (4, 2), (8, 4)])
def test_weights_follow_a_lost_cable(ways: int, cables: int) -> None:
    """A leaf's m cables to the spine of the lost one share m - 1 cables onward."""
    given = {"hosts_per_leaf": 4, "leaves": 3, "spines": ways, "bundle": cables}
    network = build_topology("fat_tree", uplinks=ways * cables, **given)
    weighed = with_tables(network, PluginSpec(registry.find("routing", "wcmp"), {}))
    assert np.array_equal(weighed.route, network.route)
    up = np.ones(network.n_ports, bool)
    lost = int(network.node_first_port[network.n_hosts] + 4)
    up[[lost, network.port_peer[lost]]] = False
    after = weighed.routing(network.wiring(up))
    entry = int(after.dense(network.wiring())[network.n_groups])  # from leaf 1 to leaf 0
    listed = after.route_ports[entry >> COUNT_BITS :][: entry & COUNT_MASK] - 4
    times = np.bincount(listed, minlength=ways * cables).tolist()
    assert times == [cables - 1] * cables + [cables] * (ways - 1) * cables


@given(networks(), st.randoms(use_true_random=False))
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
    nodes = np.repeat(np.arange(network.n_nodes), np.diff(network.node_first_port))
    assert nodes.tolist() == network.port_node.tolist()
    assert (network.node_first_port[: network.n_hosts + 1] == np.arange(network.n_hosts + 1)).all()
    assert network.lookahead_ps == network.port_delay_ps.min() > 0


def test_to_networkx_keeps_names_rates_and_delays() -> None:
    graph = two_switches().to_networkx()
    assert graph.number_of_edges() == 5
    assert graph.nodes[4] == {"kind": "switch", "tier": 0, "name": "b"}
    assert graph.nodes[0] == {"kind": "host", "tier": -1, "name": "h0"}
    assert graph.edges[3, 4, 0]["rate_bps"] == 400 * GBPS
    assert graph.edges[2, 4, 0]["delay_ps"] == (US + 300_000, US)


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
    double = table_from(wiring, lambda switch, _: np.repeat(wiring.fabric_ports(switch), 2))
    assert double.route_ports.tolist() == [1, 1, 2, 2]


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
        (table(after_ptr=[0, 0, 1, 1], after=[7]), ("flow 1", "flow 7")),
        (table(after_ptr=[0, 1, 2, 3], after=[0, 2, 1]), "flow 0"),
        (table(after_ptr=[0, 0, 1, 2], after=[2, 1]), "flow"),
        (table(after_ptr=[0, 1, 1, 2], after=[0]), "after_ptr"),
    ]:
        with raises_input(message):
            flows.validate(3)


def test_invalid_flow_columns_are_rejected() -> None:
    for columns in [
        {"size_bytes": 1.5},
        {"size_bytes": [1, 2]},
        {"src": [0, 1, 2**40]},
        {"after": [0]},
        {"label": ["one"]},
    ]:
        with raises_input("flow"):
            table(**columns)


@given(
    st.integers(2, 8).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
    )
)
def test_dependency_cycles_are_rejected_as_networkx_finds_them(after: list[list[int]]) -> None:
    n = len(after)
    flows = FlowTable(np.zeros(n, int), 1, 1)
    flows.wait_for(after)
    graph = networkx.DiGraph([(before, flow) for flow in range(n) for before in after[flow]])
    if networkx.is_directed_acyclic_graph(graph):
        flows.validate(2)
    else:
        with raises_input() as error:
            flows.validate(2)
        flow = int(str(error.value).split(":")[0].removeprefix("flow "))
        assert any(flow in cycle for cycle in networkx.simple_cycles(graph))


RATE, DELAY = 100 * 10**9, 10**6


def network_of(n_hosts: int, cables: Iterable[tuple[int, int]]) -> Network:
    cables = list(cables)
    builder = NetworkBuilder()
    builder.add_hosts(n_hosts)
    for _ in range(max(map(max, cables)) + 1 - n_hosts):
        builder.add_switch()
    for a, b in cables:
        builder.cable(a, b, RATE, DELAY)
    return builder.build("test")


def two_tiers(leaves: int, spines: int, hosts_per_leaf: int = 2) -> list[tuple[int, int]]:
    n = leaves * hosts_per_leaf
    cables = [(h, n + h // hosts_per_leaf) for h in range(n)]
    return cables + [(n + i, n + leaves + j) for i in range(leaves) for j in range(spines)]


def three_tiers() -> list[tuple[int, int]]:
    """Return two pods of two leaves and two aggregation switches, joined to two of four cores each.
    Hosts 0 to 3, leaves 4 to 7, aggregation switches 8 to 11, cores 12 to 15."""
    cables = [(h, 4 + h) for h in range(4)]
    cables += [(4 + leaf, 8 + 2 * (leaf // 2) + j) for leaf in range(4) for j in range(2)]
    return cables + [
        (8 + 2 * pod + j, 12 + 2 * j + c) for pod in (0, 1) for j in (0, 1) for c in (0, 1)
    ]


def cables_used(network: Network, src: int, dst: int, draws: dict[int, float]) -> list[int]:
    """Return the ports crossed from host to host if a switch's choice depends on its height."""
    height = heights(network)
    used = [src]
    while (node := int(network.port_node[network.port_peer[used[-1]]])) != dst:
        switch, group = node - network.n_hosts, int(network.host_group[dst])
        candidates = network.candidates(switch, group)
        if len(candidates):
            local = candidates[int(draws[int(height[switch])] * len(candidates))]
        else:
            local = network.host_port[dst]
        used.append(int(network.node_first_port[node]) + int(local))
    return used


def assert_symmetric(network: Network, rng: random.Random) -> None:
    for src, dst in itertools.combinations(range(network.n_hosts), 2):
        draws = {height: rng.random() for height in range(1, network.n_switches + 1)}
        there = cables_used(network, src, dst, draws)
        back = cables_used(network, dst, src, draws)
        assert [int(network.port_peer[port]) for port in back[::-1]] == there


@pytest.mark.parametrize(
    ("n_hosts", "cables"),
    [(8, two_tiers(4, 3)), (4, three_tiers()), (2, [(0, 2), (1, 3), (2, 3)])],
    ids=["two tiers", "three tiers", "no choice"],
)
def test_trees_pass_the_check_and_have_symmetric_paths(n_hosts, cables) -> None:
    network = network_of(n_hosts, cables)
    check_symmetric(network)
    for seed in range(20):
        assert_symmetric(network, random.Random(seed))


@given(networks())
@settings(max_examples=200, deadline=None)
def test_random_networks_that_pass_have_symmetric_paths(network: Network) -> None:
    try:
        check_symmetric(network)
    except InputError:
        return
    for seed in range(5):
        assert_symmetric(network, random.Random(seed))


def rejection(n_hosts: int, cables: Iterable[tuple[int, int]]) -> str:
    with pytest.raises(InputError) as caught:
        check_symmetric(network_of(n_hosts, cables))
    assert caught.value.key == "fabric.routing"
    return str(caught.value)


def test_asymmetric_networks_are_rejected() -> None:
    leaf_spine = two_tiers(2, 2)  # hosts 0 to 3, leaves 4 and 5, spines 6 and 7
    assert mentions(rejection(4, [*leaf_spine, (4, 6), (5, 6)]), "s0", "s2")
    assert mentions(rejection(4, [*leaf_spine[:-2], (5, 7), (5, 6)]), "s0", "s1")
    ring = [(0, 3), (1, 4), (2, 5), (3, 4), (4, 5), (5, 6), (6, 3)]
    assert mentions(rejection(3, [*ring, (3, 5)]), "host")
    crossed = [pair for pair in three_tiers() if pair not in ((10, 12), (10, 13))]
    assert mentions(rejection(4, [*crossed, (10, 13), (10, 12)]), "s0", "s2")
    diamond = [(0, 2), (1, 3), (2, 4), (2, 5), (4, 6), (5, 6), (6, 7), (3, 7), (3, 8), (8, 6)]
    assert "path" in rejection(2, diamond)


def test_symmetric_ecmp_rejects_per_end_plane_choice() -> None:
    for way in PLANE_BALANCING:
        several = rails(2, [100, 100])
        if way in ("hash", "entropy"):
            check_symmetric(several, way)
        else:
            with raises_input(way, key="fabric.plane_balancing"):
                check_symmetric(several, way)
        check_symmetric(two_nics_of_a_port(), way)


def two_nics_of_a_port() -> Network:
    """Build two hosts with two NICs, one to each of two switches."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(2)
    for nic in range(2):
        switch = builder.add_switch()
        for host in hosts:
            builder.cable(host, switch, RATE, DELAY, nic=nic)
    return builder.build("two NICs")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [6, 20 * NARROW])
def test_find_cycle_agrees_with_networkx_on_random_graphs(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most))
    waiter, after = rng.integers(0, n, (2, int(rng.integers(0, 2 * n))))
    if seed % 2:  # an acyclic order, with at most one exception
        place = rng.permutation(n)
        waiter, after = np.where(place[waiter] < place[after], (after, waiter), (waiter, after))
        others = waiter != after
        others[: int(rng.integers(2))] = True
        waiter, after = waiter[others], after[others]
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(waiter.tolist(), after.tolist(), strict=True))
    cycle = find_cycle(n, waiter, after)
    assert bool(cycle) != nx.is_directed_acyclic_graph(graph)
    for one, next_one in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert graph.has_edge(one, next_one)


def test_find_cycle_finds_a_short_cycle_among_many_acyclic_nodes() -> None:
    n = 40 * NARROW
    waiter = np.concatenate([np.arange(n // 2, n), [n // 2, n // 2 + 1]])
    after = np.concatenate([np.arange(n // 2), [n // 2 + 1, n // 2]])
    assert sorted(find_cycle(n, waiter, after)) == [n // 2, n // 2 + 1]
    assert find_cycle(n, waiter[:-1], after[:-1]) == []
