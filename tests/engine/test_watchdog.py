"""The watchdog reports a run that uses the processor without progress, and no other."""

from __future__ import annotations

import threading
import time
from itertools import count

from netsim.engine.engine import watched


def test_watchdog_ignores_a_run_that_progresses() -> None:
    numbers, hung = count(), threading.Event()
    with watched(lambda: next(numbers), hung.set, 0.1):
        _work(0.3)
    assert not hung.is_set()


def test_watchdog_reports_a_busy_run_without_progress() -> None:
    hung = threading.Event()
    with watched(lambda: 0, hung.set, 0.1):
        _work(0.5)
        assert hung.is_set()


def test_watchdog_ignores_a_process_that_is_not_running() -> None:
    """A process that is suspended or swapped out makes no progress, but has not hung."""
    hung = threading.Event()
    with watched(lambda: 0, hung.set, 0.2):
        assert not hung.wait(0.6)


def _work(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
