"""Advance an engine in steps of several windows until the run ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.engine.state_views import Counts, Status
from netsim.limits import HORIZON_PS
from netsim.running.tuning import Tuner

if TYPE_CHECKING:
    from netsim.engine.engine import Engine

FINISHED, INTERRUPTED = "finished", "interrupted"
TIME_LIMIT, UNDELIVERED = "time_limit", "undelivered"
"""Why a run ends: all flows are done at both ends, the user stopped it, `stop.max_time` is reached,
or no events are left."""

ENDINGS = {Status.DONE: FINISHED, Status.IDLE: UNDELIVERED, Status.TIME_LIMIT: TIME_LIMIT}


@dataclass(frozen=True)
class StepReport:
    """The state after a step; `wall_s` is the time since the first step."""

    status: Status
    counts: Counts
    wall_s: float

    @property
    def is_running(self) -> bool:
        return self.status is Status.RUNNING


BEFORE = StepReport(Status.RUNNING, Counts(0, 0, 0, 0, 0, 0), 0.0)
"""The report before the first step."""


def drive(
    engine: Engine,
    look: Callable[[StepReport], str | None] = lambda _: None,
    *,
    until_ps: int = HORIZON_PS,
    stop_when_done: bool = True,
    windows: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> str:
    """Advance an engine until there is a reason to stop; return the reason.

    `look` gets the report of every step and may return a reason to stop. `should_stop` is called
    after every step; if true, the run ends as INTERRUPTED. With `stop_when_done`, the run stops
    once every flow is done at both ends; otherwise packets in flight are also simulated. `windows`
    is the number of windows per step; by default a Tuner chooses.

    Raises RunError if a handler breaks a rule.
    """
    tuner = Tuner(engine.threads)
    began = time.perf_counter()
    counts = engine.counts
    while True:
        workers, n_windows = (engine.threads, windows) if windows else tuner.next_call()
        hops, before = counts.hops, time.perf_counter()
        status = engine.advance(n_windows, until_ps, stop_when_done=stop_when_done, workers=workers)
        counts, now = engine.counts, time.perf_counter()
        tuner.learn(workers, n_windows, counts.hops - hops, now - before)
        reason = look(StepReport(status, counts, now - began)) or ENDINGS.get(status)
        if reason is None and should_stop():
            reason = INTERRUPTED
        if reason is not None:
            return reason
