"""A sweep with slow points for worker processes, and its results from a serial run."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from netsim.api import run
from netsim.experiment import Experiment
from netsim.results import load
from netsim.results.read import recorded_complete

EXPERIMENT = """
name = "e"
seed = "1..{points}"
transport = {transport}
topology = {{kind = "./topology.py", hosts = 4}}
traffic = {{kind = "./traffic.py", size = "30KB"}}
"""
TOPOLOGY = "from netsim.topologies.dumbbell import *"
TIMES = ("wall_s", "compile_s", "packet_hops_per_s")
TRAFFIC = """
import time, sys
from netsim.traffic.permutation import *
from netsim.traffic import permutation
def flows(*given):
    if "netsim.running.worker" in sys.modules:
        time.sleep({seconds})
    return permutation.flows(*given)
"""


class SweepCase:
    """The experiment e.toml in `folder`; the folder "serial" has results of a serial run."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        points: int = 6,
        transport: str = '"ideal"',
        seconds: float = 0,
    ) -> None:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
        Path("e.toml").write_text(EXPERIMENT.format(points=points, transport=transport))
        Path("topology.py").write_text(TOPOLOGY)
        Path("traffic.py").write_text(TRAFFIC.format(seconds=seconds))
        run("e.toml", out="serial")
        self.points = Experiment.load("e.toml").points()

    def same_as_serial(self, directory: str) -> bool:
        """Return whether table, hashes, order and file names equal the serial run's."""
        both = ("serial", directory)
        tables = [load(one).table.drop(TIMES, strict=False) for one in both]
        hashes = [[point.summary["hash"] for point in load(one).points] for one in both]
        names = [[x for x in sorted(os.listdir(one)) if x[0] != "."] for one in both]
        return tables[0].equals(tables[1]) and hashes[0] == hashes[1] and names[0] == names[1]


def done(directory: str = "r") -> dict[str, int]:
    """Return the points with a complete result, and the inode numbers of their files."""
    return {
        one.parent.name: one.stat().st_ino
        for one in Path(directory).glob("[!.]*/summary.json")
        if recorded_complete(one.parent)
    }


def until(condition: Callable[[], object], limit_s: float = 150.0) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
