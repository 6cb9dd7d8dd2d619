"""`netsim plot --x AXIS --y COLUMN`: any column of a sweep over any axis."""

import pytest
from plot_points import curve, make, varied
from raises_input import raises_input

from netsim import InputError
from netsim.plots import by_axis, sweeps

__all__ = ["make"]


class TestSweepXY:
    @pytest.fixture
    def incast(self, make):
        return [
            varied(make, "traffic.fan_in", fan_in, transport, seed, n_flows=20)
            for transport in ("ideal", "ndp", "roce")
            for fan_in in (4, 16, 64)
            for seed in (1, 2)
        ]

    def test_common_transport_is_in_title_and_legend_is_outside(self, make):
        points = [
            varied(make, "traffic.fan_in", fan_in, "ndp", seed, n_flows=20)
            for fan_in in (4, 16, 64, 128, 256)
            for seed in (1, 2)
        ]
        comparison = by_axis.against_axis(points, "seed", "fct_p99")
        assert list(comparison.lines) == [f"senders {n}" for n in (4, 16, 64, 128, 256)]
        figure = by_axis.draw_against_axis(comparison)
        assert figure.get_suptitle().endswith(": NDP")
        assert figure.axes[0].get_legend() is None
        assert len(figure.legends[0].get_texts()) == 5

    def test_many_lines_are_split_into_panels(self, make):
        points = []
        for overlap in ("none", "pieces", "halves"):
            for algorithm in ("ring", "direct", "tree"):
                for load in (0.1, 0.2, 0.3):
                    one = varied(make, "traffic.load", load, n_flows=5)
                    one.experiment["axes"] |= {
                        "traffic.overlap": overlap,
                        "traffic.algorithm": algorithm,
                    }
                    one.experiment["resolved"]["traffic"] |= {
                        "overlap": overlap,
                        "algorithm": algorithm,
                    }
                    points.append(one)
        comparison = by_axis.against_axis(points, "load", "fct_mean")
        assert len(comparison.lines) == 9
        figure = by_axis.draw_against_axis(comparison)
        assert len(figure.axes) == 3
        drawn = [line.get_label() for line in figure.axes[0].get_lines()]
        assert drawn[:3] == [f"algorithm {name}" for name in ("ring", "direct", "tree")]
        styles = {line.get_linestyle() for line in figure.axes[1].get_lines()[:3]}
        assert len(styles) == 3
        (legend,) = figure.legends
        assert len(legend.get_texts()) == len(figure.axes[0].get_lines())

    def test_reference_is_drawn_and_adds_two_table_columns(self, incast):
        table = {
            "axis": "traffic.fan_in",
            "column": "fct_mean",
            "label": "theory",
            "source": "a book",
            "values": [[4, "2us"], [30, "3us"], [64, "5us"]],
        }
        for result in incast:
            result.experiment["resolved"]["reference"] = table
        comparison = by_axis.against_axis(incast, "fan_in", "fct_mean")
        x, y = curve(by_axis.draw_against_axis(comparison), "theory")
        assert list(x) == [4, 30, 64]
        assert list(y) == pytest.approx([2, 3, 5])
        rows = comparison.table.rows
        assert [row[-2] for row in rows[:3]] == ["2", "-", "5"]
        ours = comparison.lines["ndp"][4].mean
        assert float(rows[0][-1]) == pytest.approx(100 * (ours / 2e6 - 1), abs=0.05)
        assert comparison.table.notes
        assert by_axis.against_axis(incast, "fan_in", "fct_p99").reference is None
        table["values"] = [[4, 2]]
        with pytest.raises(InputError) as caught:
            by_axis.against_axis(incast, "fan_in", "fct_mean")
        assert caught.value.file
        assert caught.value.key == "reference.values"

    def test_counters_and_other_columns_are_accepted(self, incast):
        comparison = by_axis.against_axis(incast, "fan_in", "trims")
        assert comparison.lines["roce"][64].mean == 12
        assert not comparison.ideal
        assert by_axis.draw_against_axis(comparison).axes[0].get_ylabel() == "packets trimmed"
        assert by_axis.against_axis(incast, "fan_in", "slowdown_max").lines["ndp"][4].mean > 1
        assert by_axis.against_axis(incast, "fan_in", "simulated_ps").lines["ndp"][4].mean == 2e6

    def test_columns_of_a_flow_class_are_accepted(self, incast):
        for result in incast:
            wan = {"flow_class": "wan", "fct_ps": {"p99": 5e9}, "ideal_ps": {"p99": 1e9}}
            result.summary["flow_classes"] = [{**wan, "flow_class": ""}, wan]
        comparison = by_axis.against_axis(incast, "fan_in", "wan.fct_p99")
        assert comparison.ideal["ndp"] == {4: 1e9, 16: 1e9, 64: 1e9}
        label = by_axis.draw_against_axis(comparison).axes[0].get_ylabel()
        assert label.startswith("wan")
        assert label.endswith("99th percentile (ms)")

    def test_axis_with_units_is_numeric_and_names_are_categorical(self, make):
        results = [varied(make, "traffic.size", size) for size in ("1MB", "64KB", "2MB")]
        figure = by_axis.draw_against_axis(by_axis.against_axis(results, "size", "fct_mean"))
        x, _ = curve(figure, "ndp")
        assert list(x) == [64e3, 1e6, 2e6]
        ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
        assert ticks == ["64KB", "1MB", "2MB"]
        # Names are placed at 0, 1, ...
        results = [varied(make, "fabric.routing", how) for how in ("ecmp", "spray_round_robin")]
        axes = by_axis.draw_against_axis(by_axis.against_axis(results, "routing", "drops")).axes[0]
        assert list(axes.get_xticks()) == [0, 1]

    def test_reference_of_two_values_is_at_their_places(self, make):
        results = [varied(make, "traffic.fan_in", n, n_flows=5) for n in (64, 4)]
        table = {"axis": "traffic.fan_in", "column": "fct_mean", "label": "theory"}
        results[0].experiment["resolved"]["reference"] = {
            **table, "values": [[4, "2us"], [30, "3us"], [64, "5us"]],
        }  # fmt: skip
        axes = by_axis.draw_against_axis(by_axis.against_axis(results, "fan_in", "fct_mean")).axes[
            0
        ]
        (drawn,) = [one for one in axes.collections if one.get_label() == "theory"]
        assert [tuple(path.mean(axis=0)) for path in drawn.get_segments()] == [(0, 2), (1, 5)]

    def test_each_ideal_is_named_by_the_curves_that_it_bounds(self, make):
        """Two kinds of traffic have two ideals: each has a legend entry and a line style."""
        results = []
        for traffic, ideal in (("pipeline", 1e6), ("all-to-all", 3e6)):
            for faults in ("intact", "broken"):
                for routing in ("ecmp", "drill", "spray"):
                    result = varied(make, "fabric.routing", routing, n_flows=5)
                    result.experiment["axes"] |= {"traffic": traffic, "faults": faults}
                    result.experiment["resolved"] |= {"traffic": {"kind": traffic}, "f": faults}
                    result.summary["ideal_ps"] = {"max": ideal}
                    results.append(result)
        axes = by_axis.draw_against_axis(by_axis.against_axis(results, "routing", "fct_max")).axes[
            0
        ]
        ideals = [one for one in axes.collections if "ideal" in one.get_label()]
        assert [one.get_label() for one in ideals] == ["ideal of pipeline", "ideal of all-to-all"]
        assert len({repr(one.get_linestyle()) for one in ideals}) == 2
        shown = [text.get_text() for text in axes.get_legend().get_texts()]
        assert {"ideal of pipeline", "ideal of all-to-all"} <= set(shown)
        named = by_axis._named_ideals({
            "ndp, one tree": {0: 1.0}, "ndp, 4 planes": {0: 1.01}, "roce, one tree": {0: 1.0},
            "roce, 4 planes": {0: 4.0},
        })  # fmt: skip
        assert list(named) == ["ideal of others", "ideal of RoCE, 4 planes"]

    @pytest.mark.parametrize(
        ("x", "y", "text"),
        [
            ("fanin", "drops", ("fanin", "fan_in")),
            ("fan_in", "fct_p98", "fct_p98"),
        ],
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
