"""`netsim compare`: pairs, intervals, differences, exit statuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from small_runs import fat_tree

from netsim import load
from netsim.plugins import registry
from netsim.results import results_in
from netsim.results.comparison import bootstrap_95, compare, margin_95


@pytest.fixture
def make(netsim):
    """Write a result."""

    def make(out, *options, **changes):
        Path("small.toml").write_text(fat_tree(**changes))
        outcome = netsim("run", "small.toml", "--out", out, "--quiet", *options)
        assert outcome.exit_code == 0, outcome.output

    return make


def test_compare_reports_changes_of_two_results(netsim, make):
    make("fast")
    make("slow", rate="50Gbps")
    found = compare(results_in("fast"), results_in("slow"))
    before, after = (load(name).flows["fct_ps"].to_numpy() for name in ("fast", "slow"))
    for row in found.statistics.iter_rows(named=True):
        quantile = {"p50": 0.5, "p99": 0.99, "max": 1.0}.get(row["statistic"])
        values = [
            one.mean() if quantile is None else np.quantile(one, quantile)
            for one in (before, after)
        ]
        assert [row["before_ps"], row["after_ps"]] == pytest.approx(values)
        assert row["change"] == pytest.approx(values[1] / values[0] - 1)
        assert row["low"] is None or row["low"] <= row["change"] <= row["high"]
    assert set(found.experiment["key"]) == {"topology.host_rate"}
    assert found.experiment.row(0)[1:] == ("100Gbps", "50Gbps", 1)
    moved = found.moved(2)
    changes = np.sort(np.abs(after - before))[::-1][:2]
    assert moved["change_ps"].abs().to_list() == changes.tolist()
    for limit, status in (("2%", 1), ("0.02", 1), ("500%", 0)):
        assert netsim("compare", "fast", "slow", "--fail-above", limit).exit_code == status
    assert netsim("compare", "slow", "fast", "--fail-above", "2%").exit_code == 0
    outcome = netsim("compare", "fast", "slow", "--json", "--fail-above", "2%")
    content = json.loads(outcome.stdout)
    assert (outcome.exit_code, content["identical"]) == (1, False)
    assert len(content["failures"]) == 2
    same = netsim("compare", "fast", "fast", "--fail-above", "0")
    assert (same.exit_code, "identical" in same.stdout) == (0, True)
    drawn = netsim("compare", "fast", "slow", "--plot", "cdf.png")
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout.startswith("cdf.png")
    assert "--seed 1..4" in drawn.stdout  # one seed


def test_sweeps_are_paired_by_seed(make):
    make("fast", "--seed", "1..3")
    make("slow", "--seed", "1..3", rate="50Gbps")
    found = compare(results_in("fast"), results_in("slow"))
    pairs = [(pair.before.flows["fct_ps"], pair.after.flows["fct_ps"]) for pair in found.pairs]
    changes = [after.mean() / before.mean() - 1 for before, after in pairs]
    mean = next(row for row in found.statistics.to_dicts() if row["statistic"] == "mean")
    assert (mean["seeds"], mean["flows"]) == (3, 18)
    assert mean["change"] == pytest.approx(np.mean(changes))
    margin = 4.303 * np.std(changes, ddof=1) / np.sqrt(3)
    assert mean["high"] - mean["change"] == pytest.approx(margin)
    assert found.experiment["points"].to_list() == [3]


def test_plugins_are_diffed(netsim, make, tmp_path):
    plugin = tmp_path / "mine.py"
    source = registry.find("transport", "ndp").path.read_text()
    for name in ("a", "b"):
        plugin.write_text(f"{source}\nVERSION_{name} = 1\n")
        make(name, transport="./mine.py")
    found = compare(results_in("a"), results_in("b"))
    assert found.identical
    assert found.versions["name"].to_list() == ["transport ./mine.py"]
    assert "-VERSION_a = 1" in found.diffs[0]
    assert "+VERSION_b = 1" in netsim("compare", "a", "b").stdout


def test_compare_handles_unequal_points_and_flows(netsim, make):
    make("one")
    make("size", size="20KB")
    make("sweep", "--seed", "1..2")
    make("other", "--seed", "2..3")
    for before, after, message in (
        ("one", "sweep", "different points"),
        ("sweep", "other", "lacks seed=1"),
        ("one", "nowhere", "nowhere"),
    ):
        outcome = netsim("compare", before, after)
        assert (outcome.exit_code, message in outcome.stderr) == (2, True), outcome.output
    assert netsim("compare", "one", "one", "--fail-above", "much").exit_code == 2
    assert "flow 0 has size_bytes 40000 and 20000" in netsim("compare", "one", "size").stdout
    outcome = netsim("compare", "one", "size", "--fail-above", "9", "--plot", "cdf.png")
    assert (outcome.exit_code, "other traffic" in outcome.stderr) == (1, True)
    found = compare(results_in("one"), results_in("size"))
    means = [load(name).flows["fct_ps"].mean() for name in ("one", "size")]
    mean = found.statistics.row(0, named=True)
    assert (mean["before_ps"], mean["after_ps"], mean["low"]) == (*means, None)
    assert len(found.moved(3)) == 0


def test_confidence_intervals_have_their_coverage():
    """The margin has known values; a bootstrap interval covers the truth in 95 of 100 samples."""
    assert margin_95([1.0]) is None
    assert margin_95([1.0, 2.0, 3.0]) == pytest.approx(4.303 / np.sqrt(3))
    rng, covered = np.random.default_rng(1), 0
    for _ in range(100):
        before = rng.exponential(1.0, 60) + 1
        pairs = np.stack([before, before * (1.1 + rng.normal(0, 0.1, 60))])
        low, high = bootstrap_95(pairs, lambda times: times.mean(axis=-1))
        covered += low <= 0.1 <= high
    assert 85 <= covered <= 100
