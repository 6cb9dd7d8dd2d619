"""Twenty SIGKILLs of random processes at random times: no result is lost, damaged or repeated.

The sweep runs in worker processes, on a Dask cluster, or in submitit jobs. After each kill the
same command continues the sweep.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sweep_case import SweepCase, done, until

from netsim.results import load

pytestmark = pytest.mark.slow

KILLS, POINTS, LIMIT_S = 20, 12, 280
MARK = "NETSIM_TEST_OF_KILLS"
"""Environment variable that marks all processes of a test."""

KINDS = {
    "client": rb"netsim\0run|run_points",
    "worker process": rb"netsim\.running\.worker",
    "scheduler": rb"dask\0scheduler",
    "dask worker": rb"dask\0worker",
    "job": rb"submitit\.core\._submit",
    "launcher of jobs": rb"submitit\.local\._local",
}
"""Pattern in the command line of each kind of process."""

SUBMITIT = """
import sys
from pathlib import Path
from netsim.experiment import Experiment
from netsim.running.slurm_executor import Slurm
from netsim.running.sweep import run_points
points = Experiment.load("e.toml").points()
outcomes = list(run_points(points, Path("r"), executor=Slurm(jobs=3, cluster="local")))
sys.exit(not all(one.complete for one in outcomes))
"""


class Jobs:
    """Worker processes of the client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = [sys.executable, "-m", "netsim", "run", "e.toml", "--out", "r", "--quiet"]
        self.started: list[subprocess.Popen[str]] = []

    def arguments(self) -> list[str]:
        return [*self.command, "--jobs", "2"]

    def mend(self) -> None:
        """Restart killed processes other than clients."""

    def start(self, arguments: list[str]) -> subprocess.Popen[str]:
        environment = {**os.environ, MARK: str(self.folder)}
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                arguments, cwd=self.folder, env=environment, stdout=log, stderr=log, text=True
            )
        self.started.append(process)
        return process

    def processes(self) -> dict[str, list[int]]:
        """Return the ids of all processes by kind."""
        found: dict[str, list[int]] = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.folder}\0".encode() in (place / "environ").read_bytes():
                    line = (place / "cmdline").read_bytes()
                    kind = next((one for one, text in KINDS.items() if re.search(text, line)), "")
                    found.setdefault(kind, []).append(int(place.name))
            except OSError:  # has ended
                continue
        return found

    def end(self) -> None:
        for numbers in self.processes().values():
            for number in numbers:
                kill(number)
        for process in self.started:
            process.wait()


class Dask(Jobs):
    """A Dask scheduler and two workers."""

    def mend(self) -> None:
        found = self.processes()
        options = ("--no-dashboard", "--scheduler-file", str(self.folder / "scheduler.json"))
        if not found.get("scheduler"):
            for number in found.get("dask worker", []):
                kill(number)
            (self.folder / "scheduler.json").unlink(missing_ok=True)
            self.start([sys.executable, "-m", "dask", "scheduler", "--port", "0", *options])
            until(lambda: self._address() is not None)
        for _ in range(2 - len(self.processes().get("dask worker", []))):
            worker = ("worker", *options, "--nthreads", "1", "--no-nanny")
            self.start([sys.executable, "-m", "dask", *worker])

    def arguments(self) -> list[str]:
        return [*self.command, "--scheduler", str(self._address())]

    def _address(self) -> str | None:
        try:
            return str(json.loads((self.folder / "scheduler.json").read_text())["address"])
        except (OSError, ValueError):
            return None


class Submitit(Jobs):
    """Three submitit jobs, which outlive their client."""

    def arguments(self) -> list[str]:
        return [sys.executable, "-c", SUBMITIT]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Callable[[type[Jobs]], Jobs]]:
    systems: list[Jobs] = []

    def make(kind: type[Jobs]) -> Jobs:
        systems.append(kind(tmp_path))
        return systems[0]

    yield make
    for one in systems:
        one.end()


@pytest.mark.parametrize(("kind", "library"), [(Jobs, ""), (Dask, "dask"), (Submitit, "submitit")])
def test_sweep_survives_kills_of_any_process(tmp_path, monkeypatch, system, kind, library):
    if library:
        pytest.importorskip(library)
    sweep = SweepCase(tmp_path, monkeypatch, points=POINTS, seconds=0.3)
    runs, rng, seen = system(kind), random.Random(7), []
    while len(seen) < KILLS:
        runs.mend()
        before = done()
        client = runs.start(runs.arguments())
        enough = len(before) + rng.choice([0, 1, 2, 4])
        while client.poll() is None and (
            not runs.processes().get("worker process") or len(done()) < enough
        ):
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))
        found = runs.processes()
        if client.poll() is None:
            victim = rng.choice(sorted(found.keys() - {""}))
            kill(rng.choice(found[victim]))
        else:
            victim = "nobody"
        try:
            status = client.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            log = (tmp_path / "log").read_text()
            pytest.fail(f"hangs after {victim} was killed: {runs.processes()}\n{log}")
        after = done()
        what = f"{victim} killed: status {status}, {len(before)} points before, {len(after)} after"
        print(what, flush=True)
        output = f"{what}\n{(tmp_path / 'log').read_text()}"
        assert "netsim/" not in output, output  # no traceback
        lasting = victim in ("worker process", "dask worker", "nobody")
        allowed = {0} if lasting else {0, 1, -signal.SIGKILL}
        if victim == "scheduler" and "cannot connect" in output:
            allowed = {2}
        assert status in allowed, output
        assert before.items() <= after.items(), output
        if (tmp_path / "r/sweep.parquet").exists():
            assert all(one.matches_hash() for one in load("r").points), output
        if victim != "nobody":
            seen.append(victim)
        if len(after) == POINTS:
            shutil.rmtree("r")
    runs.mend()
    until(lambda: runs.start(runs.arguments()).wait(LIMIT_S) == 0, 2 * LIMIT_S)
    assert sweep.same_as_serial("r")


def kill(number: int) -> None:
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return
