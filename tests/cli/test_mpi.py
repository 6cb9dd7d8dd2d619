"""`mpirun netsim run --mpi` with real processes, in plain Python."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from netsim.experiment import Experiment, built_in
from netsim.running.point import simulate

MPIRUN = shutil.which(
    "mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
)
NETSIM = [sys.executable, "-c", "from netsim.cli import main; main()"]
SMALL = ["--set", "traffic.fan_in=4", "--set", "transport=ndp", "--set", "traffic.size=64KB"]
PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1"}

with_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None or MPIRUN is None, reason="needs mpi4py and mpirun"
)


def start_ranks(
    out: Path, *options: str, command: str = "run incast", n: int = 2
) -> subprocess.Popen:
    """Start a run on several ranks."""
    assert MPIRUN is not None
    ranks = [MPIRUN, "-n", str(n), *NETSIM, *command.split(), "--mpi", "--threads", "1"]
    return subprocess.Popen(
        [*ranks, "--out", str(out), *options],
        env=PLAIN,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def hash_in(out: Path) -> str:
    return str(json.loads((out / "summary.json").read_text())["hash"])


@with_mpi
def test_ranks_give_the_result_of_a_single_process(tmp_path: Path) -> None:
    subprocess.run(
        [*NETSIM, "run", "incast", *SMALL, "--threads", "1", "--out", tmp_path / "one", "--quiet"],
        env=PLAIN,
        check=True,
    )
    run = start_ranks(tmp_path / "two", *SMALL)
    printed, _ = run.communicate(timeout=120)
    assert run.returncode == 0, printed
    assert printed.count("results in") == 1
    assert hash_in(tmp_path / "two") == hash_in(tmp_path / "one")


@with_mpi
def test_run_resumes_on_other_rank_counts_after_a_lost_rank(tmp_path: Path) -> None:
    out, resume = tmp_path / "out", ["run", tmp_path / "out", "--threads", "1", "--quiet"]
    run = start_ranks(out, *SMALL[:4], "--checkpoint", "10ms", "--quiet")
    wait_for_checkpoint(out, 0, run)
    lost = ranks_of(run.pid)[-1]
    os.kill(lost, signal.SIGKILL)
    printed, _ = run.communicate(timeout=10)
    assert run.returncode != 0
    assert f"1 is process {lost}" in printed
    assert f"PID {lost}" in printed  # mpirun names it
    last = (out / "checkpoint.netsim").stat().st_mtime
    resumed = start_ranks(out, command=f"run {out}", n=3)
    wait_for_checkpoint(out, last, resumed)
    resumed.send_signal(signal.SIGINT)
    printed, _ = resumed.communicate(timeout=60)
    assert resumed.returncode == 130, printed
    assert "resumes at" in printed
    subprocess.run([*NETSIM, *resume], env=PLAIN, check=True, timeout=60)
    [point] = Experiment.load(built_in()["incast"], SMALL[1:4:2]).points()
    assert hash_in(out) == simulate(point, threads=1).hash


def wait_for_checkpoint(out: Path, after: float, run: subprocess.Popen) -> None:
    """Wait for a checkpoint that is newer than ``after``."""
    checkpoint, end = out / "checkpoint.netsim", time.monotonic() + 60
    while time.monotonic() < end and run.poll() is None:
        if checkpoint.exists() and checkpoint.stat().st_mtime > after:
            return
        time.sleep(0.05)
    run.kill()
    raise AssertionError(run.communicate()[0])


def ranks_of(pid: int) -> list[int]:
    """Leaf processes below mpirun."""
    below = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return [one for each in below for one in ranks_of(int(each))] or [pid]


@with_mpi
def test_error_is_reported_by_one_rank_only(tmp_path: Path) -> None:
    run = start_ranks(tmp_path / "out", "--set", "traffic.fan_in=-1")
    printed, _ = run.communicate(timeout=60)
    assert run.returncode == 2
    assert printed.count("traffic.fan_in") == 1


def test_missing_mpi4py_error_names_the_extra(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mpi4py'] = None; from netsim.cli import main; main()"
    command = [sys.executable, "-c", code, "run", "incast", "--mpi", "--out", str(tmp_path)]
    run = subprocess.run(command, env=PLAIN, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert len(run.stderr.splitlines()) == 1
    assert "netsim-fabric[mpi]" in run.stderr
