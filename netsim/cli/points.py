"""Simulate the points of a sweep, show progress, stop on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from netsim.cli.app import FAILED
from netsim.cli.interrupt import Interruption, end_now
from netsim.cli.progress import FIRM_S, Overview, reporter

if TYPE_CHECKING:
    from netsim.engine.simulation import FeatureSet
    from netsim.experiment import Point
    from netsim.results.shard import Shard
    from netsim.running.estimate import Code, Estimate
    from netsim.running.executor import Executor
    from netsim.running.point import PointOutcome, Progress, RunOptions

    Needed = Callable[[Sequence[Point], Sequence[FeatureSet]], Code]


def simulate_points(
    points: list[Point],
    directory: Path,
    options: RunOptions,
    executor: Executor | None = None,
    shard: Shard | None = None,
    *,
    quiet: bool = False,
) -> tuple[list[PointOutcome], Interruption]:
    """Run points; return their outcomes, in the order of the points, and the interruption."""
    from netsim.running.point import Callbacks
    from netsim.running.sweep import in_order, run_points

    interruption = Interruption(at_once=True)
    outcomes: list[PointOutcome] = []
    display = _Display(points, interruption, quiet=quiet)
    callbacks = Callbacks(
        watch=lambda point: display.watch(point, len(outcomes)),
        should_stop=interruption,
        note=lambda text: None if quiet else click.echo(text, err=True),
        predicted=display.forecast.predict,
        parallel=display.parallel,
        on_hang=_end_hung_run,
    )
    with interruption:
        try:
            for outcome in run_points(points, directory, options, callbacks, executor, shard):
                outcomes.append(outcome)
                display.done(outcome)
        except KeyboardInterrupt:
            if not interruption.stopped_at_once:
                raise
        finally:
            display.close()
    return in_order(outcomes), interruption


class _Display:
    """Progress of a run: of the point that runs, or of all if several run at a time."""

    def __init__(self, points: list[Point], interruption: Interruption, *, quiet: bool) -> None:
        self.forecast = Forecast(points)
        self._points, self._interruption = points, interruption
        self._reporter = None if quiet else reporter()
        self._overview: Overview | None = None
        self._show: Callable[[Overview], None] = lambda _: None

    def parallel(self, slots: int) -> None:
        """Show all points from now on; a signal is heard at any time."""
        self._interruption.at_once = False
        seconds = self.forecast.seconds
        self._overview = Overview(seconds, slots, len(self._points) - len(seconds))
        if self._reporter is not None:
            self._show = self._reporter.overview()

    def watch(self, point: Point, n_done: int) -> Callable[[Progress], None]:
        """Return the progress callback of a point that starts."""
        if self._overview is not None:
            return self._watch(self._overview, point.name)
        if self._reporter is None:
            return self._interruption.watching()
        place = f"{n_done + 1}/{len(self._points)}: " if len(self._points) > 1 else ""
        rest_s = self.forecast.begin(point)
        return self._interruption.watching(self._reporter.watch(f"{place}{point.name}", rest_s))

    def _watch(self, overview: Overview, name: str) -> Callable[[Progress], None]:
        overview.begin(name)

        def report(progress: Progress) -> None:
            overview.update(name, progress)
            self._show(overview)

        return report

    def done(self, outcome: PointOutcome) -> None:
        """Count a point."""
        if self._overview is not None:
            self._overview.finish(outcome.point.name)
            self._show(self._overview)

    def close(self) -> None:
        if self._reporter is not None:
            self._reporter.close()


class Forecast:
    """Time that the remaining points of a sweep will take.

    The prediction is scaled by the ratio of measured to predicted time of earlier points, which
    counts more the longer they ran.
    """

    def __init__(self, points: list[Point], clock: Callable[[], float] = time.monotonic) -> None:
        self._points = points
        self._clock = clock
        self.seconds: dict[str, float] = {}
        self._estimates: Mapping[str, Estimate] = {}
        self._needed: Needed | None = None
        self._begun: list[str] = []
        self._began_s = clock()

    def predict(self, estimates: Mapping[str, Estimate], needed: Needed | None = None) -> None:
        """Store the estimates of the points to simulate."""
        self.seconds = {name: one.seconds + one.setup_seconds for name, one in estimates.items()}
        self._estimates, self._needed = estimates, needed
        self._began_s = self._clock()

    def begin(self, point: Point) -> float | None:
        """Start a point; return the seconds that later points will take, None if it is alone."""
        if not self._begun and self._estimates:
            self._add_code()
        predicted_s = sum(self.seconds.get(name, 0.0) for name in self._begun)
        elapsed_s = self._clock() - self._began_s
        ratio = (elapsed_s + FIRM_S) / (predicted_s + FIRM_S)
        self._begun.append(point.name)
        rest_s = sum(s for name, s in self.seconds.items() if name not in self._begun)
        return ratio * rest_s if len(self._points) > 1 else None

    def _add_code(self) -> None:
        """Divide the time for code evenly: which points share it is not known."""
        from netsim.running.estimate import code_needed

        points = [point for point in self._points if point.name in self._estimates]
        parts = [self._estimates[point.name].feature_set for point in points]
        code_s = (self._needed or code_needed)(points, parts).seconds
        self.seconds = {name: s + code_s / len(points) for name, s in self.seconds.items()}


def _end_hung_run(message: str) -> NoReturn:
    """End the process, as its compiled code hangs."""
    click.echo(f"error: {message}", err=True)
    end_now(FAILED)
