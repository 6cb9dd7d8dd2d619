"""Limits on a case's CPU time and memory, and its peak memory."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

STATUS = Path("/proc/self/status")


class OverTimeError(BaseException):
    """A case has used up its time. Not an Exception, since the code under test could catch it."""


def limit_memory(n_bytes: int) -> None:
    """Limit the address space of this process and its children to `n_bytes`."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, hard))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OverTimeError in the block after this many seconds of CPU time."""

    def over(_signum: int, _frame: FrameType | None) -> None:
        raise OverTimeError

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # repeated in case it is swallowed
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def forget_peak_memory() -> None:
    """Reset `peak_memory_bytes`, if the system supports it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_bytes() -> int:
    """Return the peak memory of this process."""
    try:
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
