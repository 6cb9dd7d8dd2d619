"""Search over layouts: what it times, what it refuses, and its output."""

import csv
import io
import json
from dataclasses import replace

from cli_outcome import fails
from raises_input import mentions, raises_input

from netsim.workloads.job.load import job_errors, load_job
from netsim.workloads.job.search import search_layouts
from netsim.workloads.job.step import step_time

VARY = {
    "tp": [1, 2, 3],
    "pp": [1, 2, 64],
    "schedule": ["1f1b", "interleaved"],
    "virtual_stages": [1, 2],
    "micro_batch": [1],
    "zero": [0, 1],
}


def test_search_times_each_layout_that_fits_and_counts_the_others() -> None:
    job, seen = load_job("llama3_8b", fits=False), []
    found = search_layouts(job, [8, 16], VARY, lambda done, of: seen.append((done, of)))
    times = [one.step.total_ps for one in found.rows]
    assert times == sorted(times)
    assert len(found.rows) + sum(found.refused.values()) == seen[-1][0] == seen[-1][1]
    layouts = [one.job.layout for one in found.rows]
    assert {one.gpus for one in layouts} == {8, 16}
    assert {one.tp for one in layouts} == {1, 2}  # 3 does not divide the GPUs
    assert {one.schedule for one in layouts} == {"1f1b", "interleaved"}
    assert all(one.sp == (one.tp > 1) for one in layouts)
    for one in found.rows[::5]:
        assert not job_errors(one.job)
        assert one.step == step_time(one.job)
        # More recomputation takes longer: only the least that fits is timed.
        layout = one.job.layout
        less = replace(one.job, layout=replace(layout, recompute="none"))
        assert layout.recompute == "none" or job_errors(less)
        tokens = layout.global_batch * job.model.sequence
        hours = layout.gpus * one.step.total_ps / 3.6e15
        assert abs(one.gpu_hours_per_token * tokens / hours - 1) < 1e-12
    assert any(key == "machine.memory" for key, _ in found.refused)
    with raises_input("--vary", "pp"):
        search_layouts(job, [8], {"ppp": [1]})


def test_search_prints_a_table_json_and_csv(netsim, tmp_path) -> None:
    asked = ["workload", "search", "llama3_8b", "--gpus", "8", "--usd-per-gpu-hour", "2"]
    asked += [f"--vary={name}={json.dumps(values)}" for name, values in VARY.items()]
    shown = netsim(*asked, "--top", "3", "--csv", str(tmp_path / "all.csv"))
    assert mentions(shown.stdout, "zero", "memory", "MFU", "step", "USD", "do not work")
    found = json.loads(netsim(*asked, "--json").stdout)
    first = found["layouts"][0]
    assert first["usd_per_billion_tokens"] == 2 * first["gpu_hours_per_billion_tokens"]
    assert first["step_ps"] == min(one["step_ps"] for one in found["layouts"])
    assert sum(one["layouts"] for one in found["refused"]) > 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "all.csv").read_text())))
    assert [int(row["step_ps"]) for row in rows] == [one["step_ps"] for one in found["layouts"]]
    for wrong in ("zero=[true]", "pp=[0]", "schedule=[3]", "none=[1]"):
        assert fails(netsim(*asked[:3], "--vary", wrong), 2, "--vary")
    assert fails(netsim("workload", "search", "llama3_70b_lite"), 2, "only jobs")
