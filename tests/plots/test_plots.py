"""FCT, slowdown and link figures: the values they draw and the results they reject."""

import numpy as np
import pytest
from plot_points import curve, make, point, varied
from raises_input import mentions, raises_input

from netsim.plots import by_axis, flows, links, save, style
from netsim.plots.style import MAX_POINTS, thin

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


def test_fct_cdf_with_unfinished_flows_ends_below_one(make):
    figure = flows.fct_cdf([make(n_flows=10, unfinished=4, complete=False)]).figure
    assert curve(figure, "ndp (partial)")[1][-1] == pytest.approx(0.6)


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


def test_slowdown_of_unequal_flows_is_drawn_by_size(make):
    sizes = np.random.default_rng(1).integers(100, 10**6, 1000)
    compared = flows.slowdown([make(n_flows=1000, sizes=sizes)])
    (axes,) = compared.figure.axes
    dots, *lines = axes.lines[:3]
    assert all(line.get_zorder() > dots.get_zorder() for line in lines)
    medians, tails = (line.get_ydata() for line in lines)
    assert (medians < tails).all()
    assert list(axes.get_legend_handles_labels()[1]) == ["ndp", "ideal"]
    decades = compared.table.rows
    assert sum(int(row[2]) for row in decades) == 1000
    low, high = (float(end) for end in decades[-1][4].split(".."))
    assert low <= float(decades[-1][3]) <= high


def test_link_statistics_sum_classes_and_group_by_stage(make):
    result = make()
    table = links.stages(result.links)
    assert table["stage"].to_list() == ["host to leaf"] * 2 + ["leaf to host"] * 2
    assert table["utilization"].to_list() == [0.5] * 4
    assert table["queue_bytes"].to_list() == [4160 * n for n in (1, 5, 9, 13)]
    figure = links.links([result]).figure
    assert curve(figure, "leaf to host")[1].tolist() == [0.5, 0.5]


def test_link_stages_are_named_by_kinds_of_nodes_and_equal_ones_stay_visible(make):
    assert [links.node_kind(name) for name in ("h12", "leaf3", "plane0.leaf1")] == [
        "host",
        "leaf",
        "leaf",
    ]
    lines = links.links([make()]).figure.axes[0].get_lines()
    assert lines[0].get_linewidth() > lines[1].get_linewidth()  # both have utilization 0.5


def test_links_figure_rejects_too_many_results(make):
    with raises_input():
        links.links([varied(make, "traffic.load", load) for load in range(5)])


def test_links_figure_skips_results_without_links(make):
    ideal = make("ideal", {"transport": "ideal"}, transport="ideal")
    (ideal.path / "links.parquet").unlink()
    ndp = make("ndp", {"transport": "ndp"})
    assert links.with_links([ideal, ndp]) == [ndp]
    assert len(links.links([ideal, ndp]).figure.axes[0].get_lines()) == 2
    with raises_input("ideal"):
        links.links([ideal])


def test_links_of_seeds_are_pooled(make):
    results = [varied(make, "traffic.load", 1, seed=seed) for seed in (1, 2, 3)]
    lines = links.links(results).figure.axes[0].get_lines()
    assert [len(line.get_xdata()) for line in lines] == [6, 6]


def test_thin_keeps_first_and_last_point():
    for count in [1, 5, MAX_POINTS, 10 * MAX_POINTS]:
        chosen = thin(count)
        assert chosen[0] == 0
        assert chosen[-1] == count - 1
        assert len(chosen) <= MAX_POINTS


def test_figures_are_saved_as_png_pdf_and_svg(make, tmp_path):
    figure = flows.fct_cdf([make()]).figure
    for ending in ("png", "pdf", "svg"):
        assert save(figure, tmp_path / f"figure.{ending}").stat().st_size > 1000
    assert not list(tmp_path.glob(".*"))
    with raises_input("format"):
        save(figure, tmp_path / "figure.xyz")
    with raises_input("file"):
        save(figure, tmp_path / "nowhere" / "figure.png")


def test_long_legend_is_placed_outside_the_axes(make):
    results = [varied(make, "traffic.load", load, n_flows=3) for load in range(12)]
    figure = flows.fct_cdf(results).figure
    assert figure.axes[0].get_legend() is None
    assert len(figure.legends[0].get_texts()) == 13
    rows = [text.get_text() for text in figure.legends[0].get_texts()]
    assert rows[:2] == ["load 0", "load 1"]
    assert figure.get_figheight() > 4.2


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

    def test_fct_vs_load_shows_mean_and_range_of_seeds(self, loads):
        comparison = by_axis.loads(loads)
        assert list(comparison.ours["max"]) == ["roce", "ndp"]
        last = [one.summary["fct_ps"]["max"] / 1e6 for one in loads[6:8]]
        at_half = comparison.ours["max"]["roce"][0.5]
        assert at_half.mean == pytest.approx(np.mean(last))
        assert (at_half.low, at_half.high) == (min(last), max(last))
        figure = by_axis.fct_vs_load(loads).figure
        x, y = curve(figure, "roce")
        assert x.tolist() == [0.25, 0.5, 1.0]
        assert y[1] == at_half.mean
        assert len(figure.axes[0].collections) == 2
        assert (
            figure.axes[1].get_lines()[0].get_ydata()[1]
            == comparison.ours["mean"]["roce"][0.5].mean
        )

    def test_fct_vs_load_names_and_colors_transports_as_all_plots_do(self, loads):
        for one in loads:
            one.experiment["resolved"]["description"] = "The last flow as more hosts take part"
        figure = by_axis.fct_vs_load(loads).figure
        assert figure.get_suptitle() == "The last flow as more hosts take part"
        shown = [text.get_text() for text in figure.legends[0].get_texts()]
        assert shown == ["RoCE", "NDP", "fair shares of hashed paths", "ideal"]
        lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
        for name in ("roce", "ndp"):
            assert lines[name].get_color() == style.COLORS[style.COLOR_OF[name]]

    def test_fct_vs_load_compares_with_fair_shares(self, loads):
        comparison = by_axis.loads(loads)
        fair = comparison.fair["max"]
        assert list(fair) == [0.25, 0.5, 1.0]
        assert set(fair.values()) == {3.0}  # the mean of two seeds, over an ideal of 1 us
        assert set(comparison.fair["mean"].values()) == {2.0}
        assert comparison.table.notes[0].endswith("mean of 2 seeds")
        drawn = curve(by_axis.fct_vs_load(loads).figure, by_axis.FAIR)[1]
        assert drawn.tolist() == list(fair.values())
        rows = {row[:2]: row for row in comparison.table.rows}
        row = rows["roce", "0.5"]
        ours = comparison.ours["max"]["roce"][0.5].mean
        assert row[2:4] + row[5:7] == (
            "2", f"{ours:.3f}", f"{fair[0.5]:.3f}", f"{100 * (ours / fair[0.5] - 1):+.1f}",
        )  # fmt: skip
        assert len(rows) == 6
        assert len(comparison.table.headers) == len(row)

    def test_fct_vs_load_explains_missing_fair_shares(self, point):
        poisson = {"kind": "poisson", "size": None, "sizes": "1MB", "n_flows": 50}
        results = [point("ndp", traffic={"load": at, **poisson}) for at in (0.5, 1.0)]
        comparison = by_axis.loads(results)
        assert len(by_axis.fct_vs_load(results).figure.axes[0].get_lines()) == 2
        assert comparison.table.rows[0][5:7] == ("-", "-")
        assert mentions(comparison.table.notes[0], "size")
        results = [
            point("roce", traffic={"load": 0.5}, fair_ps=FAIR_PS[1]),
            point("roce", traffic={"load": 1.0}, topology={"spines": 2}, fair_ps=FAIR_PS[1]),
        ]
        assert mentions(by_axis.loads(results).table.notes[0], "topology.spines")

    def test_fct_vs_load_requires_several_numeric_loads(self, point):
        with raises_input("traffic.load"):
            by_axis.loads([point("ndp", seed) for seed in (1, 2)])
        with raises_input("traffic.load"):
            by_axis.loads([point("ndp", traffic={"load": at}) for at in ("none", 1.0)])

    def test_fct_by_transport_draws_bars_with_seed_dots(self, point):
        results = [
            point(name, seed, fair_ps=FAIR_PS[seed] if name == "roce" else None)
            for name in ("ideal", "ndp:800g", "roce")
            for seed in (1, 2, 3)
        ]
        comparison = by_axis.transports(results)
        figure = by_axis.draw_transports(comparison)
        names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        assert names == ["NDP", "RoCE"]
        expected = np.mean([result.summary["fct_ps"]["max"] for result in results[3:6]])
        assert comparison.ours["max"]["ndp:800g"].mean == pytest.approx(expected)
        assert figure.axes[0].patches[0].get_width() == pytest.approx(expected / 1e6)
        dots = figure.axes[0].get_lines()[0].get_xdata()
        assert sorted(dots) == sorted(r.summary["fct_ps"]["max"] / 1e6 for r in results[3:6])
        assert curve(figure, "ideal")[0] == [1.0, 1.0]
        assert curve(figure, by_axis.FAIR)[0][0] == comparison.fair_ps["max"] / 1e6
        row = comparison.table.rows[0]
        assert row[5] == f"{100 * (expected / 1e6 - 1):+.1f}"
        assert all(len(row) == len(comparison.table.headers) for row in comparison.table.rows)

    def test_fair_shares_are_those_of_the_run_and_bars_have_values(self, point):
        """The line is at the fair time in the results' table, not at a mean of other draws."""
        fair = {"max": 105.69e6, "mean": 52.5e6}
        results = [point("ndp"), point("roce", fair_ps=fair)]
        figure = by_axis.draw_transports(by_axis.transports(results))
        for axes, key in zip(figure.axes, ("max", "mean"), strict=True):
            (line,) = [one for one in axes.get_lines() if one.get_label() == by_axis.FAIR]
            assert line.get_xdata()[0] == fair[key] / 1e6
            drawn = [patch.get_width() for patch in axes.patches]
            assert [float(text.get_text()) for text in axes.texts] == pytest.approx(drawn, rel=1e-3)
            assert max(drawn) < 0.95 * axes.get_xlim()[1]  # room for the value
        assert "one seed" in figure.legends[0].get_title().get_text()

    def test_transport_parameters_on_an_axis_are_distinguished(self, point):
        results = [
            point("smartt", params={"paths": paths}, axes={"transport.paths": paths})
            for paths in ("ecmp", "reps")
        ]
        assert list(by_axis.transports(results).ours["max"]) == [
            "smartt, paths ecmp",
            "smartt, paths reps",
        ]

    def test_transport_parameters_not_on_an_axis_are_distinguished(self, point):
        results = [
            point("smartt", params={"paths": "ecmp", "rto": rto}) for rto in ("4ms", "1ms", "4ms")
        ]
        comparison = by_axis.transports(results)
        assert list(comparison.ours["max"]) == ["smartt, rto 4ms", "smartt, rto 1ms"]

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

    @pytest.mark.parametrize("compare", [by_axis.transports, by_axis.loads])
    def test_partial_points_are_labeled_and_unfinished_ones_omitted(self, point, compare):
        def points(at):
            return [
                point("ndp", traffic=at, unfinished=4, complete=False),
                point("homa", traffic=at),
                point("roce", traffic=at, unfinished=100, complete=False),
            ]

        results = points({"load": 1.0})
        if compare is by_axis.loads:
            results += points({"load": 0.5})
        assert list(compare(results).ours["max"]) == ["ndp (partial)", "homa"]
        with raises_input("flow"):
            compare(results[2::3] * 2 if compare is by_axis.transports else results[2::3])
