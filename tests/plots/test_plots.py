"""Plots: values drawn, results rejected; every kind has its golden description."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden_pictures import assert_golden
from matplotlib.text import Text
from plot_points import curve, make, point, varied
from raises_input import raises_input

from netsim.plots import by_axis, fit_for_print, flows, links, save, style, sweeps
from netsim.plots.style import OUTSIDE, for_people, legend, metric_name, new_figure
from netsim.plots.sweeps import Picture

__all__ = ["make", "point"]


def test_fct_cdf_draws_the_empirical_distribution(make):
    result = make(n_flows=10)
    figure = flows.fct_cdf([result]).figure
    x, y = curve(figure, "ndp")
    assert figure.axes[0].get_xlabel().endswith("(us)")
    np.testing.assert_allclose(x[1:], np.sort(result.flows["fct_ps"].to_numpy()) / 1e6)
    np.testing.assert_allclose(y, np.arange(11) / 10)
    assert figure.get_supxlabel() == ""
    x, y = curve(figure, "ideal")
    assert x.max() == 1.0
    assert y[-1] == 1.0


@pytest.mark.parametrize("draw", [flows.fct_cdf, flows.slowdown])
def test_result_without_finished_flows_is_rejected(make, draw):
    with raises_input("flow"):
        draw([make(n_flows=3, unfinished=3)])


def test_slowdown_of_equal_flows_is_drawn_by_rank(make):
    result = make(n_flows=10)
    compared = flows.slowdown([result])
    x, y = curve(compared.figure, "ndp")
    times = np.sort(result.flows["slowdown"].to_numpy())
    np.testing.assert_allclose(x, [times[0], *times[:-1]], rtol=1e-6)
    np.testing.assert_allclose(y, np.linspace(1, 0.1, 10))
    ((_, size, count, *_, largest),) = compared.table.rows
    assert (count, largest) == ("10", f"{times[-1]:.4g}")
    assert size.endswith("B")


def test_link_statistics_sum_classes_and_group_by_stage(make):
    result = make()
    table = links.stages(result.links)
    assert table["stage"].to_list() == ["host to leaf"] * 2 + ["leaf to host"] * 2
    assert table["utilization"].to_list() == [0.5] * 4
    assert table["queue_bytes"].to_list() == [4160 * n for n in (1, 5, 9, 13)]
    figure = links.links([result]).figure
    assert curve(figure, "leaf to host")[1].tolist() == [0.5, 0.5]


def test_links_figure_rejects_too_many_results(make):
    with raises_input():
        links.links([varied(make, "traffic.load", load) for load in range(5)])


def test_figures_are_saved_as_png_pdf_and_svg(make, tmp_path):
    figure = flows.fct_cdf([make()]).figure
    for ending in ("png", "pdf", "svg"):
        assert save(figure, tmp_path / f"figure.{ending}").stat().st_size > 1000
    assert not list(tmp_path.glob(".*"))
    with raises_input("format"):
        save(figure, tmp_path / "figure.xyz")
    with raises_input("file"):
        save(figure, tmp_path / "nowhere" / "figure.png")


FAIR_PS = {seed: {"max": 1e6 * (seed + 1.5), "mean": 1e6 * (seed + 0.5)} for seed in (1, 2, 3)}


class TestComparisons:
    """Comparison figures of sweeps whose results have synthetic completion times."""

    @pytest.fixture
    def loads(self, point):
        return [
            point(transport, seed, traffic={"load": value}, axes={"traffic.load": value},
                  fair_ps=FAIR_PS[seed] if transport == "roce" else None)
            for transport in ("ideal", "roce", "ndp")
            for value in (0.5, 0.25, 1.0)
            for seed in (1, 2)
        ]  # fmt: skip

    def test_fct_vs_load_requires_several_numeric_loads(self, point):
        with raises_input("traffic.load"):
            by_axis.loads([point("ndp", seed) for seed in (1, 2)])
        with raises_input("traffic.load"):
            by_axis.loads([point("ndp", traffic={"load": at}) for at in ("none", 1.0)])

    def test_transport_parameters_on_an_axis_are_distinguished(self, point):
        results = [
            point("smartt", params={"paths": paths}, axes={"transport.paths": paths})
            for paths in ("ecmp", "reps")
        ]
        assert list(by_axis.transports(results).ours["max"]) == [
            "smartt, paths ecmp",
            "smartt, paths reps",
        ]

    def test_transports_with_changed_code_are_distinguished(self, point):
        results = [point("ndp"), point("ndp")]
        results[1].experiment["plugins"][1]["sha256"] = "0123456789"
        first, second = by_axis.transports(results).ours["max"]
        assert first.startswith("ndp, code ")
        assert second == "ndp, code 012345"

    def test_duplicate_points_count_once(self, point):
        results = [point(name, seed) for name in ("ndp", "roce", "ndp") for seed in (1, 2)]
        (row, _) = by_axis.transports(results).table.rows
        assert row[:2] == ("ndp", "2")

    def test_fct_by_transport_rejects_a_single_transport(self, point):
        with raises_input("ndp"):
            by_axis.transports([point("ndp"), point("ideal")])

    def test_fct_by_transport_rejects_several_loads(self, loads):
        with raises_input("traffic.load", "--kind", "fct_vs_load"):
            by_axis.transports(loads)


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


def vertices(collection):
    return np.concatenate([path.vertices for path in collection.get_paths()])


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


def test_plugin_labels_are_the_shortest_unique_names(make):
    short = sweeps.short_names(["./mine.py", "b/mine.py:careful", "ndp:800g", "/x/y/other.py"])
    assert list(short.values()) == ["mine", "mine:careful", "ndp:800g", "other"]
    assert list(sweeps.short_names(["a/mine.py", "b/mine.py"]).values()) == ["a/mine", "b/mine"]
    assert list(sweeps.short_names(["mine.py", "../mine.py"]).values()) == ["mine", "../mine"]
    results = [
        make("a", {"transport": "./deep/folder/mine.py:careful"}, transport="mine"),
        make("b", {"transport": "ndp"}),
    ]
    assert [one.label for one in sweeps.curves(results)] == ["mine:careful", "ndp"]


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


class TestSweepXY:
    @pytest.fixture
    def incast(self, make):
        return [
            varied(make, "traffic.fan_in", fan_in, transport, seed, n_flows=20)
            for transport in ("ideal", "ndp", "roce")
            for fan_in in (4, 16, 64)
            for seed in (1, 2)
        ]

    def test_columns_of_a_flow_class_are_accepted(self, incast):
        for result in incast:
            wan = {"flow_class": "wan", "fct_ps": {"p99": 5e9}, "ideal_ps": {"p99": 1e9}}
            result.summary["flow_classes"] = [{**wan, "flow_class": ""}, wan]
        comparison = by_axis.against_axis(incast, "fan_in", "wan.fct_p99")
        assert comparison.ideal["ndp"] == {4: 1e9, 16: 1e9, 64: 1e9}
        label = by_axis.draw_against_axis(comparison).axes[0].get_ylabel()
        assert label.startswith("wan")
        assert label.endswith("99th percentile (ms)")

    @pytest.mark.parametrize(
        ("x", "y", "text"),
        [("fanin", "drops", ("fanin", "fan_in")), ("fan_in", "fct_p98", "fct_p98")],
    )
    def test_unknown_axis_or_column_is_rejected(self, incast, x, y, text):
        with raises_input(text):
            by_axis.against_axis(incast, x, y)

    def test_ambiguous_axis_suffix_is_rejected(self, make):
        result = make("p", {"traffic.size": "1MB", "flow_classes.b.traffic.size": "2MB"})
        with raises_input("traffic.size", "flow_classes.b.traffic.size"):
            by_axis.against_axis([result], "size", "drops")

    def test_confidence_interval_uses_student_t(self):
        point = sweeps.spread_of([1.0, 2.0, 3.0, 4.0])
        # Student's t for 3 degrees of freedom is 3.182, the standard error 0.6455.
        assert point.margin == pytest.approx(3.182 * 0.6455, rel=1e-3)
        assert sweeps.spread_of([1.0]).margin is None
        assert sweeps.span(sweeps.spread_of([25.56]), 1) == "25.56"


def test_print_figure_fits_a_column():
    figure, panels = new_figure(columns=2)
    names = [f"transport {k}" for k in range(5)]
    for axes in panels:
        axes.set_title("title")
        for name in names:
            axes.plot([0, 1], [0, 1], label=name)
    legend(figure, panels[0], OUTSIDE, "a caption")
    fit_for_print(figure, 3.3)
    width, height = figure.get_size_inches()
    assert width == 3.3
    assert height < 8
    assert max(text.get_fontsize() for text in figure.findobj(Text)) <= 8
    boxes = [axes.get_subplotspec().get_position(figure) for axes in panels]
    assert boxes[0].y0 > boxes[1].y1  # the panels are stacked
    (drawn,) = figure.legends
    assert [text.get_text() for text in drawn.get_texts()] == names
    assert drawn.get_title().get_text() == "a caption"
    wide, beside = new_figure(columns=2)
    fit_for_print(wide, 7.0)
    assert beside[0].get_gridspec().ncols == 2


def test_labels_show_transport_names_and_ambiguous_presets():
    assert for_people(["ndp:800g", "roce, load 1"]) == ["NDP", "RoCE, load 1"]
    assert for_people(["ndp:800g", "ndp:paper", "mine:fast"]) == [
        "NDP:800g",
        "NDP:paper",
        "mine:fast",
    ]
    assert for_people(["ndp (partial)", "ndp_like"]) == ["NDP (partial)", "ndp_like"]
    assert metric_name("wan.ttft_p99_ps") == "wan: time to first token, 99th percentile"
    assert metric_name("log_rows") == "log rows"


Make = Callable[..., Any]


def transports(make: Make) -> list[Any]:
    """Two transports and the ideal, two seeds, with unfinished flows."""
    return [
        varied(make, "traffic.load", 1, name, seed, n_flows=20, unfinished=seed - 1)
        for name in ("ideal", "ndp", "roce")
        for seed in (1, 2)
    ]


def loads(point: Make) -> list[Any]:
    return [
        point(name, seed, traffic={"load": value}, axes={"traffic.load": value},
              fair_ps=FAIR_PS[seed] if name == "roce" else None)
        for name in ("ideal", "roce", "ndp")
        for value in (0.5, 0.25, 1.0)
        for seed in (1, 2)
    ]  # fmt: skip


def one_load(point: Make) -> list[Any]:
    return [
        point(name, seed, fair_ps=FAIR_PS[seed] if name == "roce" else None)
        for name in ("ideal", "ndp:800g", "roce")
        for seed in (1, 2)
    ]


def many(make: Make) -> list[Any]:
    """24 curves of two transports: a panel each, with ten colors."""
    return [
        varied(make, "traffic.load", load / 12, name, n_flows=10)
        for name in ("ndp", "roce")
        for load in range(12)
    ]


def sizes(make: Make) -> list[Any]:
    return [make(n_flows=1000, sizes=np.random.default_rng(1).integers(100, 10**6, 1000))]


def fan_in(make: Make) -> list[Any]:
    """Return results over a numeric axis, with the ideal as the reference."""
    results = [
        varied(make, "traffic.fan_in", count, name, seed, n_flows=20)
        for name in ("ideal", "ndp", "roce")
        for count in (4, 16, 64)
        for seed in (1, 2)
    ]
    stated = {"axis": "traffic.fan_in", "column": "fct_mean", "label": "theory", "source": "a book"}
    for result in results:
        values = [[4, "2us"], [30, "3us"], [64, "5us"]]
        result.experiment["resolved"]["reference"] = stated | {"values": values}
    return results


def rates(make: Make) -> list[Any]:
    """Two rates are side by side: no line joins them, and no dot covers another."""
    return [
        varied(make, "topology.host_rate", rate, name)
        for name in ("ndp", "roce")
        for rate in ("800Gbps", "400Gbps")
    ]


def routing(make: Make) -> list[Any]:
    """Names on x; two kinds of traffic have two ideals, each with its entry and line."""
    results = []
    for traffic, ideal in (("pipeline", 1e6), ("all-to-all", 3e6)):
        for faults in ("intact", "broken"):
            for name in ("ecmp", "drill", "spray"):
                result = varied(make, "fabric.routing", name, n_flows=5)
                result.experiment["axes"] |= {"traffic": traffic, "faults": faults}
                result.experiment["resolved"] |= {"traffic": {"kind": traffic}, "f": faults}
                result.summary["ideal_ps"] = {"max": ideal}
                results.append(result)
    return results


def xy(x: str, y: str) -> Callable[[list[Any]], Picture]:
    def draw(results: list[Any]) -> Picture:
        found = by_axis.against_axis(results, x, y)
        return Picture(by_axis.draw_against_axis(found), found.table)

    return draw


CASES: dict[str, tuple[Callable[[list[Any]], Picture], Callable[[Make], list[Any]], str]] = {
    "fct_cdf": (flows.fct_cdf, transports, "make"),
    "fct_cdf, many": (flows.fct_cdf, many, "make"),
    "throughput_cdf": (flows.throughput_cdf, transports, "make"),
    "slowdown": (flows.slowdown, transports, "make"),
    "slowdown, many": (flows.slowdown, many, "make"),
    "slowdown by size": (flows.slowdown, sizes, "make"),
    "links": (links.links, transports, "make"),
    "fct_by_transport": (by_axis.fct_by_transport, one_load, "point"),
    "fct_vs_load": (by_axis.fct_vs_load, loads, "point"),
    "xy, numbers": (xy("fan_in", "fct_mean"), fan_in, "make"),
    "xy, percentile": (xy("fan_in", "fct_p99"), fan_in, "make"),
    "xy, counter": (xy("fan_in", "trims"), fan_in, "make"),
    "xy, seeds": (xy("seed", "fct_p99"), fan_in, "make"),
    "xy, two rates": (xy("host_rate", "fct_max"), rates, "make"),
    "xy, names": (xy("routing", "fct_max"), routing, "make"),
    "xy, transports": (xy("transport", "fct_max"), many, "make"),
}


@pytest.mark.parametrize("name", CASES)
def test_picture_is_the_golden_one(name: str, request: pytest.FixtureRequest) -> None:
    draw, results, fixture = CASES[name]
    assert_golden(name, draw(results(request.getfixturevalue(fixture))))
