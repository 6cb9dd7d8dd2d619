"""A run killed and resumed repeatedly ends with the result of an uninterrupted run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from netsim.results import files, load
from netsim.running import checkpoint

EXPERIMENT = """
name = "e"
transport = "roce"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2
link_latency = "20ns"
switch_latency = "0ns"
[traffic]
kind = "permutation"
size = "2MB"
"""
CHILD = """
import os, signal, sys
kill_at, seen = int(sys.argv[1]), 0
def hook(event, arguments):
    # Called before each change that Python makes in the results directory.
    global seen
    if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
        return
    if event in ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "shutil.rmtree"):
        if "results" in str(arguments[0]):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from netsim.running import drive
drive.CHUNK_S = 0.02
from netsim.cli import main
main(sys.argv[2:])
"""
RUN = ("run", "e.toml", "--out", "results", "--checkpoint", "30ms")
RESUME = ("run", "results")


def start(folder: Path, *arguments: str, kill_at: int = 0) -> subprocess.Popen:
    """Start a command in plain Python that kills itself before change `kill_at` of the results."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(kill_at), *arguments, "--quiet"],
        cwd=folder,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )


def command(folder: Path) -> tuple[str, ...]:
    """Return the command that resumes the run, or starts it if there is nothing to resume."""
    return RESUME if (folder / "results" / files.CHECKPOINT).exists() else RUN


def check_end(folder: Path, threads: str) -> None:
    """Finish the run without kills; its result must equal that of an uninterrupted run."""
    assert start(folder, *command(folder), "--threads", threads).wait(timeout=240) == 0
    assert start(folder, "run", "e.toml", "--out", "whole").wait(timeout=240) == 0
    ours, whole = load(folder / "results"), load(folder / "whole")
    assert ours.flows.equals(whole.flows)
    assert ours.links.equals(whole.links)
    assert ours.summary["hash"] == whole.summary["hash"]
    assert sorted(os.listdir(folder / "results")) == sorted(os.listdir(folder / "whole"))
    assert sorted(os.listdir(folder)) == ["e.toml", "results", "whole"]


@pytest.mark.parametrize(
    ("kills", "size"), [(3, "500KB"), pytest.param(40, "2MB", marks=pytest.mark.slow)]
)
def test_run_survives_kills_before_file_system_changes(
    tmp_path: Path, kills: int, size: str
) -> None:
    (tmp_path / "e.toml").write_text(EXPERIMENT.replace("2MB", size))
    rng = random.Random(5)
    for _ in range(kills):
        run = start(tmp_path, *command(tmp_path), kill_at=rng.randint(1, 12))
        assert run.wait(timeout=240) == -signal.SIGKILL, "done too early"
    check_end(tmp_path, "2")


@pytest.mark.slow
def test_run_survives_kills_at_random_times(tmp_path: Path) -> None:
    """Kill the run from outside until it is done; it progresses between two kills."""
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    rng, kills, checkpoint_times = random.Random(6), 0, []
    while kills < 12:
        run: Any = start(tmp_path, *command(tmp_path), "--threads", rng.choice("123"))
        time.sleep(rng.uniform(1.5, 3.0))
        run.kill()
        if run.wait(timeout=240) == 0:
            break
        kills += 1
        found = tmp_path / "results" / files.CHECKPOINT
        if found.exists():
            checkpoint_times.append(checkpoint.read(found).header.now_ps)
    print(kills, "kills; checkpoints at", checkpoint_times)
    assert kills > 2
    assert checkpoint_times == sorted(checkpoint_times)
    check_end(tmp_path, "1")
