"""Run an experiment: simulate each point, write its result, and update the table of the sweep."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.results import (
    FailedPoint,
    check_destination,
    destination,
    files,
    is_sweep,
    load_result,
    write_sweep,
)
from netsim.results.provenance import provenances
from netsim.results.replace import exclusive, real
from netsim.results.shard import Shard
from netsim.results.write import point_directory, sweep_row
from netsim.running.executor import Batch, Executor, Serial
from netsim.running.executors import executor_of
from netsim.running.point_run import Callbacks, PointOutcome, PointRun, RunOptions
from netsim.running.run_manifest import Checkpoints, RunManifest, read_manifest

if TYPE_CHECKING:
    from netsim.experiment import Experiment, Point
    from netsim.results import Result

WRITE_EVERY_S = 0.5
"""Seconds between writing the sweep's table: of many small points, it would take a tenth."""

DEFAULTS = RunOptions()
SILENT = Callbacks()


def run_experiment(
    experiment: Experiment | Mapping[str, Any] | Path | str,
    *,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    threads: int | None = None,
    jobs: int | None = 1,
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
        threads: number of threads of each point (default: the cores, divided by `jobs`); does not
            change the result.
        jobs: number of points at a time, each in a process of its own (default: one, in this
            process; None: as cores, memory and points suggest); does not change the results.
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
    options = RunOptions(threads=threads, force=force, checkpoints=Checkpoints(manifest))
    return results_of(run_points(points, directory, options, executor=executor_of(jobs, threads)))


def resume_experiment(
    directory: Path | str,
    *,
    threads: int | None = None,
    jobs: int | None = 1,
    trust: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> list[Result | FailedPoint]:
    """Resume the run with checkpoints that writes to `directory`; return the results, one per
    point.

    `threads` and `jobs` may differ from the original run. Plugins that are not part of netsim, and
    checkpoints that another user wrote, are used only with `trust`.

    Raises InputError if there is no such run or a checkpoint does not match.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    checkpoints = Checkpoints(manifest, must_fit=True, trust=trust)
    points = manifest.load(trust=trust).points()
    options = RunOptions(threads=threads, checkpoints=checkpoints)
    callbacks = Callbacks(note=note)
    return results_of(run_points(points, directory, options, callbacks, executor_of(jobs, threads)))


def shard_of(manifest: RunManifest) -> Shard | None:
    """Return the shard that a run had, if any."""
    return None if manifest.shard is None else Shard.parse(manifest.shard)


def results_of(outcomes: Iterable[PointOutcome]) -> list[Result | FailedPoint]:
    """Return the results of points in the order of the experiment, including partial ones and
    failures.
    """
    return [
        load_result(outcome.directory)
        if outcome.written
        else FailedPoint(outcome.point.name, outcome.directory, outcome.error or "")
        for outcome in in_order(outcomes)
    ]


def in_order(outcomes: Iterable[PointOutcome]) -> list[PointOutcome]:
    """Return outcomes in the order of the experiment."""
    return sorted(outcomes, key=lambda outcome: outcome.point.index)


def output_directory(points: Sequence[Point]) -> Path:
    """Return the directory that the experiment names for its results."""
    return Path(points[0].outputs.directory)


def run_points(
    points: Sequence[Point],
    directory: Path,
    options: RunOptions = DEFAULTS,
    callbacks: Callbacks = SILENT,
    executor: Executor | None = None,
    shard: Shard | None = None,
) -> Iterator[PointOutcome]:
    """Simulate `points` by an executor; yield each outcome once its result is written.

    Several points are a sweep: each has a folder in `directory`, next to the sweep's table. With
    `shard`, only that part of the points runs. Unless `options.force` is set, finished points are
    kept and points with a checkpoint resume from it. A point that stalls or fails does not stop the
    others; `callbacks.should_stop` does. Points that run at the same time are yielded as they end.

    Raises InputError before simulating if results cannot be written or memory is too small.
    """
    target = real(directory)
    if shard is not None:
        shard = shard.of(points)
        points = [point for point in points if point.name in set(shard.names)]
    sweep = len(points) > 1 or shard is not None
    runs = _plan(points, target, sweep=sweep)
    executor = executor or Serial(options.ranks)
    with ExitStack() as stack:
        stack.enter_context(closing(executor))
        todo = [run for run in runs if options.force or run.kept() is None]
        estimates = executor.estimates(todo, callbacks.should_stop)
        if len(estimates) < len(todo):  # stopped
            return
        callbacks.predicted(estimates)
        executor.open(stack.enter_context(exclusive(target)))
        table = _SweepTable(target, runs) if sweep else None
        if table is None:
            destination.recover_single(target)
        elif table.moved:
            folder = directory / destination.STALE_POINTS
            callbacks.note(f"moved to {folder}, not in this sweep: {', '.join(table.moved)}")
        if shard is not None:
            shard.write(target)
        else:
            (target / files.SHARD).unlink(missing_ok=True)
        for text in _replacement_notes(runs, directory / "POINT" if sweep else directory):
            callbacks.note(text)
        kept = {} if options.force else {run.name: run.kept() for run in runs}
        todo = [run for run in runs if kept.get(run.name) is None]  # recovery may have found more
        manifest = options.checkpoints.manifest
        if todo and manifest is not None:
            manifest.write(target)
        record = table.enter if table is not None else lambda _: None
        complete = len(runs) - len(todo)
        yield from (outcome for outcome in kept.values() if outcome is not None)
        try:
            for outcome in executor.run(Batch(todo, estimates, options, callbacks, record)):
                complete += outcome.complete
                if table is not None:
                    table.enter(outcome, soon=True)
                yield outcome
        finally:
            if table is not None:
                table.write()
        if complete == len(runs):
            (target / files.RUN).unlink(missing_ok=True)


def _plan(points: Sequence[Point], target: Path, *, sweep: bool) -> list[PointRun]:
    """Return the runs of points, after checking that their results can be written."""
    folders = [point_directory(target, point, sweep=sweep) for point in points]
    sources = provenances(points)
    check_destination(target, sweep=sweep)
    destination.check_folders(folders, [file for one in sources for file in one.inputs])
    for folder, provenance in zip(folders, sources, strict=True):
        if destination.other_result(folder, provenance.fingerprint) and os.path.lexists(
            destination.previous_directory(folder)
        ):
            check_destination(destination.previous_directory(folder))
    return [PointRun(*parts) for parts in zip(points, folders, sources, strict=True)]


def _replacement_notes(runs: Sequence[PointRun], directory: Path) -> Iterator[str]:
    """Yield notes on complete results that will be replaced by those of other code or values."""
    found = defaultdict(list)
    for run in runs:
        if (old := destination.other_result(run.folder, run.provenance.fingerprint)) is not None:
            found[run.provenance.changed_since(old.experiment)].append(run)
    for what, changed in found.items():
        target = destination.previous_directory(directory)
        count = f" of {len(changed)} points" if len(runs) > 1 else ""
        yield f"changed: {what}; the old result{count} moves to {target}"


class _SweepTable:
    """The table of a sweep, which lists the points that are done, the last ones perhaps not yet."""

    def __init__(self, directory: Path, runs: Sequence[PointRun]) -> None:
        self.directory = directory
        self._runs = {run.name: run for run in runs}
        self.moved = destination.prepare_sweep(directory, list(self._runs))
        self._rows: dict[str, dict[str, Any] | None] = {}
        for run in runs:
            found = destination.found_result(run.folder, run.provenance.fingerprint)
            self._rows[run.name] = sweep_row(run.point, found.summary) if found else None
        self._is_written = not any(self._rows.values()) and is_sweep(directory)
        self._written_s = 0.0
        self.write()

    def enter(self, outcome: PointOutcome, *, soon: bool = False) -> None:
        """Add a point; only a complete result replaces a complete one.

        The table is written, but with `soon` at most once in WRITE_EVERY_S.
        """
        run = self._runs[outcome.point.name]
        found = destination.found_result(run.folder, run.provenance.fingerprint)
        if outcome.complete or found is None or not found.complete:
            self._rows[run.name] = outcome.row
            self._is_written = False
            if not soon or time.monotonic() > self._written_s + WRITE_EVERY_S:
                self.write()

    def write(self) -> None:
        """Write the table unless it is up to date."""
        if not self._is_written:
            write_sweep(self.directory, [row for row in self._rows.values() if row is not None])
            self._is_written, self._written_s = True, time.monotonic()
