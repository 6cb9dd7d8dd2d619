"""Points in worker processes: the same results, and a process that is killed costs its point."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_simulate import FakeEstimate, FakeProgress
from raises_input import mentions, raises_input

from netsim import load, run_experiment, version
from netsim.cli.progress import Overview
from netsim.experiment import Experiment
from netsim.results.provenance import provenances
from netsim.results.read import recorded_complete
from netsim.running import executors, processes
from netsim.running.estimate import BASE_BYTES
from netsim.running.point_run import PointRun, RunOptions
from netsim.running.point_spec import point_spec, rebuild
from netsim.running.processes import Processes
from netsim.running.sweep import run_points

EXPERIMENT = """
name = "e"
seed = "1..6"
transport = "ideal"
traffic = {kind = "permutation", size = "30KB"}
[topology]
kind = "./topology.py"
hosts = 4
"""
TOPOLOGY = """
import os, signal, sys
from pathlib import Path
from netsim.topologies.dumbbell import *
from netsim.topologies import dumbbell
if "netsim.running.worker" in sys.modules:  # only in worker processes
    {at_load}
def build(params):
    return dumbbell.build(params)
"""
TRAFFIC = """
import os, signal, sys, time
from netsim.errors import InputError
from netsim.traffic.permutation import *
from netsim.traffic import permutation
def flows(params, network, rng, context):
    if {when} and "netsim.running.worker" in sys.modules:
        {then}
    return permutation.flows(params, network, rng, context)
"""
THIRD = "context.seed == 3"
ONCE = """
    if not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""
TIMES = ("wall_s", "packet_hops_per_s")


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Writes the experiment, whose topology does `at_load` when a worker process loads it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    def write(at_load: str = "pass") -> Path:
        Path("topology.py").write_text(TOPOLOGY.format(at_load=at_load.strip()))
        Path("e.toml").write_text(EXPERIMENT)
        return Path("e.toml")

    return write


def contents(directory: Path) -> list:
    """Everything that the results of a sweep say, apart from the time that it took."""
    sweep = load(directory)
    table = sweep.table.drop(TIMES, strict=False)
    points = [(one.name, one.summary["hash"], one.experiment) for one in sweep.points]
    return [table.rows(named=True), table.schema, points]


def test_results_do_not_depend_on_the_number_of_processes(sweep):
    one = run_experiment(sweep(), out="one", threads=1)
    two = run_experiment("e.toml", out="two", jobs=2)
    assert [result.name for result in two] == [result.name for result in one]
    assert contents(Path("one")) == contents(Path("two"))
    assert sorted(os.listdir("one")) == sorted(os.listdir("two"))
    run_experiment("e.toml", out="one", jobs=3)  # finds the others' results
    assert load("one").points[0].summary["wall_s"] == one[0].summary["wall_s"]


def test_a_killed_process_costs_its_point_only_and_that_once(sweep):
    results = run_experiment(sweep(ONCE), out="r", jobs=2)
    assert Path("killed").exists()
    assert all(result.complete for result in results)
    assert sorted(os.listdir("r")) == sorted(
        [f"seed={number}" for number in range(1, 7)] + ["sweep.parquet"]
    )


def test_a_process_that_is_killed_twice_fails_its_point(sweep):
    sweep()
    Path("traffic.py").write_text(
        TRAFFIC.format(when=THIRD, then="os.kill(os.getpid(), signal.SIGKILL)")
    )
    results = run_experiment("e.toml", overrides=["traffic.kind=./traffic.py"], out="r", jobs=2)
    assert [result.complete for result in results] == [True, True, False, True, True, True]
    assert mentions(results[2].reason, "SIGKILL", "twice")
    assert load("r").table["status"].to_list().count("failed") == 1


def test_wrong_input_in_a_process_is_one_error(sweep, monkeypatch):
    monkeypatch.setattr(Processes, "alone_s", 0)
    sweep()
    Path("traffic.py").write_text(
        TRAFFIC.format(when=THIRD, then='raise InputError("no third", key="x")')
    )
    with raises_input("no third"):
        run_experiment("e.toml", overrides=["traffic.kind=./traffic.py"], out="r", jobs=2)
    assert not Path("r").exists()


def test_a_process_with_other_code_refuses_the_point(sweep):
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


def test_jobs_follow_cores_memory_and_sizes(monkeypatch):
    def estimates(n_points, seconds, memory_bytes=10**9, gain=1.0):
        one = FakeEstimate(memory_bytes=memory_bytes)
        one.seconds_with = lambda threads: seconds / threads**gain
        return [one] * n_points

    monkeypatch.setattr(executors, "available_bytes", lambda: 5 * 10**9)
    assert executors.best_jobs(estimates(100, 1.0, gain=0), 4) == 4  # small: no gain by threads
    assert executors.best_jobs(estimates(100, 1.0, gain=0, memory_bytes=2 * 10**9), 4) == 2
    assert executors.best_jobs(estimates(100, 0.01, gain=0), 4) == 1  # not worth it
    assert executors.best_jobs(estimates(3, 1000.0), 4) == 1  # large: all threads for each
    assert executors.best_jobs(estimates(2, 1000.0, gain=0.8), 4) == 2


def test_the_memory_of_points_that_run_is_never_exceeded(sweep, monkeypatch):
    """There is room for one point, and for the process of another."""
    sweep()
    monkeypatch.setattr(processes, "available_bytes", lambda: int(1.9 * BASE_BYTES))
    seen = []

    class Watched(Processes):
        def _messages(self):
            seen.append(len(self._busy()))
            yield from super()._messages()

        def estimates(self, runs, should_stop):
            found = super().estimates(runs, should_stop)
            seen.clear()
            return found

    points = Experiment.load("e.toml").points()
    outcomes = list(run_points(points, Path("r"), executor=Watched(3)))
    assert len(outcomes) == 6
    assert max(seen) == 1


def test_overview():
    now = 0.0
    overview = Overview({"a": 100.0, "b": 100.0, "c": 200.0}, 2, 3, lambda: now)
    assert overview.eta_s == pytest.approx(200)
    for name in "ac":
        overview.begin(name)
    now = 110.0
    overview.finish("a")
    overview.update("c", FakeProgress(bytes_done=500))
    assert overview.fraction == 0.5
    assert overview.eta_s == pytest.approx(100 * 120 / 110)
    assert mentions(str(overview), "4 of 6 points", "c 50%", "left")


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "netsim", "run", "e.toml", "--jobs", "2", "--out", "r"]
    return subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True)


def workers_of(client: subprocess.Popen[str]) -> list[int]:
    """The numbers of a run's worker processes."""
    try:
        children = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
        return [
            int(one) for one in children if b"worker" in Path(f"/proc/{one}/cmdline").read_bytes()
        ]
    except OSError:
        return []


def done() -> dict[str, int]:
    """The points that have a complete result, and the numbers of their files."""
    return {
        one.parent.name: one.stat().st_ino
        for one in Path("r").glob("*/summary.json")
        if recorded_complete(one.parent)
    }


def test_ctrl_c_keeps_what_is_finished(sweep):
    """What runs is written as partial, once, and no process stays."""
    sweep()
    text = EXPERIMENT.replace('"ideal"', '"datagram"').replace("1..6", "1..2")
    Path("e.toml").write_text(text.replace('"30KB"', '["2KB", "300MB"]'))
    client = start("--quiet", "--jobs", "3")  # two for the large ones, which start first
    until(lambda: len(done()) == 2)
    time.sleep(0.5)
    workers = workers_of(client)
    client.send_signal(signal.SIGINT)
    _, said = client.communicate(timeout=30)
    assert client.returncode == 130, said
    assert mentions(said, "interrupted: 2 of 4 points")
    assert "Traceback" not in said
    table = load("r").table
    assert set(table["status"]) == {"finished", "interrupted"}
    assert table["status"].to_list().count("interrupted") == 2
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in workers))


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_any_moment(sweep, kills):
    """The client or a worker is killed: nothing is lost, broken or repeated."""
    sweep()
    Path("traffic.py").write_text(TRAFFIC.format(when="True", then="time.sleep(0.1)"))
    text = EXPERIMENT.replace('"permutation"', '"./traffic.py"').replace("1..6", "1..12")
    Path("e.toml").write_text(text)
    rng, sizes = random.Random(5), []
    for number in range(kills):
        before = done()
        client = start("--quiet")
        until(lambda: len(workers_of(client)) == 2)  # noqa: B023
        time.sleep(rng.uniform(0, 2))
        victims = [client.pid, *workers_of(client)]
        os.kill(victims[number % 2 and rng.randrange(len(victims))], signal.SIGKILL)
        _, said = client.communicate(timeout=150)
        assert client.returncode in (0, -signal.SIGKILL), said
        after = done()
        assert before.items() <= after.items()
        assert all(point.matches_hash() for point in load("r").points) if after else True
        sizes.append(len(after))
        if len(after) == 12:
            shutil.rmtree("r")
    print(sizes)
    client = start()
    assert "Traceback" not in client.communicate(timeout=150)[1]
    assert client.returncode == 0
    assert sorted(os.listdir("r")) == sorted([*done(), "sweep.parquet"])
    assert len(done()) == 12
    assert load("r").table["seed"].to_list() == list(range(1, 13))


def until(condition, limit_s=30.0):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
