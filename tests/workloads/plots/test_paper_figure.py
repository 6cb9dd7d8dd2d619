"""Figures of the paper: its stated values compared with ours, and the files written."""

import csv

import numpy as np
import pytest
from plot_points import curve, point
from raises_input import raises_input

from netsim.experiment import Experiment, locate
from netsim.plots.style import new_figure
from netsim.workloads.plots import simulated_figures
from netsim.workloads.plots.paper_figure import (
    SMALLER,
    PaperFigure,
    Value,
    write,
)

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
