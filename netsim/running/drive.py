"""Advance an engine in steps of several windows until the run ends.

Results do not depend on the number of workers and windows of a step, so the one follows measured
speeds, and the other time. On a busy machine, one worker may be faster than several.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netsim.engine.state_views import Counts, Status
from netsim.limits import HORIZON_PS

if TYPE_CHECKING:
    from netsim.engine.engine import Engine

CHUNK_S = 0.25
"""Duration of a call, after which progress, interruption and stalls are checked."""

TRIAL_S = 0.01
"""Duration of a trial of the other number of workers."""

TRIAL_EVERY = 12
"""Calls between trials; a third of that in the first hundred."""

FIRST_CALLS = 10
"""Trials at the beginning, in turn. Of these only the last two count, since the first load code and
touch memory first."""

MANY_WINDOWS = 40  # log2 of more than a run has

LONG_WINDOW = 100_000
"""Packet-hops per window from which several workers are never slower than one."""

MEMORY = 0.5
"""Weight of the newest speed in the running mean."""


@dataclass
class Tuner:
    """Chooses between one worker and `threads`, by speeds measured in short trials."""

    threads: int
    speeds: dict[int, float] = field(default_factory=dict)
    calls: int = 0
    hops_per_window: float = 0.0

    def next_call(self) -> tuple[int, float]:
        """Return the workers and the seconds of the next call."""
        self.calls += 1
        if self.calls == 1:
            return 1, 0.0  # one window: this call loads or compiles code
        if self.threads == 1 or self.hops_per_window > LONG_WINDOW:
            return self.threads, CHUNK_S
        if self.calls <= FIRST_CALLS:
            return self.threads if self.calls % 2 else 1, TRIAL_S
        best = max(self.speeds, key=self.speeds.__getitem__, default=1)  # none: nothing to do here
        every = TRIAL_EVERY // 3 if self.calls < 100 else TRIAL_EVERY
        if self.calls % every == 0:
            return 1 if best == self.threads else self.threads, TRIAL_S
        return best, CHUNK_S

    @property
    def windows(self) -> int:
        """Windows of a call at most: 1, 2, 4, ... So short runs are looked at, too, and at the
        same moments on any machine."""
        return 1 << min(self.calls - 1, MANY_WINDOWS)

    def learn(self, workers: int, windows: int, hops: int, seconds: float) -> None:
        """Record what a call did; speeds are packet-hops per second."""
        if hops > 0 and seconds > 0:
            speed = hops / seconds
            before = speed if self.calls <= FIRST_CALLS else self.speeds.get(workers, speed)
            self.speeds[workers] = MEMORY * speed + (1 - MEMORY) * before
            self.hops_per_window = hops / max(1, windows)  # this rank may have had none


FINISHED, INTERRUPTED = "finished", "interrupted"
TIME_LIMIT, UNDELIVERED = "time_limit", "undelivered"
MEASURED = "measured"
"""Why a run ends: all flows are done at both ends, the user stopped it, `stop.max_time` is reached,
no events are left, or all of [measure] has passed."""

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
    tuner: Tuner | None = None,
) -> str:
    """Advance an engine until there is a reason to stop; return the reason.

    `look` gets the report of every step and may return a reason to stop. `should_stop` is called
    after every step; if true, the run ends as INTERRUPTED. With `stop_when_done`, the run stops
    once every flow is done at both ends; otherwise packets in flight are also simulated. `windows`
    is the number of windows per step; by default `tuner` chooses, or a new one.

    Raises RunError if a handler breaks a rule.
    """
    tuner = tuner or Tuner(engine.threads)
    began = time.perf_counter()
    counts = engine.counts
    while True:
        workers, seconds = (engine.threads, None) if windows else tuner.next_call()
        last, before = counts, time.perf_counter()
        status = engine.advance(
            windows or tuner.windows,
            until_ps,
            stop_when_done=stop_when_done,
            workers=workers,
            seconds=seconds,
        )
        counts, now = engine.counts, time.perf_counter()
        n_windows, hops = counts.windows - last.windows, counts.hops - last.hops
        tuner.learn(workers, n_windows, hops, now - before)
        reason = look(StepReport(status, counts, now - began)) or ENDINGS.get(status)
        if reason is None and should_stop():
            reason = INTERRUPTED
        if reason is not None:
            return reason
