"""Figures of the paper: stated values, and ours calculated independently."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from golden_pictures import assert_golden
from plot_points import curve, point
from raises_input import mentions, raises_input

from netsim.experiment import Experiment, locate
from netsim.plots.style import new_figure
from netsim.workloads.job.paper import PaperNetwork, paper_job, stage_seconds
from netsim.workloads.plots import paper_figures, simulated_figures
from netsim.workloads.plots.paper_figures import SMALLER, PaperFigure, Value, exposed_percent, write

__all__ = ["point"]


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestPaperValues:
    def test_difference_is_percent_of_paper_value(self):
        assert Value("x", 8.0, 6.0, "ms", "1").difference == -25
        assert not Value("x", 8.0, 6.0, "ms", "1").within

    def test_write_saves_figure_data_and_stated_values(self, tmp_path):
        figure, (axes,) = new_figure()
        axes.plot([1, 2], [3, 5])
        values = [Value("the last", 2.0, 5.0, "ms", "6.3", standing="POST-HOC")]
        made = PaperFigure(figure, values, {"x": [1, 2], "y": [3, 5]}, "a line")
        paths = write(made, tmp_path / "new" / "folder", "fig9")
        names = ["fig9.png", "fig9.pdf", "fig9.csv", "fig9_stated.csv"]
        assert [path.name for path in paths] == names
        assert paths[0].read_bytes().startswith(b"\x89PNG")
        assert paths[1].read_bytes().startswith(b"%PDF")
        assert read(paths[2]) == [{"x": "1", "y": "3"}, {"x": "2", "y": "5"}]
        (row,) = read(paths[3])
        assert (row["paper"], row["ours"], row["difference_percent"]) == ("2.0", "5.0", "150.0")
        assert (row["standing"], row["section"]) == ("POST-HOC", "6.3")

    def test_write_rejects_a_file_as_directory(self, tmp_path):
        (tmp_path / "taken").write_text("")
        made = PaperFigure(new_figure()[0], [], {"x": [1]}, "nothing")
        with raises_input():
            write(made, tmp_path / "taken", "fig9")


@pytest.mark.parametrize(
    "sweep", [simulated_figures.PIPELINE, simulated_figures.PERMUTATION], ids=lambda one: one.name
)
def test_figure_sweeps_are_shipped_experiments(sweep):
    for overrides in (sweep.quick, sweep.full):
        points = Experiment.load(locate(sweep.experiment), overrides).points()
        assert len({p.resolved["transport"]["kind"] for p in points}) > 5


def test_full_sweeps_have_the_papers_size():
    one = Experiment.load(
        locate(simulated_figures.PIPELINE.experiment), simulated_figures.PIPELINE.full
    ).points()[0]
    assert one.resolved["topology"]["leaves"] * one.resolved["topology"]["hosts_per_leaf"] == 8192
    assert one.resolved["traffic"]["size"] == "97.39MB"
    points = Experiment.load(
        locate(simulated_figures.PERMUTATION.experiment), simulated_figures.PERMUTATION.full
    ).points()
    assert {p.seed for p in points} == set(range(1, 11))
    made = points[0].resolved["topology"]
    assert made["leaves"] * made["hosts_per_leaf"] == simulated_figures.HOSTS


PAPERS = {"hosts_per_leaf": 64, "leaves": 128, "spines": 64, "host_rate": "800Gbps"}
STEP = {"kind": "pipeline", "size": "97.39MB", "load": None}


class TestFigure5:
    @pytest.fixture
    def step(self, point):
        def made(n_flows=8192, topology=PAPERS, size="97.39MB"):
            return simulated_figures.fig5([
                point(name, topology=topology, traffic=STEP | {"size": size}, n_flows=n_flows,
                      params={"paths": paths})
                for name, paths in (("roce:800g", ""), ("ndp:800g", ""), ("homa", ""),
                                    ("smartt:800g", "reps"), ("smartt:800g", "ecmp"))
            ])  # fmt: skip

        return made

    def test_paper_size_has_absolute_times(self, step):
        made = step()
        ours = {row[0]: row for row in zip(*made.drawn.values(), strict=True)}
        assert len(ours) == 6  # five transports and the ideal
        values = {value.what: value for value in made.values}
        optimum, roce = values["optimum: last flow"], values["RoCEv2: last flow (roce:800g)"]
        assert (optimum.paper, optimum.unit) == (1, "ms")
        assert optimum.ours == ours["ideal"][2] / 1e9
        assert (roce.paper, roce.bound, roce.standing) == (9, "", "POST-HOC")
        assert roce.ours == ours["roce:800g"][2] / 1e9
        single = [value for value in made.values if "single path" in value.what]
        assert [value.paper for value in single] == [7]
        assert "ecmp" in single[0].what
        sprayed = values["sprayed: last flow / optimum (homa)"]
        assert (sprayed.paper, sprayed.bound, sprayed.standing) == (1.05, "at most", "")
        assert sprayed.ours == pytest.approx(ours["homa"][2] / ours["ideal"][2])
        assert not any(value.standing == SMALLER for value in made.values)
        assert SMALLER not in made.figure.get_suptitle()

    @pytest.mark.parametrize(
        "smaller", [{"size": "2MB"}, {"n_flows": 4096}, {"topology": PAPERS | {"leaves": 64}}]
    )
    def test_smaller_size_has_multiples_of_the_optimum(self, step, smaller):
        made = step(**smaller)
        assert all(value.standing == SMALLER and value.unit == "" for value in made.values)
        assert SMALLER in made.figure.get_suptitle()
        ours = {row[0]: row for row in zip(*made.drawn.values(), strict=True)}
        assert [value.paper for value in made.values] == [9, 1.05, 1.05, 7]
        assert made.values[0].ours == ours["roce:800g"][2] / ours["ideal"][2]
        x, _ = curve(made.figure, "paper: times its optimum")
        assert x[0] == pytest.approx(9 * curve(made.figure, "ideal")[0][0])


class TestFigure6:
    def test_single_path_values_are_of_the_lowest_load(self, point):
        results = [
            point(name, seed, traffic={"load": load}, axes={"traffic.load": load},
                  fair_ps={"max": 3e6, "mean": 2e6}, params={"paths": paths} if paths else {})
            for name, paths in (("roce", ""), ("smartt", "reps"), ("smartt", "ecmp"), ("ndp", ""))
            for load in (0.5, 1.0)
            for seed in (1, 2)
        ]  # fmt: skip
        made = simulated_figures.fig6(results)
        assert [value.what.partition("(")[2] for value in made.values] == [
            "roce)",
            "smartt, paths ecmp)",
        ]
        roce = [result.summary["fct_ps"]["max"] / 1e6 for result in results[:2]]
        assert made.values[0].ours == pytest.approx(np.mean(roce))
        assert made.values[0].within
        assert made.values[0].standing == SMALLER
        assert "16 hosts" in made.about
        rows = list(zip(*made.drawn.values(), strict=True))
        assert len(rows) == 2 * (4 * 2 + 2)  # four transports and fair shares at two loads
        assert rows[0][:5] == ("roce", "max", 0.5, 2, made.values[0].ours)

    def test_paper_size_is_not_marked_smaller(self, point):
        results = [
            point(name, topology=PAPERS, traffic={"kind": "poisson", "load": load})
            for name in ("roce", "ndp")
            for load in (0.5, 1.0)
        ]
        assert [value.standing for value in simulated_figures.fig6(results).values] == [""]


# In ms: three forward passes, tensor parallelism of one pass, one transfer, and S1 and S2 minus a
# backward pass. Calculated by hand from the formulas of sections 4 and 5.
DENSE = (3 * 132.8009, 8.201102, 2.17088, 16.56816 - 265.6018, 98.26631 - 265.6018)
MOE = (3 * 45.17825, 3.67932, 0.9739378, 18.89699 - 90.35649, 112.225 - 90.35649)


def by_hand(stages, extra_ms=0.0):
    compute, tp, pp, s1, s2 = stages
    exposed = 2 * tp + 2 * (pp + extra_ms) + max(0, s1, s2)
    return 100 * exposed / (compute + exposed)


def columns(made):
    return list(zip(*made.drawn.values(), strict=True))


@pytest.mark.parametrize(("job", "stages"), [("dense", DENSE), ("moe", MOE)])
@pytest.mark.parametrize("extra_ms", [0, 5.54, 12])
def test_exposed_communication_matches_hand_calculation(job, stages, extra_ms):
    ours = exposed_percent(job, PaperNetwork(transfer_delay_s=extra_ms / 1e3))
    assert ours == pytest.approx(by_hand(stages, extra_ms), rel=2e-4)


class TestFigure2:
    @pytest.mark.parametrize("job", ["dense", "moe"])
    def test_timeline_bars_sum_to_stage_times(self, job):
        stages = stage_seconds(paper_job(job))
        total = {}
        for row, _, start, end in simulated_figures.timeline(paper_job(job)):
            total[row] = total.get(row, 0) + end - start
        in_ms = {
            "compute": 3 * stages.forward_s, "TP": 2 * stages.tp_s, "PP": 2 * stages.pp_s,
            "S1": stages.s1_s, "S2": stages.s2_s, "S3": 8 * stages.wan_bytes / 20e9,
            "S4": stages.s4_s, "S5": stages.s5_s,
        }  # fmt: skip
        assert total == pytest.approx({row: 1e3 * time for row, time in in_ms.items()}, rel=1e-4)

    def step(self, job, scale=0.01):
        """Operations of two ranks: the last receives, computes and reduces."""
        operations = pl.DataFrame({
            "rank": [0, 1, 1, 1, 1, 1],
            "kind": ["forward", "pp", "forward", "dp_s1", "dp_s1", "embedding"],
            "operation_type": [
                *("compute", "receive", "compute", "all_reduce", "compute", "all_reduce")
            ],
            "start_ps": [0, 5_000_000_000, 6_000_000_000, 8_000_000_000, 8_500_000_000, 1],
            "end_ps": [1, 6_000_000_000, 8_000_000_000, 8_500_000_000, 9_000_000_000, 2],
        })  # fmt: skip
        traffic = {"job": job, "message_scale": scale, "buckets": 4}
        experiment = {"resolved": {"traffic": traffic}}
        return SimpleNamespace(operations=operations, experiment=experiment, path=Path(job))

    def test_simulated_step_is_scaled_to_job_times(self):
        bars = simulated_figures.simulated(self.step("moe"))
        assert bars == [
            ("PP", "receive", 0, 100),
            ("compute", "compute", 100, 300),
            ("S1", "all_reduce", 300, 350),
        ]

    def test_missing_step_or_operations_are_rejected(self):
        with raises_input():
            simulated_figures.fig2([self.step("dense")])
        without = SimpleNamespace(**{**vars(self.step("dense")), "operations": None})
        with raises_input("operation"):
            simulated_figures.fig2([without, self.step("moe")])


def test_figure_3_matches_independent_values_at_paper_points():
    found = {
        value.what: value
        for fig in (paper_figures.fig3a, paper_figures.fig3b)
        for value in fig([]).values
    }
    # Our values, calculated with another program; "not reproduced" marks the missed bound.
    ours = {
        "dense, 14.4 Tbps a GPU": 4.949125, "MoE, 14.4 Tbps a GPU": 18.70048,
        "dense, 0.8 Tbps a GPU": 45.46988, "MoE, 0.8 Tbps a GPU": 73.92206,
        "dense, 800 Gbps a GPU": 4.949125, "MoE, 800 Gbps a GPU": 18.70048,
        "dense, 100 Gbps a GPU": 58.93066, "MoE, 100 Gbps a GPU": 85.9684,
        "MoE, 1600 Gbps a GPU": 5.791854,
    }  # fmt: skip
    assert {what: value.ours for what, value in found.items()} == pytest.approx(ours, rel=2e-4)
    assert found["dense, 0.8 Tbps a GPU"].within
    # "More than 40 %" is a triangle that points up, not a diamond.
    drawn = {one.get_label(): one for one in paper_figures.fig3a([]).figure.axes[0].lines}
    above = drawn["stated in the paper: more than"]
    assert (above.get_marker(), list(above.get_ydata())) == ("^", [40])
    assert drawn["stated in the paper"].get_marker() == "D"
    missed = [what for what, value in found.items() if value.standing == "not reproduced"]
    assert missed == ["MoE, 1600 Gbps a GPU"]
    assert not found[missed[0]].within


def test_figure_3c_falls_to_exposure_without_wan_delay():
    made = paper_figures.fig3c([])
    rows = columns(made)
    for model, stages in (("dense", DENSE), ("MoE", MOE)):
        alone = [percent for name, _, percent in rows if name == model]
        more = [percent for name, _, percent in rows if name == f"{model}, a round trip more"]
        assert alone == sorted(alone, reverse=True)
        assert alone[-1] == more[-1] == pytest.approx(by_hand(stages), rel=2e-4)
        assert all(one <= other for one, other in zip(alone, more, strict=True))
    ours = {value.what.partition(":")[0]: value.ours for value in made.values}
    assert ours["MoE"] == pytest.approx(5.628458, rel=1e-4)
    assert ours["MoE, a round trip more"] == pytest.approx(20.8, rel=2e-3)


@pytest.mark.parametrize("name", ["fig1", "fig3a", "fig3b", "fig3c", "fig4"])
def test_figure_is_the_golden_one(name):
    assert_golden(f"paper {name}", getattr(paper_figures, name)([]))


def test_figure_2_is_the_golden_one():
    steps = [TestFigure2().step(job) for job in ("moe", "dense")]
    assert_golden("paper fig2", simulated_figures.fig2(steps))


EXPOSED_STEP = {"kind": "pipeline", "load": None}
FULL, TENTH = ("97.39MB", "217.088MB"), ("9.739MB", "21.7088MB")


@pytest.fixture
def steps(point):
    """Make a result for each message size and transport, with the same made-up times in each."""

    def made(sizes, transports=("ideal", "roce", "ndp"), seeds=(1,), **options):
        return [
            point(name, seed, traffic=EXPOSED_STEP | {"size": size}, **options)
            for size in sizes
            for name in transports
            for seed in seeds
        ]

    return made


def test_extra_time_of_a_transfer_is_its_slowest_flows(steps):
    (result,) = steps(["97.39MB"], ["ndp"], n_flows=40)
    late = (result.flows["fct_ps"] - result.flows["ideal_ps"]).to_numpy()
    groups = [late[:18], late[18:36], late[36:]]
    found = simulated_figures.extra_times(result)
    assert found["last flow"] == late.max()
    assert found["slowest of 18"] == np.mean([group.max() for group in groups])
    assert found["mean"] == pytest.approx(late.mean())


def test_exposed_communication_includes_transfer_delays(steps):
    made = simulated_figures.exposed(steps(FULL, seeds=(1, 2)))
    rows = list(zip(*made.drawn.values(), strict=True))
    assert len(rows) == 2 * 2 * 3
    for model, _, _, extra_ps, percent in rows:
        tp, pp, rest = {"dense": (8.2011, 2.17088, 0), "MoE": (3.67932, 0.97394, 21.8685)}[model]
        forward = {"dense": 132.8009, "MoE": 45.17825}[model]
        communication = 2 * tp + 2 * (pp + extra_ps / 1e9) + rest
        by_hand = 100 * communication / (3 * forward + communication)
        assert percent == pytest.approx(by_hand, rel=2e-4)
    assert [value.what for value in made.values] == [
        "dense: no delay",
        "dense: single path, MoE size (roce)",
        "dense: single path (roce)",
        "MoE: no delay",
        "MoE: single path (roce)",
    ]
    assert [value.paper for value in made.values] == [5, 8, 8, 20, 25]
    assert made.values[2].ours == next(
        row[4] for row in rows if row[:3] == ("dense", "roce", "last flow")
    )


def test_delays_of_small_messages_are_scaled_up(steps):
    whole, part = simulated_figures.exposed(steps(FULL)), simulated_figures.exposed(steps(TENTH))
    tenfold = [10 * extra for extra in whole.drawn["extra_ps"]]
    assert part.drawn["extra_ps"] == pytest.approx(tenfold)
    assert mentions(part.about, "1/10")
    assert SMALLER in part.values[-1].standing
    # Full messages on a network smaller than the paper's are marked too.
    assert SMALLER in whole.values[-1].standing


def test_mismatched_results_are_rejected(steps, point):
    with raises_input("97.39MB", key="traffic.size"):
        simulated_figures.exposed(steps(FULL[:1]))
    with raises_input("97.39MB", "217.088MB", key="traffic.size"):
        simulated_figures.exposed(steps((FULL[0], TENTH[1])))
    partial = point(
        "roce", unfinished=2, complete=False, traffic=EXPOSED_STEP | {"size": "97.39MB"}
    )
    with raises_input():
        simulated_figures.exposed([*steps(FULL), partial])
    other = point("homa", topology={"leaves": 8}, traffic=EXPOSED_STEP | {"size": "97.39MB"})
    with raises_input("topology.leaves"):
        simulated_figures.exposed([*steps(FULL), other])
