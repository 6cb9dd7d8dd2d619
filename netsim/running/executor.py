"""Executors simulate the points of a run: the interface, and the one for this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from netsim.errors import CombinedInputError, InputError
from netsim.results.destination import clean
from netsim.results.write import checked, receive
from netsim.running.estimate import Estimate, estimate_each, require_memory
from netsim.running.point import Callbacks, PointOutcome, PointRun, RunOptions

if TYPE_CHECKING:
    from netsim.running.mpi import MpiRanks
    from netsim.running.worker_process import Reply


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
    """Simulates points: `start` hands them over, `replies` returns what has ended."""

    jobs = 1
    """Number of points simulated at a time."""

    threads = 1
    """Threads of each point."""

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
        found: dict[str, Estimate] = {}
        end = time.monotonic() + self.alone_s
        for point, one in estimate_each([run.point for run in runs], every_seed=False):
            found[point.name] = one
            if not self.has_own_memory:
                self.require_memory(one, what=point.file)
            if should_stop() or time.monotonic() > end:
                break
        return found

    def require_memory(self, estimate: Estimate, *, what: str) -> None:
        """Raise InputError if `what` needs more memory than there is."""
        require_memory(estimate, what=what)

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        """Simulate the points; yield their outcomes once their results are written.

        Yields no outcome for points that `should_stop` keeps from being simulated.
        """
        seconds = {name: one.seconds_with(self.threads) for name, one in batch.estimates.items()}
        waiting = sorted(batch.runs, key=lambda run: -seconds[run.name])
        running: dict[str, PointRun] = {}
        batch = replace(batch, options=replace(batch.options, threads=self.threads))
        batch.callbacks.parallel(min(self.jobs, len(waiting)))
        is_stopped = False
        while waiting or running:
            if not is_stopped and batch.callbacks.should_stop():
                is_stopped = True
                waiting.clear()
                self.stop()
            self._start_some(waiting, running, batch)
            ended = [(running.pop(name), reply) for name, reply in self.replies(running, batch)]
            self._start_some(waiting, running, batch)  # before the table is written
            for run, reply in ended:
                if (outcome := outcome_of(run, reply)) is not None:
                    yield outcome

    def _start_some(
        self, waiting: list[PointRun], running: dict[str, PointRun], batch: Batch
    ) -> None:
        for run in self.start(waiting, running, batch) if waiting else ():
            waiting.remove(run)
            running[run.name] = run

    def start(
        self, waiting: Sequence[PointRun], running: Mapping[str, PointRun], batch: Batch
    ) -> list[PointRun]:
        """Start the first points that fit, and return them."""
        raise NotImplementedError

    def replies(self, running: Mapping[str, PointRun], batch: Batch) -> Iterator[tuple[str, Reply]]:
        """Yield the names of points that have ended, with their replies (`outcome_of`). Waits a
        little."""
        raise NotImplementedError

    def stop(self) -> None:
        """Make running points write their partial results and end."""

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


def outcome_of(run: PointRun, reply: Mapping[str, Any]) -> PointOutcome | None:
    """Return the outcome of a point from a reply (`Workers.ask`) and the files that it has written;
    None if it was stopped.

    Raises InputError if its input is wrong.
    """
    if "lost" in reply:
        clean(run.folder.parent, run.folder.name)
    if "input_error" in reply:
        raise input_error(reply["input_error"])
    if "stopped" in reply:
        return None
    if reply["directory"] is None:
        return run.failed(str(reply["error"]).removeprefix(f"{run.name}: "))
    fingerprint = run.provenance.fingerprint
    try:
        if "files" in reply:
            receive(run.folder, reply["files"], fingerprint)
        result = checked(run.folder, fingerprint)
    except InputError as error:
        return run.failed(f"the result cannot be read: {error}")
    return run.outcome(result)


def input_error(content: Sequence[Mapping[str, Any]]) -> InputError:
    """Return the InputError that a worker process reported."""
    errors = [InputError(**one) for one in content]
    return errors[0] if len(errors) == 1 else CombinedInputError(errors)
