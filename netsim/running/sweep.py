"""Run an experiment: simulate each point, write its result, and update the table of the sweep."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError, RunError
from netsim.results import (
    FailedPoint,
    check_destination,
    destination,
    files,
    is_sweep,
    load_result,
    summary_of,
    write_result,
    write_sweep,
)
from netsim.results.provenance import Provenance, provenances
from netsim.results.replace import exclusive, real
from netsim.results.write import failed_row, point_directory, sweep_row
from netsim.running.checkpoint import Checkpointer
from netsim.running.run_manifest import Checkpoints, RunManifest, read_manifest
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.experiment import Experiment, Point
    from netsim.results import Result
    from netsim.running.estimate import Estimate
    from netsim.running.point import Progress

NO_CHECKPOINTS = Checkpoints()

Watcher = Callable[["Point"], Callable[["Progress"], None] | None]
"""Called at the start of each point; returns the callback for its progress."""


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


def run_experiment(
    experiment: Experiment | Mapping[str, Any] | Path | str,
    *,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    threads: int | None = None,
    force: bool = False,
    checkpoint_s: float | None = None,
) -> list[Result | FailedPoint]:
    """Run every point of an experiment and return the results, one per point.

    Points that stall or fail do not stop the others: check `complete`, `status` and `reason`.
    Points that already have a complete result from the same experiment, code and seed are skipped.

    Args:
        experiment: an Experiment, the path of a TOML file, the name of a built-in experiment, or a
            dictionary like such a file, with paths relative to the working directory.
        overrides: `"path=value"` texts as for `netsim run --set`; not for an Experiment.
        out: directory for the results (default: the experiment's).
        threads: number of threads (default: all cores); does not change the result.
        force: rerun points that are done.
        checkpoint_s: seconds between checkpoints for `resume_experiment` (default: none); the
            experiment must be in a file.

    Raises InputError for wrong input.
    """
    from netsim.experiment import Experiment, locate

    if isinstance(experiment, Mapping):
        if checkpoint_s is not None:
            raise InputError("checkpoint_s conflicts with a dictionary (use a file)")
        experiment = Experiment.from_mapping(experiment, overrides)
    elif isinstance(experiment, str | Path):
        experiment = Experiment.load(locate(str(experiment)), overrides)
    points = experiment.points()
    directory = Path(out) if out is not None else output_directory(points)
    manifest = None if checkpoint_s is None else RunManifest.of(experiment, checkpoint_s)
    outcomes = run_points(
        points, directory, threads=threads, force=force, checkpoints=Checkpoints(manifest)
    )
    return results_of(outcomes)


def resume_experiment(
    directory: Path | str,
    *,
    threads: int | None = None,
    trust: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> list[Result | FailedPoint]:
    """Resume the run with checkpoints that writes to `directory`; return the results, one per
    point.

    `threads` may differ from the original run. Plugins that are not part of netsim, and checkpoints
    that another user wrote, are used only with `trust`.

    Raises InputError if there is no such run or a checkpoint does not match.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    checkpoints = Checkpoints(manifest, must_fit=True, trust=trust)
    points = manifest.load(trust=trust).points()
    return results_of(
        run_points(points, directory, threads=threads, note=note, checkpoints=checkpoints)
    )


def results_of(outcomes: Iterable[PointOutcome]) -> list[Result | FailedPoint]:
    """Return the results of points, including partial ones and failures."""
    return [
        load_result(outcome.directory)
        if outcome.written
        else FailedPoint(outcome.point.name, outcome.directory, outcome.error or "")
        for outcome in outcomes
    ]


def output_directory(points: Sequence[Point]) -> Path:
    """Return the directory that the experiment names for its results."""
    return Path(points[0].outputs.directory)


def run_points(
    points: Sequence[Point],
    directory: Path,
    *,
    force: bool = False,
    watch: Watcher = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    note: Callable[[str], None] = lambda _: None,
    predicted: Callable[[Mapping[str, Estimate]], None] = lambda _: None,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    **options: Any,
) -> Iterator[PointOutcome]:
    """Simulate `points` in sequence; yield each outcome once its result is written.

    Several points are a sweep: each has a folder in `directory`, next to the sweep's table. Unless
    `force` is set, finished points are kept and points with a checkpoint resume from it. A point
    that stalls or fails does not stop the others; `should_stop` does. `note` gets messages about
    earlier results, `predicted` the estimates of the points to simulate, by name. Other `options`
    are those of `simulate`; `on_hang` is called after the point is recorded as failed.

    Raises InputError before simulating if results cannot be written or memory is too
    small.
    """
    target = real(directory)
    runs = _plan(points, target)
    estimates = {}
    for run in runs:
        if should_stop():
            return
        if force or not run.kept():
            estimates[run.point.name] = require_fit(run.point)
    predicted(estimates)
    on_hang = options.get("on_hang")
    with exclusive(target):
        table = _SweepTable(target, runs) if len(runs) > 1 else None
        if table is None:
            destination.recover_single(target)
        elif table.moved:
            folder = directory / destination.STALE_POINTS
            note(f"moved to {folder}, not in this sweep: {', '.join(table.moved)}")
        for text in _replacement_notes(runs, directory):
            note(text)
        done = True
        for run in runs:
            outcome = None if force else run.kept()
            if outcome is None:
                if checkpoints.manifest is not None:
                    checkpoints.manifest.write(target)
                options["on_hang"] = partial(_record_hang, run, table, on_hang)
                outcome = run.simulate(
                    checkpointer=run.checkpointer(checkpoints, note, force=force),
                    progress=watch(run.point),
                    should_stop=should_stop,
                    **options,
                )
                if outcome.directory != run.folder:
                    note(
                        f"complete result kept in {run.folder}; "
                        f"partial result is in {outcome.directory}"
                    )
                if table is not None:
                    table.enter(run, outcome)
            done = done and outcome.complete
            yield outcome
            if should_stop():
                return
        if done:
            (target / files.RUN).unlink(missing_ok=True)


def _plan(points: Sequence[Point], target: Path) -> list[_PointRun]:
    """Return the runs of points, after checking that their results can be written."""
    sweep = len(points) > 1
    folders = [point_directory(target, point, sweep=sweep) for point in points]
    sources = provenances(points)
    check_destination(target, sweep=sweep)
    destination.check_folders(folders, [file for one in sources for file in one.inputs])
    for folder, provenance in zip(folders, sources, strict=True):
        if destination.other_result(folder, provenance.fingerprint) and os.path.lexists(
            destination.previous_directory(folder)
        ):
            check_destination(destination.previous_directory(folder))
    return [_PointRun(*parts) for parts in zip(points, folders, sources, strict=True)]


def _replacement_notes(runs: Sequence[_PointRun], directory: Path) -> Iterator[str]:
    """Yield notes on complete results that will be replaced by those of other code or values."""
    found = defaultdict(list)
    for run in runs:
        if (old := destination.other_result(run.folder, run.provenance.fingerprint)) is not None:
            found[run.provenance.changed_since(old.experiment)].append(run)
    for what, changed in found.items():
        target = destination.previous_directory(
            directory if len(runs) == 1 else directory / "POINT"
        )
        count = f" of {len(changed)} points" if len(runs) > 1 else ""
        yield f"changed: {what}; the old result{count} moves to {target}"


def require_fit(point: Point) -> Estimate:
    """Return the estimate of a point. Raises InputError if it exceeds the memory."""
    from netsim.running.estimate import estimate, require_memory

    found = estimate(point)
    require_memory(found, what=point.file)
    return found


@dataclass(frozen=True)
class _PointRun:
    """A point, its result folder, and its provenance."""

    point: Point
    folder: Path
    provenance: Provenance

    def kept(self) -> PointOutcome | None:
        """Return the outcome of the point's complete result, if there is one."""
        point = self.point
        done = destination.done_result(
            self.folder, self.provenance.fingerprint, links=point.outputs.links
        )
        if done is None:
            return None
        row = sweep_row(point, done.summary)
        return PointOutcome(point, self.folder, row, True, True, kept=True)

    def checkpointer(
        self, checkpoints: Checkpoints, note: Callable[[str], None], *, force: bool
    ) -> Checkpointer:
        """Return the point's checkpointer, with the checkpoint to resume from, if any."""
        point, folder = self.point, destination.directory_of_partial(self.folder)
        every_s = checkpoints.manifest.checkpoint_s if checkpoints.manifest else None
        checkpointer = Checkpointer(
            point.name, folder / files.CHECKPOINT, self.provenance.run_inputs, every_s
        )
        if folder.is_dir():
            files.remove_left_over(folder, files.CHECKPOINT)
        if force or not checkpointer.path.exists():
            return checkpointer
        try:
            checkpointer.find(trust=checkpoints.trust)
        except InputError as error:
            if checkpoints.must_fit:
                raise
            note(f"{error.file}: {error.message}: {point.name} starts over")
        else:
            note(f"{point.name} resumes at {format_time(checkpointer.since_ps, 4)}")
        return checkpointer

    def simulate(self, checkpointer: Checkpointer, **options: Any) -> PointOutcome:
        """Simulate the point and write its result; `options` are those of `simulate`."""
        from netsim.running.drive import INTERRUPTED
        from netsim.running.point import simulate

        point = self.point
        try:
            result = simulate(point, checkpointer=checkpointer, **options)
        except RunError as error:
            return self.failed(str(error))
        resumable = checkpointer.is_active and result.stop_reason == INTERRUPTED
        keep = (files.CHECKPOINT, files.RUN) if resumable else ()
        folder = write_result(self.folder, point, result, self.provenance, keep=keep)
        message = f"{point.name}: {result.reason}" if result.reason else None
        row = sweep_row(point, summary_of(result))
        return PointOutcome(point, folder, row, True, result.complete, message)

    def failed(self, error: str) -> PointOutcome:
        """Return the outcome of a run without a result."""
        point = self.point
        text = f"{point.name}: {error}"
        return PointOutcome(point, self.folder, failed_row(point), False, False, text)


def _record_hang(
    run: _PointRun, table: _SweepTable | None, on_hang: Callable[[str], None] | None, message: str
) -> None:
    """Record a run that hangs, before the process ends."""
    outcome = run.failed(message)
    if table is not None:
        table.enter(run, outcome)
    if on_hang is not None:
        on_hang(str(outcome.error))


class _SweepTable:
    """The table of a sweep, which always lists the points that are done."""

    def __init__(self, directory: Path, runs: Sequence[_PointRun]) -> None:
        self.directory = directory
        self.moved = destination.prepare_sweep(directory, [run.point.name for run in runs])
        self._rows: dict[str, dict[str, Any] | None] = {}
        for run in runs:
            found = destination.found_result(run.folder, run.provenance.fingerprint)
            self._rows[run.point.name] = sweep_row(run.point, found.summary) if found else None
        if any(self._rows.values()) or not is_sweep(directory):
            self._write()

    def enter(self, run: _PointRun, outcome: PointOutcome) -> None:
        """Add a point; only a complete result replaces a complete one."""
        found = destination.found_result(run.folder, run.provenance.fingerprint)
        if outcome.complete or found is None or not found.complete:
            self._rows[run.point.name] = outcome.row
            self._write()

    def _write(self) -> None:
        write_sweep(self.directory, [row for row in self._rows.values() if row is not None])
