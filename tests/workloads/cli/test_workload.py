"""Commands of jobs, deployments and costs."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from raises_input import has, mentions, raises_input
from serving_case import log_of, split_run

from netsim.cli.tables import sweep_table
from netsim.common.terminal import Wide
from netsim.units import parse_time_ps
from netsim.workloads.cli.workload_inference import iteration_table
from netsim.workloads.inference.deployment import load_deployment
from netsim.workloads.job.load import job_errors, load_job
from netsim.workloads.job.step import search_layouts, step_time
from netsim.workloads.reports.serving import SWEEP, sections, serving_result

JOB = """
model = "gpt3_175b"
machine = "a100_80gb"
[layout]
tp = 8
pp = 8
global_batch = 32
recompute = "full"
"""


def test_preset_is_shown(lines):
    found = lines("workload", "show", "gpt3_175b")
    assert "parameters 174.6 B" in found
    assert mentions(found, "GPUs 64", "8", "1")
    assert any(has(line, "send 8", "scale_out", "virtual_stage", "1") for line in found)
    assert any(line.endswith("% MFU, bf16") for line in found)


@pytest.mark.parametrize("what", ["file", "experiment", "table", "named", "class"])
def test_show_accepts_job_and_experiment_files(netsim, tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(JOB)
    file = tmp_path / "run.toml"
    inside = JOB.replace("[layout]", "[traffic.job.layout]")
    file.write_text(
        {
            "file": JOB,
            "experiment": '[traffic]\nkind = "training"\njob = "mine.toml"\n',
            "table": f'[traffic]\nkind = "training"\n[traffic.job]\n{inside}',
            "class": '[flow_classes.a.traffic]\nkind = "training"\njob = "mine.toml"\n',
            "named": '[traffic]\nkind = "training"\njob = "gpt3_175b"\n',
        }[what]
    )
    output = json.loads(netsim("workload", "show", "run.toml", "--json").stdout)
    assert (output["layout"]["global_batch"], output["gpus"]) == (64 if what == "named" else 32, 64)


def test_show_takes_one_of_several_jobs_by_its_label(netsim, tmp_path):
    tables = (
        f'[[traffic]]\nlabel = "{job}"\nkind = "training"\njob = "{job}"\n'
        for job in ("llama3_8b", "gpt3_175b")
    )
    (file := tmp_path / "run.toml").write_text("".join(tables))
    output = json.loads(netsim("workload", "show", f"{file}:gpt3_175b", "--json").stdout)
    assert output["name"] == "gpt3_175b"
    for name in (file, f"{file}:dense"):
        outcome = netsim("workload", "show", str(name))
        assert outcome.exit_code == 2
        assert mentions(outcome.stderr, "traffic.job", "llama3_8b", "gpt3_175b")


def test_paper_values_are_compared_with_ours(netsim, lines):
    found = lines("workload", "paper")
    assert any(has(line, "fwd_moe", "5", "45.18", "45.178", "0.00") for line in found)
    assert any(has(line, "dp_s4_moe", "5", "66.1", "56.114", "15.11") for line in found)
    assert any(has(line, "N_50T", "3.1", "50", "52.632", "5.26", "POST", "HOC") for line in found)
    output = json.loads(netsim("workload", "paper", "--json").stdout)
    assert len(output) == 86
    assert sum(one["post_hoc"] for one in output) == sum("POST-HOC" in line for line in found) - 1


def test_set_option_changes_job_values(netsim):
    changes = ("layout.tp=4", "layout.pp=16", "layout.virtual_stages=2", "machine.memory=200GB")
    overrides = [one for change in changes for one in ("--set", change)]
    output = json.loads(netsim("workload", "show", "gpt3_175b", "--json", *overrides).stdout)
    assert (output["gpus"], output["machine"]["memory"]) == (64, 200 * 10**9)
    output = json.loads(
        netsim(
            "workload",
            "show",
            "llama3_70b",
            "--json",
            "--set",
            "model=llama3_8b",
            "--set",
            "layout.virtual_stages=8",
        ).stdout
    )
    assert output["model"]["layers"] == 32


def test_show_takes_the_changes_of_an_experiment_as_run_does(netsim):
    show = ("workload", "show", "own_cluster:dense", "--json", "--set")
    of_run, of_job = (netsim(*show, f"{key}layout.dp=32").stdout for key in ("traffic.job.", ""))
    assert of_run == of_job
    assert json.loads(of_run)["layout"]["dp"] == 32


def test_plan_computes_gpus_and_parameters_of_a_budget(netsim, lines, tmp_path):
    found = lines("workload", "plan", "--set", "plan.parameters=17e12")
    assert mentions(found, "118", "109,568")
    assert mentions(found, "23,333", "23,300")
    file = tmp_path / "mine.toml"
    file.write_text("[site]\nbudget_usd = 10e9\n[plan]\nyears = 1\n")
    output = json.loads(netsim("workload", "plan", str(file), "--json").stdout)
    assert (output["site"]["budget_usd"], output["gpus"]) == (10e9, 167_760)
    assert set(output["parameters_by_law"]) == {"kaplan", "hoffmann1", "hoffmann2", "hoffmann3"}


def test_deployment_preset_is_shown(lines):
    found = lines("workload", "show", "llama3_70b_lite")
    assert mentions(found, "855.6", "80")
    assert mentions(found, "32")
    assert any(has(line, "32", "2.265GB", "865,970", "577", "732") for line in found)


def test_set_option_changes_deployment_values(netsim):
    changes = ("options.tp=0", "options.overlap=true", "limits.prompt=500", "overheads=h100_vllm")
    overrides = [one for change in changes for one in ("--set", change)]
    output = json.loads(netsim("workload", "show", "llama3_70b_lite", "--json", *overrides).stdout)
    assert [one["tp"] for one in output["sizes"]] == [4, 8, 16, 32]
    assert output["limits"]["prompt"] == 500
    assert output["overheads"]["layer_overhead"] > 0
    best = output["sizes"][0]["decode"]
    assert best["memory_batch"] == best["kv_capacity_tokens"] // 500


@pytest.mark.parametrize("roofline", ["parts", "layer"])
def test_iteration_parts_combine_to_the_whole(roofline):
    options = {"tp": 8, "embeddings": True, "roofline": roofline}
    table = {"model": "llama3_70b", "machine": "h100", "options": options}
    measured = {**table, "overheads": "h100_vllm", "limits": {"prompt": 3000}}
    made = iteration_table(load_deployment(measured), 8)
    value = {
        one.name: [float(parse_time_ps(cell)) for cell in one.cells] for one in made.columns[1:]
    }
    names = "matrix compute", "weight read", "attention compute", "KV read"
    names += "head compute", "head read"
    for row, whole in enumerate(value["without all-reduces"]):
        rows, weights, scores, kv, head, read = (value[name][row] for name in names)
        device = max(rows, weights) + max(scores, kv) + max(head, read)
        if roofline == "layer":
            device = max(rows + scores + head, weights + kv + read)
        own = device + value["activations"][row] + value["software"][row]
        assert whole == pytest.approx(max(own, value["floor"][row]), rel=1e-3)
    bare = iteration_table(load_deployment(table), 8)
    assert not {"activations", "software", "floor"} & {one.name for one in bare.columns}


def test_deployment_file_is_read_and_checked(netsim, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'model = "mixtral_8x7b"\nmachine = "h100"\n[options]\ntp = 2\n[limits]\nttft = "2s"\n'
    )
    output = json.loads(netsim("workload", "show", "mine.toml", "--json").stdout)
    assert (output["name"], output["limits"]["ttft"]) == ("mine", 2 * 10**12)


@pytest.mark.parametrize("what", ["named", "preset", "table"])
def test_deployment_of_an_experiment_is_shown(netsim, tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.toml"
    inside = '[traffic.deployment]\nmodel = "llama3_70b"\nmachine = "h100"\noptions = { tp = 4 }\n'
    named = '[traffic]\nkind = "serving"\ndeployment = "llama3_70b_h100"\n'
    file.write_text(inside if what == "table" else named)
    name = "serving_small" if what == "named" else "run.toml"
    output = json.loads(netsim("workload", "show", name, "--json").stdout)
    assert [one["tp"] for one in output["sizes"]] == [4 if what == "table" else 8]


def test_lite_gpu_prints_the_comparison(lines):
    found = lines("workload", "lite-gpu")
    assert any(line.startswith("llama3_405b 126 3,187,671,040 9,636.741 6.474") for line in found)
    assert any(has(line, "llama3_405b", "h100", "lite_netbw") for line in found)
    assert mentions(found, "KV", "lite_netbw", "lite_membw_netbw", "lite_netbw_flops")
    assert any(line.startswith("llama3_405b lite 32") for line in found)


def test_lite_gpu_reports_a_model_that_does_not_fit(lines):
    (output,) = lines("workload", "lite-gpu", "--set", "model=deepseek_v3")
    assert mentions(output, "8", "675.6GB", "fp8", "h100", "640GB")
    changes = ("model=deepseek_v3", "formats.weights=fp4")
    found = lines("workload", "lite-gpu", changes=changes)
    assert any(line.startswith("deepseek_v3 lite 32") for line in found)


def test_paper_placement_lists_racks(lines):
    found = lines("workload", "show", "moe", "--placement", "paper")
    assert "0 0..71 0 0..3 0 0..17" in found
    assert "23127 1665144..1665215 117 780..783 0 0..17" in found
    assert "23,112 more racks" in found


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


def test_default_preset_is_printed(lines):
    found = lines("cost")
    assert "h100 814 59 42.4 % 64.5 % 446 0.548 1,360 1,669 0 3,475 1.00 0 0.000" in found
    assert "lite 4,096 32 345,200 0.285 99.993 % 99.778 % 0.781 % 0.024 %" in found
    assert "lite 0 (0) 0 (0) 2 (0.5) 1 (0.25) 0 (0) 3 (0.75)" in found
    assert lines("cost", "lite") == found


def test_set_option_changes_files_and_presets(netsim, lines, tmp_path):
    (tmp_path / "mine.toml").write_text(netsim("show", "cost", "lite").stdout)
    changes = ("wafer.yield_model=murphy", "gpu.lite.link=pluggable", "failures.swap_hours=20")
    overrides = [one for change in changes for one in ("--set", change)]
    output = json.loads(netsim("cost", "mine.toml", "--json", *overrides).stdout)
    assert output["figures"]["wafer"]["yield_model"] == ["murphy", None]
    lite = output["gpus"][1]
    assert (lite["link"], lite["link_usd"]) == ("pluggable", 1.25 * 900)
    assert lite["spares"][1]["stop"] is None
    assert any("- 0 (0)" in line for line in lines("cost", *overrides))


def cells(table: Wide) -> dict[str, list[str]]:
    return {column.name: column.cells for column in table.columns}


def test_run_prints_request_time_and_instance_tables() -> None:
    plan, rows = split_run()
    plan = replace(plan, ttft_ps=200, tbt_ps=200, stall_ps=190)
    flows = {"start_ps": np.array([300, 310, 400, 420])}
    _, summary = serving_result(plan, log_of(rows), flows, complete=True)
    times, requests, instances = map(cells, sections(summary))
    assert requests["requests"] == ["2"]
    assert requests["met, % TTFT <= 200ps, TBT <= 200ps, any gap <= 190ps"] == ["0"]
    assert requests["stalled"] == ["1"]
    assert list(zip(times[""], times["max ps"], strict=True)) == [
        ("time to first token", "250"),
        ("time between tokens", "200"),
        ("first to second token", "200"),
        ("waiting for prefill", "150"),
        ("KV cache transfer", "140"),
        ("from arrival to last token", "550"),
    ]
    assert instances["instances"] == ["prefill", "decode"]
    assert instances["busy %"] == ["33.33", "43.33"]


def test_sweep_table_has_serving_columns() -> None:
    plan, rows = split_run()
    plan = replace(plan, tbt_ps=200, stall_ps=190)
    flows = {"start_ps": np.array([300, 310, 400, 420])}
    _, summary = serving_result(plan, log_of(rows), flows, complete=True)
    row = {metric.name: metric.of(summary) for metric in SWEEP}
    assert (row["ttft_p99_ps"], row["tbt_p99_ps"], row["queueing_p99_ps"]) == (250, 200, 150)
    point = {"status": "finished", "point": "a", "flows": 5, "flows_finished": 5, **row}
    shown = cells(sweep_table([{**point, "control_flows": 3, "control_flows_finished": 3}], []))
    assert list(shown)[:2] == ["TTFT p50 ps", "TTFT p99 ps"]
    assert shown["flows"] == ["2"]
    assert shown["TTFT p99 ps"] == ["250"]
    assert shown["TBT p99 ps"] == ["200"]
    assert shown["met %"] == ["50"]
    assert shown["stalled"] == ["1"]
    assert shown["first gap p99 ps"] == ["200"]
    assert "TTFT p99 ps" not in cells(sweep_table([{"status": "finished"}], []))
