"""Notices code that does not come back: a handler with an endless loop.

While machine code runs, Python can do nothing in its thread: no signal is handled and no time
is up. Another thread can, since compiled code lets go of the interpreter's lock: it looks now and
then whether anything has moved.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 20.0
"""Seconds without any movement after which compiled code counts as hung."""

PORT_WAKEUPS = 20
"""Times that it is looked in these seconds."""


@contextmanager
def watched(
    moved: Callable[[], object], on_hang: Callable[[], None], patience_s: float
) -> Iterator[None]:
    """Within, `on_hang` is called, in another thread, if `moved()` stays the same for too long.

    That is for `patience_s` seconds, in half of which at least this process had a processor: one
    that is stopped or swapped out has not hung.
    """
    done = threading.Event()
    arguments = (done, moved, on_hang, patience_s)
    threading.Thread(target=_look, args=arguments, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _look(
    done: threading.Event,
    moved: Callable[[], object],
    on_hang: Callable[[], None],
    patience_s: float,
) -> None:
    last, since_s, busy_since_s = moved(), time.monotonic(), time.process_time()
    while not done.wait(patience_s / PORT_WAKEUPS):
        now = moved()
        if now != last:
            last, since_s, busy_since_s = now, time.monotonic(), time.process_time()
        waited_s, busy_s = time.monotonic() - since_s, time.process_time() - busy_since_s
        if waited_s > patience_s and busy_s > patience_s / 2:
            on_hang()
            return
