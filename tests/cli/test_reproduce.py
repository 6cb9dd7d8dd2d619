"""`netsim reproduce`: the figures, and the paper's values beside ours."""

import csv
from importlib import import_module

import pytest

from netsim.cli.reproduce import FIGURES
from netsim.plots import fig5, sweeps
from netsim.plots.reproduced import Sweep

SMALL = ("topology.hosts_per_leaf=2", "topology.leaves=4", "topology.spines=2", "traffic.size=1MB")
QUICK, FULL = "results/reproduce_quick", "results/reproduce_full"


@pytest.fixture
def small(monkeypatch):
    """Figure 5 of eight hosts, in both forms, with few draws of fair shares."""
    small = Sweep("pipeline", "p2p_8192", SMALL, (*SMALL, "seed=[1, 2]"))
    monkeypatch.setattr(fig5, "SWEEPS", (small,))
    monkeypatch.setattr(sweeps, "TRIALS", 2)
    return 7  # points, one of each transport


def test_figure_4(netsim, tmp_path):
    result = netsim("reproduce", "fig4")
    assert result.exit_code == 0, result.output
    assert (tmp_path / QUICK / "fig4.png").stat().st_size > 30_000
    lines = [line.split() for line in result.stdout.splitlines()]
    tree = next(line for line in lines if line[:2] == ["fat", "tree,"])
    assert tree[-6:] == ["about", "87,500", "87,500", "+0.0", "%", "6.1"]
    rails = next(line for line in lines if line[:2] == ["76", "rails"])
    assert rails[-5:-1] == ["39,000", "37,500", "-3.8", "%"]


def test_what_is_finished_is_kept(netsim, fake, small, tmp_path):
    result = netsim("reproduce", "fig5", "--threads", "2")
    assert result.exit_code == 0, result.output
    assert len(fake.seen) == small
    assert set(fake.threads) == {2}
    for ending in ("png", "pdf"):
        assert (tmp_path / QUICK / f"fig5.{ending}").is_file()
    with (tmp_path / QUICK / "fig5_stated.csv").open(newline="") as file:
        stated = {row["what"]: row for row in csv.DictReader(file)}
    roce = stated["RoCEv2: last flow / optimum (roce:800g)"]
    assert (roce["paper"], roce["standing"]) == ("9.0", "smaller")
    assert f"{float(roce['difference_percent']):+.1f} %" in result.stdout
    assert netsim("reproduce", "fig5").exit_code == 0
    assert len(fake.seen) == small
    assert netsim("reproduce", "fig5", "--again").exit_code == 0
    assert len(fake.seen) == 2 * small


def test_forms_stand_beside_each_other(netsim, fake, small, tmp_path):
    for form in ("--quick", "--full"):
        assert netsim("reproduce", "fig5", form).exit_code == 0
    assert len(fake.seen) == 3 * small
    assert (tmp_path / QUICK / "fig5.png").is_file()
    assert (tmp_path / FULL / "fig5.png").is_file()
    assert not list(tmp_path.rglob("earlier"))


@pytest.mark.usefixtures("small")
def test_after_ctrl_c_the_same_command_goes_on(netsim, fake, tmp_path):
    fake.fate["transport=ndp-800g"] = "SIGINT"
    stopped = netsim("reproduce", "fig5", "fig4", "--out", "here")
    assert stopped.exit_code == 130
    assert "5 of 7 points complete; the same command goes on" in stopped.stderr
    assert not (tmp_path / "here" / "fig5.png").exists()
    fake.fate.clear()
    before = len(fake.seen)
    assert netsim("reproduce", "fig5", "--out", "here").exit_code == 0
    assert len(fake.seen) - before == 2
    assert (tmp_path / "here" / "fig5.png").is_file()


@pytest.mark.usefixtures("small")
def test_a_point_that_fails_is_told_and_left_out(netsim, fake, tmp_path):
    fake.fate["transport=ndp-800g"] = "stalled"
    result = netsim("reproduce", "fig5", "--out", "here")
    assert result.exit_code == 1
    assert "ndp-800g: flow 7 (host 1 to host 2) made no progress" in result.stderr
    assert "homa" in result.stdout
    assert "(ndp" not in result.stdout
    assert (tmp_path / "here" / "fig5.png").is_file()


@pytest.mark.usefixtures("small")
def test_results_that_are_there_can_be_drawn(netsim, fake, tmp_path):
    sizes = [argument for text in SMALL for argument in ("--set", text)]
    assert netsim("run", "p2p_8192", *sizes, "--out", "mine").exit_code == 0
    before = len(fake.seen)
    result = netsim("reproduce", "fig5", "--results", "mine", "--out", "here")
    assert result.exit_code == 0, result.output
    assert len(fake.seen) == before
    assert (tmp_path / "here" / "fig5.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fig9"], 'there is no figure "fig9" (one of fig'),
        (["fig5", "fig6", "--results", "x"], "--results: are given for 2 figures"),
        (["fig4", "--results", "x"], "--results: fig4 is not drawn from results"),
        (["fig4", "--checkpoint", "soon"], "--checkpoint"),
    ],
)
def test_what_is_wrong_is_told(netsim, arguments, told):
    result = netsim("reproduce", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_made(name):
    module = import_module(f"netsim.plots.{name}")
    assert callable(module.make)
    assert all(isinstance(sweep, Sweep) for sweep in module.SWEEPS)
    assert module.__doc__.startswith("Figure")
