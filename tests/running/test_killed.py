"""A sweep and a run with checkpoints, killed before file changes and continued: no result is
repeated, damaged or different."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.results import files, load
from netsim.results.read import recorded_complete

POINTS = [f"seed={seed}" for seed in range(1, 9)]
EXPERIMENT = """
name = "e"
seed = {seed}
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2
link_latency = "20ns"
switch_latency = "0ns"
[traffic]
kind = "permutation"
size = "{size}"
"""
CHILD = """
import os, signal, sys
log, kill_at = sys.argv[1], int(sys.argv[2])
seen = 0
def hook(event, arguments):
    # Called before each change that Python makes in the results directory.
    global seen
    if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
        return
    changes = ("rename", "remove", "link", "mkdir", "rmdir")
    if event in ("open", "shutil.rmtree", *(f"os.{one}" for one in changes)):
        if "results" in str(arguments[0]):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from netsim.running import drive, executor as module
drive.CHUNK_S = 0.02
simulate = module.simulate
def logged(point, **options):
    with open(log, "a") as file:
        file.write(point.name + "\\n")
    return simulate(point, **options)
module.simulate = logged
from netsim.cli import main
main(["run", *sys.argv[3:], "--quiet"])
"""


def run(folder: Path, *arguments: str, kill_at: int = 0) -> list[str]:
    """Run a command that kills itself before change number `kill_at` of the results, in plain
    Python; return the points that it simulates."""
    log = folder / "log"
    log.write_text("")
    status = subprocess.run(
        [sys.executable, "-c", CHILD, log, str(kill_at), *arguments],
        cwd=folder,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        timeout=240,
        check=False,
    ).returncode
    assert status == (-signal.SIGKILL if kill_at else 0), "done too early"
    return log.read_text().split()


def sweep(folder: Path, *options: str, kill_at: int = 0) -> None:
    """Run the sweep; check that points and rows from before are kept, and not run again."""
    results = folder / "results"
    done = {name for name in POINTS if recorded_complete(results / name)}
    rows = set(load(results).table["point"]) if (results / files.SWEEP).exists() else set()
    simulated = run(folder, "e.toml", "--out", str(results), *options, kill_at=kill_at)
    assert done <= {name for name in POINTS if recorded_complete(results / name)}
    if (results / files.SWEEP).exists():
        assert rows <= set(load(results).table["point"])
        assert all(point.complete and point.matches_hash() for point in load(results).points)
    assert "--force" in options or not done & set(simulated)


@pytest.mark.parametrize(("kills", "steps"), [(2, 12), pytest.param(20, 8, marks=pytest.mark.slow)])
def test_sweep_survives_kills_before_file_system_changes(tmp_path, kills, steps):
    content = EXPERIMENT.format(seed='"1..8"', transport="ideal", size="100KB")
    (tmp_path / "e.toml").write_text(content)
    rng = random.Random(3)
    for options, n, last in (((), kills, steps), (("--force",), kills // 2, 40)):
        for _ in range(n):
            sweep(tmp_path, *options, kill_at=rng.randint(1, last))
        sweep(tmp_path)
        assert sorted(os.listdir(tmp_path / "results")) == sorted([*POINTS, files.SWEEP])
        assert sorted(os.listdir(tmp_path)) == ["e.toml", "log", "results"]
        assert set(load(tmp_path / "results").table["point"]) == set(POINTS)


@pytest.mark.parametrize(
    ("kills", "size"), [(3, "500KB"), pytest.param(40, "2MB", marks=pytest.mark.slow)]
)
def test_run_with_checkpoints_survives_kills(tmp_path, kills, size):
    (tmp_path / "e.toml").write_text(EXPERIMENT.format(seed=1, transport="roce", size=size))
    rng = random.Random(5)
    start = ("e.toml", "--out", "results", "--checkpoint", "30ms")

    def command() -> tuple[str, ...]:
        return ("results",) if (tmp_path / "results" / files.CHECKPOINT).exists() else start

    for _ in range(kills):
        run(tmp_path, *command(), kill_at=rng.randint(1, 12))
    run(tmp_path, *command(), "--threads", "2")
    run(tmp_path, "e.toml", "--out", "whole")
    ours, whole = load(tmp_path / "results"), load(tmp_path / "whole")
    assert ours.flows.equals(whole.flows)
    assert ours.links.equals(whole.links)
    assert ours.summary["hash"] == whole.summary["hash"]
    assert sorted(os.listdir(tmp_path / "results")) == sorted(os.listdir(tmp_path / "whole"))
