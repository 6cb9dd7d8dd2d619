"""Threads that assist in a call of the engine's code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from netsim.engine.kernels.crew import ENDING, WORKING
from netsim.engine.kernels.layout import Crew


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
