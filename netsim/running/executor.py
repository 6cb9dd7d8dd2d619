"""Executors simulate the points of a run and write their results: the interface, and the one for
this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.engine.simulation import Options
from netsim.errors import CombinedInputError, InputError, RunError
from netsim.frozen import frozen
from netsim.results import Result, destination, files, summary_of, write_result
from netsim.results.provenance import Provenance
from netsim.results.write import checked, failed_row, receive, sweep_row
from netsim.running.checkpoint import Checkpointer
from netsim.running.drive import INTERRUPTED
from netsim.running.estimate import Estimate, estimate_each, require_memory
from netsim.running.point import Progress, simulate
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.running.mpi import MpiRanks
    from netsim.running.worker_process import Reply


Report = Callable[[Progress], None]


@frozen
class PointOutcome:
    """The outcome of one point, without its tables, which could exceed memory.

    `row` is its row in the sweep's table. `written` says whether there is a result in `directory`,
    `complete` whether it is complete, `error` why it is not, and `kept` whether an earlier run
    simulated it.
    """

    point: Point
    directory: Path
    row: dict[str, Any]
    written: bool
    complete: bool
    error: str | None = None
    kept: bool = False

    @property
    def cut(self) -> bool:
        """Whether the run ended at stop.max_time, as intended."""
        return bool(self.row["status"] == "time_limit")


@frozen
class RunOptions:
    """How points run, as for `simulate`; with `force`, also points with a complete result.

    A checkpoint is written every `checkpoint_s` seconds. One that does not match is an error with
    `must_fit`; otherwise its point starts over. `origin` is the experiment's. With `ranks`, points
    run only in this process. With `keep_stalled`, points that stalled do not run again.
    """

    threads: int | None = None
    checked: bool = False
    force: bool = False
    checkpoint_s: float | None = None
    must_fit: bool = False
    origin: Mapping[str, Any] | None = None
    ranks: MpiRanks | None = None
    keep_stalled: bool = False


@frozen
class Callbacks:
    """Callbacks that report on a run or stop it.

    `watch` is called at the start of each point and returns the callback for its progress. `note`
    gets messages about earlier results and lost processes, `predicted` the estimates of the points
    to simulate by name, and `parallel` the number of concurrent points, if several, before they
    start. `on_hang` is called after a point that hangs in this process is recorded as failed.
    """

    watch: Callable[[Point], Report | None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False
    note: Callable[[str], None] = lambda _: None
    predicted: Callable[[dict[str, Estimate]], None] = lambda _: None
    parallel: Callable[[int], None] = lambda _: None
    on_hang: Callable[[str], None] | None = None


@frozen
class PointRun:
    """A point, its result folder, and its provenance."""

    point: Point
    folder: Path
    provenance: Provenance

    @property
    def name(self) -> str:
        return self.point.name

    def kept(self, *, stalled: bool = False) -> PointOutcome | None:
        """Return the outcome of the point's result if it is complete, or with `stalled` if it
        stalled."""
        done = destination.done_result(
            self.folder,
            self.provenance.fingerprint,
            links=self.point.outputs.links,
            stalled=stalled,
        )
        return None if done is None else self.outcome(done, kept=True)

    def outcome(self, result: Result, *, kept: bool = False) -> PointOutcome:
        """Return the outcome of the point from its written result."""
        row = sweep_row(self.point, result.summary)
        reason = f"{self.name}: {result.reason}" if result.reason else None
        return PointOutcome(self.point, result.path, row, True, result.complete, reason, kept)

    def failed(self, error: str) -> PointOutcome:
        """Return the outcome of a run without a result."""
        text = f"{self.name}: {error}"
        return PointOutcome(self.point, self.folder, failed_row(self.point), False, False, text)

    def simulate(
        self,
        options: RunOptions,
        callbacks: Callbacks,
        hung: Callable[[PointOutcome], None] = lambda _: None,
        scenario: Scenario | None = None,
    ) -> PointOutcome:
        """Simulate the point in this process and write its result.

        `hung` gets the outcome of a run that hangs, before the process ends. `scenario` is the
        point's, if it is built already.
        """
        point = self.point
        checkpointer = self._checkpointer(options, callbacks.note)
        on_hang = partial(self._record_hang, hung, callbacks.on_hang)
        try:
            result = simulate(
                point,
                threads=options.threads,
                progress=callbacks.watch(point),
                should_stop=callbacks.should_stop,
                checkpointer=checkpointer,
                ranks=options.ranks,
                scenario=scenario,
                options=Options(checked=options.checked, on_hang=on_hang),
            )
        except RunError as error:
            return self.failed(str(error))
        row, message = sweep_row(point, summary_of(result)), None
        if result.reason:
            message = f"{point.name}: {result.reason}"
        old = destination.found_result(self.folder, self.provenance.fingerprint)
        if not result.complete and old is not None and old.complete:
            checkpointer.path.unlink(missing_ok=True)
            callbacks.note(f"kept the complete result in {self.folder}")
            return PointOutcome(point, self.folder, row, False, False, message)
        write_result(
            self.folder,
            point,
            result,
            self.provenance,
            keep_checkpoint=checkpointer.every_s is not None and result.stop_reason == INTERRUPTED,
            origin=options.origin,
        )
        return PointOutcome(point, self.folder, row, True, result.complete, message)

    def _checkpointer(self, options: RunOptions, note: Callable[[str], None]) -> Checkpointer:
        """Return the point's checkpointer, with the checkpoint to resume from, if any."""
        point, path = self.point, self.folder / files.CHECKPOINT
        inputs = self.provenance.run_inputs
        checkpointer = Checkpointer(point.name, path, inputs, options.checkpoint_s, options.origin)
        destination.clean(self.folder, files.CHECKPOINT)
        if options.force or not checkpointer.path.exists():
            return checkpointer
        try:
            checkpointer.find()
        except InputError as error:
            if options.must_fit:
                raise
            note(f"{error.file}: {error.message}: {point.name} starts over")
        else:
            note(f"{point.name} resumes at {format_time(checkpointer.since_ps, 4)}")
        return checkpointer

    def _record_hang(
        self,
        record: Callable[[PointOutcome], None],
        on_hang: Callable[[str], None] | None,
        message: str,
    ) -> None:
        """Record a run that hangs, before the process ends."""
        outcome = self.failed(message)
        record(outcome)
        if on_hang is not None:
            on_hang(str(outcome.error))


@frozen
class Batch:
    """Points to simulate, with their estimates by name. `record` enters an outcome in the sweep's
    table; executors call it themselves only before they end the process."""

    runs: Sequence[PointRun]
    estimates: Mapping[str, Estimate]
    options: RunOptions
    callbacks: Callbacks
    record: Callable[[PointOutcome], None]


class Executor:
    """Simulates points: `start` hands them over, `replies` returns finished points."""

    jobs = 1  # number of points simulated at a time
    threads = 1  # threads of each point
    alone_s = math.inf  # seconds in which this process predicts points
    has_own_memory = False  # whether points use the memory of other machines

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
        """Raise InputError if `what` needs more memory than is available."""
        require_memory(estimate, what=what)

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        """Simulate the points; yield their outcomes once their results are written. Yields no
        outcome for points that `should_stop` keeps from being simulated."""
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
    """Simulates one point after another, in this process or divided among ranks."""

    def __init__(self, ranks: MpiRanks | None = None) -> None:
        self._ranks = ranks

    def require_memory(self, estimate: Estimate, *, what: str) -> None:
        if self._ranks is None:
            super().require_memory(estimate, what=what)
        else:
            self._ranks.require_memory(estimate, what=what)

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        for run in batch.runs:
            scenario = batch.estimates[run.name].scenario
            yield run.simulate(batch.options, batch.callbacks, batch.record, scenario)
            if batch.callbacks.should_stop():
                return


def outcome_of(run: PointRun, reply: Mapping[str, Any]) -> PointOutcome | None:
    """Return the outcome of a point from a reply (`Workers.ask`) and the files that it has written;
    None if it was stopped. Raises InputError if its input is wrong."""
    if "lost" in reply:
        destination.clean(run.folder.parent, run.folder.name)
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
