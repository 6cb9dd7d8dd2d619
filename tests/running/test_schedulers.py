"""Points in processes, on Dask, in submitit jobs and in shards give the same results."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_case import SweepCase, done, until

from netsim.results.provenance import provenances
from netsim.results.shard import Shard, merge
from netsim.running import worker
from netsim.running.executor import PointRun, outcome_of
from netsim.running.processes import Processes
from netsim.running.sweep import run_points


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Callable[..., SweepCase]:
    return lambda **options: SweepCase(tmp_path, monkeypatch, **options)


def in_processes(points, _):
    return run_points(points, Path("r"), executor=Processes(2))


def on_dask_without_a_shared_directory(points, monkeypatch):
    """A local cluster: results and plugin files travel over the network."""
    pytest.importorskip("distributed")
    from netsim.running.schedulers import Dask

    spec_of = worker.remote_spec
    nothing = {"store": {"lock": "/nothing", "token": ""}, "directory": "/nowhere"}
    monkeypatch.setattr(worker, "remote_spec", lambda *given: {**spec_of(*given), **nothing})
    return run_points(points, Path("r"), executor=Dask(jobs=2))


def in_jobs_with_a_preemption(points, _):
    """One job is preempted during a point; it is requeued and does the rest."""
    pytest.importorskip("submitit")
    from netsim.running.schedulers import Slurm

    executor = Slurm(jobs=2, cluster="local")
    for number, outcome in enumerate(run_points(points, Path("r"), executor=executor)):
        if number == 0:
            executor.submitted[0]._interrupt()
        yield outcome


def in_merged_shards(points, _):
    for number in (2, 1):
        shard = Shard.parse(f"{number}/2")
        yield from run_points(points, Path(f"r{number}"), shard=shard)
    merge([Path("r2"), Path("r1")], Path("r"))
    shutil.rmtree("r1")
    shutil.rmtree("r2")


@pytest.mark.parametrize(
    ("run", "seconds"),
    [
        (in_processes, 0.0),
        (on_dask_without_a_shared_directory, 0.0),
        (in_jobs_with_a_preemption, 0.3),
        (in_merged_shards, 0.0),
    ],
)
def test_every_executor_gives_the_serial_results(sweep, monkeypatch, run, seconds):
    case = sweep(points=3, transport='["ideal", "datagram"]', seconds=seconds)
    outcomes = list(run(case.points, monkeypatch))
    assert all(outcome.complete for outcome in outcomes), outcomes
    assert len(outcomes) == len(case.points)
    assert case.same_as_serial("r")


@pytest.fixture
def cluster(tmp_path):
    """Return a function that starts Dask and returns address, scheduler and workers."""
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


def test_dask_tolerates_a_killed_worker_but_reports_lost_scheduler(sweep, cluster):
    """A worker is killed during the first run, the scheduler during the second."""
    case = sweep(seconds=0.3)
    address, scheduler, workers = cluster(2)
    command = [sys.executable, "-m", "netsim", "run", "e.toml", "--quiet", "--scheduler", address]
    for victim, folder in ((workers[0], "r"), (scheduler, "r2")):
        run = [*command, "--out", folder]
        with subprocess.Popen(run, stderr=subprocess.PIPE, text=True) as client:
            until(lambda: len(done(folder)) >= 2)  # noqa: B023
            victim.kill()
            errors = client.communicate(timeout=120)[1]
        if victim is scheduler:
            assert client.returncode == 1
            assert "lost the scheduler" in errors, errors
            assert "Traceback" not in errors
            assert len(done(folder)) >= 2
        else:
            assert client.returncode == 0, errors
            assert case.same_as_serial(folder)


def packed(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_invalid_transferred_results_are_rejected(sweep):
    (point, *_) = sweep().points
    run = PointRun(point, Path("r"), provenances([point])[0])
    good = packed(Path("serial/seed=1"))
    assert outcome_of(run, {"directory": "x", "error": None, "files": good}).complete
    shutil.rmtree("r")
    for bad in (
        {**good, "../x": b""},
        {**good, "evil.py": b""},
        {**good, "summary.json": b"%"},
        {**good, "summary.json": b"{}"},
        packed(Path("serial/seed=2")),
        {},
    ):
        outcome = outcome_of(run, {"directory": "x", "error": None, "files": bad})
        assert not outcome.written
        assert outcome.error
    assert not Path("r").exists()
