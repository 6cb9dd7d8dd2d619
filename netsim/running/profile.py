"""Where the time of a point goes: step by step on its way, and inside the windows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.engine.simulation import Options
from netsim.errors import InputError
from netsim.experiment.scenario import is_closed_form, prepare
from netsim.limits import HORIZON_PS
from netsim.results import write_result
from netsim.results.provenance import provenances
from netsim.results.run_result import Ending
from netsim.running.collect import engine_result
from netsim.running.drive import FINISHED, drive
from netsim.running.point import build_engine

if TYPE_CHECKING:
    from netsim.engine.kernels.profile import WindowTimes
    from netsim.engine.state_views import Counts
    from netsim.experiment import Point

PREPARE, BUILD, CODE, DRIVE, COLLECT, WRITE = STEPS = (
    "prepare", "build", "code", "drive", "collect", "write"
)  # fmt: skip
"""The steps of a run, as `netsim/README.md` has them. CODE is the part of building an engine in
which its code is compiled, or read from the disk."""


@dataclass(frozen=True)
class Profile:
    """Where the time of a point went, which one worker simulated.

    `seconds` are those of each step, on the wall; `windows` are the parts of DRIVE.
    """

    seconds: dict[str, float]
    windows: WindowTimes
    counts: Counts

    @property
    def rest_s(self) -> float:
        """What DRIVE spends outside the windows: enlarging rings, and looking round."""
        inside = self.windows
        parts = (inside.find_s, inside.switches_s, inside.hosts_s, inside.publish_s)
        return self.seconds[DRIVE] - sum(parts)

    @property
    def serial_s(self) -> float:
        """What DRIVE spends where threads do not help."""
        return self.windows.find_s + self.windows.publish_s + self.rest_s


def profile(point: Point) -> Profile:
    """Simulate a point by one worker, write its result into a temporary folder, and take the time.

    Raises InputError for a point that cannot be built or is not simulated, RunError for a
    transport that breaks a rule of the engine.
    """
    if is_closed_form(point):
        hint = "there is nothing to take the time of"
        raise InputError(f"{point.transport.name} is not simulated", hint=hint)
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
        until_ps = HORIZON_PS if point.stop.max_time_ps is None else point.stop.max_time_ps
        why = drive(engine, until_ps=until_ps, stop_when_done=not point.stop.drain)
    with step(COLLECT):
        timings = {"wall_s": seconds[DRIVE], "compile_s": seconds[CODE], "threads": 1}
        ending = Ending(why, complete=why == FINISHED)
        result = engine_result(point, scenario, engine, ending, timings)
    with step(WRITE), tempfile.TemporaryDirectory() as folder:
        (provenance,) = provenances([point])
        write_result(Path(folder) / "result", point, result, provenance)
    return Profile(seconds, engine.window_times(), engine.counts)
