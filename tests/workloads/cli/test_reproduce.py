"""`netsim reproduce`: writes figures and compares the paper's values with ours."""

import csv

import pytest
from raises_input import mentions

from netsim.workloads.job.paper import figures
from netsim.workloads.plots import paper_figures, simulated_figures
from netsim.workloads.plots.paper_figures import Sweep

TREE = ("topology.hosts_per_leaf=2", "topology.leaves=4", "topology.spines=2")
SMALL = (*TREE, "traffic.stage_hosts=2", "traffic.size=0.9739MB")
DENSE = (*TREE, "traffic.stage_hosts=2", "traffic.size=2.17088MB")
"""Eight hosts and messages of 1/100 of the paper's size."""

QUICK = "results/reproduce_quick"


@pytest.fixture
def undrawn(monkeypatch):
    """Write empty files instead of pictures."""

    def save(_, path):
        path.write_bytes(b"")
        return path

    monkeypatch.setattr(paper_figures, "save", save)


@pytest.fixture
def small(monkeypatch, undrawn):  # noqa: ARG001
    """Run figure 5 with eight hosts, both quick and full."""
    small = Sweep("pipeline", "p2p_8192", SMALL, (*SMALL, "seed=[1, 2]"))
    monkeypatch.setitem(simulated_figures.SWEEPS, "fig5", (small,))
    return 7  # points, one per transport


def rows_of(directory, name):
    with (directory / QUICK / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_figure_4_prints_paper_and_own_values(netsim, tmp_path):
    result = netsim("reproduce", "fig4")
    assert result.exit_code == 0, result.output
    assert (tmp_path / QUICK / "fig4.png").stat().st_size > 30_000
    lines = [line.split() for line in result.stdout.splitlines()]
    tree = next(line for line in lines if line[:2] == ["fat", "tree,"])
    assert tree[-7:-1] == ["87,500", "chips", "87,500", "chips", "+0.0", "%"]
    rails = next(line for line in lines if line[:2] == ["76", "rails"])
    # The value of `netsim workload paper`.
    (chips,) = [one.ours for one in figures() if one.name == "rails76_chips"]
    at = rails.index("39,000")
    assert rails[at + 2] == f"{chips:,.0f}"


def test_finished_points_are_reused_unless_forced(netsim, fake, small, tmp_path):
    result = netsim("reproduce", "fig5", "--threads", "2")
    assert result.exit_code == 0, result.output
    assert len(fake.seen) == small
    assert set(fake.threads) == {2}
    for ending in ("png", "pdf"):
        assert (tmp_path / QUICK / f"fig5.{ending}").is_file()
    stated = {row["what"]: row for row in rows_of(tmp_path, "fig5_stated.csv")}
    roce = stated["RoCEv2: last flow / optimum (roce:800g)"]
    assert (roce["paper"], roce["standing"]) == ("9.0", "smaller")
    assert f"{float(roce['difference_percent']):+.1f} %" in result.stdout
    assert netsim("reproduce", "fig5").exit_code == 0
    assert len(fake.seen) == small
    assert netsim("reproduce", "fig5", "--force").exit_code == 0
    assert len(fake.seen) == 2 * small


@pytest.mark.usefixtures("small")
def test_same_command_resumes_after_ctrl_c(netsim, fake, tmp_path):
    fake.fate["transport=ndp-800g"] = "SIGINT"
    stopped = netsim("reproduce", "fig5", "fig4", "--out", "here")
    assert stopped.exit_code == 130
    assert mentions(stopped.stderr, "5", "7")
    assert not (tmp_path / "here" / "fig5.png").exists()
    fake.fate.clear()
    before = len(fake.seen)
    assert netsim("reproduce", "fig5", "--out", "here").exit_code == 0
    assert len(fake.seen) - before == 2
    assert (tmp_path / "here" / "fig5.png").is_file()


@pytest.mark.usefixtures("undrawn")
def test_model_figures_need_no_simulation(netsim, fake, tmp_path):
    names = ["fig1", "fig3a", "fig3b", "fig3c", "lite"]
    result = netsim("reproduce", *reversed(names))
    assert result.exit_code == 0, result.output
    assert fake.seen == []
    written = sorted(path.name for path in (tmp_path / QUICK).iterdir())
    endings = (".csv", ".pdf", ".png", "_stated.csv")
    assert written == sorted(name + ending for name in names for ending in endings)
    printed = [line.partition(":")[0] for line in result.stdout.splitlines()]
    assert [line for line in printed if line in names] == names
    assert result.stdout.count("POST-HOC") > 10
    assert result.stdout.count("not reproduced") == 5


@pytest.mark.slow
def test_spraying_is_near_ideal_and_single_path_is_not(netsim, monkeypatch, tmp_path):
    """Simulate a small network: spraying also exposes less communication than a single path."""
    few = 'transport=["ideal", "ndp:800g", "roce:800g"]'
    pipeline, dense = (Sweep(these[-1], "p2p_8192", (*these, few)) for these in (SMALL, DENSE))
    monkeypatch.setitem(simulated_figures.SWEEPS, "fig5", (pipeline,))
    monkeypatch.setitem(simulated_figures.SWEEPS, "exposed", (pipeline, dense))
    result = netsim("reproduce", "fig5", "exposed")
    assert result.exit_code == 0, result.output
    times = {row["transport"]: float(row["last_flow_ps"]) for row in rows_of(tmp_path, "fig5.csv")}
    assert times["ideal"] < times["ndp:800g"] < 1.3 * times["ideal"]
    assert times["roce:800g"] > 1.5 * times["ideal"]
    found = {
        (row["model"], row["transport"]): float(row["exposed_percent"])
        for row in rows_of(tmp_path, "exposed.csv")
        if row["statistic"] == "last flow"
    }
    for model, least in (("dense", 4.949), ("MoE", 18.70)):
        assert least <= found[model, "ndp:800g"] < found[model, "roce:800g"]
