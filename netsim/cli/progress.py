"""Simulate the points of a run with progress: a bar on a terminal, otherwise a line every few
seconds. Ctrl-C stops the run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

import click

from netsim.cli.app import FAILED
from netsim.cli.interrupt import Interruption, end_now
from netsim.common.steps import Steps, format_duration, shown, step
from netsim.units import format_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from netsim.experiment import Point
    from netsim.results.shard import Shard
    from netsim.running.estimate import Estimate
    from netsim.running.executor import Executor, PointOutcome, RunOptions
    from netsim.running.point import Progress

PLAIN_EVERY_S = 5.0

MAX_NAMED = 4  # most running points to name
FIRM_S = 10.0  # seconds after which the measured time of points weighs as much as its prediction
BAR, TITLE = 20, 32  # width of the bar, and maximum width of the point's name


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
    from netsim.running.executor import Callbacks
    from netsim.running.sweep import in_order, run_points

    interruption = Interruption(at_once=True)
    outcomes: list[PointOutcome] = []
    display = _Display(points, interruption, None if quiet else reporter())
    callbacks = Callbacks(
        watch=display.watch,
        should_stop=interruption,
        note=lambda text: None if quiet else click.echo(text, err=True),
        predicted=display.predicted,
        parallel=display.parallel,
        on_hang=_end_hung_run,
    )
    with interruption:
        try:
            for outcome in run_points(points, directory, options, callbacks, executor, shard):
                outcomes.append(outcome)
                display.overview.finish(outcome.point.name)
        except KeyboardInterrupt:
            if not interruption.stopped_at_once:
                raise
        finally:
            display.close()
    return in_order(outcomes), interruption


def _end_hung_run(message: str) -> NoReturn:
    """End the process, whose compiled code hangs."""
    click.echo(f"error: {message}", err=True)
    end_now(FAILED)


class _Display:
    """Shows the running point, or all if several run at a time."""

    def __init__(
        self, points: Sequence[Point], interruption: Interruption, reporter: Reporter | None
    ) -> None:
        self._points, self._interruption, self._reporter = points, interruption, reporter
        self._several = False
        self.overview = Overview({})

    def predicted(self, estimates: Mapping[str, Estimate]) -> None:
        """Set the predicted times of the points to simulate. Divide compile time evenly, since it
        is unknown which points share code."""
        seconds = {name: one.seconds + one.setup_seconds for name, one in estimates.items()}
        if len(seconds) > 1 and self._reporter is not None:
            from netsim.running.estimate import code_needed

            todo = [point for point in self._points if point.name in estimates]
            code = code_needed(todo, [estimates[point.name].feature_set for point in todo])
            seconds = {name: s + code.seconds / len(todo) for name, s in seconds.items()}
        self.overview = Overview(seconds, len(self._points) - len(seconds))

    def parallel(self, slots: int) -> None:
        """Show all points from now on, and accept signals at any time."""
        self._interruption.at_once = False
        self._several, self.overview.slots = True, slots

    def watch(self, point: Point) -> Callable[[Progress], None]:
        """Return the progress callback of a point that starts."""
        overview, name, n = self.overview, point.name, len(self._points)
        place = f"{overview.n_done + 1}/{n}: " if n > 1 else ""
        overview.begin(name)
        tell: Callable[[Progress], None] = lambda _: None  # noqa: E731
        if self._reporter is not None and not self._several:
            rest_s = (lambda: overview.rest_s) if n > 1 else None
            tell = self._reporter.watch(f"{place}{name}", rest_s)

        def report(progress: Progress) -> None:
            overview.update(name, progress)
            tell(progress)
            if self._reporter is not None and self._several:
                self._reporter.show("points", overview.fraction, lambda: str(overview))

        return report if self._several else self._interruption.watching(report)

    def close(self) -> None:
        if self._reporter is not None:
            self._reporter.close()


class Speed:
    """Packet-hops per second and remaining time, without loading and compiling."""

    def __init__(self) -> None:
        self.first: Progress | None = None
        self.hops_per_s: float | None = None
        self.eta_s: float | None = None

    def update(self, progress: Progress) -> None:
        """Add a report."""
        if progress.phase != "run":
            return
        if self.first is None:
            self.first = progress
            return
        elapsed = progress.wall_s - self.first.wall_s
        if elapsed <= 0:
            return
        self.hops_per_s = (progress.packet_hops - self.first.packet_hops) / elapsed
        (before, _), (now, total) = _work(self.first), _work(progress)
        done, left = now - before, total - now
        self.eta_s = elapsed * left / done if done > 0 else None


def format_speed(hops_per_s: float) -> str:
    """Format a speed in millions of packet-hops per second."""
    return f"{hops_per_s / 1e6:.3g} M packet-hops/s"


def describe(
    progress: Progress, speed: Speed, *, rest_s: float | None = None, age_s: float = 0.0
) -> str:
    """Return one line about the progress `age_s` seconds ago; a narrow terminal cuts off its end.
    `rest_s` is the time in seconds that later points will take."""
    if progress.phase == "compile":
        return "compiling (10 to 30 s, cached)"
    if progress.phase == "load":
        return "loading compiled code"
    parts = []
    if speed.eta_s is not None:
        eta_s = max(0.0, speed.eta_s - age_s)
        parts.append(f"{format_duration(eta_s)} left")
        if rest_s is not None:
            parts[0] += f" ({format_duration(eta_s + rest_s)} for all points)"
    parts.append(f"simulated {format_time(int(progress.simulated_ps), 4)}")
    if progress.counted:
        name, done, total = progress.counted
        parts.append(f"{done:,} of {total:,} {name}")
    parts.append(f"{progress.flows_done:,} of {progress.flows_total:,} flows")
    if progress.tasks_total and not progress.counted:
        parts.append(f"{progress.tasks_done:,} of {progress.tasks_total:,} tasks")
    if speed.hops_per_s is not None:
        parts.append(format_speed(speed.hops_per_s))
    return ", ".join(parts)


class Overview:
    """Progress of all points of a run.

    `seconds` predicts the points to simulate by name, `kept` is the number of points done before,
    and `slots` the number at a time. Predictions are scaled by the ratio of measured to predicted
    time so far, which counts more the longer the points ran.
    """

    def __init__(
        self,
        seconds: Mapping[str, float],
        kept: int = 0,
        slots: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = slots
        self._seconds, self._kept = seconds, kept
        self._clock, self._began_s = clock, clock()
        self._done: dict[str, float] = {}  # completed fraction of each point
        self._running: dict[str, Speed] = {}

    def begin(self, name: str) -> None:
        """Start a point, perhaps again."""
        self._done[name], self._running[name] = 0.0, Speed()

    def update(self, name: str, progress: Progress) -> None:
        """Add a report of a point."""
        self._running[name].update(progress)
        self._done[name] = share(progress)

    def finish(self, name: str) -> None:
        """Count a point that was begun."""
        if name in self._running:
            self._done[name] = 1.0
            del self._running[name]

    @property
    def n_done(self) -> int:
        """Number of points that are done."""
        return self._kept + len(self._done) - len(self._running)

    @property
    def fraction(self) -> float:
        """Completed fraction of the predicted time."""
        total_s = sum(self._seconds.values())
        return self._done_s / total_s if total_s else 0.0

    @property
    def rest_s(self) -> float:
        """Predicted seconds of the points that have not begun."""
        left_s = sum(s for name, s in self._seconds.items() if name not in self._done)
        return self._ratio * left_s / self.slots

    @property
    def eta_s(self) -> float:
        """Remaining seconds."""
        left = [s * (1 - self._done.get(name, 0.0)) for name, s in self._seconds.items()]
        return self._ratio * max(sum(left) / self.slots, *left, 0.0)

    @property
    def _ratio(self) -> float:
        expected_s = self._done_s / self.slots
        return (self._clock() - self._began_s + FIRM_S) / (expected_s + FIRM_S)

    @property
    def _done_s(self) -> float:
        return sum(self._seconds.get(name, 0.0) * done for name, done in self._done.items())

    def __str__(self) -> str:
        speeds = [speed.hops_per_s for speed in self._running.values() if speed.hops_per_s]
        parts = [
            f"{format_duration(self.eta_s)} left",
            f"{self.n_done:,} of {self._kept + len(self._seconds):,} points",
        ]
        if speeds:
            parts.append(format_speed(sum(speeds)))
        parts += [f"{name} {self._done[name]:.0%}" for name in [*self._running][:MAX_NAMED]]
        return ", ".join(parts)


def share(progress: Progress) -> float:
    """Return the completed fraction of the requests or bytes."""
    done, total = _work(progress)
    return done / total if total else 0.0


def _work(progress: Progress) -> tuple[int, int]:
    """Return work done and total. Requests come first: not every declared flow is sent."""
    if progress.counted:
        return progress.counted[1:]
    return progress.bytes_done, progress.bytes_total


class Reporter:
    """Shows progress."""

    def show(self, title: str, done: float, text: Callable[[], str], phase: str = "run") -> None:
        """Show the completed fraction and a line about it from now on."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop showing progress."""
        raise NotImplementedError

    def watch(
        self, title: str, rest_s: Callable[[], float] | None = None
    ) -> Callable[[Progress], None]:
        """Return the progress callback of a point; `rest_s` returns the time of later points."""
        speed = Speed()

        def tell(progress: Progress) -> None:
            speed.update(progress)
            told_s, later_s = time.monotonic(), None if rest_s is None else rest_s()

            def text() -> str:
                age_s = time.monotonic() - told_s
                return describe(progress, speed, rest_s=later_s, age_s=age_s)

            self.show(title, share(progress), text, progress.phase)

        return tell


class PlainReporter(Reporter):
    """Progress as lines: every few seconds, when compilation starts, and of long steps."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._due_s, self._phase = clock() + PLAIN_EVERY_S, ""
        self._steps = Steps(self._stream, clock).__enter__()

    def show(self, title: str, done: float, text: Callable[[], str], phase: str = "run") -> None:
        step("" if phase == "run" else f"{title}: {text()}")
        is_new = phase == "compile" != self._phase
        self._phase = phase
        if is_new or self._clock() >= self._due_s:
            self._due_s = self._clock() + PLAIN_EVERY_S
            print(f"{title}: {done:.0%} {text()}", file=self._stream, flush=True)

    def close(self) -> None:
        self._steps.__exit__()


class BarReporter(Reporter):
    """Show steps as lines, then progress as a bar with a line of text, erased at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._title = ""
        self._steps = Steps().__enter__()

    def show(self, title: str, done: float, text: Callable[[], str], phase: str = "run") -> None:
        del phase
        bar = self._bar = self._bar or self._opened()
        if self._task is None or title != self._title:
            if self._task is not None:
                bar.remove_task(self._task)
            self._task, self._title = bar.add_task(title, total=1.0, text=text), title
        bar.update(self._task, completed=done, text=text)

    def tell(self, text: str, done: int, total: int) -> None:
        """Show a step instead of the progress of a run."""
        if text:
            place = f", {done + 1} of {total}" if total > 1 else ""
            self.show(self._title, done / max(1, total), lambda: text + place)

    def _opened(self) -> Bar:
        """Start the bar instead of the steps."""
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, Task, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column
        from rich.text import Text

        class Line(TextColumn):
            def render(self, task: Task) -> Text:
                return Text(task.fields["text"]())

        title_column = Column(no_wrap=True, overflow="ellipsis", max_width=TITLE)
        text_column = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=title_column),
            BarColumn(bar_width=BAR, table_column=Column(min_width=BAR)),
            TaskProgressColumn(table_column=Column(min_width=4)),
            Line("", table_column=text_column),
            console=self._console or Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._steps.__exit__()
        shown.append(self)
        bar.start()
        return bar

    def close(self) -> None:
        """Erase the bar."""
        if self._bar is None:
            self._steps.__exit__()
            return
        if self in shown:
            shown.remove(self)
        self._bar.stop()


def reporter() -> Reporter:
    """Return a bar if standard error is a terminal, otherwise lines."""
    return BarReporter() if sys.stderr.isatty() else PlainReporter()
