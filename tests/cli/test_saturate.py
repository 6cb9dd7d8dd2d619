"""`netsim saturate`: known saturation points, resumed searches, and errors."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from netsim import load
from netsim.cli import app

EXPERIMENT = """
name = "e"
transport = "datagram"
fabric.queue_bytes = "100MB"
fabric.routing = "spray_random"
[topology]
{topology}
[traffic]
kind = "poisson"
arrival_process = "even"
sizes = "4096B"
load = 0.1
{traffic}
[measure]
warmup = "{warmup}us"
window = "{window}us"
drain = "{warmup}us"
"""
RING = 'kind = "torus"\nshape = "8"\nhost_rate = "100Gbps"'
DUMBBELL = """
kind = "dumbbell"
hosts = 2
bottleneck_rate = "100Gbps"
host_delay = "1us"
bottleneck_delay = "1us"
"""
ACROSS = 'pattern = "group_plus_one"\nshape = "2x2"'


@pytest.fixture
def saturate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def saturate(*arguments: str, topology: str = RING, traffic: str = "", window: int = 300):
        text = EXPERIMENT.format(
            topology=topology, traffic=traffic, window=window, warmup=window // 3
        )
        Path("e.toml").write_text(text)
        command = ["saturate", "e.toml", "--jobs", "1", "--threads", "1", *arguments]
        result = CliRunner().invoke(app, command)
        assert "Traceback" not in result.output, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return saturate


def test_saturation_matches_closed_forms(saturate) -> None:
    """Dally and Towles, sections 3.3 and 9.2. A ring of k switches with one host each saturates at
    (8 / k) (N - 1) / N under uniform traffic and at 1 / (k / 2 - 1) under tornado traffic."""
    grid = ("--from", "0.2", "--to", "0.98", "--grid", "4", "--json")
    patterns = 'pattern = ["uniform", "tornado"]'
    result = saturate(*grid, "--tolerance", "0.01", traffic=patterns, window=60)
    assert result.exit_code == 0, result.output
    uniform, tornado = json.loads(result.stdout)["curves"]
    assert (uniform["axes"], tornado["axes"]) == (
        {"traffic.pattern": "uniform"},
        {"traffic.pattern": "tornado"},
    )
    for found, exact in ((uniform, 7 / 8), (tornado, 1 / 3)):
        assert found["bound"] == pytest.approx(exact)
        assert found["above"] - found["below"] <= 0.02
        assert found["saturation"] == pytest.approx(exact, abs=0.01 + 0.03 * exact)
        below = [one for one in found["points"] if one["traffic.load"] < 0.9 * exact]
        assert below
        for one in below:
            assert one["accepted_load"] == pytest.approx(one["traffic.load"], rel=0.01)
    assert tornado["points"][0]["mean_hops"] == 5  # three between switches
    assert max(one["accepted_load"] for one in tornado["points"]) < 1 / 3 + 0.005


def test_interrupted_search_resumes_from_finished_points(saturate, monkeypatch) -> None:
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    arguments = ("--from", "0.3", "--to", "0.7", "--grid", "2", "--out", "r")
    few = {"topology": DUMBBELL, "traffic": ACROSS, "window": 30}

    def second_point(_: object) -> bool:
        return Path("r/load=0.3/summary.json").exists()

    with monkeypatch.context() as patch:
        patch.setattr("netsim.cli.interrupt.Interruption.__call__", second_point)
        stopped = saturate(*arguments, "--tolerance", "0.03", **few)
    assert "interrupted" in stopped.stderr, stopped.output
    assert "saturation so far" in stopped.stdout
    assert load("r").table["status"].to_list()[0] == "measured"
    whole = saturate(*arguments, "--tolerance", "0.03", "--json", **few)
    assert whole.exit_code == 0, whole.output
    (curve,) = json.loads(whole.stdout)["curves"]
    loads = [one["traffic.load"] for one in curve["points"]]
    assert loads == sorted(load("r").table["traffic.load"].to_list())
    assert not (Path("r") / "stale_points").exists()
    with monkeypatch.context() as patch:
        patch.setattr(
            "netsim.running.executor.simulate", None
        )  # fails if a point is simulated again
        again = saturate(*arguments, "--tolerance", "0.03", "--json", **few)
    assert again.stdout == whole.stdout


def test_invalid_input_is_rejected(saturate) -> None:
    result = saturate("--from", "0.5", "--to", "0.5")
    assert (result.exit_code, "--to" in result.stderr) == (2, True)
    result = saturate("--set", "measure={}")
    assert (result.exit_code, "[measure]" in result.stderr) == (2, True)
    result = saturate("--routing", "ecmp,nowhere")
    assert (result.exit_code, "nowhere" in result.stderr) == (2, True)
    closed = 'traffic={kind="permutation", size="1MB"}'
    result = saturate("--set", closed, "--from", "0.5", "--grid", "2", window=30)
    assert (result.exit_code, "no flow starts" in result.stderr) == (2, True), result.output
