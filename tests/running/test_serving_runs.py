"""A serving run, from the experiment to its output, tables and plots."""

from pathlib import Path

import polars as pl
import pytest
from raises_input import mentions
from small_runs import SERVED, Netsim

from netsim.results import COLUMNS, load_result, load_sweep

TRACE = """# one request without output, and one much later
arrived_at,num_prefill_tokens,num_decode_tokens
0.0,300,4
0.002,200,6
0.001,10,0
0.01,100,1
"""


@pytest.fixture(autouse=True)
def _served(netsim: Netsim) -> None:  # noqa: ARG001
    """Write served.toml and trace.csv."""
    Path("served.toml").write_text(SERVED)
    Path("trace.csv").write_text(TRACE)


def test_serving_run_has_request_and_iteration_tables(netsim: Netsim) -> None:
    outcome = netsim("run", "served.toml", "--out", "r")
    assert outcome.exit_code == 0, outcome.output
    for text in ("time to first token", "KV cache transfer", "decode", "goodput"):
        assert text in outcome.stdout
    assert mentions(outcome.stdout, "1", "trace.csv")
    result = load_result("r")
    assert result.requests is not None
    assert result.iterations is not None
    for table, name in ((result.requests, "requests"), (result.iterations, "iterations")):
        assert [*table.columns] == [*COLUMNS[name]]
        assert all(column.doc for column in COLUMNS[name].values())
    assert result.requests["generated_tokens"].to_list() == [4, 6, 1]
    assert result.requests["decode_instance"].to_list() == [1, 1, None]
    found = result.summary["serving"]
    assert found["account"] == {"done": 3, "under_way": 0, "waiting": 0, "tokens": 11}
    assert found["ttft_ps"]["max"] == result.requests["ttft_ps"].max()
    assert result.iterations["prompt_tokens"].sum() == 600


def test_request_trace_is_contiguous_and_limits_gaps(netsim: Netsim) -> None:
    assert netsim("run", "served.toml", "--out", "r").exit_code == 0
    outcome = netsim("trace", "r", "--request", "worst-ttft", "--csv", "story.csv")
    assert outcome.exit_code == 0, outcome.output
    assert mentions(outcome.stdout, "token")
    assert mentions(outcome.stdout, "KV")
    for limit, shown in (("1", 1), ("0", 3)):
        gaps = netsim("trace", "r", "--request", "0", "--limit", limit).stdout
        lines = gaps[gaps.lower().index("longest") :].splitlines()
        assert sum(line.strip().startswith("token ") for line in lines) == shown
    story = pl.read_csv("story.csv")
    assert story.columns == [*COLUMNS["request_latency"]]
    assert story["start_ps"].to_list()[1:] == story["end_ps"].to_list()[:-1]
    requests = load_result("r").requests
    assert requests is not None
    end = requests.sort("ttft_ps", descending=True)["end_ps"][0]
    assert (story["start_ps"][0], story["end_ps"][-1]) == (0, end)
    for kind in ("serving_latency", "timeline"):
        drawn = netsim("plot", "r", "--kind", kind)
        assert drawn.exit_code == 0, drawn.output


def test_sweep_table_has_serving_metrics(netsim: Netsim) -> None:
    outcome = netsim("run", "served.toml", "--set", "traffic.rate=[100.0, 1000000.0]", "--out", "s")
    assert outcome.exit_code == 0, outcome.output
    table = load_sweep("s").table
    assert table["offered_per_s"].to_list() == pytest.approx([100, 1_000_000], rel=1e-6)
    slow, fast = table["ttft_p99_ps"].to_list()
    assert slow < fast
    assert netsim("plot", "s", "--kind", "serving_latency").exit_code == 0


JOBS = """
[traffic]
kind = "jobs"
run = ["all", "s"]
[traffic.jobs.ring]
kind = "collective"
what = "all_reduce"
size = "1MB"
hosts = ["0..3"]
[traffic.jobs.s]
hosts = [6, 7, 5, 4]
"""


def test_serving_is_the_same_as_a_job_on_other_hosts(netsim: Netsim) -> None:
    """The ring is on separate leaves."""
    assert netsim("run", "served.toml", "--out", "r").exit_code == 0
    network, served = SERVED.replace("leaves = 2", "leaves = 4").split("[traffic]\n")
    Path("jobs.toml").write_text(network + JOBS + served.replace("[traffic.", "[traffic.jobs.s."))
    outcome = netsim("run", "jobs.toml", "--out", "s")
    assert outcome.exit_code == 0, outcome.output
    expected = load_result("r")
    for run in ("all", "s"):
        result = load_result(f"s/run={run}")
        requests = result.requests
        for name in ("first_token_ps", "generated_tokens", "decode_instance"):
            assert requests[name].equals(expected.requests[name])
        late_ps = requests["end_ps"] - expected.requests["end_ps"]
        assert late_ps.abs().max() < 165_000  # a packet, as other paths are drawn
        assert len(result.iterations) == len(expected.iterations)
        job = result.summary["placement"][-1]
        assert (job["job"], job["hosts"]) == ("s", "6..7, 5, 4")
    assert netsim("why", "s/run=all", "--request", "0").exit_code == 0
    assert netsim("plot", "s/run=all", "--kind", "timeline").exit_code == 0
