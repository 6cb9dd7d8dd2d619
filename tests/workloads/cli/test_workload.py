"""`netsim workload`: tables, JSON output and rejected input."""

import json

import pytest
from cli_outcome import fails
from raises_input import has, mentions

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


def test_paper_values_are_compared_with_ours(netsim, lines):
    found = lines("workload", "paper")
    assert any(has(line, "fwd_moe", "5", "45.18", "45.178", "0.00") for line in found)
    assert any(has(line, "dp_s4_moe", "5", "66.1", "56.114", "15.11") for line in found)
    assert any(has(line, "N_50T", "3.1", "50", "52.632", "5.26", "POST", "HOC") for line in found)
    output = json.loads(netsim("workload", "paper", "--json").stdout)
    assert len(output) == 86
    assert sum(one["post_hoc"] for one in output) == sum("POST-HOC" in line for line in found) - 1


def test_invalid_jobs_and_subcommands_are_rejected(netsim, tmp_path):
    assert fails(netsim("workload", "show", "gpt3_17b"), 2, "job", "gpt3_175b")
    assert fails(netsim("workload", "gpt3_175b"), 2, "netsim workload show gpt3_175b")
    assert fails(netsim("workload", "show", "p2p_512"), 2, "p2p_512.toml")
    file = tmp_path / "run.toml"
    file.write_text('[traffic]\nkind = "training"\n[traffic.job]\nmodel = "gpt5"\n')
    wrong = netsim("workload", "show", str(file))
    assert fails(wrong, 2, "run.toml", "traffic.job.model", "gpt5")
    assert fails(wrong, 2, "traffic.job.layout.global_batch")
    file.write_text("[traffic]\njob = 3\n")
    assert fails(netsim("workload", "show", str(file)), 2, "traffic.job", "3")
    file.write_text(JOB.replace("tp = 8", "tp = 4").replace("pp = 8", "pp = 2"))
    assert fails(netsim("workload", "show", str(file)), 2, "machine.memory", "GPU", "stage 0")


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
    wrong = netsim("workload", "show", "gpt3_175b", "--set", "layout.tp=5")
    assert fails(wrong, 2, "layout.tp", "5", "layout.tp", "5")
    assert fails(netsim("workload", "show", "gpt3_175b", "--set", "layout.tpp=5"), 2, "layout.tpp")


def test_show_takes_the_changes_of_an_experiment_as_run_does(netsim):
    show = ("workload", "show", "own_cluster", "--json", "--set")
    of_run, of_job = (netsim(*show, f"{key}layout.dp=64").stdout for key in ("traffic.job.", ""))
    assert of_run == of_job
    assert json.loads(of_run)["layout"]["dp"] == 64


def test_plan_computes_gpus_and_parameters_of_a_budget(netsim, lines, tmp_path):
    found = lines("workload", "plan", "--set", "plan.parameters=17e12")
    assert mentions(found, "118", "109,568")
    assert mentions(found, "23,333", "23,300")
    file = tmp_path / "mine.toml"
    file.write_text("[site]\nbudget_usd = 10e9\n[plan]\nyears = 1\n")
    output = json.loads(netsim("workload", "plan", str(file), "--json").stdout)
    assert fails(netsim("workload", "show", str(file)), 2, "netsim workload plan")
    assert (output["site"]["budget_usd"], output["gpus"]) == (10e9, 167_760)
    assert set(output["parameters_by_law"]) == {"kaplan", "hoffmann1", "hoffmann2", "hoffmann3"}
    wrong = netsim("workload", "plan", "--set", "site.budget_usd=much")
    assert fails(wrong, 2, "site.budget_usd", "much")
