"""Run an experiment: simulate each point, write its result, and update the table of the sweep."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, closing, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common import documents
from netsim.common.documents import read_object
from netsim.errors import InputError
from netsim.experiment import Experiment, Point
from netsim.plugins import registry
from netsim.results import check_destination, destination, files, is_sweep, write_sweep
from netsim.results.destination import exclusive, real
from netsim.results.provenance import provenances
from netsim.results.shard import Shard
from netsim.results.write import point_directory, sweep_row
from netsim.running import checkpoint
from netsim.running.executor import (
    Batch,
    Callbacks,
    Executor,
    PointOutcome,
    PointRun,
    RunOptions,
    Serial,
)
from netsim.units import written

if TYPE_CHECKING:
    from netsim.running.worker_process import WorkerProcess

WRITE_EVERY_S = 0.5  # between writes of the sweep's table: a tenth of a run of small points

DASK, SLURM, ADDRESSES = "dask", "slurm", ("tcp://", "tls://")

DEFAULTS = RunOptions()
SILENT = Callbacks()


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
        todo = [run for run in runs if _kept(run, options) is None]
        estimates = executor.estimates(todo, callbacks.should_stop)
        if len(estimates) < len(todo):  # stopped
            return
        callbacks.predicted(estimates)
        executor.open(stack.enter_context(exclusive(target)))
        if not sweep:
            destination.clean(target.parent, target.name)
        table = _SweepTable(target, runs) if sweep else None
        if shard is not None:
            shard.write(target)
        else:
            (target / files.SHARD).unlink(missing_ok=True)
        for text in _replacement_notes(runs, directory / "POINT" if sweep else directory):
            callbacks.note(text)
        kept = {run.name: _kept(run, options) for run in runs}
        todo = [run for run in runs if kept[run.name] is None]  # recovery may have found more
        record = table.enter if table is not None else lambda _: None
        yield from (outcome for outcome in kept.values() if outcome is not None)
        try:
            for outcome in executor.run(Batch(todo, estimates, options, callbacks, record)):
                if table is not None:
                    table.enter(outcome, soon=True)
                yield outcome
        finally:
            if table is not None:
                table.write()


def _kept(run: PointRun, options: RunOptions) -> PointOutcome | None:
    """Return the outcome of a point that is done; None if it is to be simulated."""
    return None if options.force else run.kept(stalled=options.keep_stalled)


def _plan(points: Sequence[Point], target: Path, *, sweep: bool) -> list[PointRun]:
    """Return the runs of points, after checking that their results can be written."""
    folders = [point_directory(target, point, sweep=sweep) for point in points]
    sources = provenances(points)
    check_destination(target, sweep=sweep)
    fingerprints = (source.fingerprint for source in sources)
    inputs = [file for source in sources for file in source.inputs]
    destination.check_folders(dict(zip(folders, fingerprints, strict=True)), inputs)
    return [PointRun(*parts) for parts in zip(points, folders, sources, strict=True)]


def _replacement_notes(runs: Sequence[PointRun], directory: Path) -> Iterator[str]:
    """Yield notes on complete results that results of other code or values will replace."""
    found = defaultdict(list)
    for run in runs:
        if (old := destination.other_result(run.folder, run.provenance.fingerprint)) is not None:
            found[run.provenance.changed_since(old.experiment)].append(run)
    for what, changed in found.items():
        target = destination.previous_directory(directory)
        count = f" of {len(changed)} points" if len(runs) > 1 else ""
        yield f"changed: {what}; the old result{count} moves to {target}"


class _SweepTable:
    """The table of a sweep, which lists finished points; the last ones may still be missing."""

    def __init__(self, directory: Path, runs: Sequence[PointRun]) -> None:
        self.directory = directory
        self._runs = {run.name: run for run in runs}
        destination.prepare_sweep(directory)
        self._rows: dict[str, dict[str, Any] | None] = {}
        for run in runs:
            found = destination.found_result(run.folder, run.provenance.fingerprint)
            self._rows[run.name] = sweep_row(run.point, found.summary) if found else None
        self._is_written = not any(self._rows.values()) and is_sweep(directory)
        self._written_s = 0.0
        self.write()

    def enter(self, outcome: PointOutcome, *, soon: bool = False) -> None:
        """Add a point; only a complete result replaces a complete one. The table is written, but
        with `soon` at most once in WRITE_EVERY_S."""
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


def executor_of(
    jobs: int | None,
    threads: int | None,
    started: Sequence[WorkerProcess] = (),
    scheduler: str | None = None,
    partition: str | None = None,
) -> Executor:
    """Return the executor for the options of `netsim run`; it uses processes that have been started
    already. Raises InputError if a library is missing."""
    if scheduler == SLURM:
        from netsim.running.schedulers import Slurm

        return Slurm(jobs, threads, partition)
    if partition is not None:
        raise InputError("requires --scheduler slurm", file="--partition")
    if scheduler is not None:
        if scheduler != DASK and not scheduler.startswith(ADDRESSES):
            hint = f'"{DASK}", "{SLURM}" or the address of a scheduler of dask, such as tcp://host:8786'
            raise InputError(f"{written(scheduler)} is unknown", file="--scheduler", hint=hint)
        from netsim.running.schedulers import Dask

        return Dask(None if scheduler == DASK else scheduler, jobs, threads, started)
    if jobs == 1:
        return Serial()
    from netsim.running.processes import Processes

    return Processes(jobs, threads, started)


def in_order(outcomes: Iterable[PointOutcome]) -> list[PointOutcome]:
    """Return outcomes in the order of the experiment."""
    return sorted(outcomes, key=lambda outcome: outcome.point.index)


def output_directory(points: Sequence[Point]) -> Path:
    """Return the directory that the experiment names for its results."""
    return Path(points[0].outputs.directory)


def kept_outcomes(
    points: Sequence[Point], directory: Path, options: RunOptions
) -> list[PointOutcome]:
    """Return the outcomes of points that are done already in a sweep's directory. Raises InputError
    if none can be written there."""
    kept = [_kept(run, options) for run in _plan(points, real(directory), sweep=True)]
    return [outcome for outcome in kept if outcome is not None]


def experiment_in(directory: Path, *, trust: bool = False) -> Experiment:
    """Load the experiment whose results or checkpoint are in `directory`, as it was last run.

    Raises InputError if there is none, or if it names code that is not part of netsim and `trust`
    is false: anybody may have written the files.
    """
    origin, path = _last_origin(directory)
    with nullcontext() if trust else registry.untrusted():
        try:
            with chdir(origin["directory"]) if origin["overrides"] else nullcontext():
                loaded = Experiment.load(origin["experiment"], origin["overrides"])
        except (OSError, ValueError) as error:
            raise InputError(f"cannot enter the directory: {error}", file=str(path)) from None
    if path.parent == directory and len(loaded.points()) > 1:
        hint = "give the directory of the sweep"
        raise InputError(f"{directory} is a point of a sweep", hint=hint)
    return loaded


def _last_origin(directory: Path) -> tuple[Mapping[str, Any], Path]:
    """Return the newest origin in a directory or its folders, and its file."""
    places = [
        *(directory.glob(files.EXPERIMENT), directory.glob(f"[!.]*/{files.EXPERIMENT}")),
        *(directory.glob(files.CHECKPOINT), directory.glob(f"[!.]*/{files.CHECKPOINT}")),
    ]
    for path in sorted(chain(*places), key=lambda path: -path.lstat().st_mtime):
        origin = None
        if path.name == files.CHECKPOINT:
            origin = checkpoint.read(path).header.origin
        else:
            with suppress(InputError):  # its point runs again
                origin = read_object(path, documents.EXPERIMENT).get("origin")
        if origin is not None:
            return origin, path
    hint = "`netsim run EXPERIMENT` runs missing points"
    raise InputError(f"no run to continue in {directory}", hint=hint)
