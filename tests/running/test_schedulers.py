"""Points on dask and, by submitit, in jobs: the same results, also if a process is killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_outcome import fails
from click.testing import CliRunner

from netsim import load, run_experiment
from netsim.cli import app
from netsim.experiment import Experiment
from netsim.results.provenance import provenances
from netsim.results.read import recorded_complete
from netsim.results.received import packed
from netsim.running import remote
from netsim.running.point_run import PointRun
from netsim.running.processes import outcome_of
from netsim.running.sweep import run_points

EXPERIMENT = """
name = "e"
seed = "1..6"
transport = "ideal"
topology = {kind = "./topology.py", hosts = 4}
traffic = {kind = "./traffic.py", size = "30KB"}
"""
TOPOLOGY = "from netsim.topologies.dumbbell import *"
TRAFFIC = """
import time, sys
from netsim.traffic.permutation import *
from netsim.traffic import permutation
def flows(*given):
    if "netsim.running.worker" in sys.modules:
        time.sleep({seconds})
    return permutation.flows(*given)
"""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep whose points take this long in processes for points."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    def write(seconds: float) -> list:
        Path("e.toml").write_text(EXPERIMENT)
        Path("topology.py").write_text(TOPOLOGY)
        Path("traffic.py").write_text(TRAFFIC.format(seconds=seconds))
        run_experiment("e.toml", out="serial")
        return Experiment.load("e.toml").points()

    return write


def same_as_serial(directory: str) -> bool:
    tables = [load(one).table for one in ("serial", directory)]
    hashes = [
        [point.summary["hash"] for point in load(one).points] for one in ("serial", directory)
    ]
    names = [[x for x in sorted(os.listdir(one)) if x[0] != "."] for one in ("serial", directory)]
    return tables[0].equals(tables[1]) and hashes[0] == hashes[1] and names[0] == names[1]


@pytest.fixture
def cluster(tmp_path):
    """Starts a scheduler of dask and workers, as processes; returns the address and them."""
    pytest.importorskip("distributed")
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *arguments]
        with (tmp_path / "log").open("ab") as log:
            started.append(subprocess.Popen(command, cwd=tmp_path, stderr=log, stdout=log))
        return started[-1]

    def cluster(
        n_workers: int,
    ) -> tuple[str, subprocess.Popen[bytes], list[subprocess.Popen[bytes]]]:
        file = tmp_path / "scheduler.json"
        options = ("--no-dashboard", "--scheduler-file", str(file))
        scheduler = start("scheduler", "--port", "0", *options)
        workers = [
            start("worker", *options, "--nthreads", "1", "--no-nanny", "--resources", "MEM=1e9")
            for _ in range(n_workers)
        ]
        end = time.monotonic() + 60
        while not file.exists() or not file.read_text().strip().endswith("}"):
            assert time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.05)
        return json.loads(file.read_text())["address"], scheduler, workers

    yield cluster
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("victim", ["worker", "scheduler", "client"])
def test_dask_with_a_process_killed_in_the_middle(sweep, cluster, victim):
    sweep(0.3)
    address, scheduler, workers = cluster(2)
    command = [sys.executable, "-m", "netsim", "run", "e.toml", "--out", "r", "--quiet"]
    command += ["--scheduler", address]
    client = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: len(done()) >= 2)
    before = done()
    {"worker": workers[0], "scheduler": scheduler, "client": client}[victim].kill()
    said = client.communicate(timeout=120)[1]
    if victim == "worker":
        assert client.returncode == 0, said
    elif victim == "scheduler":
        assert client.returncode == 1
        assert "lost the scheduler" in said, said
        assert "Traceback" not in said
        command[-2:] = ["--jobs", "1"]
    assert before.items() <= done().items()
    before = done()
    again = subprocess.run(command, capture_output=True, check=False, text=True)
    assert again.returncode == 0, again.stderr
    assert before.items() <= done().items()
    assert same_as_serial("r")


def test_dask_without_a_shared_directory(sweep, monkeypatch):
    """A local cluster; results come over the wire, and plugin files go there."""
    pytest.importorskip("distributed")
    from netsim.running.dask_executor import Dask

    points = sweep(0.0)
    spec_of = remote.remote_spec
    nothing = {"store": {"lock": "/nothing", "token": ""}, "directory": "/nowhere"}
    monkeypatch.setattr(remote, "remote_spec", lambda *given: {**spec_of(*given), **nothing})
    outcomes = list(run_points(points, Path("r"), executor=Dask(jobs=2)))
    assert all(outcome.complete for outcome in outcomes), outcomes
    assert same_as_serial("r")


def test_jobs_of_submitit_one_of_them_preempted(sweep):
    """Its signal comes in a point; the job is queued again and does the rest."""
    pytest.importorskip("submitit")
    from netsim.running.slurm_executor import Slurm

    points = sweep(0.4)
    executor = Slurm(jobs=2, cluster="local")
    outcomes = []
    for outcome in run_points(points, Path("r"), executor=executor):
        if not outcomes:
            executor.submitted[0]._interrupt()
        outcomes.append(outcome)
    assert all(outcome.complete for outcome in outcomes), outcomes
    assert same_as_serial("r")
    assert not Path("r.jobs").exists()


def test_results_over_the_wire_are_checked(sweep):
    (point, *_) = sweep(0.0)
    run = PointRun(point, Path("r"), provenances([point])[0])
    good = packed(Path("serial/seed=1"))
    assert outcome_of(run, {"directory": "x", "error": None, "files": good}).complete
    shutil.rmtree("r")
    for bad in (
        {**good, "../x": ""},
        {**good, "evil.py": ""},
        {**good, "summary.json": "%"},
        {**good, "summary.json": "e30="},
        packed(Path("serial/seed=2")),
        {},
    ):
        outcome = outcome_of(run, {"directory": "x", "error": None, "files": bad})
        assert not outcome.written
        assert outcome.error
    assert not Path("r").exists()


def test_without_the_libraries(sweep, monkeypatch):
    sweep(0.0)
    for name, module in (("dask", "distributed"), ("slurm", "submitit")):
        monkeypatch.setitem(sys.modules, module, None)
        run = CliRunner().invoke(app, ["run", "e.toml", "--scheduler", name])
        assert fails(run, 2, "not installed", f"netsim[{name}]")
    assert fails(CliRunner().invoke(app, ["run", "e.toml", "--scheduler", "x"]), 2, "tcp://")
    assert fails(CliRunner().invoke(app, ["run", "e.toml", "--partition", "x"]), 2, "slurm")


def done() -> dict[str, int]:
    """The points that have a complete result, and the numbers of their files."""
    found = Path("r").glob("seed=*/summary.json")
    return {one.parent.name: one.stat().st_ino for one in found if recorded_complete(one.parent)}


def until(condition, limit_s=60.0):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
