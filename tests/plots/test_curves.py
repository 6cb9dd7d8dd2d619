"""Curves of figures with many points: pooled seeds, the ideal curve, styles and labels."""

from types import SimpleNamespace

import numpy as np
import pytest
from plot_points import make, varied

from netsim.plots import flows, links, seed_curves, style
from netsim.workloads.job.curves import Shape
from netsim.workloads.plots import jobs

__all__ = ["make"]


class TestSeeds:
    def test_band_ends_at_the_least_finished_seed(self, make):
        results = [
            varied(make, "traffic.load", 1, seed=seed, n_flows=10, unfinished=left, complete=False)
            for seed, left in ((1, 0), (2, 6))
        ]
        axes = flows.fct_cdf(results).figure.axes[0]
        assert vertices(axes.collections[0])[:, 1].max() == pytest.approx(0.4)
        none = varied(make, "traffic.load", 1, seed=3, n_flows=10, unfinished=10, complete=False)
        assert not flows.fct_cdf([results[0], none]).figure.axes[0].collections

    def test_84_curves_fit_a_page(self):
        named = [f"transport {n}" for n in range(28)]
        figure, panels = style.new_panels(named)
        for axes in panels.values():
            axes.plot([0, 1], label="one")
        style.finish_panels(figure, list(panels.values()), "title", "best")
        assert figure.get_figheight() < 11
        figure, (axes,) = style.new_figure()
        for number in range(84):
            axes.plot([0, 1], label=f"topology fat_tree, load 0.{number}, fan in {number}")
        assert style.finish(figure, axes, "title", "best").get_figheight() < 9


def vertices(collection):
    return np.concatenate([path.vertices for path in collection.get_paths()])


class TestIdeal:
    def test_ideal_curve_is_drawn_once_per_distinct_traffic(self, make):
        results = [varied(make, "traffic.size", size) for size in ("1MB", "2MB", "4MB")]
        for result, factor in zip(results, (1, 1.001, 2), strict=True):
            result.flows = result.flows.with_columns(result.flows["ideal_ps"] * factor)
        lines = flows.fct_cdf(results).figure.axes[0].get_lines()
        dashed = [one for one in lines if one.get_color() == style.IDEAL]
        assert [one.get_xdata().max() for one in dashed] == [1, 2]
        assert dashed[0].get_label() == "ideal"
        assert dashed[1].get_label().startswith("_")


class TestCurveStyles:
    def test_curve_styles_are_unique(self):
        for kinds in [["ndp"] * 28, ["ndp", "roce", "mine"] * 28, ["ndp"] * 280]:
            assert len(set(style.curve_styles(kinds))) == len(kinds)

    def test_transport_color_is_independent_of_other_curves(self):
        shipped = ["ndp", "roce", "smartt", "homa", "dcqcn", "nscc", "dctcp", "hpcc", "swift"]
        styles = style.curve_styles(shipped)
        assert len({curve_style.color for curve_style in styles}) == len(shipped)
        for kind, curve_style in zip(shipped, styles, strict=True):
            assert style.curve_styles(["mine", kind])[1].color == curve_style.color
            assert style.curve_styles([kind, "yours"])[0].color == curve_style.color
        alone, beside = (
            style.curve_styles(["mine", "ndp"])[0],
            style.curve_styles(["homa", "mine"])[1],
        )
        assert alone.color == beside.color

    def test_transports_with_clashing_colors_get_different_ones(self):
        first, second = style.curve_styles(["homa", "wan_fec"])
        assert first.color != second.color
        many = style.curve_styles([f"t{number}" for number in range(14)])
        assert len(set(many)) == 14

    def test_long_legend_counts_the_omitted_curves(self, make, monkeypatch):
        monkeypatch.setattr(style, "MAX_LEGEND", 9)
        results = [varied(make, "traffic.load", load, n_flows=3) for load in range(12)]
        rows = [text.get_text() for text in flows.fct_cdf(results).figure.legends[0].get_texts()]
        assert len(rows) == 9
        assert rows[-2:] == ["and 5 more", "ideal"]


def test_plugin_labels_are_the_shortest_unique_names(make):
    short = seed_curves.short_names(["./mine.py", "b/mine.py:careful", "ndp:800g", "/x/y/other.py"])
    assert list(short.values()) == ["mine", "mine:careful", "ndp:800g", "other"]
    assert list(seed_curves.short_names(["a/mine.py", "b/mine.py"]).values()) == [
        "a/mine",
        "b/mine",
    ]
    assert list(seed_curves.short_names(["mine.py", "../mine.py"]).values()) == ["mine", "../mine"]
    results = [
        make("a", {"transport": "./deep/folder/mine.py:careful"}, transport="mine"),
        make("b", {"transport": "ndp"}),
    ]
    assert [one.label for one in seed_curves.curves(results)] == ["mine:careful", "ndp"]


def test_title_is_centered_over_two_panels(make):
    results = [make("ndp", {"transport": "ndp"}), make("roce", {"transport": "roce"}, "roce")]
    figure = links.links(results).figure
    figure.canvas.draw()
    left, right = (axes.get_position() for axes in figure.axes)
    middle = (left.x0 + right.x1) / 2
    assert figure._suptitle.get_position()[0] == pytest.approx(middle, abs=0.05)


def test_calibration_sizes_have_units():
    row = SimpleNamespace(shape=Shape(2, 8), size_bytes=8192)
    axes = jobs.calibration_errors({"all_reduce": [(row, 0.1)]}).axes[0]
    assert axes.xaxis.get_major_formatter()(8192) == "8.19KB"
    assert axes.get_xlabel() == "message size"


def test_short_logarithmic_axis_has_labels_and_sizes_have_units():
    """Sizes within a decade had no label at all."""
    for low, high in ((1_100_000, 4_000_000), (64_000, 2_000_000), (100, 10**9)):
        figure, (axes,) = style.new_figure()
        axes.plot([low, high], [1, 2])
        style.bytes_axis(axes)
        figure.canvas.draw()
        shown = axes.get_xlim()
        labels = [
            text.get_text()
            for text in axes.get_xticklabels()
            if shown[0] <= text.get_position()[0] <= shown[1]
        ]
        assert len(labels) >= 3
        assert all(label.endswith("B") for label in labels)
