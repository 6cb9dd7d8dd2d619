"""Peak memory of runs against the estimate of `netsim check`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.experiment import Experiment
from netsim.running.estimate import estimate

EXPERIMENT = """
name = "e"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = {hosts_per_leaf}
leaves = {leaves}
host_rate = "800Gbps"
[traffic]
kind = "permutation"
size = "{size}"
load = {load}
"""
SIZES = {"128": (16, 8), "8192": (64, 128), "65536": (256, 256)}
EIGHT = {"8192": 0.001, "65536": 0.00012207}  # the load at which eight of this many hosts send


def measured_bytes(*arguments: str, folder: Path) -> int:
    """Return the peak memory of a netsim command."""
    run = subprocess.Popen([sys.executable, "-m", "netsim", *arguments, "--quiet"], cwd=folder)
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode == 0
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["ndp", "roce"])
@pytest.mark.parametrize(
    ("hosts", "load", "size"),
    [
        ("128", 1, "2MB"),
        ("8192", 1, "2MB"),
        ("8192", EIGHT["8192"], "2MB"),
        ("65536", EIGHT["65536"], "200KB"),
    ],
)
def test_peak_memory_matches_the_estimate(
    tmp_path: Path, transport: str, hosts: str, load: float, size: str
) -> None:
    hosts_per_leaf, leaves = SIZES[hosts]
    text = EXPERIMENT.format(
        transport=transport, hosts_per_leaf=hosts_per_leaf, leaves=leaves, load=load, size=size
    )
    (tmp_path / "e.toml").write_text(text)
    (point,) = Experiment.load(tmp_path / "e.toml").points()
    predicted = estimate(point)
    small = ("--set", "topology.leaves=2", "--set", "traffic.load=1", "--out", "small")
    measured_bytes("run", "e.toml", *small, folder=tmp_path)  # compiles the code
    measured = measured_bytes("run", "e.toml", folder=tmp_path)
    ratio = predicted.memory_bytes / measured
    print(f"{transport}, {predicted.n_hosts} hosts, {predicted.n_flows} flows: ", end="")
    print(f"{measured / 1e6:.0f} MB, predicted {predicted.memory_bytes / 1e6:.0f}: {ratio:.2f}")
    assert 0.9 <= ratio <= 1.2
