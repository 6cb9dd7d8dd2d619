"""Run an experiment: every point simulated, written, and entered into the table of its sweep."""

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
    files,
    is_sweep,
    load_result,
    summary_of,
    write_result,
    write_sweep,
)
from netsim.results.destination import (
    STALE_POINTS,
    check_folders,
    directory_of_partial,
    done_result,
    found_result,
    other_result,
    prepare_sweep,
    previous_directory,
    recover_single,
)
from netsim.results.provenance import Provenance, provenances
from netsim.results.replace import exclusive, real
from netsim.results.sweep import failed_row, point_directory, sweep_row
from netsim.running.checkpointer import Checkpointer
from netsim.running.run_manifest import Checkpoints, RunManifest
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.experiment import Experiment, Point
    from netsim.results import Result
    from netsim.running.estimate import Estimate
    from netsim.running.point import Progress

NO_CHECKPOINTS = Checkpoints()

Watcher = Callable[["Point"], Callable[["Progress"], None] | None]
"""Called at the start of each point, it gives what is to be told of the point's progress."""


@dataclass(frozen=True)
class PointOutcome:
    """What became of one point, without its tables: a sweep of many must not hold them all.

    `row` is its row in the table of the sweep, `written` says whether there is a result in
    `directory`, `complete` whether that is a whole one, and `error` why the run failed or what is
    missing, if anything is. A point that was `kept` had been done by an earlier run.
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
        """Whether the run ended at stop.max_time, as the experiment wants it."""
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

    A point that stalls, is cut short or fails does not stop the others: look at the `complete`,
    `status` and `reason` of each. A point whose complete result is in the directory already is not
    run again: the same experiment, code and seed give the same.

    Parameters
    ----------
    experiment : an Experiment, the path of a TOML file, the name of a built-in experiment, or what
        such a file says as a dictionary of dictionaries; paths in it start at the working
        directory.
    overrides : ``"path=value"`` texts as for ``netsim run --set``; not for an Experiment.
    out : directory for the results; that of the experiment if it is not given.
    threads : number of threads; all cores if it is not given. The result does not depend on it.
    force : whether points that are done already are run again.
    checkpoint_s : seconds between two checkpoints, from which `resume_experiment` goes on; none
        are written if it is not given. The experiment must be in a file.

    Raises InputError for input that is wrong.
    """
    from netsim.experiment import Experiment, locate

    if isinstance(experiment, Mapping):
        if checkpoint_s is not None:
            raise InputError("checkpoint_s needs an experiment in a file, not a dictionary")
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


def results_of(outcomes: Iterable[PointOutcome]) -> list[Result | FailedPoint]:
    """The results of points as they end, partial ones and failures included."""
    return [
        load_result(outcome.directory)
        if outcome.written
        else FailedPoint(outcome.point.name, outcome.directory, outcome.error or "")
        for outcome in outcomes
    ]


def output_directory(points: Sequence[Point]) -> Path:
    """Where the experiment wants its results."""
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
    """Simulate `points` one after the other; yield each as soon as it is on the disk.

    More than one point is a sweep: each has a folder of its own in `directory`, beside the table
    of them all. A point that was done already is kept, and one of which there is a checkpoint goes
    on from that, unless `force` is set. A point that stalls or fails does not keep the others from
    being run; a stop that is asked for does. `note` is told what becomes of what was
    there before, and `predicted` of the estimates of the points that are to be simulated, by
    name. Further `options` are those of `simulate`; its `on_hang` is called when the point
    has been entered as failed.

    Raises InputError, before anything is simulated, if the results of any point cannot be written
    or a point needs more memory than there is.
    """
    place = real(directory)
    runs = _planned(points, place)
    estimates = {}
    for run in runs:
        if should_stop():
            return
        if force or not run.kept():
            estimates[run.point.name] = refuse_what_does_not_fit(run.point)
    predicted(estimates)
    on_hang = options.get("on_hang")
    with exclusive(place):
        table = _Table(place, runs) if len(runs) > 1 else None
        if table is None:
            recover_single(place)
        elif table.moved:
            note(
                f"moved to {directory / STALE_POINTS}, not in this sweep: {', '.join(table.moved)}"
            )
        for text in _replaced(runs, directory):
            note(text)
        done = True
        for run in runs:
            outcome = None if force else run.kept()
            if outcome is None:
                if checkpoints.manifest is not None:
                    checkpoints.manifest.write(place)
                options["on_hang"] = partial(_hung, run, table, on_hang)
                outcome = run.simulate(
                    checkpointer=run.checkpointer(checkpoints, note, force=force),
                    progress=watch(run.point),
                    should_stop=should_stop,
                    **options,
                )
                if outcome.directory != run.folder:
                    note(
                        f"{run.folder} keeps its complete result, "
                        f"the partial one is in {outcome.directory}"
                    )
                if table is not None:
                    table.enter(run, outcome)
            done = done and outcome.complete
            yield outcome
            if should_stop():
                return
        if done:
            (place / files.RUN).unlink(missing_ok=True)


def _planned(points: Sequence[Point], place: Path) -> list[_Run]:
    """The runs of points, all of whose results can be written below `place`."""
    sweep = len(points) > 1
    folders = [point_directory(place, point, sweep=sweep) for point in points]
    made_from = provenances(points)
    check_destination(place, sweep=sweep)
    check_folders(folders, [file for one in made_from for file in one.inputs])
    for folder, provenance in zip(folders, made_from, strict=True):
        if other_result(folder, provenance.fingerprint) and os.path.lexists(
            previous_directory(folder)
        ):
            check_destination(previous_directory(folder))
    return [_Run(*parts) for parts in zip(points, folders, made_from, strict=True)]


def _replaced(runs: Sequence[_Run], directory: Path) -> Iterator[str]:
    """What is told of complete results that those of other code or values will replace."""
    found = defaultdict(list)
    for run in runs:
        if (old := other_result(run.folder, run.provenance.fingerprint)) is not None:
            found[run.provenance.changed_since(old.experiment)].append(run)
    for what, changed in found.items():
        place = previous_directory(directory if len(runs) == 1 else directory / "POINT")
        count = f" of {len(changed)} points" if len(runs) > 1 else ""
        yield f"changed: {what}; the old result{count} will be in {place}"


def refuse_what_does_not_fit(point: Point) -> Estimate:
    """What a point takes. Raises InputError if it needs more memory than there is."""
    from netsim.running.estimate import estimate, require_memory

    found = estimate(point)
    require_memory(found, what=point.file)
    return found


@dataclass(frozen=True)
class _Run:
    """A point, the folder for its result, and what it is made of."""

    point: Point
    folder: Path
    provenance: Provenance

    def kept(self) -> PointOutcome | None:
        """The complete result of this very point, if it is there."""
        point = self.point
        done = done_result(self.folder, self.provenance.fingerprint, links=point.outputs.links)
        if done is None:
            return None
        row = sweep_row(point, done.summary)
        return PointOutcome(point, self.folder, row, True, True, kept=True)

    def checkpointer(
        self, wanted: Checkpoints, note: Callable[[str], None], *, force: bool
    ) -> Checkpointer:
        """What writes the checkpoints of the point, with the one to begin with if there is one."""
        point, folder = self.point, directory_of_partial(self.folder)
        every_s = wanted.manifest.checkpoint_s if wanted.manifest else None
        checkpointer = Checkpointer(
            point.name, folder / files.CHECKPOINT, self.provenance.run_inputs, every_s
        )
        if folder.is_dir():
            files.remove_left_over(folder, files.CHECKPOINT)
        if force or not checkpointer.path.exists():
            return checkpointer
        try:
            checkpointer.find(trust=wanted.trust)
        except InputError as error:
            if wanted.must_fit:
                raise
            note(f"{error.file}: {error.message}: {point.name} begins anew")
        else:
            note(f"{point.name} goes on at {format_time(checkpointer.since_ps, 4)}")
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
        goes_on = checkpointer.is_active and result.stop_reason == INTERRUPTED
        keep = (files.CHECKPOINT, files.RUN) if goes_on else ()
        folder = write_result(self.folder, point, result, self.provenance, keep=keep)
        message = f"{point.name}: {result.reason}" if result.reason else None
        row = sweep_row(point, summary_of(result))
        return PointOutcome(point, folder, row, True, result.complete, message)

    def failed(self, error: str) -> PointOutcome:
        """What becomes of a run without a result."""
        point = self.point
        text = f"{point.name}: {error}"
        return PointOutcome(point, self.folder, failed_row(point), False, False, text)


def _hung(
    run: _Run, table: _Table | None, on_hang: Callable[[str], None] | None, message: str
) -> None:
    """The run does not come back: all that is left to do before the process is ended."""
    outcome = run.failed(message)
    if table is not None:
        table.enter(run, outcome)
    if on_hang is not None:
        on_hang(str(outcome.error))


class _Table:
    """The table of a sweep, which has at every moment the points that are done."""

    def __init__(self, directory: Path, runs: Sequence[_Run]) -> None:
        self.directory = directory
        self.moved = prepare_sweep(directory, [run.point.name for run in runs])
        self._rows: dict[str, dict[str, Any] | None] = {}
        for run in runs:
            found = found_result(run.folder, run.provenance.fingerprint)
            self._rows[run.point.name] = sweep_row(run.point, found.summary) if found else None
        if any(self._rows.values()) or not is_sweep(directory):
            self._write()

    def enter(self, run: _Run, outcome: PointOutcome) -> None:
        """The row of a point that was run. That of a complete result gives way to one only."""
        found = found_result(run.folder, run.provenance.fingerprint)
        if outcome.complete or found is None or not found.complete:
            self._rows[run.point.name] = outcome.row
            self._write()

    def _write(self) -> None:
        write_sweep(self.directory, [row for row in self._rows.values() if row is not None])
