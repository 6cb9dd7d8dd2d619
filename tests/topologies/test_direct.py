"""Direct networks against closed forms; topologies against NetworkX."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_of import check_routes, largest_flow_bps, topology_of

from netsim.experiment import Experiment
from netsim.flows import destinations
from netsim.model.fabric import routing_spec
from netsim.model.inventory import inventory
from netsim.model.network import Network
from netsim.model.paths import link_loads, pattern_saturation, saturation, uniform_saturation
from netsim.model.patterns import uniform
from netsim.plugins.registry import legs_of
from netsim.results.run_result import RunResult
from netsim.running.point import simulate
from netsim.running.saturation import is_saturated

RATE = 800e9
DRAGONFLY = {"kind": "dragonfly", "switches_per_group": 4}
RING = {"kind": "torus", "shape": "8"}


def switch_graph(network: Network) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.Graph()
    node, far = network.port_node, network.port_node[network.port_peer]
    between = (node >= network.n_hosts) & (far > node)
    graph.add_edges_from(zip(node[between].tolist(), far[between].tolist(), strict=True))
    return graph


def test_sizes_match_published_counts() -> None:
    """Expected: hosts, switches, inter-switch cables, inter-switch cables per switch, and
    inter-switch cables on the longest path."""
    for params, expected in [
        ({"kind": "torus", "shape": "4x4x8"}, (128, 128, 384, {6}, 8)),
        ({"kind": "torus", "shape": "4x4x8", "twist": 4, "paths": "minimal"},
         (128, 128, 384, {6}, 6)),
        ({"kind": "torus", "shape": "4x8x8", "twist": 4, "paths": "minimal"},
         (256, 256, 768, {6}, 6)),
        ({"kind": "torus", "shape": "2x3"}, (6, 6, 9, {3}, 2)),
        ({"kind": "torus", "shape": "4x4", "wrap": False}, (16, 16, 24, {2, 3, 4}, 6)),
        ({"kind": "hyperx", "shape": "4x4", "hosts_per_switch": 4}, (64, 16, 48, {6}, 2)),
        (DRAGONFLY, (72, 36, 90, {5}, 3)),
        ({"kind": "dragonfly", "switches_per_group": 8}, (1056, 264, 1452, {11}, 3)),
        ({**DRAGONFLY, "groups": 5, "arrangement": "relative"}, (40, 20, 50, {5}, 3)),
        ({"kind": "dragonfly_plus", "radix": 8}, (272, 136, 408, {4, 8}, 3)),
        ({"kind": "slim_fly", "q": 5}, (200, 50, 175, {7}, 2)),
        ({"kind": "slim_fly", "q": 13}, (3380, 338, 3211, {19}, 2)),
        ({"kind": "hamming_mesh", "board": "2x2", "boards": "3x4"}, (48, 62, 144, {4, 6, 8}, 4)),
        ({"kind": "jellyfish", "switches": 50, "degree": 7, "hosts_per_switch": 4},
         (200, 50, 175, {7}, 3)),
    ]:  # fmt: skip
        network = topology_of(params)
        graph = switch_graph(network)
        degrees = {degree for _, degree in graph.degree()}
        n_cables = network.n_ports // 2 - network.n_hosts
        counts = (network.n_hosts, network.n_switches, n_cables, degrees, network.diameter - 2)
        assert counts == expected, params
        assert graph.number_of_edges() == n_cables, "two cables between the same switches"
        by_hops = network.port_weight is None and network.port_dimension is None
        if by_hops and network.n_switches < 100:
            check_routes(network)


def test_dimension_order_corrects_coordinates_in_order() -> None:
    """One path corrects the first coordinate, then the second."""
    network = topology_of({"kind": "hyperx", "shape": "3x3", "paths": "dimension_order"})
    at = [network.node_name(network.port_node[port]) for port in network.path(0, 8)]
    assert at == ["h0", "s0_0", "s2_0", "s2_2"]
    assert all(network.candidates(0, group).size == 1 for group in range(1, 9))
    ring = topology_of({"kind": "torus", "shape": "4x5"})
    assert ring.candidates(0, 2 * 5 + 3).size == 2  # both ways around four switches
    assert ring.candidates(0, 3).size == 1


def test_minimal_dragonfly_routes_cross_one_global_cable() -> None:
    network = topology_of(DRAGONFLY)
    group = (np.arange(network.n_nodes) - network.n_hosts) // 4
    for to in range(0, network.n_hosts, 2):
        ends = network.port_node[network.port_peer[network.path(0, to)[:-1]]]
        crossed = int((np.diff(group[ends]) != 0).sum())
        assert crossed == (to >= 8), to
    cable = np.flatnonzero(network.port_weight == 3)[0]
    usable = np.ones(network.n_ports, bool)
    usable[[cable, network.port_peer[cable]]] = False
    table = network.routing(network.wiring(usable))
    assert (table.route >= 0).all()


def test_uniform_saturation_matches_closed_form() -> None:
    """Each host sends to all others; tori from Dally and Towles, the rest by exact link loads."""
    for params, expected in [
        (RING, 0.875),
        ({"kind": "torus", "shape": "16"}, 0.46875),
        ({"kind": "torus", "shape": "8x8"}, 63 / 64),
        ({"kind": "hyperx", "shape": "4x4", "hosts_per_switch": 4}, 63 / 64),
        ({"kind": "slim_fly", "q": 5}, 199 / (4 * 4 * 13)),
        ({"kind": "fat_tree", "hosts_per_leaf": 8, "leaves": 8, "oversubscription": 4},
         0.25 * 63 / 56),
    ]:  # fmt: skip
        assert uniform_saturation(topology_of(params)) == pytest.approx(expected), params
    for shape, plain, twisted in [("4x4x8", 0.992, 1.732), ("4x8x8", 0.996, 1.386)]:
        torus = {"kind": "torus", "shape": shape, "paths": "minimal"}
        for twist, bound in ((0, plain), (4, twisted)):
            network = topology_of({**torus, "twist": twist})
            n = network.n_hosts
            among = np.full((n, n), RATE / (n - 1))
            assert saturation(network, among) == pytest.approx(bound, abs=1e-3), (shape, twist)


def test_dragonfly_link_loads_match_closed_form() -> None:
    """Uniform traffic with a = 4, p = 2, h = 2, N = 72. A global cable carries traffic from a * p
    hosts to a * p hosts. A local cable carries traffic from the p hosts of one switch to the p
    hosts and h groups of the other, and from the h groups of the first to the hosts of the other.
    """
    network = topology_of(DRAGONFLY)
    ports = np.arange(network.n_host_ports)
    demand = uniform(72).demand(np.full(72, RATE), network.port_group[ports].astype(np.int64))
    loads = link_loads(network, demand) / network.port_rate_bps
    between = network.port_node[network.port_peer] >= network.n_hosts
    between[ports] = False
    is_global = network.port_weight == 3
    assert loads[is_global] == pytest.approx(8 * 8 / 71)
    within = loads[between & ~is_global]
    assert within == pytest.approx((2 * 2 + 2 * 2 * 2 * 8) / 71)


def test_pattern_saturation_matches_closed_form() -> None:
    """Values from Dally and Towles for tori and Kim et al. for the Dragonfly. In a full mesh the
    hosts of a switch share one cable. With an intermediate group, routing is Valiant: 4 / k in a
    ring of k; in the mesh, paths use both cables through each of the six other switches."""
    mesh = {"kind": "hyperx", "shape": "8", "hosts_per_switch": 7}
    grid = {"kind": "torus", "shape": "8x8"}
    slow = {"kind": "fat_tree", "hosts_per_leaf": 8, "leaves": 8, "oversubscription": 4}
    slim = {"kind": "slim_fly", "q": 5}
    for topology, pattern, expected, *intermediate in [
        (RING, "tornado", 1 / 3),
        (RING, "bit_complement", 1 / 2),
        (RING, "tornado", 4 / 8, "any"),
        ({"kind": "torus", "shape": "16"}, "tornado", 4 / 16, "any"),
        (RING, "near_neighbor", 1),
        (grid, "tornado", 1 / 3),
        (grid, "bit_complement", 1 / 2),
        (grid, "transpose", 2 / 7),
        (grid, "stencil", 1),
        (mesh, "group_plus_one", 1 / 7),
        (mesh, "group_plus_one", 6 / 14, "other"),
        ({"kind": "hyperx", "shape": "2", "hosts_per_switch": 4}, "group_plus_one", 1 / 4, "other"),
        (DRAGONFLY, "group_plus_one", 1 / 8),  # 1 / (a p)
        # Of 199 destinations, 196 are at other switches; both legs are uniform traffic to 50.
        (slim, "uniform", 200 / (2 * 4 * 4 * 13) * 199 / 196, "any"),
        (slow, "group_plus_one", 1 / 4),
        (slow, "hot_spot", 1 / (63 * 0.1 + 0.9)),  # what the hot host receives
    ]:
        network = topology_of(topology)
        params = {"shape": None, "group_offset": 1, "hot_hosts": 1, "hot_fraction": 0.1}
        to = destinations({"pattern": pattern, **params}, network, np.random.default_rng(1))
        legs = None
        if intermediate:
            legs = legs_of(routing_spec("valiant", intermediate=intermediate[0]))
        found = pattern_saturation(network, to, legs=legs)
        assert found == pytest.approx(expected), (topology, pattern)


CASES = [
    ({"kind": "torus", "shape": "8"}, "uniform", 8 / 8 * 7 / 8),
    ({"kind": "torus", "shape": "16"}, "uniform", 8 / 16 * 15 / 16),
    ({"kind": "torus", "shape": "8"}, "tornado", 1 / (8 / 2 - 1)),
    ({"kind": "torus", "shape": "8"}, "bit_complement", 4 / 8),
    ({"kind": "torus", "shape": "8x8"}, "bit_complement", 4 / 8),
    ({"kind": "torus", "shape": "8x8"}, "transpose", 2 / 7),
    ({"kind": "hyperx", "shape": "8", "hosts_per_switch": 7}, "group_plus_one", 1 / 7),
    ({"kind": "dragonfly", "switches_per_group": 4}, "group_plus_one", 1 / (4 * 2)),
]


def measured(topology: dict, pattern: str, load: float) -> RunResult:
    traffic = {"kind": "poisson", "pattern": pattern, "arrival_process": "even", "sizes": "4096B"}
    experiment = {
        "transport": "datagram",
        "topology": {**topology, "host_rate": "100Gbps"},
        "traffic": {**traffic, "load": load},
        "fabric": {"queue_bytes": "1GB"},
        "measure": {"warmup": "200us", "window": "600us", "drain": "0s"},
    }
    (point,) = Experiment.from_mapping(experiment).points()
    return simulate(point, threads=1)


@pytest.mark.slow
@pytest.mark.parametrize(("topology", "pattern", "exact"), CASES)
def test_simulated_saturation_is_within_three_percent(
    topology: dict, pattern: str, exact: float
) -> None:
    below, above = (measured(topology, pattern, factor * exact) for factor in (0.97, 1.03))
    for result, saturated in ((below, False), (above, True)):
        found = result.summary["throughput"]
        assert found["saturation_bound"] == pytest.approx(exact)
        assert is_saturated([{"status": "measured", **found}]) is saturated
    assert above.summary["throughput"]["accepted_load"] == pytest.approx(exact, rel=0.03)


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
