"""The topology figure colors links by a column of the result and marks failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba
from raises_input import has, mentions, raises_input

from netsim.experiment import Experiment
from netsim.experiment.scenario import network_of
from netsim.plots import links
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


def test_counters_have_their_own_color_scale(network, tmp_path) -> None:
    drops = np.arange(network.n_ports)
    figure = links.topology([Stub(tmp_path, drops=drops)], "drops").figure
    bar = figure.axes[-1]
    assert bar.get_ylabel() == "packets dropped"
    assert bar.get_ylim()[1] == network.n_ports - 1
    paused = links.topology([Stub(tmp_path, paused_ps=drops * 10**6)], "paused_time").figure
    assert paused.axes[-1].get_ylim()[1] == network.n_ports - 1


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
