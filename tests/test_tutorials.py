"""The tutorials' conclusions follow from their figures, and the commands print these figures."""

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
SPREAD = ("layout.tp=2", "layout.sp=true", "layout.dp=256")  # experts over eight servers


def formula(experiment, *changes):
    """Return the step of the whole job by formula, in seconds, and its exposed parts."""
    sets = [f"--set={change}" for change in changes]
    outcome = CliRunner().invoke(app, ["workload", "show", str(experiment), "--json", *sets])
    assert outcome.exit_code == 0, outcome.output
    step = json.loads(outcome.stdout)["step"]
    return step["total_ps"] / 1e12, step


def decided(experiment, networks):
    """Return the figures of a decision about the rate of scale-out, by formula and prices;
    `networks` are those at 400 and 800 Gbps."""
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
    """Check that a page's marked values equal `found`, rounded as on the page."""
    written = values(page)
    assert written.keys() <= found.keys()
    for name, text in written.items():
        digits = len(text.replace(".", "").lstrip("0"))
        assert text == format_number(found[name], digits), name


def test_cluster_tutorial_decides_by_the_whole_job_and_scale_out():
    """Stay at 400 Gbps: overlap saves an MoE nearly as much as 800 Gbps does, and is free."""
    own = locate("own_cluster")
    networks = netsim.topo(own)  # 400 Gbps full and 4:1, 800 Gbps full and 4:1
    dense, moe = (decided(f"{own}:{job}", networks[::2]) for job in ("dense", "MoE"))
    thin = decided(f"{own}:dense", networks[1::2])
    bill = ("out-400", "out-800", "kw-400", "kw-800")
    figures = {name: dense[name] for name in bill} | {f"thin-{name}": thin[name] for name in bill}
    for job, found in (("dense", dense), ("moe", moe)):
        names = ("step-400", "step-800", "saved", "gpus", "break-even")
        figures |= {f"{job}-{name}": found[name] for name in names}
    overlap, _ = formula(f"{own}:MoE", "overlap.param_gather=true")
    figures["overlap"] = 100 * (1 - overlap / moe["step-400"])
    spread = [formula(f"{own}:MoE", *SPREAD, f"machine.scale_out.rate={rate}")[0] for rate in RATES]
    figures["spread-saved"] = 100 * (1 - spread[1] / spread[0])
    agree(CLUSTER, figures)
    assert dense["more"] == pytest.approx(100, abs=2)
    assert dense["saved"] < 1
    assert dense["break-even"] > 200  # thousand USD, more than any GPU costs
    assert figures["overlap"] > 0.8 * moe["saved"]
    assert moe["step-400"] < spread[1]  # experts in the server beat 800 Gbps
    for network in networks[::2]:
        switches = [level for level in network["switches"] if not level["is_scale_up"]]
        assert {level["rate_bps"] for level in switches} == {51_200_000_000_000}
        assert network["tiers"] == 2


def test_training_tutorial_compares_like_with_like(tmp_path):
    """Its formula is for the job that it simulates; overlap saves more than doubling the rate."""
    file = tmp_path / "step.toml"
    file.write_text(blocks(TRAINING, "toml")[0])
    found = decided(file, netsim.topo(file, overrides=[f'{RATE}=["400Gbps", "800Gbps"]']))
    overlap, _ = formula(file, "overlap.ep_comm=true")
    found["overlap"] = 100 * (1 - overlap / found["step-400"])
    agree(TRAINING, found)
    assert found["overlap"] > 1.5 * found["saved"] > 0


def forecasts(results):
    """Return the forecasts of the whole job's step, and the formula's result."""
    found = [result.summary["job"]["forecast"] for result in results]
    return [one["step_ps"] for one in found], [one["formula"]["step_ps"] for one in found]


DCQCN = 'transport={kind="dcqcn", queue_pairs=4}'


@pytest.mark.slow
def test_packets_do_not_change_the_decision_of_the_cluster_tutorial(tmp_path):
    """Forecasts agree with the formula, and 4:1 costs a placed job little."""
    results = netsim.run(locate("own_cluster"), overrides=[DCQCN], out=tmp_path / "out")
    steps, by_formula = forecasts(results)
    assert steps == pytest.approx(by_formula, rel=0.1)
    for (full, thin, fast, _), (least, most) in (
        (steps[::2], (0.01, 0.025)),
        (steps[1::2], (0.02, 0.045)),
    ):
        assert least < 1 - fast / full < most
        assert 0.999 < thin / full < 1.015


@pytest.mark.slow
def test_cluster_tutorial_survives_scattered_servers_and_a_slow_spine(tmp_path):
    def steps(*changes):
        own, out = locate("own_cluster"), tmp_path / str(len(list(tmp_path.iterdir())))
        results = netsim.run(own, overrides=["topology=400G", *changes], out=out)
        return forecasts(results)[0]

    oversubscribed = ("topology.rail.oversubscription=4", "topology.rail.leaves=16")
    placed = 'traffic.placement=["rail_aligned", "random"]'
    near, scattered = steps("traffic=dense", DCQCN, *oversubscribed, placed)
    assert 1 < scattered / near < 1.02
    full = ("traffic=MoE", "topology.rail.oversubscription=1")
    (healthy,) = steps(*full, DCQCN)
    slow, sprayed = steps(*full, 'faults.slow={node="scale_out0.spine0", rate="100Gbps"}')
    assert healthy < sprayed < slow < 1.015 * healthy


@pytest.mark.slow
def test_cluster_tutorial_says_what_a_lost_switch_does():
    changes = ("--set=topology=400G", "--set=topology.rail.oversubscription=1")
    lost = ("--fail=scale_out0.leaf0", "--fail=scale_out0.spine0")
    outcome = CliRunner().invoke(app, ["topo", "own_cluster", "--json", *changes, *lost])
    leaf, spine = json.loads(outcome.stdout)[0]["failures"]
    assert (leaf["hosts_fewer_ports"], leaf["flows_cut_off"] > 0) == (64, True)
    assert (spine["hosts_fewer_ports"], spine["flows_cut_off"]) == (0, 0)
    assert spine["paths_left"] == pytest.approx(0.94, abs=0.005)


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
