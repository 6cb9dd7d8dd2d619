"""Points simulated one after the other, with progress for the user, until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from netsim.cli.app import FAILED
from netsim.cli.ending import end_now
from netsim.cli.interrupt import Interruption

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.running.sweep import Outcome


def simulate_points(
    points: list[Point], directory: Path, options: dict[str, Any], *, quiet: bool = False
) -> tuple[list[Outcome], Interruption]:
    """What became of each point, as far as they were run, and whether a signal ended that.

    `options` are those of `run_points`.
    """
    from netsim.cli.progress import reporter
    from netsim.running.sweep import run_points

    interruption = Interruption()
    outcomes: list[Outcome] = []
    report = None if quiet else reporter()
    began = time.monotonic()

    def title(point: Point) -> str:
        simulated = sum(not outcome.kept for outcome in outcomes)
        place = _place(len(outcomes), len(points), simulated, time.monotonic() - began)
        return f"{place}{point.name}"

    with interruption:
        try:
            for outcome in run_points(
                points,
                directory,
                note=lambda text: None if quiet else click.echo(text, err=True),
                watch=lambda point: report.watch(title(point)) if report else None,
                should_stop=interruption,
                on_hang=_end_hung_run,
                **options,
            ):
                outcomes.append(outcome)
        finally:
            if report:
                report.close()
    return outcomes, interruption


def _place(done: int, total: int, simulated: int, elapsed_s: float) -> str:
    """Where in a sweep the next point stands, and how long the rest takes if it goes on as before.

    `simulated` of the points that are done were not kept from an earlier run.
    """
    from netsim.cli.progress import format_duration

    if total == 1:
        return ""
    if not simulated:
        return f"{done + 1}/{total}: "
    return f"{done + 1}/{total}, {format_duration(elapsed_s / simulated * (total - done))} to go: "


def _end_hung_run(message: str) -> NoReturn:
    """End the process, in which compiled code does not come back."""
    click.echo(f"error: {message}", err=True)
    end_now(FAILED)
