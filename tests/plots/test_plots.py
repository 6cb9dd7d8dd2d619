"""FCT, slowdown and link figures: the values they draw and the results they reject."""

import numpy as np
import pytest
from plot_points import curve, make, point, varied
from raises_input import mentions, raises_input

from netsim.plots import by_axis, flows, links, save
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
