"""Where the points of a run are simulated: the interface, and this process one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.running.point_run import Callbacks, PointOutcome, PointRun, RunOptions

if TYPE_CHECKING:
    from netsim.running.estimate import Estimate
    from netsim.running.mpi import MpiRanks


ALONE_S = 1.0
"""Seconds in which this process predicts points before it lets others help."""


@dataclass(frozen=True)
class Batch:
    """Points to simulate, with their estimates by name.

    `record` enters an outcome in the sweep's table; executors call it themselves only before they
    end the process.
    """

    runs: Sequence[PointRun]
    estimates: Mapping[str, Estimate]
    options: RunOptions
    callbacks: Callbacks
    record: Callable[[PointOutcome], None]


class Executor:
    """Simulates points somewhere."""

    alone_s = math.inf
    """Seconds in which this process predicts points."""

    has_own_memory = False
    """Whether points use the memory of other machines."""

    def open(self, lock: int) -> None:
        """Prepare to run; `lock` is the descriptor of the lock on the result directory, which all
        processes of this machine that write there hold."""

    def estimates(
        self, runs: Sequence[PointRun], should_stop: Callable[[], bool]
    ) -> dict[str, Estimate]:
        """Return the estimates of points by name; incomplete once `should_stop` is true, or after
        `alone_s`.

        Raises InputError for a point that cannot be built or exceeds the memory of this machine, if
        it is simulated here.
        """
        from netsim.running.estimate import estimate_each

        found: dict[str, Estimate] = {}
        end = time.monotonic() + self.alone_s
        for point, one in estimate_each([run.point for run in runs]):
            found[point.name] = one
            if not self.has_own_memory:
                self.require_memory(one, what=point.file)
            if should_stop() or time.monotonic() > end:
                break
        return found

    def require_memory(self, estimate: Estimate, *, what: str) -> None:
        """Raise InputError if `what` needs more memory than there is."""
        from netsim.running.estimate import require_memory

        require_memory(estimate, what=what)

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        """Simulate the points; yield their outcomes once their results are written.

        Yields no outcome for points that `should_stop` keeps from being simulated.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End everything that still runs, without waiting for its results."""


class Serial(Executor):
    """One point after the other, in this process, or divided among ranks."""

    def __init__(self, ranks: MpiRanks | None = None) -> None:
        self._ranks = ranks

    def require_memory(self, estimate: Estimate, *, what: str) -> None:
        if self._ranks is None:
            super().require_memory(estimate, what=what)
        else:
            self._ranks.require_memory(estimate, what=what)

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        for run in batch.runs:
            yield run.simulate(batch.options, batch.callbacks, batch.record)
            if batch.callbacks.should_stop():
                return
