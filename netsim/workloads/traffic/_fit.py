"""Task counts of collectives before they are built, and which part of a job fits in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.memory import require_room
from netsim.workloads.collectives import CollectiveOptions, schedule
from netsim.workloads.collectives.choose import most_sends
from netsim.workloads.operations import Wires
from netsim.workloads.operations.rows import TASK_BYTES

Ints = NDArray[np.int64]

Call = tuple[str, int, Ints, int]
"""A collective, its size, the ranks of one group, and how often it runs in all groups."""

MAX_EXACT_SENDS = 300_000
"""Larger schedules are estimated instead of built."""

IN_A_RUN = 5
"""Memory of a task and its flow in a run, relative to table building."""

SURELY = 40
"""The same with transports and paths that hold much state per flow."""


class Counter:
    """Counts the tasks of collectives at `hosts` with options `hows`."""

    def __init__(self, hows: Mapping[str, CollectiveOptions], wires: Wires, hosts: Ints) -> None:
        self._hows, self._wires, self._hosts = hows, wires, hosts
        self._sends: dict[tuple[str, int, int], int] = {}

    def tasks(self, calls: Iterable[Call]) -> int:
        found = 0
        for what, size, group, times in calls:
            if group.size > 1:
                found += times * (2 * self._sends_of(what, group, size) + 2 * group.size)
        return found

    def _sends_of(self, what: str, group: Ints, size: int) -> int:
        n = group.size
        key = what, n, size
        if key not in self._sends:
            how = self._wires.settled(what, self._hosts[group], size, self._hows[what])
            most = most_sends(how.algorithm, n, size, how)
            exact = most <= MAX_EXACT_SENDS
            self._sends[key] = len(schedule(what, n, size, how).src) if exact else most
        return self._sends[key]


def require_fit(
    tasks: int, smaller: Iterator[tuple[str, Callable[[], int]]], key: str = "traffic.file"
) -> None:
    """Raise InputError if the tasks do not fit in memory.

    `smaller` yields parts of the job, largest first: the settings, and the number of tasks. The
    error names the first part that fits.
    """
    try:
        require_room(IN_A_RUN * tasks * TASK_BYTES, what=f"{tasks:,} tasks")
    except InputError as error:
        hint = None
        for text, count in smaller:
            try:
                require_room(SURELY * count() * TASK_BYTES, what="")
            except InputError:
                continue
            hint = f"this part fits: {text}"
            break
        raise error.replace(file=None, key=key, hint=hint) from None
