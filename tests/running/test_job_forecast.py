"""Forecasts of whole training steps from samples, against the whole steps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from raises_input import fails, mentions

from netsim.cli import app
from netsim.results import load_result
from netsim.workloads.job.load import load_job
from netsim.workloads.reports.job import forecast_text
from netsim.workloads.training.forecast import by_formula, distortion_of, shares
from netsim.workloads.training.sample import sample_job

EXPERIMENT = """
name = "job"
transport = "datagram"
[topology]
kind = "fat_tree"
hosts_per_leaf = 8
leaves = 2
host_rate = "100Gbps"
[traffic]
kind = "training"
[traffic.algorithm]
dp = "ring"
expert_dp = "ring"
ep = "direct"
[traffic.job]
name = "small"
[traffic.job.model]
layers = 4
hidden = 256
heads = 8
sequence = 512
vocabulary = 1024
[traffic.job.machine]
memory = "100GB"
matrix = {peak = {bf16 = "20TFLOP/s"}}
scale_up = {rate = "100Gbps"}
scale_out = {rate = "100Gbps"}
domain_gpus = 2
[traffic.job.layout]
pp = 2
dp = 4
global_batch = 32
[packets]
payload_bytes = "60KiB"
[fabric]
queue_bytes = "1GB"
"""

SCALED = {"traffic.micro_batches": 2, "traffic.message_scale": 0.1}
LAYOUT = "traffic.job.layout."
BROKEN = '{node = "spine0", down = "0ns"}'
UNUSED = '{convergence_delay = "0ns", carrier_delay = "0ns"}'
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a failed spine": ({"topology.spines": 2, "faults.broken": BROKEN, "routing": UNUSED}, SCALED),
    "interleaved, ZeRO 1, overlap": (
        {
            f"{LAYOUT}schedule": "interleaved",
            f"{LAYOUT}virtual_stages": 2,
            f"{LAYOUT}zero": 1,
            "traffic.job.overlap.grad_reduce": "true",
        },
        {"traffic.message_scale": 0.1, "traffic.micro_batches": 4},
    ),
    "experts, half of the replicas": (
        {
            f"{LAYOUT}global_batch": 16,
            f"{LAYOUT}ep": 2,
            "traffic.job.model.experts": 4,
            "traffic.job.model.active_experts": 2,
        },
        {"traffic.replicas": 2, "traffic.micro_batches": 2},
    ),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the experiment with changes in plain Python."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    Path("job.toml").write_text(EXPERIMENT)

    def run(out: str, changes: Mapping[str, Any]) -> Any:
        sets = [f"--set={key}={value}" for key, value in changes.items()]
        return CliRunner().invoke(app, ["run", "job.toml", "--out", out, *sets])

    return run


@pytest.mark.parametrize(("job", "sample"), CASES.values(), ids=CASES)
def test_forecast_of_sample_is_within_5_percent_of_whole_job(
    run: Any, job: dict[str, Any], sample: dict[str, Any]
) -> None:
    for out, changes in (("whole", job), ("sample", job | sample)):
        outcome = run(out, changes)
        assert outcome.exit_code == 0, outcome.output
    whole, part = (load_result(out).summary["job"] for out in ("whole", "sample"))
    assert "forecast" not in whole
    found = part["forecast"]
    assert found["step_ps"] == pytest.approx(whole["step_ps"], rel=0.05)
    assert found["exposed"] == pytest.approx(whole["exposed"], abs=0.05)
    assert found["mfu"] == pytest.approx(whole["mfu"], rel=0.05)
    # What the sample itself shows is no forecast.
    divided_ps = part["step_ps"] / sample.get("traffic.message_scale", 1)
    assert abs(divided_ps / whole["step_ps"] - 1) > 0.15
    parts = ("compute_ps", "bubble_ps", "skew_ps", "other_ps")
    total = sum(found[name] for name in parts) + sum(found["exposed_ps"].values())
    assert total == pytest.approx(found["step_ps"])
    assert found["difference"] == pytest.approx(sum(found["difference_by"].values()))
    assert found["difference"] == pytest.approx(found["step_ps"] / found["formula"]["step_ps"] - 1)
    for text in ("step of the whole job", "forecast", "formula"):
        assert text in outcome.stdout


def test_slowest_group_makes_the_forecast(run: Any) -> None:
    """Rank 1 computes in another server, so the tensor-parallel group of ranks 0 and 1 is slow."""
    hosts = [0, 8, 2, 3, 4, 5, 6, 7]
    rows = (f"{rank},{host}\n" for rank, host in enumerate(hosts))
    Path("spare.csv").write_text("rank,host\n" + "".join(rows))
    rack = "gpus_per_rack = 2, scale_up_rate = '400Gbps'"
    job = {
        "topology": f"{{kind = 'rail_only', {rack}, racks = 5, rail_rate = '100Gbps'}}",
        "traffic.placement": "file",
        "traffic.placement_file": "spare.csv",
        "traffic.algorithm.tp": "ring",
        "traffic.job.machine.scale_up.rate": "400Gbps",
        "traffic.job.model.layers": 2,
        f"{LAYOUT}tp": 2,
        f"{LAYOUT}dp": 2,
        f"{LAYOUT}global_batch": 8,
        "packets.payload_bytes": "16KiB",
    }
    for out, changes in (("whole", {}), ("sample", {"micro_batches": 2, "message_scale": 0.5})):
        outcome = run(out, job | {f"traffic.{key}": value for key, value in changes.items()})
        assert outcome.exit_code == 0, outcome.output
    whole, part = (load_result(out).summary["job"] for out in ("whole", "sample"))
    assert part["forecast"]["step_ps"] == pytest.approx(whole["step_ps"], rel=0.05)
    assert abs(part["forecast"]["residual"]) < 0.03  # 0.2 if the mean of the groups counted
    assert "rough" not in outcome.stdout
    assert "by +20 %" in forecast_text({**part["forecast"], "residual": 0.2})


def test_faults_in_scaled_sample_need_consent(run: Any) -> None:
    flap = {"faults.flap": '{links = "all", down = "10us", up = "20us"}', "stop.max_time": "1us"}
    scaled = {"traffic.message_scale": 0.01}
    outcome = run("r", flap | scaled)
    assert fails(outcome, 2, "job.toml: traffic.message_scale", "allow_scaled_faults", "100 times")
    for changes in ({}, scaled | {"traffic.allow_scaled_faults": "true"}):
        assert run("r", flap | changes).exit_code != 2
    slow = {"faults.slow": '{links = "all", rate = "50Gbps"}', "stop.max_time": "1us"}
    assert run("s", slow | scaled).exit_code != 2
    assert run("b", {"faults.broken": BROKEN} | scaled).exit_code == 2


def test_check_proposes_sample_with_least_distortion(run: Any) -> None:
    def check(*options: str) -> str:
        outcome = CliRunner().invoke(app, ["check", "job.toml", *options])
        assert outcome.exit_code == 0, outcome.output
        return "".join(line for line in outcome.stdout.splitlines() if line.startswith("Sample"))

    del run
    assert not check()  # the whole job fits
    few = ("--set=traffic.micro_batches=2", "--set=traffic.message_scale=0.02")
    text = check(*few)
    assert mentions(text, "replicas = 4", "micro_batches = 8", "message_scale = 1", "0.0 %", "60 s")
    assert "message_scale = 1," not in check(*few, "--budget", "20ms")
    assert "No sample" in check(*few, "--budget", "1us")


def test_distortion_by_formula_is_that_of_simulated_samples() -> None:
    """Samples of a job on 1,024 GPUs: NDP, 400 Gbps, simulated on 2026-11-24."""
    layout = {"tp": 8, "sp": True, "pp": 4, "dp": 32, "global_batch": 512}
    given = {"model": "llama3_70b", "machine": "h100_80gb", "layout": layout}
    delay_ps = 2_500_000
    whole = sample_job(load_job(given), {}, formula=frozenset({"tp"}))
    target = shares(by_formula(whole, whole.ranks.dp, delay_ps))
    for size, scale, mfu, exposed in (
        ({"micro_batches": 4}, 0.02, 0.172, 0.405),
        ({"replicas": 8}, 0.1, 0.310, 0.385),
    ):
        sample = sample_job(whole.job, size, scale=scale, formula=whole.formula)
        found = distortion_of(sample, delay_ps, target)
        assert found.mfu == pytest.approx(mfu, rel=0.04)
        assert found.exposed == pytest.approx(exposed, abs=0.015)
        assert (found.most > 0.4) == (scale == 0.02)
        assert found.most < 0.04 or scale == 0.02
