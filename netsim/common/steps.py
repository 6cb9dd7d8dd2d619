"""Show the current step of a command that prints nothing else: `step` reports it, `Steps` shows
it."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol, Self, TextIO

QUIET_S = 3.0  # seconds that a command may run silently
MOVE_EVERY_S, LINE_EVERY_S = 0.5, 30.0  # seconds between updates on a terminal, and elsewhere


class Sink(Protocol):
    """An output that shows steps."""

    def tell(self, text: str, done: int, total: int) -> None:
        """Show a step from now on."""


shown: list[Sink] = []  # the last one shows steps


def step(text: str, done: int = 0, total: int = 0) -> None:
    """Report a step that begins, after `done` of `total` equal parts; "" if others are shown."""
    if shown:
        shown[-1].tell(text, done, total)


class Steps:
    """A context that shows steps: on a terminal as one changing line, else as lines, from the first
    step longer than QUIET_S on."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._text, self._due = "", 0.0
        self._told = self._began = self._quiet_until = clock()
        self._done = self._total = 0
        self._moving = False
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        shown.append(self)
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self in shown:
            shown.remove(self)
        self.tell("")

    def tell(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show a step from now on."""
        with self._lock:
            now = self._clock()
            if text and not done:
                self._began = now
            self._erase()
            self._text, self._done, self._total, self._told = text, done, total, now
            self._due = now + QUIET_S if now >= self._quiet_until else self._quiet_until
            self._quiet_until = now + QUIET_S if not text else self._quiet_until

    def line(self, now: float) -> str:
        """Return the step with its elapsed and remaining time."""
        parts = [self._text]
        if self._total > 1:
            parts[0] += f", {self._done + 1} of {self._total}"
        parts.append(format_duration(now - self._told))
        if self._done:
            each_s = (self._told - self._began) / self._done
            left_s = each_s * (self._total - self._done) - (now - self._told)
            parts.append(f"about {format_duration(max(0.0, left_s))} left")
        return ", ".join(parts)

    def _run(self) -> None:
        while not self._ended.wait(MOVE_EVERY_S):
            with self._lock:
                self.show()

    def show(self) -> None:
        """Write the line if it is due."""
        now = self._clock()
        if not self._text or now < self._due or self._ended.is_set():
            return
        line = self.line(now)
        if self._stream.isatty():
            self._erase()
            self._moving = True
            line = line[: shutil.get_terminal_size().columns - 1]
            self._write(line)
        else:
            self._due = now + LINE_EVERY_S
            self._write(line + "\n")

    def _erase(self) -> None:
        if self._moving:
            self._write("\r\x1b[2K")
            self._moving = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # closed
            self._ended.set()


def format_duration(seconds: float) -> str:
    """Format a wall-clock duration: 12 ms, 0.4 s, 12 s, 3:05, 1:02:03."""
    if 0 < seconds < 0.0995:
        return f"{max(1.0, 1000 * seconds):.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
