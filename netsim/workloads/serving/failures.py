"""When instances of a serving run fail and are back: drawn before the run, or read from a file.

An instance fails as soon as one of its GPUs does: its time up is exponential, with the mean time to
    a failure of one GPU over the number of GPUs. It is *whole* again when a GPU in order is in its
    place, `swap` after there is one. The GPU that failed is in order again after `repair`, and then
    waits with the spares for the instance that has been without for the longest time: without
    spares that is its own. With `on_failure = "stop"` an instance is down until it is whole, with
    "shrink" only for `restart`, and then works with a GPU less. An instance that is not whole does
    not fail again.

At rates of real GPUs, one in ten years, no run sees a failure: `mtbf` is what a run is to be tried
with, and the ratio of `repair` and `mtbf` is what the capacity depends on.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import at_line, read_lines, user_path, whole
from netsim.limits import HORIZON_PS
from netsim.params import Param
from netsim.units import format_time, parse_time_ps, written

Ints = NDArray[np.int64]

STOP, SHRINK = ON_FAILURE = ("stop", "shrink")

MAX_OUTAGES = 1_000_000
BLOCK = 64
"""Times of each instance that are drawn at once."""

FAILURE_PARAMS = [
    Param("mtbf", "time", None, "mean time between failures of a GPU; none: no random failures"),
    Param("failure_trace", "file", None, "CSV file of instance, down, up, whole; replaces mtbf"),
    Param(
        "on_failure",
        "choice",
        STOP,
        "whether an instance stops until its GPU is replaced, or runs with one less",
        choices=ON_FAILURE,
    ),
    Param("repair_time", "time", None, "mtbf: time to repair a GPU"),
    Param("spares", "count", None, "mtbf: spare GPUs; default: none", maximum=1_000_000),
    Param("swap_time", "time", None, "mtbf: time to swap a GPU; default: 0ps"),
    Param("restart_time", "time", None, "shrink: time until the instance runs without the GPU"),
    Param(
        "failures_until",
        "time",
        None,
        "mtbf: no failures after this; default: twice the last arrival",
    ),
]
"""Parameters of a traffic pattern that say which failures there are."""


@dataclass(frozen=True, eq=False)
class Outages:
    """A table of n failures, in the order in which they come.

    Attributes:
        instance: int32[n].
        down_ps, up_ps: int64[n]; from the one to before the other the instance does nothing, and
            what was in its GPUs' memory is lost. At least 1 ps.
        whole_ps: int64[n], not before `up_ps`; from `up_ps` until then it has a GPU less. No
            failure of the same instance comes before.
    """

    instance: NDArray[np.int32]
    down_ps: Ints
    up_ps: Ints
    whole_ps: Ints

    def __len__(self) -> int:
        return int(self.instance.size)


NO_OUTAGES = Outages(
    np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
)


@dataclass(frozen=True)
class Policy:
    """What becomes of a failure. Times in picoseconds; `restart_ps` of "shrink" alone."""

    mtbf_ps: int
    repair_ps: int
    swap_ps: int = 0
    spares: int = 0
    on_failure: str = STOP
    restart_ps: int = 0


def failures_of(
    params: Mapping[str, Any],
    gpus: Ints,
    last_arrival_ps: int,
    rng: np.random.Generator,
    directory: Path,
) -> Outages:
    """The failures that `FAILURE_PARAMS` ask for; relative files start at `directory`.

    `gpus` is int64[k], the GPUs of each instance. Raises InputError for what contradicts itself,
    and for a mistake in the file.
    """
    _check(params)
    if params["failure_trace"] is not None:
        return read_outages(user_path(params["failure_trace"], directory), gpus.size)
    if params["mtbf"] is None:
        return NO_OUTAGES
    policy = Policy(
        mtbf_ps=params["mtbf"],
        repair_ps=params["repair_time"],
        swap_ps=params["swap_time"] or 0,
        spares=params["spares"] or 0,
        on_failure=params["on_failure"],
        restart_ps=params["restart_time"] or 0,
    )
    until_ps = params["failures_until"]
    if until_ps is None:
        until_ps = 2 * last_arrival_ps
        if until_ps == 0:
            hint = "a time, as all requests come at 0"
            raise InputError("missing", key="traffic.failures_until", hint=hint, code="missing")
    return draw_outages(policy, gpus, until_ps, rng)


def _check(params: Mapping[str, Any]) -> None:
    """What is given has an effect, and what is needed is given."""
    drawn = params["mtbf"] is not None
    if drawn and params["failure_trace"] is not None:
        raise InputError("has no effect with failure_trace", key="traffic.mtbf", code="no_effect")
    for name in ("repair_time", "spares", "swap_time", "failures_until", "restart_time"):
        if params[name] is not None and not drawn:
            raise InputError("has no effect", key=f"traffic.{name}", hint="it is one of mtbf")
    if drawn and params["mtbf"] == 0:
        raise InputError("must be positive", key="traffic.mtbf", code="out_of_range")
    shrinks = drawn and params["on_failure"] == SHRINK
    if params["restart_time"] is not None and not shrinks:
        hint = f'it is one of on_failure = "{SHRINK}"'
        raise InputError("has no effect", key="traffic.restart_time", hint=hint, code="no_effect")
    for name, needed in (("repair_time", drawn), ("restart_time", shrinks)):
        if needed and params[name] is None:
            raise InputError("missing", key=f"traffic.{name}", hint='a time, such as "100ms"')
    if params["on_failure"] == SHRINK and not drawn:
        hint = "it is one of mtbf; in a file of outages an instance is up before it is whole"
        raise InputError("has no effect", key="traffic.on_failure", hint=hint, code="no_effect")


def draw_outages(policy: Policy, gpus: Ints, until_ps: int, rng: np.random.Generator) -> Outages:
    """Failures before `until_ps` of instances with so many GPUs, int64[k], each.

    The times up of an instance are the same draws whatever the policy. Raises InputError if there
    would be too many.
    """
    mean_ps = policy.mtbf_ps / gpus
    shortest_ps = policy.swap_ps + (0 if policy.spares else policy.repair_ps)
    expected = float((until_ps / (mean_ps + shortest_ps)).sum())
    if expected > MAX_OUTAGES:
        raise InputError(
            f"some {expected:,.0f} failures are expected in {format_time(until_ps, 3)}",
            key="traffic.mtbf",
            hint=f"at most {MAX_OUTAGES:,}",
        )
    up = _TimesUp(mean_ps, rng)
    soonest = [(up.next_ps(instance), instance) for instance in range(gpus.size)]
    heapq.heapify(soonest)
    in_order_ps = deque([0] * policy.spares)  # when each GPU is, that no instance has; not falling
    rows: list[tuple[int, int, int, int]] = []
    while soonest and soonest[0][0] < until_ps:
        down_ps, instance = soonest[0]
        in_order_ps.append(down_ps + policy.repair_ps)
        there_ps = max(down_ps, in_order_ps.popleft())
        whole_ps = max(there_ps + policy.swap_ps, down_ps + 1)
        up_ps = whole_ps
        if policy.on_failure == SHRINK and gpus[instance] > 1:
            up_ps = min(down_ps + max(policy.restart_ps, 1), whole_ps)
        rows.append((instance, down_ps, up_ps, whole_ps))
        heapq.heapreplace(soonest, (whole_ps + up.next_ps(instance), instance))
    return _table(rows)


class _TimesUp:
    """How long each instance stays up, again and again: exponential, with a mean of its own.

    Draws are made for all instances together, so that the n-th of an instance is the same whatever
    the others do.
    """

    def __init__(self, mean_ps: NDArray[np.float64], rng: np.random.Generator) -> None:
        self._mean_ps, self._rng = mean_ps, rng
        self._blocks: list[NDArray[np.float64]] = []
        self._taken = [0] * mean_ps.size

    def next_ps(self, instance: int) -> int:
        """The next time up of an instance, at least 1 ps."""
        block, row = divmod(self._taken[instance], BLOCK)
        self._taken[instance] += 1
        if block == len(self._blocks):
            self._blocks.append(self._rng.exponential(size=(BLOCK, self._mean_ps.size)))
        drawn_ps = float(self._blocks[block][row, instance] * self._mean_ps[instance])
        return max(round(min(drawn_ps, HORIZON_PS)), 1)


def _table(rows: list[tuple[int, int, int, int]]) -> Outages:
    columns = np.array(rows, np.int64).reshape(len(rows), 4).T
    return Outages(columns[0].astype(np.int32), columns[1], columns[2], columns[3])


def read_outages(path: Path, instances: int) -> Outages:
    """Failures of a CSV file, in any order: instance, down, up, and whole if it is later than up.

    A line is such as "3, 10ms, 25ms". Raises InputError, with file and line, for what is no such
    line, names no instance, or overlaps another failure of its instance.
    """
    rows = []
    for line, text in read_lines(path):
        words = [word.strip() for word in text.split(",")]
        if len(words) not in (3, 4):
            raise at_line(path, line, "is no instance with two or three times", "3, 10ms, 25ms")
        try:
            times = [parse_time_ps(word) for word in words[1:]]
        except InputError as error:
            raise at_line(path, line, error.message, error.hint) from None
        try:
            instance = whole(words[0])
        except ValueError:
            instance = -1
        if not 0 <= instance < instances:
            hint = f"0 to {instances - 1}"
            raise at_line(path, line, f"there is no instance {written(words[0])}", hint)
        down_ps, up_ps, whole_ps = *times[:2], times[-1]
        if not down_ps < up_ps <= whole_ps:
            raise at_line(path, line, "an instance is up after it is down, and whole after that")
        rows.append((down_ps, instance, up_ps, whole_ps, line))
    rows.sort()
    whole_of: dict[int, int] = {}
    for down_ps, instance, _, whole_ps, line in rows:
        if down_ps < whole_of.get(instance, 0):
            raise at_line(path, line, f"instance {instance} is not whole yet as it fails")
        whole_of[instance] = whole_ps
    return _table([(instance, down, up, whole) for down, instance, up, whole, _ in rows])
