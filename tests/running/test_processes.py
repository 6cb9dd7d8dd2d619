"""Points in worker processes: killed processes, errors, number of jobs, memory, interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_simulate import FakeEstimate, FakeProgress
from raises_input import mentions, raises_input
from sweep_case import done, until

from netsim import version
from netsim.api import run
from netsim.cli.progress import Overview
from netsim.experiment import Experiment
from netsim.results import load
from netsim.results.provenance import provenances
from netsim.running import processes
from netsim.running.estimate import BASE_BYTES
from netsim.running.executor import PointRun, RunOptions
from netsim.running.processes import Processes
from netsim.running.sweep import run_points
from netsim.running.worker import point_spec, rebuild

EXPERIMENT = """
name = "e"
seed = "1..6"
transport = "ideal"
traffic = {kind = "permutation", size = "30KB"}
[topology]
kind = "./topology.py"
hosts = 4
"""
TOPOLOGY = "from netsim.topologies.dumbbell import *"
TRAFFIC = """
import os, sys, time
from netsim.errors import InputError
from netsim.traffic.permutation import *
from netsim.traffic import permutation
def flows(params, network, rng, context):
    if {when} and "netsim.running.worker" in sys.modules:
        {then}
    return permutation.flows(params, network, rng, context)
"""
THIRD = "context.seed == 3"


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    def write() -> Path:
        Path("topology.py").write_text(TOPOLOGY)
        Path("e.toml").write_text(EXPERIMENT)
        return Path("e.toml")

    return write


def test_killed_worker_fails_only_its_point(sweep):
    """A point is tried twice: seed 5 is killed once and succeeds, seed 3 is killed twice."""
    sweep()
    once = "context.seed == 3 or context.seed == 5 and not os.path.exists('killed')"
    kill = "open('killed' if context.seed == 5 else os.devnull, 'w'); os.kill(os.getpid(), 9)"
    Path("traffic.py").write_text(TRAFFIC.format(when=f"({once})", then=kill))
    results = run("e.toml", overrides=["traffic.kind=./traffic.py"], out="r", jobs=2)
    assert Path("killed").exists()
    assert [result.complete for result in results] == [True, True, False, True, True, True]
    assert mentions(results[2].reason, "SIGKILL", "twice")
    table = load("r").table
    assert table["seed"].to_list() == list(range(1, 7))
    assert table["status"].to_list().count("failed") == 1


def test_input_error_in_a_worker_is_reported(sweep, monkeypatch):
    monkeypatch.setattr(Processes, "alone_s", 0)
    sweep()
    Path("traffic.py").write_text(
        TRAFFIC.format(when=THIRD, then='raise InputError("no third", key="x")')
    )
    with raises_input("no third"):
        run("e.toml", overrides=["traffic.kind=./traffic.py"], out="r", jobs=2)
    assert not Path("r").exists()


def test_worker_with_other_code_rejects_the_point(sweep):
    (point, *_) = Experiment.load(sweep()).points()
    spec = point_spec(PointRun(point, Path("r"), provenances([point])[0]), RunOptions())
    assert rebuild(json.loads(json.dumps(spec)))[0].point.resolved == point.resolved
    known = spec["provenance"]
    inputs = known["run_inputs"]
    other = {**known, "fingerprint": "x", "run_inputs": {**inputs, "netsim": "0123456789"}}
    with raises_input("9.9", "01234567", version.__version__, inputs["netsim"][:8]):
        rebuild({**spec, "version": "9.9", "provenance": other})
    Path("topology.py").write_text(Path("topology.py").read_text() + "\n")
    again = rebuild(spec)[0].point  # from the source that travels
    assert again.topology.name == point.topology.name
    assert again.topology.plugin.path != point.topology.plugin.path


def test_number_of_jobs_fits_cores_memory_and_points(monkeypatch):
    def estimates(n_points, seconds, memory_bytes=10**9, gain=1.0):
        one = FakeEstimate(memory_bytes=memory_bytes)
        one.seconds_with = lambda threads: seconds / threads**gain
        return [one] * n_points

    monkeypatch.setattr(processes, "available_bytes", lambda: 5 * 10**9)
    assert processes.best_jobs(estimates(100, 1.0, gain=0), 4) == 4  # small: threads do not help
    assert processes.best_jobs(estimates(100, 1.0, gain=0, memory_bytes=2 * 10**9), 4) == 2
    assert processes.best_jobs(estimates(100, 0.01, gain=0), 4) == 1  # not worth it
    assert processes.best_jobs(estimates(3, 1000.0), 4) == 1  # large: all threads for each
    assert processes.best_jobs(estimates(2, 1000.0, gain=0.8), 4) == 2


def test_concurrent_points_fit_in_available_memory(sweep, monkeypatch):
    """Memory suffices for one running point and the idle process of another."""
    sweep()
    monkeypatch.setattr(processes, "available_bytes", lambda: int(1.9 * BASE_BYTES))
    seen = []

    class Watched(Processes):
        def replies(self, running, batch):
            seen.append(len(running))
            yield from super().replies(running, batch)

    points = Experiment.load("e.toml").points()
    outcomes = list(run_points(points, Path("r"), executor=Watched(3)))
    assert len(outcomes) == 6
    assert max(seen) == 1


def test_sweep_overview_reports_progress_and_eta():
    now = 0.0
    overview = Overview({"a": 100.0, "b": 100.0, "c": 200.0}, 3, 2, lambda: now)
    assert overview.eta_s == pytest.approx(200)
    for name in "ac":
        overview.begin(name)
    now = 110.0
    overview.finish("a")
    overview.update("c", FakeProgress(bytes_done=500))
    assert overview.fraction == 0.5
    assert overview.eta_s == pytest.approx(100 * 120 / 110)
    assert mentions(str(overview), "4 of 6 points", "c 50%", "left")


@pytest.fixture
def start():
    """Return a function that starts `netsim run`."""
    command = [sys.executable, "-m", "netsim", "run", "e.toml", "--jobs", "2", "--out", "r"]
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        run = [*command, *arguments]
        started.append(subprocess.Popen(run, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def workers_of(client: subprocess.Popen[str]) -> list[int]:
    """Return the ids of a run's worker processes."""
    try:
        children = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
        return [
            int(one) for one in children if b"worker" in Path(f"/proc/{one}/cmdline").read_bytes()
        ]
    except OSError:
        return []


def test_ctrl_c_keeps_finished_points(sweep, start):
    """Running points are written once, as partial, and no process is left."""
    sweep()
    text = EXPERIMENT.replace('"ideal"', '"datagram"').replace("1..6", "1..2")
    Path("e.toml").write_text(text.replace('"30KB"', '["2KB", "300MB"]'))
    client = start("--quiet", "--jobs", "3")  # two for the large ones, which start first
    until(lambda: len(done()) == 2)
    time.sleep(0.5)
    workers = workers_of(client)
    client.send_signal(signal.SIGINT)
    _, stderr = client.communicate(timeout=30)
    assert client.returncode == 130, stderr
    assert mentions(stderr, "interrupted: 2 of 4 points")
    assert "Traceback" not in stderr
    table = load("r").table
    assert set(table["status"]) == {"finished", "interrupted"}
    assert table["status"].to_list().count("interrupted") == 2
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in workers))


def test_sweep_survives_kills_of_client_and_worker(sweep, start):
    """No point is lost or repeated. `test_killed.py` kills before every change of files."""
    sweep()
    Path("traffic.py").write_text(TRAFFIC.format(when="True", then="time.sleep(0.1)"))
    text = EXPERIMENT.replace('"permutation"', '"./traffic.py"').replace("1..6", "1..12")
    Path("e.toml").write_text(text)
    client = start("--quiet")
    until(lambda: len(done()) >= 3)
    workers = workers_of(client)
    client.kill()
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in workers))
    before = done()
    client = start()
    until(lambda: len(done()) > len(before))
    os.kill(workers_of(client)[0], signal.SIGKILL)
    _, stderr = client.communicate(timeout=150)
    assert client.returncode == 0, stderr
    assert mentions(stderr, "SIGKILL", "tried once more")
    assert before.items() <= done().items()
    assert sorted(os.listdir("r")) == sorted([*done(), "sweep.parquet"])
    assert load("r").table["seed"].to_list() == list(range(1, 13))
    assert all(point.matches_hash() for point in load("r").points)
