"""What the tutorials conclude follows from their figures, and these are what the commands print."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from marked import blocks, values

import netsim
from netsim.cli.app import app
from netsim.experiment import locate
from netsim.units import format_number

DOCS = Path(__file__).parent.parent / "docs"
CLUSTER = (DOCS / "tutorial-cluster.md").read_text("utf-8")
TRAINING = (DOCS / "tutorial-training.md").read_text("utf-8")
RATES = ("400Gbps", "800Gbps")
RATE = "topology.rail.host_rate"


def formula(experiment, *changes):
    """Return the step of the whole job by formula, in seconds, and its exposed parts."""
    sets = [f"--set={change}" for change in changes]
    outcome = CliRunner().invoke(app, ["workload", "show", str(experiment), "--json", *sets])
    assert outcome.exit_code == 0, outcome.output
    step = json.loads(outcome.stdout)["step"]
    return step["total_ps"] / 1e12, step


def decided(experiment):
    """Return the figures of a decision about the rate of scale-out, by formula and prices."""
    networks = netsim.topo(experiment, overrides=[f'{RATE}=["400Gbps", "800Gbps"]'])
    steps = [formula(experiment, f"machine.scale_out.rate={rate}")[0] for rate in RATES]
    found = {"step-400": steps[0], "step-800": steps[1]}
    for rate, network in zip((400, 800), networks, strict=True):
        up = [row for row in network["bill"] if row["part"] == "scale_up_port"]
        out = [row for row in network["bill"] if row["part"] != "scale_up_port"]
        found[f"up-{rate}"] = sum(row["usd"] for row in up) / 1e6
        found[f"out-{rate}"] = sum(row["usd"] for row in out) / 1e6
        found[f"kw-{rate}"] = sum(row["watts"] for row in out) / 1e3
    found["more"] = 100 * (found["out-800"] / found["out-400"] - 1)
    found["saved"] = 100 * (1 - steps[1] / steps[0])
    found["gpus"] = networks[0]["hosts"] * (steps[0] / steps[1] - 1)
    found["break-even"] = 1e3 * (found["out-800"] - found["out-400"]) / found["gpus"]
    return found


def agree(page, found):
    """Check that a page's marked values are those of `found`, rounded as they are there."""
    written = values(page)
    assert written.keys() <= found.keys()
    for name, text in written.items():
        digits = len(text.replace(".", "").lstrip("0"))
        assert text == format_number(found[name], digits), name


def test_cluster_tutorial_decides_by_the_whole_job_and_scale_out():
    """It says: stay at 400 Gbps, since 800 doubles the cost of scale-out for 3 % of a step."""
    found = decided(locate("own_cluster"))
    agree(CLUSTER, {**found, "shorter": found["saved"]})
    assert found["up-400"] == found["up-800"]
    assert found["more"] == pytest.approx(100, abs=2)
    assert 2.5 < found["saved"] < 3.5
    assert found["break-even"] > 100  # thousand USD, more than any GPU costs
    _, step = formula(locate("own_cluster"))
    assert round(100 * step["exposed"]["tp"] / step["total_ps"]) == 32


def test_training_tutorial_compares_like_with_like(tmp_path):
    """Its formula is of the job that it simulates; overlap saves more than twice the rate does."""
    (tmp_path / "step.toml").write_text(blocks(TRAINING, "toml")[0])
    found = decided(tmp_path / "step.toml")
    overlap, _ = formula(tmp_path / "step.toml", "overlap.ep_comm=true")
    found["overlap"] = 100 * (1 - overlap / found["step-400"])
    agree(TRAINING, found)
    assert found["overlap"] > 1.5 * found["saved"] > 0


def forecasts(results):
    """Return the forecasts of the whole job's step, and what the formula says."""
    found = [result.summary["job"]["forecast"] for result in results]
    return [one["step_ps"] for one in found], [one["formula"]["step_ps"] for one in found]


@pytest.mark.slow
def test_packets_do_not_change_the_decision_of_the_cluster_tutorial(tmp_path):
    dcqcn = 'transport={kind="dcqcn", queue_pairs=4}'
    results = netsim.run(locate("own_cluster"), overrides=[dcqcn], out=tmp_path / "out")
    steps, by_formula = forecasts(results)
    assert steps == pytest.approx(by_formula, rel=0.02)
    assert 0.025 < 1 - steps[1] / steps[0] < 0.035


@pytest.mark.slow
def test_packets_say_that_overlap_pays_in_the_training_tutorial(tmp_path):
    (tmp_path / "step.toml").write_text(blocks(TRAINING, "toml")[0])
    results = [
        netsim.run(tmp_path / "step.toml", overrides=changes, out=tmp_path / name)
        for name, changes in (("as-is", []), ("overlap", ["traffic.job.overlap.ep_comm=true"]))
    ]
    steps, by_formula = forecasts(results)
    assert steps[0] > by_formula[0]  # messages of experts meet
    assert 1 - steps[1] / steps[0] > 0.15
