"""Detect handlers that never return.

Compiled code releases the interpreter's lock, so another thread can watch for progress while the
thread that runs it handles no signal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HANG_TIMEOUT_S = 20.0  # seconds without progress after which compiled code counts as hung

CHECKS_PER_TIMEOUT = 20


@contextmanager
def watched(
    progress: Callable[[], object], on_hang: Callable[[], None], timeout_s: float
) -> Iterator[None]:
    """Call `on_hang` from another thread if `progress()` is unchanged for `timeout_s` seconds.

    The process must have used a processor for half of that time: one that is suspended or swapped
    out has not hung.
    """
    done = threading.Event()

    def watch() -> None:
        last, since_s, busy_since_s = progress(), time.monotonic(), time.process_time()
        while not done.wait(timeout_s / CHECKS_PER_TIMEOUT):
            now = progress()
            if now != last:
                last, since_s, busy_since_s = now, time.monotonic(), time.process_time()
            waited_s, busy_s = time.monotonic() - since_s, time.process_time() - busy_since_s
            if waited_s > timeout_s and busy_s > timeout_s / 2:
                on_hang()
                return

    threading.Thread(target=watch, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        done.set()
