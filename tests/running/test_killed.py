"""A sweep killed repeatedly: no point is repeated or damaged, and the table is complete."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netsim.results import files, load
from netsim.results.read import recorded_complete

POINTS = [f"seed={seed}" for seed in range(1, 9)]
EXPERIMENT = """
name = "e"
seed = "1..8"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2
[traffic]
kind = "permutation"
size = "100KB"
"""
CHILD = """
import os, signal, sys
log, results, kill_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = 0
def hook(event, arguments):
    # Called before each change that Python makes in the results directory.
    global seen
    if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
        return
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"):
        if results in str(arguments[0]):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from netsim.running import point as module
simulate = module.simulate
def logged(point, **options):
    with open(log, "a") as file:
        file.write(point.name + "\\n")
    return simulate(point, **options)
module.simulate = logged
from netsim.cli import main
main(["run", "e.toml", "--quiet", "--out", results, *sys.argv[4:]])
"""


class Sweep:
    """A sweep in `folder`, with a log of the points that its current run simulates."""

    def __init__(self, folder: Path, transport: str = "ideal") -> None:
        (folder / "e.toml").write_text(EXPERIMENT.format(transport=transport))
        self.folder, self.results, self.log = folder, folder / "results", folder / "log"
        self.kills = 0

    def start(self, *arguments: str, kill_at: int = 0) -> subprocess.Popen:
        """Start a run that kills itself before change number `kill_at` of the results directory."""
        self.log.write_text("")
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, self.log, self.results, str(kill_at), *arguments],
            cwd=self.folder,
            env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        )

    def wait(self, run: subprocess.Popen) -> bool:
        """Wait for the run; return whether it was killed before its end."""
        status = run.wait(timeout=120)
        assert status in (0, -signal.SIGKILL)
        self.kills += status != 0
        return status != 0

    def simulated(self) -> list[str]:
        return self.log.read_text().split()

    def done(self) -> set[str]:
        """Return the points with a complete result."""
        return {name for name in POINTS if recorded_complete(self.results / name)}

    def rows(self) -> set[str]:
        """Return the points in the sweep table."""
        if not (self.results / files.SWEEP).exists():
            return set()
        return set(load(self.results).table["point"])

    def check(self, done: set[str], rows: set[str], *, again: bool = False) -> None:
        """Check that points and rows from before the run are kept, and not run again."""
        assert self.rows() >= rows
        if self.rows():
            loaded = {point.name: point for point in load(self.results).points}
            assert all(point.complete and point.matches_hash() for point in loaded.values())
            assert loaded.keys() >= rows
        assert self.done() >= done
        if not again:
            assert not done & set(self.simulated())
            assert not self.simulated() or self.rows() >= done

    def check_end(self) -> None:
        """Run without kills: every point must be complete, and no other file left."""
        done, rows = self.done(), self.rows()
        assert not self.wait(self.start())
        self.check(done, rows)
        assert self.done() == self.rows() == set(POINTS)
        assert sorted(os.listdir(self.results)) == sorted([*POINTS, files.SWEEP])
        assert sorted(os.listdir(self.folder)) == ["e.toml", "log", "results"]


@pytest.mark.parametrize(("kills", "steps"), [(2, 12), pytest.param(20, 8, marks=pytest.mark.slow)])
def test_sweep_survives_kills_before_file_system_changes(tmp_path, kills, steps):
    sweep, rng = Sweep(tmp_path), random.Random(3)
    while sweep.kills < kills:
        done, rows = sweep.done(), sweep.rows()
        assert sweep.wait(sweep.start(kill_at=rng.randint(1, steps))), "done too early"
        sweep.check(done, rows)
    print(sweep.kills, "kills,", len(sweep.done()), "points done before the last run")
    sweep.check_end()
    for _ in range(kills // 2):
        done, rows = sweep.done(), sweep.rows()
        assert sweep.wait(sweep.start("--force", kill_at=rng.randint(1, 40)))
        sweep.check(done, rows, again=True)
    sweep.check_end()


@pytest.mark.slow
def test_sweep_survives_kills_at_random_times(tmp_path):
    """Twenty kills from outside; in plain Python, most of the run time is simulation."""
    sweep, rng = Sweep(tmp_path, "datagram"), random.Random(1)
    while sweep.kills < 20:
        done, rows = sweep.done(), sweep.rows()
        run = sweep.start()
        begun = rng.choice([0, 1, 1, 1, 2])  # most are killed in their first point
        while run.poll() is None and len(sweep.simulated()) < begun:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.3))
        run.kill()
        assert sweep.wait(run), "done too early"
        sweep.check(done, rows)
    print(sweep.kills, "kills,", len(sweep.done()), "points done before the last run")
    sweep.check_end()
