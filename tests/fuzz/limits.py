"""What a case may take: processor time and memory, and how much it did take."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

STATUS = Path("/proc/self/status")


class OverTimeError(BaseException):
    """A case has used up its time. Not an Exception, which the code under test may catch."""


def limit_memory(n_bytes: int) -> None:
    """No more than `n_bytes` of addresses from here on, for this process and those it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, hard))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OverTimeError in the block once it has used so many seconds of processor time."""

    def over(_signum: int, _frame: FrameType | None) -> None:
        raise OverTimeError

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # again each second, should it be swallowed
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def forget_peak_memory() -> None:
    """Let `peak_memory_bytes` count from here, where the system can do that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_bytes() -> int:
    """The most memory that this process has held."""
    try:
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
