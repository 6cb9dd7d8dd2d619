"""A point with its result directory: kept if done, simulated and written otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError, RunError
from netsim.results import destination, files, summary_of, write_result
from netsim.results.provenance import Provenance
from netsim.results.write import failed_row, sweep_row
from netsim.running.checkpoint import Checkpointer
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.results import Result
    from netsim.running.estimate import Estimate
    from netsim.running.mpi import MpiRanks
    from netsim.running.point import Progress

Report = Callable[["Progress"], None]


@dataclass(frozen=True)
class PointOutcome:
    """The outcome of one point, without its tables, which could exceed memory.

    `row` is its row in the sweep's table. `written` says whether there is a result in `directory`,
    `complete` whether that is complete, `error` why the run failed or what is missing, and `kept`
    whether an earlier run simulated it.
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


@dataclass(frozen=True)
class RunOptions:
    """How points run, as for `simulate`; with `force`, also those with a complete result.

    A checkpoint is written every `checkpoint_s` seconds. One that does not match is an error with
    `must_fit`; otherwise its point starts over. `origin` is that of the experiment. `ranks` run
    points in this process only. With `keep_stalled`, points that stalled do not run again.
    """

    threads: int | None = None
    checked: bool = False
    force: bool = False
    checkpoint_s: float | None = None
    must_fit: bool = False
    origin: Mapping[str, Any] | None = None
    ranks: MpiRanks | None = None
    keep_stalled: bool = False


@dataclass(frozen=True)
class Callbacks:
    """What a run reports, and when it stops.

    `watch` is called at the start of each point and returns the callback for its progress. `note`
    gets messages about earlier results and lost processes, `predicted` the estimates of the points
    to simulate by name, and `parallel` the number of points at a time before several run at once.
    `on_hang` is called after a point that hangs in this process is recorded as failed.
    """

    watch: Callable[[Point], Report | None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False
    note: Callable[[str], None] = lambda _: None
    predicted: Callable[[dict[str, Estimate]], None] = lambda _: None
    parallel: Callable[[int], None] = lambda _: None
    on_hang: Callable[[str], None] | None = None


@dataclass(frozen=True)
class PointRun:
    """A point, its result folder, and its provenance."""

    point: Point
    folder: Path
    provenance: Provenance

    @property
    def name(self) -> str:
        return self.point.name

    def kept(self, *, stalled: bool = False) -> PointOutcome | None:
        """Return the outcome of the point's complete result, if there is one; with `stalled`, also
        that of a result that stalled."""
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
    ) -> PointOutcome:
        """Simulate the point in this process and write its result.

        `hung` gets the outcome of a run that hangs, before the process ends.
        """
        from netsim.running.drive import INTERRUPTED
        from netsim.running.point import simulate

        point = self.point
        checkpointer = self._checkpointer(options, callbacks.note)
        try:
            result = simulate(
                point,
                threads=options.threads,
                progress=callbacks.watch(point),
                should_stop=callbacks.should_stop,
                checked=options.checked,
                on_hang=partial(self._record_hang, hung, callbacks.on_hang),
                checkpointer=checkpointer,
                ranks=options.ranks,
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
