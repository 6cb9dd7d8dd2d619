"""Simulate the points of a sweep, show progress, stop on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from netsim.cli.app import FAILED
from netsim.cli.interrupt import Interruption, end_now

if TYPE_CHECKING:
    from netsim.engine.simulation import FeatureSet
    from netsim.experiment import Point
    from netsim.running.estimate import Code, Estimate
    from netsim.running.point import Progress
    from netsim.running.sweep import PointOutcome

    Needed = Callable[[Sequence[Point], Sequence[FeatureSet]], Code]

FIRM_S = 10.0
"""Seconds after which the measured time of points weighs as much as its prediction."""


def simulate_points(
    points: list[Point], directory: Path, options: dict[str, Any], *, quiet: bool = False
) -> tuple[list[PointOutcome], Interruption]:
    """Run points with the options of `run_points`; return their outcomes and the interruption."""
    from netsim.cli.progress import reporter
    from netsim.running.sweep import run_points

    interruption = Interruption(at_once=True)
    outcomes: list[PointOutcome] = []
    report = None if quiet else reporter()
    forecast = Forecast(points)

    def watch(point: Point) -> Callable[[Progress], None]:
        if report is None:
            return interruption.watching()
        place = f"{len(outcomes) + 1}/{len(points)}: " if len(points) > 1 else ""
        watched = report.watch(f"{place}{point.name}", forecast.begin(point))
        return interruption.watching(watched)

    with interruption:
        try:
            for outcome in run_points(
                points,
                directory,
                note=lambda text: None if quiet else click.echo(text, err=True),
                predicted=forecast.predict,
                watch=watch,
                should_stop=interruption,
                on_hang=_end_hung_run,
                **options,
            ):
                outcomes.append(outcome)
        except KeyboardInterrupt:
            if not interruption.stopped_at_once:
                raise
        finally:
            if report:
                report.close()
    return outcomes, interruption


class Forecast:
    """Time that the remaining points of a sweep will take.

    The prediction is scaled by the ratio of measured to predicted time of earlier points, which
    counts more the longer they ran.
    """

    def __init__(self, points: list[Point], clock: Callable[[], float] = time.monotonic) -> None:
        self._points = points
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._begun: list[str] = []
        self._began_s = clock()

    def predict(self, estimates: Mapping[str, Estimate], needed: Needed | None = None) -> None:
        """Store the estimates of the points to simulate."""
        from netsim.running.estimate import code_needed

        points = [point for point in self._points if point.name in estimates]
        parts = [estimates[point.name].feature_set for point in points]
        code_s = (needed or code_needed)(points, parts).seconds
        self._seconds = {
            name: one.seconds + one.setup_seconds + code_s / len(points)
            for name, one in estimates.items()
        }
        self._began_s = self._clock()

    def begin(self, point: Point) -> float | None:
        """Start a point; return the seconds that later points will take, None if it is alone."""
        predicted_s = sum(self._seconds.get(name, 0.0) for name in self._begun)
        elapsed_s = self._clock() - self._began_s
        ratio = (elapsed_s + FIRM_S) / (predicted_s + FIRM_S)
        self._begun.append(point.name)
        rest_s = sum(s for name, s in self._seconds.items() if name not in self._begun)
        return ratio * rest_s if len(self._points) > 1 else None


def _end_hung_run(message: str) -> NoReturn:
    """End the process, as its compiled code hangs."""
    click.echo(f"error: {message}", err=True)
    end_now(FAILED)
