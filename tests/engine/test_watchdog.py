"""What does not move any more is noticed, and nothing else."""

from __future__ import annotations

import threading
import time
from itertools import count

from netsim.engine.watchdog import watched


def test_movement_is_no_hang() -> None:
    numbers, hung = count(), threading.Event()
    with watched(lambda: next(numbers), hung.set, 0.1):
        _work(0.3)
    assert not hung.is_set()


def test_no_movement_is() -> None:
    hung = threading.Event()
    with watched(lambda: 0, hung.set, 0.1):
        _work(0.5)
        assert hung.is_set()


def test_nor_is_what_waits() -> None:
    """A process without a processor gets nowhere by no fault of its own."""
    hung = threading.Event()
    with watched(lambda: 0, hung.set, 0.2):
        assert not hung.wait(0.6)


def _work(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
