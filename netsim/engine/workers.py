"""Threads beside a call of the engine's code: those that assist in it, and one that watches it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from netsim.engine.kernels.layout import Crew
from netsim.engine.kernels.loop import ENDING, WORKING


@contextmanager
def assisted(crew: Crew, n_workers: int, assist: Callable[[int], object]) -> Iterator[None]:
    """Call `assist(worker)` in a thread for every worker but the first.

    The crew ends with the block, or when a call raises. Raises what that call raised.
    """
    raised: list[BaseException] = []

    def call(worker: int) -> None:
        try:
            assist(worker)
        except BaseException as error:
            crew.ending[0] = ENDING
            raised.append(error)

    crew.ending[0] = WORKING
    threads = [
        threading.Thread(target=call, args=(worker,), name=f"worker {worker}", daemon=True)
        for worker in range(1, n_workers)
    ]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        yield
    finally:
        crew.ending[0] = ENDING
        _join(started)
    if raised:
        raise raised[0]


def _join(threads: Sequence[threading.Thread]) -> None:
    """Wait until all threads have ended, even if interrupted: they write to the state."""
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        _join(threads)
        raise


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
