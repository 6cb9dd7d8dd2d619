"""The loop around an engine: a chunk of windows, then a look round, until there is an end."""

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
"""Why a run ends: every flow is done at both ends, the user interrupted it, `stop.max_time` is
reached,
or no events are left."""

ENDINGS = {Status.DONE: FINISHED, Status.IDLE: UNDELIVERED, Status.TIME_LIMIT: TIME_LIMIT}


@dataclass(frozen=True)
class Chunk:
    """What is known after some windows. `wall_s` is the time since the first chunk began."""

    status: Status
    counts: Counts
    wall_s: float

    @property
    def goes_on(self) -> bool:
        """Whether there is more to simulate."""
        return self.status is Status.RUNNING


BEFORE = Chunk(Status.RUNNING, Counts(0, 0, 0, 0, 0, 0), 0.0)
"""What is known before the first chunk."""


def drive(
    engine: Engine,
    look: Callable[[Chunk], str | None] = lambda _: None,
    *,
    until_ps: int = HORIZON_PS,
    stop_when_done: bool = True,
    windows: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> str:
    """Advance an engine until there is a reason to stop, and return the reason.

    Parameters
    ----------
    look : is shown what is known after every chunk, and may give a reason of its own.
    until_ps : simulated time at which to stop.
    stop_when_done : stop as soon as every flow is done at both ends. Otherwise what is left on its
        way afterwards is simulated as well.
    windows : of each chunk, shared by all threads; by default a Tuner chooses.
    should_stop : is asked after every chunk; when true the run ends as INTERRUPTED.

    Raises RunError for whatever a handler does wrong.
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
        reason = look(Chunk(status, counts, now - began)) or ENDINGS.get(status)
        if reason is None and should_stop():
            reason = INTERRUPTED
        if reason is not None:
            return reason
