"""Progress of a run: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TextIO

from netsim.common.steps import Steps, format_duration, shown, step
from netsim.units import format_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from netsim.running.point import Progress

PLAIN_EVERY_S = 5.0
BAR_EVERY_S = 0.1

MAX_NAMED = 4
"""Most running points to name."""

FIRM_S = 10.0
"""Seconds after which the measured time of points weighs as much as its prediction."""

BAR, TITLE = 20, 32
"""Width of the bar, and maximum width of the point's name."""


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
    progress: Progress,
    speed: Speed,
    *,
    rest_s: float | None = None,
    eta_first: bool = False,
    age_s: float = 0.0,
) -> str:
    """Return one line about the progress `age_s` seconds ago; a narrow terminal cuts off its end.

    `rest_s` is the time in seconds that later points will take.
    """
    if progress.phase == "compile":
        return "compiling (10 to 30 s, cached)"
    if progress.phase == "load":
        return "loading compiled code"
    parts = [
        f"simulated {format_time(int(progress.simulated_ps), 4)}",
        f"{progress.flows_done:,} of {progress.flows_total:,} flows",
    ]
    if progress.counted:
        what, done, total = progress.counted
        parts[1:] = [f"{done:,} of {total:,} {what}", *parts[1:]]
    elif progress.tasks_total:
        parts.append(f"{progress.tasks_done:,} of {progress.tasks_total:,} tasks")
    if speed.hops_per_s is not None:
        parts.append(format_speed(speed.hops_per_s))
    if speed.eta_s is not None:
        eta_s = max(0.0, speed.eta_s - age_s)
        to_go = f"{format_duration(eta_s)} left"
        if rest_s is not None:
            to_go += f" ({format_duration(eta_s + rest_s)} for all points)"
        parts.insert(0 if eta_first else len(parts), to_go)
    return ", ".join(parts)


class Overview:
    """Progress of all points of a run in which several run at a time.

    `seconds` predicts the points to simulate by name, `slots` is the number at a time, `kept` the
    number of points done before.
    """

    def __init__(
        self,
        seconds: Mapping[str, float],
        slots: int,
        kept: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds, self._slots, self._kept = seconds, slots, kept
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
        """Count a point."""
        self._done[name] = 1.0
        self._running.pop(name, None)

    @property
    def fraction(self) -> float:
        """Completed fraction of the predicted time."""
        total_s = sum(self._seconds.values())
        return self._done_s / total_s if total_s else 0.0

    @property
    def eta_s(self) -> float:
        """Remaining seconds: as predicted, scaled by what the points took so far."""
        left = [s * (1 - self._done.get(name, 0.0)) for name, s in self._seconds.items()]
        expected_s = self._done_s / self._slots
        ratio = (self._clock() - self._began_s + FIRM_S) / (expected_s + FIRM_S)
        return ratio * max(sum(left) / self._slots, *left, 0.0)

    @property
    def _done_s(self) -> float:
        return sum(self._seconds[name] * done for name, done in self._done.items())

    def __str__(self) -> str:
        n_done = self._kept + len(self._done) - len(self._running)
        speeds = [speed.hops_per_s for speed in self._running.values() if speed.hops_per_s]
        parts = [
            f"{format_duration(self.eta_s)} left",
            f"{n_done:,} of {self._kept + len(self._seconds):,} points",
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


class PlainReporter:
    """Progress as lines: every few seconds, when compilation starts, and of long steps."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._steps = Steps(self._stream, clock).__enter__()

    def watch(self, title: str, rest_s: float | None = None) -> Callable[[Progress], None]:
        """Return the progress callback of the point `title`."""
        speed, due, phase = Speed(), self._clock() + PLAIN_EVERY_S, ""

        def tell(progress: Progress) -> None:
            nonlocal due, phase
            speed.update(progress)
            entered = progress.phase != phase and progress.phase == "compile"
            phase = progress.phase
            step("" if phase == "run" else f"{title}: {describe(progress, speed)}")
            if not entered and self._clock() < due:
                return
            due = self._clock() + PLAIN_EVERY_S
            line = f"{title}: {share(progress):.0%} {describe(progress, speed, rest_s=rest_s)}"
            print(line, file=self._stream, flush=True)

        return tell

    def overview(self) -> Callable[[Overview], None]:
        """Return the callback for the progress of several points at a time."""
        due = self._clock() + PLAIN_EVERY_S

        def tell(overview: Overview) -> None:
            nonlocal due
            if self._clock() >= due:
                due = self._clock() + PLAIN_EVERY_S
                print(f"{overview.fraction:.0%} {overview}", file=self._stream, flush=True)

        return tell

    def close(self) -> None:
        """End the steps."""
        self._steps.__exit__()


class BarReporter:
    """Show steps as lines, then progress as a bar with a line of text, erased at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._steps: Steps | None = Steps().__enter__()

    def watch(self, title: str, rest_s: float | None = None) -> Callable[[Progress], None]:
        """Return the progress callback of the point `title`."""
        bar, speed, due = self._start(title), Speed(), 0.0

        def tell(progress: Progress) -> None:
            nonlocal due
            speed.update(progress)
            if time.monotonic() < due or self._task is None:
                return
            due = time.monotonic() + BAR_EVERY_S
            bar.update(self._task, completed=share(progress), text=partial(line, progress, due))

        def line(progress: Progress, told_s: float) -> str:
            age_s = max(0.0, time.monotonic() - told_s)
            return describe(progress, speed, rest_s=rest_s, eta_first=True, age_s=age_s)

        return tell

    def tell(self, text: str, done: int, total: int) -> None:
        """Show a step instead of the progress of a run."""
        if self._bar is not None and self._task is not None and text:
            place = f", {done + 1} of {total}" if total > 1 else ""
            self._bar.update(self._task, completed=done / max(1, total), text=lambda: text + place)

    def overview(self) -> Callable[[Overview], None]:
        """Return the callback for the progress of several points at a time."""
        bar, due = self._start("points"), 0.0

        def tell(overview: Overview) -> None:
            nonlocal due
            if time.monotonic() < due or self._task is None:
                return
            due = time.monotonic() + BAR_EVERY_S
            bar.update(self._task, completed=overview.fraction, text=lambda: str(overview))

        return tell

    def _start(self, title: str) -> Bar:
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
        if self._bar is None:
            self._bar = Bar(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False, table_column=title_column),
                BarColumn(bar_width=BAR, table_column=Column(min_width=BAR)),
                TaskProgressColumn(table_column=Column(min_width=4)),
                Line("", table_column=text_column),
                console=self._console or Console(stderr=True),
                transient=True,
                expand=True,
            )
            self._end_steps()
            shown.append(self)
            self._bar.start()
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(title, total=1.0, text=lambda: "building the network")
        return self._bar

    def _end_steps(self) -> None:
        if self._steps is not None:
            self._steps.__exit__()
            self._steps = None

    def close(self) -> None:
        """Erase the bar."""
        self._end_steps()
        if self._bar is not None:
            if self in shown:
                shown.remove(self)
            self._bar.stop()


def reporter() -> BarReporter | PlainReporter:
    """Return a bar if standard error is a terminal, otherwise lines."""
    return BarReporter() if sys.stderr.isatty() else PlainReporter()
