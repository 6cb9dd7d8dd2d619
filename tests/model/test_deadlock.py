"""PFC deadlock detection: cycles of links that may wait for each other."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import numpy as np
from engine_runs import build, counter, fabric_with, fct_ps, flow_table, run
from experiment_text import load, text
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from small_networks import networks
from topology_of import topology_of

import netsim
from netsim.engine.routing_choices import choices_of
from netsim.errors import InputError
from netsim.experiment.scenario import prepare
from netsim.model.arithmetic import mix
from netsim.model.deadlock import ANY_CANDIDATE, Choices, pfc_text, waiting_cycle
from netsim.model.faults import LinkFault, combine, constant_routes, follow_failures
from netsim.model.network import Network
from netsim.model.routing import COUNT_BITS, COUNT_MASK, RouteChanges
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec


def waits_of(
    network: Network, routes: RouteChanges, time_ps: int, choices: Choices
) -> nx.DiGraph[tuple[int, int]]:
    """Build the wait-for graph of links and levels from every packet path at a time."""
    graph: nx.DiGraph[tuple[int, int]] = nx.DiGraph()

    def leaves_by(node: int, group: int) -> list[int]:
        begin, end = routes.row_ptr[node - network.n_hosts :][:2]
        row = begin + np.flatnonzero(routes.row_from_ps[begin:end] <= time_ps)[-1]
        entry = max(0, int(routes.route[routes.row_first[row] + group]))
        local = routes.route_ports[entry >> COUNT_BITS :][: entry & COUNT_MASK]
        return (network.node_first_port[node] + local).tolist()

    def onward(came_by: int, level: int, via: int, group: int) -> list[tuple[int, int, int]]:
        """Return each next port, level and via of a packet that arrived at a switch port."""
        node = int(network.port_node[came_by])
        if via >= 0 and not leaves_by(node, via):
            via = -1
        some = [np.array([one]) for one in (came_by, level)]
        return [
            (port, int(choices.levels(*some, np.array([port]), via >= 0)[0]), via)
            for port in leaves_by(node, group if via < 0 else via)
        ]

    for number in range(network.first_group.size - 1):
        begin, end = network.first_group[number : number + 2].tolist()
        n = network.n_tables * (end - begin)
        vias = range(-1, n if choices.via else 0)
        for group in range(n):
            uplinks = np.flatnonzero(network.port_network == number)
            pending = [
                found
                for came_by in network.port_peer[uplinks].tolist()
                for via in vias
                for found in onward(came_by, 0, via, group)
            ]
            seen = set()
            while pending:
                if (place := pending.pop()) not in seen:
                    seen.add(place)
                    port, level, via = place
                    for next_via in vias if choices.anywhere else [via]:
                        found = onward(int(network.port_peer[port]), level, next_via, group)
                        graph.add_edges_from(((port, level), one[:2]) for one in found)
                        pending += found
    return graph


def check_cycle(
    network: Network, routes: RouteChanges | None = None, choices: Choices = ANY_CANDIDATE
) -> list[int]:
    """Compare the found cycle with a networkx search of all packet paths; return its ports."""
    found = waiting_cycle(network, routes, choices)
    cycle = list(zip(*(column.tolist() for column in found), strict=True))
    routes = constant_routes(network) if routes is None else routes
    times = set(routes.row_from_ps.tolist())
    graphs = [waits_of(network, routes, time, choices) for time in times]
    assert bool(cycle) != all(map(nx.is_directed_acyclic_graph, graphs))
    steps = list(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert len(set(cycle)) == len(cycle)
    assert any(all(graph.has_edge(*step) for step in steps) for graph in graphs)
    return found.ports.tolist()


@given(networks())
def test_deadlock_cycles_of_random_networks_match_networkx(network: Network) -> None:
    check_cycle(network)


@settings(max_examples=60)
@given(networks(), st.integers(1, 3), st.booleans(), st.booleans(), st.integers(0, 9))
def test_deadlock_cycles_with_levels_and_vias_match_networkx(
    network: Network, n_levels: int, via: bool, anywhere: bool, seed: int
) -> None:
    """A hash of the ports decides at which hops the level rises."""

    def next_level(
        came_by: np.ndarray, level: np.ndarray, leaves_by: np.ndarray, has_via: bool
    ) -> np.ndarray:
        from_host = network.port_peer[came_by] < network.n_host_ports
        rises = mix(np.where(from_host, 0, came_by) * 64 + leaves_by * 2 + has_via + seed) % 2
        return np.minimum(level + rises, n_levels - 1)

    check_cycle(network, None, Choices(n_levels, via, via and anywhere, next_level))


@given(networks(), st.data())
@settings(max_examples=50)
def test_deadlock_cycles_of_changing_routes_match_networkx(
    network: Network, data: st.DataObject
) -> None:
    """Routes at every moment count, including while only some switches have converged."""
    fabric = np.flatnonzero(network.port_node >= network.n_hosts).tolist()
    some = st.lists(st.sampled_from(fabric), min_size=1, max_size=6)
    faults = [
        LinkFault(np.array(data.draw(some)), outages_ps=((at, at + 15),)) for at in (10, 20, 40)
    ]
    found = combine(faults, network.n_ports)
    delays = np.array(data.draw(st.lists(st.integers(0, 30), min_size=9, max_size=9)))
    check_cycle(network, follow_failures(network, found, delays[: network.n_switches]))


FREE = (
    {"kind": "torus", "shape": "4x4", "wrap": False},
    {"kind": "torus", "shape": "3x3"},
    {"kind": "hyperx", "shape": "3x3x3", "paths": "dimension_order"},
    {"kind": "dragonfly_plus", "radix": 4},
    {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 4},
    {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 4, "planes": 2},
    {"kind": "dumbbell", "hosts": 2, "bottleneck_delay": "1us"},
)
"""Networks that PFC cannot deadlock."""

CYCLIC = (
    ({"kind": "torus", "shape": "4"}, 4),
    ({"kind": "torus", "shape": "4x4x4"}, 4),
    ({"kind": "torus", "shape": "4x4x8", "twist": 4, "paths": "minimal"}, 4),
    ({"kind": "torus", "shape": "4x4", "wrap": False, "paths": "minimal"}, 4),
    ({"kind": "hyperx", "shape": "3x3"}, 4),
    ({"kind": "dragonfly", "switches_per_group": 4}, 6),
    ({"kind": "slim_fly", "q": 5}, 5),
    ({"kind": "hamming_mesh", "board": "2x2", "boards": "3x4"}, 6),
    ({"kind": "jellyfish", "switches": 10, "degree": 3, "hosts_per_switch": 1}, None),
)
"""Networks that PFC can deadlock, and the number of links of a shortest cycle."""


def test_cyclic_topologies_are_rejected_unless_deadlock_is_allowed() -> None:
    for given_tree in FREE:
        assert check_cycle(topology_of(given_tree)) == [], given_tree
    for given_tree, length in CYCLIC:
        network = topology_of(given_tree)
        cycle = check_cycle(network)
        assert len(cycle) == (length or len(cycle)) > 0, given_tree
        assert network.port_name(cycle[-1]) in pfc_text(network, waiting_cycle(network))


def test_error_names_what_stops_neighbors() -> None:
    ring = {"topology": {"kind": "torus", "shape": "5"}, "transport": "roce"}
    ring["traffic"] = {"kind": "permutation", "size": "8kB"}
    for discipline, name in (("lossless", "PFC"), ("credits", "credits")):
        with raises_input(f"{name} can deadlock", f"without {name}"):
            netsim.check({**ring, "fabric": {"queue_discipline": discipline}})


BY_LEVELS = (
    ({"kind": "torus", "shape": "4"}, "dateline"),
    ({"kind": "torus", "shape": "6x3"}, "dateline"),
    ({"kind": "torus", "shape": "3x3", "twist": 1}, "ecmp_levels"),
    ({"kind": "hyperx", "shape": "3x3"}, "ecmp_levels"),
    ({"kind": "hyperx", "shape": "3x3"}, "ugal_l"),
    ({"kind": "dragonfly", "switches_per_group": 2}, "valiant"),
    ({"kind": "dragonfly", "switches_per_group": 2}, "ecmp_levels"),
    ({"kind": "hamming_mesh", "board": "2x2", "boards": "2x2"}, "ecmp_levels"),
    ({"kind": "jellyfish", "switches": 10, "degree": 3, "hosts_per_switch": 1}, "ecmp_levels"),
    ({"kind": "slim_fly", "q": 5}, "ecmp_levels"),
)
"""Networks that PFC cannot deadlock if packets have levels, and a routing that sets them."""


def test_packet_levels_break_cycles_if_there_are_enough() -> None:
    for given_tree, name in BY_LEVELS[:-1]:
        network = topology_of(given_tree)
        choices = choices_of(fabric_with("lossless", routing=name), network)
        assert choices.n_levels == {"dateline": 2, "ecmp_levels": 4}.get(name, 6)
        assert check_cycle(network, None, choices) == [], given_tree
    for given_tree, name in [
        ({"kind": "torus", "shape": "4x8", "twist": 4, "paths": "minimal"}, "dateline"),
        ({"kind": "torus", "shape": "10"}, "ecmp_levels"),  # paths of five links exceed the levels
    ]:
        network = topology_of(given_tree)
        found = waiting_cycle(
            network, None, choices_of(fabric_with("lossless", routing=name), network)
        )
        assert found.ports.size, given_tree
        assert found.levels.max() == (1 if name == "dateline" else 3)


ADVISED = re.compile(r'"(\w+)"')


def test_advised_routing_cannot_deadlock(tmp_path: Path) -> None:
    """An error on a possible deadlock names routing algorithms that would be accepted, here all of
    them; algorithms that use dimensions are rejected on networks without dimensions."""

    def problem(*overrides: str) -> str:
        try:
            (point,) = load(tmp_path, text(top='transport = "roce"'), *overrides).points()
            prepare(point)
        except InputError as error:
            return f"{error.key}: {error}"
        return ""

    vias = {"valiant", "ugal_l", "ugal_g"}
    for key, named in (
        ("topology={kind='torus',shape='8x8'}", {"dateline", "minimal_adaptive"}),
        ("topology={kind='slim_fly',q=5}", {"ecmp_levels", "minimal_adaptive", *vias}),
    ):
        found = problem(key)
        assert found.startswith("fabric.queue_discipline: "), found
        assert "allow_deadlock" in found
        assert problem(key, "fabric.allow_deadlock=true") == ""
        assert set(ADVISED.findall(found.partition("routing = ")[2])) == named
        for name in ("dateline", "ecmp_levels", *named):
            assert (problem(key, f"fabric.routing={name}") == "") == (name in named), name
    assert problem("fabric.routing=dateline").startswith("fabric.routing: ")


def test_deadlock_free_networks_complete_with_tiny_buffers() -> None:
    """Every host sends to three others, and PFC pauses at one byte."""
    for given_tree, name in [*((tree, "ecmp") for tree in FREE), *BY_LEVELS]:
        network = topology_of(given_tree)
        n = network.n_hosts
        src = np.arange(3 * n) % n
        dst = np.concatenate([(src[:n] + n // 2) % n, n - 1 - src[:n], (src[:n] + n // 3) % n])
        pairs = zip(src.tolist(), dst.tolist(), strict=True)
        flows = flow_table([(a, b, 12_000, 0) for a, b in pairs if a != b][:60])
        tiny = fabric_with("lossless", xoff_bytes=1, xon_bytes=1, routing=name)
        assert not waiting_cycle(network, None, choices_of(tiny, network)).ports.size
        engine = run(build(network, flows, "roce", tiny, jit=False), 10**10)
        assert (fct_ps(engine) > 0).all(), given_tree
        assert (counter(engine, "drops"), counter(engine, "pfc_pauses") > 0) == (0, True)


def test_routing_with_untraceable_levels_is_rejected(tmp_path: Path) -> None:
    network = topology_of({"kind": "torus", "shape": "4"})
    for body, message in (
        ("on_route(env, now, port, out, pkt):\n    set_level(env, pkt, int(pkt.hops) % 2)", "hops"),
        ("choose(env, now, port, pkt, first, n):\n    set_level(env, pkt, 1)\n    return 0", ""),
        ("at_switch(env, now, port, pkt):\n    set_level(env, pkt, 2)", "argument"),
    ):
        choose = "def choose(env, now, port, pkt, first, n):\n    return 0\n\n\n"
        head = '"""Mine."""\nfrom netsim.routing import set_level\n\nPARAMS = []\nLEVELS = 2\n\n\n'
        file = tmp_path / "mine.py"
        file.write_text(f"{head}{choose}def {body}\n")
        plugin = registry.find("routing", str(file))
        fabric = fabric_with("lossless", routing=PluginSpec(plugin, {}))
        with raises_input("mine.py", message, "levels"):
            waiting_cycle(network, None, choices_of(fabric, network))
        file.unlink()
