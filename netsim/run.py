"""Run an experiment: every point simulated, written, and entered into the table of its sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import RunError
from netsim.results import check_destination, load, write_result, write_sweep
from netsim.results.sweep import failed_row, point_directory, prepare_sweep, sweep_row

if TYPE_CHECKING:
    from netsim.experiment import Experiment, Point
    from netsim.results import Result
    from netsim.simulate import Progress

Watcher = Callable[["Point"], Callable[["Progress"], None] | None]
"""Called at the start of each point, it gives what is to be told of the point's progress."""


@dataclass(frozen=True)
class Outcome:
    """What became of one point, without its tables: a sweep of many must not hold them all.

    `row` is its row in the table of the sweep, `written` says whether there is a result in
    `directory`, `complete` whether that is a whole one, and `error` why the run failed, if it did.
    """

    point: Point
    directory: Path
    row: dict[str, Any]
    written: bool
    complete: bool
    error: str | None = None


def run_experiment(
    experiment: Experiment | Path | str,
    *,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    threads: int | None = None,
) -> list[Result]:
    """Run every point of an experiment and return the results, one per point.

    Parameters
    ----------
    experiment : an Experiment, the path of a TOML file, or the name of a built-in experiment.
    overrides : ``"path=value"`` texts as for ``netsim run --set``; for a path or a name only.
    out : directory for the results; that of the experiment if it is not given.
    threads : number of threads; all cores if it is not given. The result does not depend on it.

    Raises InputError for input that is wrong, RunError for a run that stalls. What was simulated
    until then is written in either case.
    """
    if isinstance(experiment, str | Path):
        from netsim.experiment import Experiment, locate

        experiment = Experiment.load(locate(str(experiment)), list(overrides))
    points = experiment.points()
    directory = Path(out) if out is not None else output_directory(points)
    results = []
    for outcome in run_points(points, directory, threads=threads):
        if outcome.error:
            raise RunError(outcome.error)
        results.append(load(outcome.directory))
    return results


def output_directory(points: Sequence[Point]) -> Path:
    """Where the experiment wants its results."""
    return Path(points[0].outputs.directory)


def run_points(
    points: Sequence[Point],
    directory: Path,
    *,
    threads: int | None = None,
    watch: Watcher = lambda point: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Outcome]:
    """Simulate `points` one after the other; yield each as soon as it is on the disk.

    More than one point is a sweep: each has a folder of its own in `directory`, beside the table
    of them all. A point that stalls or fails does not keep the others from being run; a stop that
    is asked for does.
    """
    sweep = len(points) > 1
    if sweep:
        prepare_sweep(directory)
    else:
        check_destination(directory)
    rows: list[dict[str, Any]] = []
    for point in points:
        target = point_directory(directory, point, sweep=sweep)
        outcome = _run_point(point, target, threads, watch, should_stop)
        rows.append(outcome.row)
        if sweep:
            write_sweep(directory, rows)
        yield outcome
        if should_stop():
            return


def _run_point(
    point: Point,
    directory: Path,
    threads: int | None,
    watch: Watcher,
    should_stop: Callable[[], bool],
) -> Outcome:
    from netsim.simulate import simulate

    try:
        result = simulate(point, threads=threads, progress=watch(point), should_stop=should_stop)
    except RunError as error:
        return Outcome(point, directory, failed_row(point), False, False, f"{point.name}: {error}")
    write_result(directory, point, result)
    message = f"{point.name}: {result.reason}" if result.reason else None
    return Outcome(point, directory, sweep_row(point, result), True, result.complete, message)
