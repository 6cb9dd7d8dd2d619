"""Wall-clock time per stage of a window (`PROFILE`).

One worker steps all nodes, switches before hosts, so that each kind is one stretch of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from netsim.engine.kernels.fields import StageTimesRecord
from netsim.engine.kernels.ids import Records
from netsim.engine.kernels.instructions import read_clock_ns


@dataclass(frozen=True)
class WindowTimes:
    """Seconds per stage over all windows, and nodes stepped."""

    find_s: float
    """Find the next window and its active nodes."""
    switches_s: float
    hosts_s: float
    publish_s: float
    """Publish what was sent, count deliveries, release flows."""
    switch_steps: int
    host_steps: int


def lap(parts: StageTimesRecord) -> int:
    """Return the nanoseconds since the last call; restart the clock."""
    now = read_clock_ns()
    passed = now - parts.since_ns
    parts.since_ns = now
    return passed


def window_times(parts: Records[int, StageTimesRecord]) -> WindowTimes:
    """Return the times in a clock's record."""
    return WindowTimes(
        find_s=float(parts["find_ns"][0]) / 1e9,
        switches_s=float(parts["switches_ns"][0]) / 1e9,
        hosts_s=float(parts["hosts_ns"][0]) / 1e9,
        publish_s=float(parts["publish_ns"][0]) / 1e9,
        switch_steps=int(parts["switch_steps"][0]),
        host_steps=int(parts["host_steps"][0]),
    )
