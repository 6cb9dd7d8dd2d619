"""The topology figure colors links by a column of the result and marks failures."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from engine_runs import resolve
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba
from raises_input import has, mentions, raises_input
from small_networks import GBPS, METER_PS, rail_racks, three_tiers

from netsim.experiment import Experiment
from netsim.experiment.scenario import network_of
from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.network import round_robin_matchings
from netsim.plots import fit_for_print, links, over_time, save
from netsim.plots.networks import Panel, draw_networks, drawing_of, matchings
from netsim.plugins import registry
from netsim.results import files

TREE: dict[str, Any] = {
    "transport": "ndp",
    "topology": {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2},
    "traffic": {"kind": "permutation", "size": "1MB"},
}


class Stub:
    """A result with synthetic link statistics."""

    faults: pl.DataFrame | None = None

    def __init__(self, path, **columns: np.ndarray) -> None:
        (path / files.LINKS).touch()
        self.path, self.name = path, "made up"
        self.experiment = {"resolved": {"name": "made up"}, "axes": {}, "plugins": []}
        n = len(next(iter(columns.values())))
        self.links = pl.DataFrame({"link": np.arange(n), **columns})


@pytest.fixture
def network(monkeypatch, tmp_path):
    (point,) = Experiment.from_tree(TREE, "tree.toml", tmp_path).points()
    monkeypatch.setattr(links, "point_of", lambda *_, **__: point)
    return network_of(point)


def lines_of(figure) -> LineCollection:
    (found,) = [one for one in figure.axes[0].collections if isinstance(one, LineCollection)]
    return found


def test_directions_are_whole_lines_side_by_side(network, tmp_path) -> None:
    busy = np.zeros(network.n_ports)
    busy[0] = 1.0  # host 0 to its leaf
    figure = links.topology([Stub(tmp_path, utilization=busy)]).figure
    lines = lines_of(figure)
    assert len(lines.get_segments()) == network.n_ports
    grey = to_rgba(links.NOTHING)
    shades = [tuple(shade) for shade in lines.get_colors()]
    assert [shade == grey for shade in shades] == [True] * (network.n_ports - 1) + [False]
    # A line from node to node for each direction: none ends halfway.
    (way,) = [one for one in lines.get_segments() if (one == lines.get_segments()[-1]).all()]
    assert way[0][1] == pytest.approx(0, abs=0.02)  # its first end is the host
    assert way[-1][1] == pytest.approx(1, abs=0.02)
    (other,) = [one for one in lines.get_segments()[:-1] if np.abs(one - way).max() < 0.2]
    assert way[0][0] > other[0][0]  # up is on the right
    shown = figure.axes[0].get_legend()
    assert to_rgba(shown.legend_handles[0].get_color()) == grey
    texts = [text.get_text() for text in figure.axes[1].texts]
    assert mentions(texts, "host")
    assert "mean 0.25, max 1" in texts


def test_failed_link_is_marked_and_counted(network, tmp_path) -> None:
    result = Stub(tmp_path, utilization=np.zeros(network.n_ports))
    peer = int(network.port_peer[0])
    result.faults = pl.DataFrame({"event": ["down", "down", "reroute"], "link": [0, peer, None]})
    axes = links.topology([result]).figure.axes[0]
    crosses = [one for one in axes.collections if isinstance(one, PathCollection)][-1]
    assert len(crosses.get_offsets()) == 1
    assert any(has(text.get_text(), "2", "1") for text in axes.texts)


def test_invalid_column_or_result_is_rejected(network, tmp_path) -> None:
    right = Stub(tmp_path, utilization=np.zeros(network.n_ports))
    with raises_input("dropps", "drops", key="--y"):
        links.topology([right], "dropps")
    with raises_input("4", code="out_of_range"):
        links.topology([right] * 4)
    other = Stub(tmp_path, utilization=np.zeros(network.n_ports - 2))
    with raises_input("16", "14"):
        links.topology([other])
    (tmp_path / files.LINKS).unlink()
    with raises_input("link"):
        links.topology([right])


def build(kind: str, **given: object) -> Network:
    plugin = registry.find("topology", kind)
    network: Network = plugin.module.build(resolve(plugin, given))
    return network


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
    graph, spots = drawing_of(network)[1:]
    assert graph.names == [network.node_name(node) for node in range(network.n_nodes)]
    assert (np.bincount(graph.line_of // 2) == 2).all()  # a line is a cable
    assert len({tuple(place) for place in spots.tolist()}) == network.n_nodes
    assert (spots[:, 1] == network.tier + 1).all()


def test_neighbors_of_a_large_network_share_a_symbol() -> None:
    network = three_tiers(16)  # 1,024 hosts, 128 leaves in 16 pods of 8
    graph, spots = drawing_of(network)[1:]
    assert graph.members.sum() == network.n_nodes
    assert np.bincount(spots[:, 1].astype(int)).tolist() == [64, 16, 16, 16]
    assert "pod3.leaf0 to pod3.leaf7 (8)" in graph.names
    assert set(graph.ends.ravel().tolist()) == set(range(len(graph.names)))


def test_rail_planes_are_side_by_side_above_rack_switches() -> None:
    network = rail_racks(4, 2, planes=2)
    graph, spots = drawing_of(network)[1:]
    planes = [f"rail{rail}.plane{plane}" for rail in (0, 1) for plane in (0, 1)]
    assert {y for name, (_, y) in zip(graph.names, spots, strict=True) if name[-3:] == ".up"} == {0}
    assert set(spots[graph.is_host, 1]) == {1}
    of_plane = [[x for name, (x, _) in zip(graph.names, spots, strict=True)
                 if name.startswith(plane)] for plane in planes]  # fmt: skip
    for left, right in pairwise(of_plane):
        assert max(left) < min(right)
    (axes,) = draw_networks([Panel("rails", network)]).axes
    assert set(planes) <= {text.get_text() for text in axes.texts}


def ring_of(n: int) -> Network:
    """Switches in a ring, with a host each."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n)
    ring = [builder.add_switch() for _ in hosts]
    for host, switch in zip(hosts, ring, strict=True):
        builder.cable(host, switch, GBPS, METER_PS)
        builder.cable(switch, ring[(host + 1) % n], GBPS, METER_PS)
    return builder.build("ring")


@pytest.mark.parametrize("n", [8, 80])
def test_switch_ring_is_drawn_on_a_circle(n: int) -> None:
    network = ring_of(n)
    drawing = drawing_of(network)
    radius = np.hypot(*drawing.spots.T)
    assert np.allclose(radius[~drawing.graph.is_host], radius[n])
    assert (radius[drawing.graph.is_host] > radius[n]).all()
    assert len(drawing.lines()) == 2 * n
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
    drawing = drawing_of(network)
    assert drawing.is_circuit(np.arange(len(drawing.spots))).sum() == 2
    assert sum(line[:, 1].max() == 2 for line in drawing.lines()) == 2 * 7


def test_figure_labels_count_nodes_and_links(tmp_path) -> None:
    tree = build("fat_tree", hosts_per_leaf=32, leaves=64)
    rotor = build("ocs", racks=20, hosts_per_rack=2, circuit_switches=2)
    figure = draw_networks([Panel("a tree", tree), Panel("rotors", rotor)])
    first, second, *circles = figure.axes
    texts = [text.get_text() for text in first.texts]
    assert {"2,048 hosts\na symbol: up to 32", "64 leaf\n64 ports\na symbol: up to 4"} <= set(texts)
    (label,) = first.get_legend().get_texts()
    assert label.get_text() == "800Gbps: 4,096"
    assert "2 circuit switches" in [text.get_text() for text in second.texts]
    assert len(circles) == 6
    assert "and 4 more" in circles[-1].get_title()
    path = save(figure, tmp_path / "both.png")
    assert path.stat().st_size > 10_000
    assert np.isfinite(figure.get_size_inches()).all()


N_FLOWS = 12


def result(unfinished=()):
    """A run whose flows 0 to 11 end one after the other, all at the same rate."""
    ends = [None if flow in unfinished else 1000 * (flow + 1) for flow in range(N_FLOWS)]
    flows = pl.DataFrame({"flow": range(N_FLOWS), "start_ps": [0] * N_FLOWS, "fct_ps": ends})
    times = pl.DataFrame({"time_ps": [1000, 2000]})
    series = pl.DataFrame({"entity_index": range(N_FLOWS)}).join(times, how="cross").with_columns(
        pl.lit("flow").alias("entity"), pl.format("flow {}", "entity_index").alias("name"),
        pl.lit(1000).alias("interval_ps"), pl.lit(0).alias("traffic_class"),
        *(pl.lit(4096).alias(f"{column}_bytes") for column in ("sent", "delivered")),
        *(pl.lit(0).alias(f"{column}_queue_bytes") for column in ("mean", "max")),
    )  # fmt: skip
    summary = {"series": {"said": "every 1 ns"}}
    return SimpleNamespace(name="made up", series=series, flows=flows, summary=summary)


def names(figure):
    return [line.get_label() for line in figure.axes[0].get_lines()]


def test_flows_that_end_last_are_drawn_in_the_order_of_their_numbers():
    assert names(over_time.timeseries([result()]).figure) == [f"flow {n}" for n in range(6, 12)]


def test_unfinished_flows_come_first():
    drawn = names(over_time.timeseries([result(unfinished=(1, 2, 10))]).figure)
    assert drawn == ["flow 1", "flow 2", "flow 8", "flow 9", "flow 10", "flow 11"]


def test_narrow_figure_has_its_legend_above_and_keeps_its_panel():
    figure = over_time.timeseries([result()]).figure
    fit_for_print(figure, 3.3)
    figure.canvas.draw()
    (axes,) = figure.axes
    box = axes.get_window_extent()
    assert box.width > 0.7 * 3.3 * figure.dpi
    assert box.height > 0.5 * figure.dpi
    assert axes.get_legend().get_window_extent().y0 >= box.y1
