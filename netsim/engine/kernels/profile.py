"""Where the time of the windows goes: the clock is read between their parts.

Compiled in with ``PROFILE``; without it no trace of it is left in the machine code. One worker
steps all nodes, switches before hosts, so that the time of each kind is one stretch. Nothing
here changes what is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass

from netsim.engine.kernels.fields import StageTimesRecord
from netsim.engine.kernels.ids import Records
from netsim.engine.kernels.instructions import read_clock_ns


@dataclass(frozen=True)
class WindowTimes:
    """Seconds spent in the parts of all windows so far, and how many nodes were stepped."""

    find_s: float
    """Finding the next window and the nodes that are active in it."""
    switches_s: float
    hosts_s: float
    publish_s: float
    """Handing over what was sent, counting what was delivered, releasing flows."""
    switch_steps: int
    host_steps: int


def lap(parts: StageTimesRecord) -> int:
    """Nanoseconds since the last call, which is what one part of a window took.

    Sets ``since_ns`` of ``parts``, a StageTimesRecord.
    """
    now = read_clock_ns()
    passed = now - parts.since_ns
    parts.since_ns = now
    return passed


def window_times(parts: Records[int, StageTimesRecord]) -> WindowTimes:
    """What is in the record of a clock."""
    return WindowTimes(
        find_s=float(parts["find_ns"][0]) / 1e9,
        switches_s=float(parts["switches_ns"][0]) / 1e9,
        hosts_s=float(parts["hosts_ns"][0]) / 1e9,
        publish_s=float(parts["publish_ns"][0]) / 1e9,
        switch_steps=int(parts["switch_steps"][0]),
        host_steps=int(parts["host_steps"][0]),
    )
