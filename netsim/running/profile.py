"""Measure where the time of a point goes: by step of the run, and within windows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netsim.engine.kernels.loop import WindowTimes
from netsim.engine.simulation import Options
from netsim.engine.state_views import Counts
from netsim.errors import InputError
from netsim.experiment import Point
from netsim.experiment.scenario import is_closed_form, prepare
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS
from netsim.results import write_result
from netsim.results.provenance import provenances
from netsim.results.run_result import Ending
from netsim.running.drive import FINISHED, drive
from netsim.running.point import build_engine, engine_result

PREPARE, BUILD, CODE, DRIVE, COLLECT, WRITE = STEPS = (
    "prepare", "build", "code", "drive", "collect", "write"
)  # fmt: skip
"""Steps of a run (see `netsim/README.md`); CODE, a part of BUILD, compiles or loads code."""


@frozen
class Profile:
    """Seconds of wall-clock time per step with one worker; `windows` splits DRIVE."""

    seconds: dict[str, float]
    windows: WindowTimes
    counts: Counts

    @property
    def rest_s(self) -> float:
        """Time of DRIVE outside windows: starting calls, and checks between them."""
        times = self.windows
        windows_s = times.find_s + times.switches_s + times.hosts_s + times.publish_s
        return self.seconds[DRIVE] - windows_s

    @property
    def serial_s(self) -> float:
        """Time of DRIVE that threads do not shorten."""
        return self.windows.find_s + self.windows.publish_s + self.rest_s


def profile(point: Point) -> Profile:
    """Time each step of simulating a point with one worker and writing its result.

    Raises InputError if the point cannot be built or is not simulated, RunError if a transport
    breaks a rule.
    """
    if is_closed_form(point):
        raise InputError(f"{point.transport.name} is not simulated and cannot be profiled")
    seconds: dict[str, float] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - began

    with step(PREPARE):
        scenario = prepare(point)
    with step(BUILD):
        engine = build_engine(point, scenario, Options(profile=True))
        engine.advance(0, HORIZON_PS)
    seconds[CODE] = engine.code_s
    seconds[BUILD] -= engine.code_s
    with step(DRIVE):
        until_ps = HORIZON_PS if point.end_ps is None else point.end_ps
        reason = drive(engine, until_ps=until_ps, stop_when_done=not point.stop.drain)
    with step(COLLECT):
        timings = {"wall_s": seconds[DRIVE], "compile_s": seconds[CODE], "threads": 1}
        ending = Ending(reason, complete=reason == FINISHED)
        result = engine_result(point, scenario, engine, ending, timings)
    with step(WRITE), tempfile.TemporaryDirectory() as folder:
        (provenance,) = provenances([point])
        write_result(Path(folder) / "result", point, result, provenance)
    return Profile(seconds, engine.window_times(), engine.counts)
