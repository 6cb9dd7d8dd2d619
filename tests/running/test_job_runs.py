"""A job of four ranks, from the experiment to its output, tables and plots."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from raises_input import fails, mentions, raises_input

from netsim.cli import app
from netsim.results import COLUMNS, load_result, load_sweep
from netsim.workloads.tracing.critical_path import critical_path

EXPERIMENT = """
name = "job"
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "400Gbps"
[traffic]
kind = "./two_stages.py"
"""
TRAFFIC = '''"""Two stages of two ranks each, with an all-reduce in each stage after each batch."""

from dataclasses import replace

import numpy as np

from netsim.workloads.operations import JobSteps, Operations
from netsim.params import Param

PARAMS = [Param("forward", "time", "10us", "of a batch")]


def flows(params, network, rng, context):
    ops = Operations(4)
    for batch in range(2):
        names = {"label": f"batch {batch}", "kind": "forward"}
        first = ops.compute([0, 1], params["forward"], **names)
        sent, received = ops.send([0, 1], [2, 3], 40_000, stream=1, kind="pp")
        ops.after(first, sent)
        second = ops.compute([2, 3], params["forward"], **names)
        ops.after(received, second)
        summed = ops.collective("all_reduce", [[0, 1], [2, 3]], 40_000, stream=2, kind="dp")
        ops.after(first, summed[0])
        ops.after(second, summed[1])
    step = np.repeat(np.arange(2, dtype=np.int32), len(ops) // 2)
    return JobSteps(step, 1e9, 4e14).add_to(ops.lower(range(4)))
'''


@pytest.fixture
def netsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs `netsim ...` in plain Python next to job.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    Path("job.toml").write_text(EXPERIMENT)
    Path("two_stages.py").write_text(TRAFFIC)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_job_run_has_operations_table_and_step_metrics(netsim: Callable[..., Result]) -> None:
    outcome = netsim("run", "job.toml", "--out", "r")
    assert outcome.exit_code == 0, outcome.output
    for text in (
        "Steps, mean of the ranks",
        "MFU",
        "exposed scale-out pp",
        "bubble",
        "bus",
        "all_reduce",
    ):
        assert text in outcome.stdout
    result = load_result("r")
    table = result.operations
    assert table is not None
    assert [*table.columns, "job"] == [*COLUMNS["operations"]]  # a single job
    assert all(column.doc for column in COLUMNS["operations"].values())
    assert result.matches_hash()
    assert set(result.flows["flow_kind"].to_list()) == {"pp", "dp"}
    assert result.summary["operations"] == result.summary["operations_done"] == len(table) == 24
    assert table["end_ps"].max() == result.summary["makespan_ps"]
    first, second = result.summary["job"]["steps"]
    assert second["time_ps"] > 0
    for one in (first, second):
        parts = [one[name] for name in ("compute_ps", "bubble_ps", "skew_ps", "other_ps")]
        assert sum(parts) + sum(one["exposed_ps"].values()) == one["time_ps"]
        assert one["mfu"] == pytest.approx(1e9 / (one["time_ps"] / 1e12) / 4e14)
    waited = table.filter(pl.col("operation_type") == "send")["blocked_by"]
    assert table["operation_type"].gather(waited).unique().to_list() == ["compute"]
    for number, one in enumerate((first, second)):
        path = critical_path(result, step=number)
        assert path.by_kind()["time_ps"].sum() == path.end_ps - path.start_ps == one["time_ps"]
    with raises_input("step 2"):
        critical_path(result, step=2)
    whole = critical_path(result)
    (longest,) = whole.hosts(1)
    at = whole.segments.group_by("host").agg((pl.col("end_ps") - pl.col("start_ps")).sum())
    assert at.sort("end_ps")["host"][-1] == longest
    assert len(whole.hosts(9)) > len(whole.hosts(9, 0, 1)) == 1
    drawn = netsim("plot", "r", "--kind", "timeline", "--hosts", "critical", "--out", "t.png")
    assert drawn.exit_code == 0, drawn.output
    outcome = netsim("trace", "r", "--critical-path", "--step", "1")
    assert mentions(outcome.stdout, "step 1")
    assert fails(netsim("trace", "r", "--flow", "1", "--step", "1"), 2, "--step")
    kinds = critical_path(result).by_kind()
    assert {("compute", "forward"), ("flow", "pp")} <= set(kinds["segment_type", "kind"].rows())


def test_sweep_table_has_step_metrics_of_each_point(netsim: Callable[..., Result]) -> None:
    slower = 'traffic.forward=["10us", "20us"]'
    outcome = netsim("run", "job.toml", "--set", slower, "--out", "s")
    assert outcome.exit_code == 0, outcome.output
    table = load_sweep("s").table
    assert table["step_ps"][0] < table["step_ps"][1]
    assert table["mfu"][0] > table["mfu"][1]
    for name in ("exposed", "bubble", "skew"):
        assert table[name].is_between(0, 1).all()
    assert "MFU" in outcome.stdout
    assert "--seed 1..4" in outcome.stdout  # one seed


RAILS = """
kind = "multi_rail"
gpus_per_rack = 2
scale_up_rate = "1.6Tbps"
rail = {kind = "fat_tree", hosts_per_leaf = 2, leaves = 1, host_rate = "400Gbps"}
[traffic]
"""


def test_exposed_time_is_told_by_network_and_kind(netsim: Callable[..., Result]) -> None:
    before, _, after = EXPERIMENT.partition('kind = "fat_tree"')
    Path("job.toml").write_text(before + RAILS + after.partition("[traffic]")[2])
    axis = 'topology.scale_up_rate=["1.6Tbps", "3.2Tbps"]'
    outcome = netsim("run", "job.toml", "--set", axis, "--out", "s")
    assert outcome.exit_code == 0, outcome.output
    # All-reduces are within a rack, transfers between stages go from rack to rack.
    assert "scale-up" in outcome.stdout
    assert "scale-out" in outcome.stdout
    table = load_sweep("s").table
    points = load_sweep("s").points
    for point in points:
        steps = point.summary["job"]["steps"]
        assert set().union(*(one["exposed_ps"] for one in steps)) == {"scale-up dp", "scale-out pp"}
    slow, fast = table["exposed_scale_up_dp"]
    assert slow > fast
    parts = (table["exposed_scale_up_dp"], table["exposed_scale_out_pp"])
    assert table["exposed"].to_list() == pytest.approx((parts[0] + parts[1]).to_list())
    assert table["exposed_scale_up"].to_list() == pytest.approx(parts[0].to_list())


OTHER = """
[flow_classes.other]
transport = "ndp"
[flow_classes.other.traffic]
kind = "./two_stages.py"
forward = "20us"
"""


def test_each_of_two_jobs_has_its_own_table(netsim: Callable[..., Result]) -> None:
    netsim("run", "job.toml", "--out", "alone")
    Path("job.toml").write_text(EXPERIMENT + OTHER)
    outcome = netsim("run", "job.toml", "--out", "both")
    assert outcome.exit_code == 0, outcome.output
    assert mentions(outcome.stdout, "Steps of traffic", "Steps of other")
    result = load_result("both")
    first, other = result.summary["jobs"]
    assert first == result.summary["job"]
    alone = load_result("alone").summary["job"]
    computes = [sum(one["compute_ps"] for one in job["steps"]) for job in (alone, first, other)]
    assert computes == [20e6, 20e6, 40e6]
    assert first["mfu"] == pytest.approx(1e9 / (first["step_ps"] / 1e12) / 4e14)
    assert result.operations is not None
    assert result.operations["job"].value_counts().sort("job")["count"].to_list() == [24, 24]
    path = critical_path(result, step=1)
    assert path.end_ps - path.start_ps == first["steps"][1]["time_ps"]
