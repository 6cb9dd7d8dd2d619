"""Network drawings: which nodes are shown, their positions and their labels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from engine_runs import resolve
from small_networks import GBPS, METER_PS, rail_racks, three_tiers

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.network import round_robin_matchings
from netsim.plots import save
from netsim.plots.networks import Panel, draw_networks, few, lay_out, matchings, wires
from netsim.plugins import registry


def build(kind: str, **given: object) -> Network:
    plugin = registry.find("topology", kind)
    network: Network = plugin.module.build(resolve(plugin, given))
    return network


def test_few_selects_both_ends_and_requested_items() -> None:
    assert few(range(4), 4) == [0, 1, 2, 3]
    assert few(range(9), 3) == [0, 1, 8]
    assert few(range(9), 3, {5}) == [0, 5, 8]
    assert few(range(9), 4, {5}) == [0, 1, 5, 8]
    assert few(range(9), 3, {3, 5, 7}) == [0, 3, 8]


@pytest.mark.parametrize(
    "network",
    [
        three_tiers(4),
        build("fat_tree", hosts_per_leaf=4, leaves=6, planes=2),
        build("dumbbell", hosts=3),
    ],
    ids=lambda network: network.name,
)
def test_small_network_is_drawn_in_full(network: Network) -> None:
    drawing = lay_out(network)
    assert sorted(drawing.x) == list(range(network.n_nodes))
    assert sorted([*drawing.hosts, *drawing.switches]) == list(range(network.n_nodes))
    assert not drawing.dots
    assert sum(len(wire.ports) for wire in wires(network, drawing)) == network.n_ports // 2
    places = [(drawing.x[node], drawing.y[node]) for node in drawing.x]
    assert len(set(places)) == len(places)
    for node, height in drawing.y.items():
        assert height == network.tier[node] + 1


def test_large_network_shows_only_end_nodes_of_each_kind() -> None:
    network = three_tiers(16)  # 1,024 hosts, 128 leaves in 16 pods of 8
    drawing = lay_out(network)
    names = {network.node_name(node) for node in drawing.switches}
    for pod in (0, 1, 15):
        assert {f"pod{pod}.leaf{i}" for i in (0, 1, 7)} <= names
    assert not any(name.startswith("pod2.") for name in names)
    assert "core0" in names
    assert len(drawing.x) < 80
    heights = {y for _, y in drawing.dots}
    assert heights == {0.0, 1.0, 2.0, 3.0}
    # The drawing is connected: every node drawn is the end of a wire.
    joined = {end for wire in wires(network, drawing) for end in wire.points}
    assert all((drawing.x[node], drawing.y[node]) in joined for node in drawing.x)


def test_requested_nodes_are_drawn() -> None:
    network = build("fat_tree", hosts_per_leaf=32, leaves=64)
    host, leaf, spine = 40 * 32 + 17, network.n_hosts + 40, network.n_hosts + 64 + 20
    assert not {host, leaf, spine} & set(lay_out(network).x)
    assert {host, leaf, spine} <= set(lay_out(network, {host, leaf, spine}).x)


def test_rail_planes_are_side_by_side_above_rack_switches() -> None:
    network = rail_racks(4, 2, planes=2)
    drawing = lay_out(network)
    ups = [node for node in drawing.switches if network.node_name(node).endswith(".up")]
    assert {drawing.y[node] for node in ups} == {-1.0}
    assert [name for name, *_ in drawing.blocks] == [
        f"rail{rail}.plane{plane}" for rail in (0, 1) for plane in (0, 1)
    ]
    for (_, _, end, _), (_, first, _, _) in pairwise(drawing.blocks):
        assert end < first
    for node, block in drawing.block_of.items():
        _, first, last, _ = drawing.blocks[block]
        assert first <= drawing.x[node] <= last


def ring_of(n: int) -> Network:
    """Switches in a ring, with a host each."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n)
    ring = [builder.add_switch() for _ in hosts]
    for host, switch in zip(hosts, ring, strict=True):
        builder.cable(host, switch, GBPS, METER_PS)
        builder.cable(switch, ring[(host + 1) % n], GBPS, METER_PS)
    return builder.build("ring")


def test_wires_that_would_cross_a_node_are_arcs() -> None:
    network = ring_of(3)
    drawn = [wire for wire in wires(network, lay_out(network)) if len(wire.points) > 2]
    assert len(drawn) == 1  # the wire between the outer two of three switches
    assert max(y for _, y in drawn[0].points) > 1


@pytest.mark.parametrize(("n", "hosts"), [(8, 8), (80, 0)])
def test_switch_ring_is_drawn_on_a_circle(n: int, hosts: int) -> None:
    network = ring_of(n)
    drawing = lay_out(network)
    assert (len(drawing.switches), len(drawing.hosts)) == (n, hosts)
    far = {round(float(np.hypot(drawing.x[s], drawing.y[s])), 6) for s in drawing.switches}
    assert len(far) == 1
    assert len(wires(network, drawing)) == n + hosts
    figure = draw_networks([Panel("ring", network)])
    assert f"{n} switches\n3 ports\n{n} hosts" in [one.get_text() for one in figure.axes[0].texts]


@pytest.mark.parametrize("stagger", [False, True])
def test_drawn_matchings_equal_the_circuit_schedule(stagger: bool) -> None:
    network = build("ocs", racks=7, hosts_per_rack=1, circuit_switches=2, stagger=stagger)
    rounds = round_robin_matchings(7)
    for number in (0, 1):
        expected = {
            frozenset((i, j) for i, j in enumerate(matching.tolist()) if i < j)
            for matching in rounds[number::2]
        }
        found = matchings(network, number)
        assert len(found) == len(expected)
        drawn = {
            frozenset((min(a, b) - 7 * number, max(a, b) - 7 * number) for a, b in pairs)
            for _, pairs in found
        }
        assert drawn == expected
    drawing = lay_out(network)
    assert len(drawing.circuits) == 2
    fibers = [wire for wire in wires(network, drawing) if wire.points[-1][1] == 2.0]
    assert len(fibers) == 2 * 7


def test_static_circuits_get_one_panel_per_circuit_switch() -> None:
    network = build("ocs", racks=10, hosts_per_rack=1, circuit_switches=9, schedule="static")
    *_, first, second, _, _, _, last = draw_networks([Panel("mesh", network)]).axes
    assert (first.get_title(), second.get_title()) == ("ocs0 always", "ocs1 always")
    assert last.get_title() == "ocs5 always\nand 3 more"
    assert [len(circle.lines) for circle in (first, second, last)] == [5, 5, 5]


def test_figure_labels_count_nodes_and_links(tmp_path) -> None:
    tree = build("fat_tree", hosts_per_leaf=32, leaves=64)
    rotor = build("ocs", racks=20, hosts_per_rack=2, circuit_switches=2)
    figure = draw_networks([Panel("a tree", tree), Panel("rotors", rotor)])
    first, second, *circles = figure.axes
    texts = [text.get_text() for text in first.texts]
    assert {"2,048 hosts", "64 leaf\n64 ports", "32 spine\n64 ports"} <= set(texts)
    (label,) = first.get_legend().get_texts()
    assert label.get_text() == "800Gbps: 4,096"
    assert "2 circuit switches" in [text.get_text() for text in second.texts]
    assert len(circles) == 6
    assert "and 4 more" in circles[-1].get_title()
    path = save(figure, tmp_path / "both.png")
    assert path.stat().st_size > 10_000
    assert np.isfinite(figure.get_size_inches()).all()
