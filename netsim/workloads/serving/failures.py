"""Failures of instances: drawn at random before the run, or read from a file.

An instance fails when one of its GPUs fails: its time to failure is exponential, with a mean of
`mtbf` divided by its number of GPUs. The failed GPU is repaired after `repair_time` and then joins
the spares, which go to the instance that has waited longest; without spares, it returns to its own
instance. The instance is *whole* again `swap_time` after it gets a GPU. With `on_failure = "stop"`
it is down until then; with "shrink" it is down for `restart_time` and then runs with one GPU fewer.
It does not fail again until it is whole.

At real failure rates, one per GPU in ten years, no run sees a failure: choose `mtbf` for the run.
The available capacity depends on the ratio of `repair_time` to `mtbf`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import at_line, read_lines, user_path, whole
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS
from netsim.model.columns import Floats, Ints, Rng
from netsim.params import Param, Params
from netsim.units import format_time, parse_time_ps, written
from netsim.workloads.cost.costs import SHRINK, STOP
from netsim.workloads.serving.instance import DOWN, SHRUNK, WHOLE
from netsim.workloads.serving.plan import Group, check_used

ON_FAILURE = (STOP, SHRINK)

MAX_OUTAGES = 1_000_000
BLOCK = 64  # times to failure drawn at once for each instance

FAILURE_PARAMS = [
    Param("mtbf", "time", None, "mean time between failures of a GPU; none: no random failures"),
    Param("failure_trace", "file", None, "CSV file of instance, down, up, whole; replaces mtbf"),
    Param(
        "on_failure", "choice", STOP, "whether an instance stops, or shrinks", choices=ON_FAILURE
    ),
    Param("repair_time", "time", None, "mtbf: time to repair a GPU"),
    Param("spares", "count", None, "mtbf: spare GPUs; default: none", maximum=1_000_000),
    Param("swap_time", "time", None, "mtbf: time to swap a GPU; default: 0ps"),
    Param("restart_time", "time", None, "shrink: time until the instance runs without the GPU"),
    Param("failures_until", "time", None, "mtbf: none later; default: twice the last arrival"),
]


@frozen(eq=False)
class Outages:
    """A table of n failures, sorted by time."""

    instance: NDArray[np.int32]  # int32[n]
    # int64[n]; from `down_ps` to before `up_ps`, at least 1 ps, the instance does nothing, and
    # its GPU memory is lost
    down_ps: Ints
    up_ps: Ints
    # int64[n], at or after `up_ps`; until then the instance has one GPU fewer and does not fail
    # again
    whole_ps: Ints

    def __len__(self) -> int:
        return int(self.instance.size)


@frozen
class Policy:
    """The failure model. `restart_ps` is for "shrink"."""

    mtbf_ps: int
    repair_ps: int
    swap_ps: int = 0
    spares: int = 0
    on_failure: str = STOP
    restart_ps: int = 0


def failures_of(
    params: Params,
    gpus: Ints,
    last_arrival_ps: int,
    rng: Rng,
    directory: Path,
) -> Outages:
    """Return the failures that `FAILURE_PARAMS` describe; relative paths start at `directory`.
    `gpus` is int64[k], the GPUs of each instance."""
    _check(params)
    if params["failure_trace"] is not None:
        return read_outages(user_path(params["failure_trace"], directory), gpus.size)
    if params["mtbf"] is None:
        return _table([])
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


def _check(params: Params) -> None:
    drawn = params["mtbf"] is not None
    shrinks = drawn and params["on_failure"] == SHRINK
    uses = {
        "mtbf": (params["failure_trace"] is None, "runs without failure_trace"),
        **dict.fromkeys(("repair_time", "spares", "swap_time", "failures_until"), (drawn, "mtbf")),
        "restart_time": (shrinks, f'mtbf and on_failure = "{SHRINK}"'),
    }
    check_used(params, uses, optional=("mtbf", "spares", "swap_time", "failures_until"))
    if drawn and params["mtbf"] == 0:
        raise InputError("must be positive", key="traffic.mtbf", code="out_of_range")
    if params["on_failure"] == SHRINK and not drawn:
        hint = "it is for mtbf; a failure trace has the times up and whole"
        raise InputError("has no effect", key="traffic.on_failure", hint=hint, code="no_effect")


def draw_outages(policy: Policy, gpus: Ints, until_ps: int, rng: Rng) -> Outages:
    """Draw the failures before `until_ps` of instances with `gpus`, int64[k], GPUs each. The times
    to failure of an instance do not depend on the policy."""
    mean_ps = policy.mtbf_ps / gpus
    shortest_ps = policy.swap_ps + (0 if policy.spares else policy.repair_ps)
    expected = float((until_ps / (mean_ps + shortest_ps)).sum())
    if expected > MAX_OUTAGES:
        raise InputError(
            f"about {expected:,.0f} failures expected in {format_time(until_ps, 3)}",
            key="traffic.mtbf",
            hint=f"at most {MAX_OUTAGES:,}",
        )
    # All instances are drawn together: the n-th draw of one does not depend on the others.
    blocks: list[Floats] = []
    taken = [0] * gpus.size

    def next_ps(instance: int) -> int:
        block, row = divmod(taken[instance], BLOCK)
        taken[instance] += 1
        if block == len(blocks):
            blocks.append(rng.exponential(size=(BLOCK, gpus.size)))
        drawn_ps = float(blocks[block][row, instance] * mean_ps[instance])
        return max(round(min(drawn_ps, HORIZON_PS)), 1)

    soonest = [(next_ps(instance), instance) for instance in range(gpus.size)]
    heapq.heapify(soonest)
    in_order_ps = deque([0] * policy.spares)  # when each spare is ready, ascending
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
        heapq.heapreplace(soonest, (whole_ps + next_ps(instance), instance))
    return _table(rows)


def _table(rows: list[tuple[int, int, int, int]]) -> Outages:
    columns = np.array(rows, np.int64).reshape(len(rows), 4).T
    return Outages(columns[0].astype(np.int32), columns[1], columns[2], columns[3])


def read_outages(path: Path, instances: int) -> Outages:
    """Read failures from a CSV file: instance, down, up, and optionally whole, in any order.

    A line is such as "3, 10ms, 25ms". Raises InputError, with file and line, if it is malformed,
    the instance does not exist, or its failures overlap.
    """
    rows = []
    for line, text in read_lines(path):
        words = [word.strip() for word in text.split(",")]
        if len(words) not in (3, 4):
            raise at_line(path, line, "is not an instance with two or three times", "3, 10ms, 25ms")
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
            raise at_line(path, line, f"unknown instance {written(words[0])}", hint)
        down_ps, up_ps, whole_ps = *times[:2], times[-1]
        if not down_ps < up_ps <= whole_ps:
            raise at_line(path, line, "times must be in order: down, up, whole")
        rows.append((down_ps, instance, up_ps, whole_ps, line))
    rows.sort()
    whole_of: dict[int, int] = {}
    for down_ps, instance, _, whole_ps, line in rows:
        if down_ps < whole_of.get(instance, 0):
            raise at_line(path, line, f"instance {instance} fails before it is whole again")
        whole_of[instance] = whole_ps
    return _table([(instance, down, up, whole) for down, instance, up, whole, _ in rows])


@frozen(eq=False)
class Transitions:
    """A table of c transitions, grouped by instance and sorted by time."""

    instance: Ints  # int64[c]
    at_ps: Ints  # int64[c]
    becomes: Ints  # int64[c], DOWN, WHOLE or SHRUNK


def transitions_of(outages: Outages) -> Transitions:
    """Return the transitions of all failures: down, then possibly shrunk, then whole."""
    at = np.stack([outages.down_ps, outages.up_ps, outages.whole_ps], axis=1)
    kept = np.ones(at.shape, bool)
    kept[:, 1] = outages.up_ps < outages.whole_ps
    order = np.lexsort((outages.down_ps, outages.instance))
    instance = np.broadcast_to(outages.instance[:, None], at.shape).astype(np.int64)
    becomes = np.broadcast_to([DOWN, SHRUNK, WHOLE], at.shape)
    kept = kept[order]
    return Transitions(*(column[order][kept] for column in (instance, at, becomes)))


def check_shrunk(outages: Outages, groups: Iterable[Group], *, of_file: bool) -> None:
    """Raise InputError if an instance must shrink but its model does not fit on one GPU fewer. The
    error names the failure trace or `on_failure`."""
    key, hint = ("failure_trace", "up = whole") if of_file else ("on_failure", '"stop"')
    first = 0
    for group in groups:
        of_group = (outages.instance >= first) & (outages.instance < first + group.n)
        first += group.n
        gpus = group.deployment.tp - 1
        if group.shrunk_tokens == 0 and (outages.up_ps < outages.whole_ps)[of_group].any():
            message = f"{group.deployment.name} does not fit on {gpus} GPUs, one fewer"
            raise InputError(message, key=f"traffic.{key}", hint=hint)
