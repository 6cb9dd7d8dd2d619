"""The table of operations of ranks, metrics of a job, and the breakdown of each step's time.

A rank computes, sends, receives, and takes part in collectives. Each of these is an operation per
rank, with a first and a last task at the rank's host, which may be the same.

A step ends when its last operation ends, and begins when the previous step ends (the first at the
job's start).
Within it a rank computes, in any stream, or is idle. An idle interval ends when a compute of the
rank begins, or with its last operation of the step; the rest of the step is bubble. An idle
interval is divided along the chain of dependencies at this rank that ends with it, into the classes
of "Where the time goes" in `docs/results.md`. Computes whose kind is also a kind of messages or
collectives, such as a launch, are exposed. Communication hidden behind compute is in no class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.frozen import frozen
from netsim.model.columns import Flags, Floats, Ints, join_names
from netsim.model.workload import COMPUTE, TaskTable, Workload, WorkloadPart
from netsim.workloads.collectives.steps import COLLECTIVES

if TYPE_CHECKING:
    from netsim.engine.state_views import TaskStates
    from netsim.model.network import Network
    from netsim.results.run_result import Table

WHATS = ("compute", "join", "send", "receive", *COLLECTIVES)  # types of operations


@frozen(eq=False)
class JobSteps:
    """The steps of a workload's operations, as in training."""

    step: NDArray[np.int32]  # int32[n_operations], the step of each operation, from 0
    # the model's floating-point operations per step (without recomputation) of all simulated ranks;
    # None: unknown
    model_flops: float | None = None
    peak_flops: float | None = None  # total peak FLOP/s of these ranks
    # the network ("scale-up" or "scale-out") of each kind timed by a formula
    formula_networks: Mapping[str, str] = field(default_factory=dict)
    peak_format: str = ""  # number format of the peak, such as fp8
    # for a sample of a job, returns the forecast of the whole job's step, as in "job" of the
    # summary, from the sample's operation table, the network, the packet sizes and the sample's
    # metrics; {} without one
    forecast: Callable[[Any, Any, Any, Any], dict[str, Any]] | None = None
    advice: Callable[[float, float], str | None] | None = None  # as `WorkloadPart.advice`

    @property
    def n(self) -> int:
        """Number of steps."""
        return int(self.step.max(initial=-1)) + 1

    def add_to(self, load: Workload) -> Workload:
        """Return the workload with these steps."""
        operations = load.part(OperationTable)
        return load if operations is None else load.with_part(replace(operations, steps=self))

    @staticmethod
    def join(parts: Sequence[tuple[JobSteps | None, int]]) -> JobSteps | None:
        """Join the steps of several workloads, each with its number of operations.

        Operations of a workload without steps belong to step 0. Each job's FLOPs stay its own
        (`OperationTable.jobs`).
        """
        if all(one is None for one, _ in parts):
            return None
        columns = [np.zeros(n, np.int32) if one is None else one.step for one, n in parts]
        return JobSteps(np.concatenate(columns))


class JobRows(NamedTuple):
    """A job in a table: its name, its number of rows (after the previous job's), its steps, and the
    start of the first step (None: its first operation's start). The name is "traffic", or the name
    of its flow class or job."""

    name: str
    n: int
    steps: JobSteps | None
    start_ps: int | None = 0


@frozen(eq=False)
class OperationTable(WorkloadPart):
    """A table of n operations; an operation is identified by its row."""

    # rank, host: int32[n]
    rank: NDArray[np.int32]
    host: NDArray[np.int32]
    # int16[n]; operations of one stream of a rank run in sequence; -1: none
    stream: NDArray[np.int16]
    # kind, kinds: int16[n] and names, such as "tp"; operation k is of kind `kinds[kind[k]]`
    kind: NDArray[np.int16]
    kinds: tuple[str, ...]
    what: NDArray[np.int8]  # int8[n], index into WHATS
    size_bytes: Ints  # int64[n], of a message or of a collective's buffer; else 0
    group: Ints  # int64[n], index of its message or collective; -1: none
    n: NDArray[np.int32]  # int32[n], number of ranks taking part
    # begin_task, end_task: int64[n], first and last task. (So a receive begins with its delivery,
    # unless other operations wait for its start: then with its last dependency.)
    begin_task: Ints
    end_task: Ints
    label: Sequence[str] | None = None  # one text per operation, or None
    steps: JobSteps | None = None  # the steps of the operations, or None
    # title, start_ps, joined: its name and start if it is a single job; else its jobs
    title: str = ""
    start_ps: int | None = 0
    joined: tuple[JobRows, ...] = ()

    def __len__(self) -> int:
        return int(self.rank.size)

    @property
    def jobs(self) -> tuple[JobRows, ...]:
        own = JobRows(self.title or "traffic", len(self), self.steps, self.start_ps)
        return self.joined or (own,)

    def advice(self, budget_s: float, seconds: float) -> str | None:
        """Return the advice of a single job."""
        advice = None if self.steps is None else self.steps.advice
        return None if advice is None else advice(budget_s, seconds)

    def named(self, name: str) -> OperationTable:
        return self if self.title else replace(self, title=name)

    def at_hosts(self, hosts: Ints) -> OperationTable:
        return replace(self, host=hosts[self.host].astype(np.int32))

    def delayed(self, start_ps: int) -> OperationTable:
        def later(own_ps: int | None) -> int | None:
            return None if own_ps is None else own_ps + start_ps

        joined = tuple(job._replace(start_ps=later(job.start_ps)) for job in self.joined)
        return replace(self, start_ps=later(self.start_ps), joined=joined)

    def queued(self) -> OperationTable:
        return replace(self, start_ps=None)

    def name(self, operation: int) -> str:
        """Return the name for messages, such as "all_reduce tp (gradients) of rank 3"."""
        words = [WHATS[self.what[operation]], self.kinds[self.kind[operation]]]
        if self.label is not None and self.label[operation]:
            words.append(f"({self.label[operation]})")
        return f"{' '.join(filter(None, words))} of rank {self.rank[operation]}"

    def of_tasks(self, n_tasks: int) -> Ints:
        """int64[n_tasks]: the operation with this first or last task, or -1."""
        found = np.full(n_tasks, -1, np.int64)
        for tasks in (self.end_task, self.begin_task):
            found[tasks] = np.arange(len(self))
        return found

    def moved(self, first_flow: int, first_task: int) -> OperationTable:  # noqa: ARG002
        begin, end = self.begin_task + first_task, self.end_task + first_task
        return replace(self, begin_task=begin, end_task=end)

    def with_last_tasks(self, last: Ints) -> OperationTable:
        """Return the table with `last[k]` instead of task k as last task."""
        return replace(self, end_task=last[self.end_task])

    def without(self, which: Flags) -> OperationTable:
        if not which.any():
            return self
        kept = np.flatnonzero(~which)
        columns = {name: getattr(self, name)[kept] for name in COLUMNS}
        label = None if self.label is None else [self.label[k] for k in kept.tolist()]
        return replace(self, **columns, label=label)

    @classmethod
    def join(cls, tables: Sequence[OperationTable]) -> OperationTable:
        """Join the tables of several workloads; groups are renumbered, ranks are not."""
        first_group = np.cumsum([0, *(int(t.group.max(initial=-1)) + 1 for t in tables)])
        kind, kinds = join_names([(table.kind, table.kinds) for table in tables])
        label = None
        if any(table.label is not None for table in tables):
            label = [text for table in tables for text in (table.label or [""] * len(table))]
        group = [
            np.where(table.group >= 0, table.group + first, -1)
            for table, first in zip(tables, first_group.tolist(), strict=False)
        ]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(t, name) for t in tables]) for name in COLUMNS
        }
        columns |= {"kind": kind, "group": np.concatenate(group)}
        return OperationTable(
            **columns,
            kinds=kinds,
            label=label,
            steps=JobSteps.join([(table.steps, len(table)) for table in tables]),
            joined=tuple(job for table in tables for job in table.jobs),
        )


COLUMNS = tuple(
    one.name for one in fields(OperationTable) if str(one.type).startswith(("NDArray", "Ints"))
)
"""Columns with a value per operation."""

INF = np.iinfo(np.int64).max

OTHERS = -2  # marks operations of other ranks that end an idle interval


@frozen(eq=False)
class MeasuredStep:
    """A step and the breakdown of its time at each of n ranks."""

    start_ps: int
    end_ps: int
    ranks: Ints  # int64[n], indices of the ranks
    # compute_ps, bubble_ps, skew_ps, other_ps: int64[n]
    compute_ps: Ints
    bubble_ps: Ints
    skew_ps: Ints
    other_ps: Ints
    # kinds, exposed_ps: names of kinds, and int64[n, n_kinds]
    kinds: tuple[str, ...]
    exposed_ps: Ints


def step_times(table: Table, start_ps: int = 0) -> list[MeasuredStep]:
    """Return the complete steps of a table of operations, in order; the first begins at
    `start_ps`."""
    found: list[MeasuredStep] = []
    chains = _Chains(table)
    for step in range(int(table["step"].max(initial=-1)) + 1):
        its = table["end_ps"][table["step"] == step]
        if not its.size or its.min() < 0:
            break
        begin = found[-1].end_ps if found else start_ps
        found.append(chains.step(step, begin, int(its.max())))
    return found


class _Idle(NamedTuple):
    """Idle intervals: rank, start, end, and the operation that ended each; -1: unknown."""

    rank: Ints
    start_ps: Ints
    end_ps: Ints
    ended_by: Ints


class _Busy(NamedTuple):
    """Sorted intervals without overlap."""

    start_ps: Ints
    end_ps: Ints

    def until(self, times_ps: Ints) -> Ints:
        """Return how much of the intervals lies before each time."""
        sums = np.append(0, np.cumsum(self.end_ps - self.start_ps))
        place = np.searchsorted(self.end_ps, times_ps)
        begin = np.append(self.start_ps, INF)[place]
        found: Ints = sums[place] + np.maximum(0, times_ps - begin)
        return found


class _Chains:
    """Data shared by all steps of a table."""

    def __init__(self, table: Table) -> None:
        self.begin, self.end, self.ready = (
            table[name] for name in ("start_ps", "end_ps", "ready_ps")
        )
        self.before = table["blocked_by"]
        self.kinds, self.kind = np.unique(table["kind"], return_inverse=True)
        self.ranks, self.rank = np.unique(table["rank"], return_inverse=True)
        self.step_of, what, group = table["step"], table["operation_type"], table["group"]
        of_messages = np.setdiff1d(self.kinds[self.kind[group >= 0]], [""])
        self.computes = (what == "compute") & ~np.isin(table["kind"], of_messages)
        self.receives = what == "receive"
        self.first = self._under_way(what, group, table["is_analytic"])
        self.communication = self._communication()
        self.idle = self._idle()

    def _under_way(self, what: NDArray[np.str_], group: Ints, formula: Flags) -> Ints:
        """int64[n], in ps: since when each operation was in progress at both or all ends.

        A collective: since its last rank's start, or this rank's if it ended here before that, as
        at a broadcast's root. A message: since it was sent and its receive was ready.
        """
        found = self.begin.copy()
        its = np.flatnonzero(np.isin(what, COLLECTIVES) & ~formula)
        if its.size:
            latest = np.zeros(int(group[its].max()) + 1, np.int64)
            np.maximum.at(latest, group[its], self.begin[its])
            late = latest[group[its]]
            found[its] = np.where(late <= self.end[its], late, self.begin[its])
        sends, receives = np.flatnonzero(what == "send"), np.flatnonzero(self.receives)
        if sends.size:
            sent = np.zeros(int(group[sends].max()) + 1, np.int64)
            sent[group[sends]] = self.begin[sends]
            found[receives] = np.maximum(sent[group[receives]], self.ready[receives])
        return found

    def _communication(self) -> list[tuple[Ints, Ints, Ints]]:
        """Return each rank's communication intervals: starts, ends, kinds. Intervals are sorted and
        do not overlap; among simultaneous ones the first counts."""
        its = np.flatnonzero(~self.computes & (self.end > self.first) & (self.first >= 0))
        its = its[np.lexsort((self.first[its], self.rank[its]))]
        bounds = np.searchsorted(self.rank[its], np.arange(self.ranks.size + 1))
        found = []
        for begin, end in pairwise(bounds.tolist()):
            those = its[begin:end]
            latest = np.maximum.accumulate(self.end[those])
            since = np.maximum(self.first[those], np.append(0, latest[:-1])[: those.size])
            new = since < self.end[those]
            found.append((since[new], self.end[those][new], self.kind[those][new]))
        return found

    def _waiting(self, waits: list[tuple[Ints, Ints, Ints]], exposed: Ints) -> Ints:
        """int64[n], each rank's waiting time in intervals (rank, start, end), except communication
        in progress, which is added to `exposed`."""
        rank, since, until = (np.concatenate(parts) for parts in zip(*waits, strict=True))
        found = np.zeros(self.ranks.size, np.int64)
        np.add.at(found, rank, until - since)
        order = np.argsort(rank, kind="stable")
        bounds = np.searchsorted(rank[order], np.arange(self.ranks.size + 1))
        for r, (begin, end) in enumerate(pairwise(bounds.tolist())):
            those = order[begin:end]
            for kind in np.unique(self.communication[r][2]).tolist():
                its = self.communication[r][2] == kind
                busy = _Busy(*(side[its] for side in self.communication[r][:2]))
                covered = int((busy.until(until[those]) - busy.until(since[those])).sum())
                exposed[r, kind] += covered
                found[r] -= covered
        return found

    def _idle(self) -> _Idle:
        """Return the idle intervals that end with a compute."""
        computes = np.flatnonzero(self.computes & (self.begin >= 0))
        computes = computes[np.lexsort((self.begin[computes], self.rank[computes]))]
        n, rank, end = computes.size, self.rank[computes], self.end[computes]
        end = np.where(end < 0, INF, end)  # unfinished when the run stopped
        # The latest end so far in each rank: a running maximum of ordinals, offset by rank.
        by_end = np.argsort(end, kind="stable")
        place = np.empty(n, np.int64)
        place[by_end] = np.arange(n)
        latest = end[by_end[np.maximum.accumulate(place + rank * n) - rank * n]]
        is_last = np.append(rank[1:] != rank[:-1], True)[:n]
        free = np.append(0, latest[:-1])[:n]
        free[np.append(True, is_last[:-1])[:n]] = 0
        self.free = np.zeros(self.ranks.size, np.int64)  # after its last compute
        self.free[rank[is_last]] = latest[is_last]
        gap = np.flatnonzero(self.begin[computes] > free)
        ended_by = self.before[computes[gap]]
        return _Idle(rank[gap], free[gap], self.begin[computes[gap]], ended_by)

    def _in_step(self, step: int, start_ps: int, end_ps: int) -> _Idle:
        """Return the idle intervals within a step, including those after the last compute. A rank's
        last operation ends an interval, and so does the step's end."""
        idle, n = self.idle, self.ranks.size
        some = np.flatnonzero((idle.start_ps < end_ps) & (idle.end_ps > start_ps))
        whole = idle.end_ps[some] <= end_ps
        cut = some[~whole]
        free = self.free.copy()
        free[idle.rank[cut]] = idle.start_ps[cut]
        rest = np.flatnonzero(free < end_ps)
        its = np.flatnonzero(self.step_of == step)
        its = its[np.lexsort((self.end[its], self.rank[its]))]
        own = np.full(n, -1, np.int64)
        own[self.rank[its]] = its
        done = np.where(own[rest] >= 0, self.end[own[rest]], 0)
        middle = np.maximum(done, free[rest])
        inside = some[whole]
        rank, begin, end, ended_by = (
            np.concatenate(parts)
            for parts in (
                (idle.rank[inside], rest, rest),
                (idle.start_ps[inside], free[rest], middle),
                (idle.end_ps[inside], middle, np.full(rest.size, end_ps)),
                (idle.ended_by[inside], own[rest], np.full(rest.size, OTHERS)),
            )
        )
        begin = np.maximum(begin, start_ps)
        return _Idle(rank, begin, np.maximum(begin, end), ended_by)

    def step(self, step: int, start_ps: int, end_ps: int) -> MeasuredStep:
        n = self.ranks.size
        idle = self._in_step(step, start_ps, end_ps)
        length = np.zeros(n, np.int64)
        np.add.at(length, idle.rank, idle.end_ps - idle.start_ps)
        exposed = np.zeros((n, self.kinds.size), np.int64)
        at, until, floor, of = idle.ended_by, idle.end_ps, idle.start_ps, idle.rank
        others = at == OTHERS
        bubble = [(of[others], floor[others], until[others])]
        skew = [(of[:0], floor[:0], until[:0])]
        while True:
            open_ = np.flatnonzero((at >= 0) & (until > floor))
            if not open_.size:
                break
            at, until, floor, of = at[open_], until[open_], floor[open_], of[open_]
            receives = self.receives[at]
            here = np.where(receives, self.ready[at], self.begin[at])
            since = np.clip(self.first[at], floor, until)
            begun = np.clip(here, floor, since)
            np.add.at(exposed, (of, self.kind[at]), until - since)
            for waits, those in ((bubble, receives), (skew, ~receives)):
                waits.append((of[those], begun[those], since[those]))
            at, until = self.before[at], begun
        waited, late = (self._waiting(waits, exposed) for waits in (bubble, skew))
        compute = (end_ps - start_ps) - length
        other = length - waited - late - exposed.sum(1)
        used = exposed.any(0)
        kinds = tuple(self.kinds[used].tolist())
        parts = (compute, waited, late, other)
        return MeasuredStep(start_ps, end_ps, self.ranks, *parts, kinds, exposed[:, used])


RECEIVE = WHATS.index("receive")

SCALE_UP, SCALE_OUT = "scale-up", "scale-out"

SHARED = ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter")
"""Collectives in which a rank initially has, or finally keeps, its share of the buffer."""


def operation_table(
    operations: OperationTable,
    tasks: TaskTable,
    states: TaskStates,
    flow_start_ps: Ints,
    step: NDArray[np.int32] | None = None,
) -> Table:
    """Return one row per operation, with the columns of `netsim.results.columns`. `flow_start_ps`
    is int64[n_flows], -1 for flows that have not started."""
    begin, end = operations.begin_task, operations.end_task
    receive = operations.what == RECEIVE
    flow = tasks.flow[end]
    start_ps = np.where(receive, flow_start_ps[np.maximum(flow, 0)], states.start_ps[begin])
    table: Table = {
        "operation": np.arange(len(operations)),
        "rank": operations.rank,
        "host": operations.host,
        "stream": operations.stream,
        "step": np.zeros(len(operations), np.int32) if step is None else step,
        "kind": np.array(operations.kinds or ("",))[operations.kind],
        "operation_type": np.array(WHATS)[operations.what],
        "size_bytes": operations.size_bytes,
        "group": operations.group,
        "ranks": operations.n,
        "ready_ps": states.ready_ps[begin],
        "start_ps": start_ps,
        "end_ps": states.end_ps[end],
        "blocked_by": blocked_by(operations, tasks, states),
        "is_analytic": (tasks.kind[end] == COMPUTE) & (operations.what > RECEIVE),
    }
    table |= bandwidths(table)
    if operations.label is not None:
        table["label"] = np.array(operations.label)
    return table


def blocked_by(operations: OperationTable, tasks: TaskTable, states: TaskStates) -> Ints:
    """int64[n]: the operation of the same rank that made each one ready by ending last; -1: none.
    Among simultaneous ends, the highest index."""
    n = len(operations)
    begin = operations.begin_task
    last = _last_before(tasks, states.end_ps)[begin]
    ends, begins = (np.full(len(tasks), -1, np.int64) for _ in range(2))
    ends[operations.end_task] = begins[begin] = np.arange(n)
    found = np.where(last < 0, -1, ends[last])
    # A dependency on a start is one on that operation's last dependency.
    via = np.where((last >= 0) & (found < 0), begins[last], -1)
    while (via >= 0).any():
        open_ = np.flatnonzero(via >= 0)
        found[open_], via[open_] = found[via[open_]], via[via[open_]]
    return found


def _last_before(tasks: TaskTable, end_ps: Ints) -> Ints:
    """int64[n_tasks]: the dependency of each task that ended last; -1: none."""
    found, latest = (np.full(len(tasks), -1, np.int64) for _ in range(2))
    ptr = tasks.after_ptr
    if ptr is not None:
        first, then = tasks.edges()
        done = end_ps[first]
        waits = np.flatnonzero(np.diff(ptr))
        latest[waits] = np.maximum.reduceat(done, ptr[waits]) if waits.size else -1
        last = (done == latest[then]) & (done >= 0)
        np.maximum.at(found, then[last], first[last])
    first, then = tasks.stream_edges()
    done = end_ps[first]
    later = (done > latest[then]) | ((done == latest[then]) & (first > found[then]))
    later &= done >= 0
    found[then[later]] = first[later]
    return found


def bandwidths(table: Table) -> Table:
    """Algorithm and bus bandwidth of messages and collectives, in bit/s; NaN for other
    operations and for those that are not done, took no time, or are analytic."""
    n = table["group"].size
    algorithm, bus = (np.full(n, np.nan) for _ in range(2))
    found = collective_instances(table)
    timed = (found.length_ps > 0) & (found.size_bytes > 0) & ~table["is_analytic"][found.first]
    rate = np.where(timed, 8e12 * found.size_bytes / np.where(timed, found.length_ps, 1), np.nan)
    rows = found.rows
    algorithm[rows] = rate[found.of_row]
    bus[rows] = algorithm[rows] * factors(table["operation_type"][rows], table["ranks"][rows])
    return {"algbw_bps": algorithm, "busbw_bps": bus}


class CollectiveInstances(NamedTuple):
    """The g messages and collectives of a table of operations."""

    rows: Ints  # int64[m], their operations
    of_row: Ints  # int64[m], the collective of each
    first: Ints  # int64[g], one of its operations
    size_bytes: Floats  # float64[g], the mean over ranks
    length_ps: Ints  # int64[g], from the last rank's start to the last end; -1: not done


def collective_instances(table: Table) -> CollectiveInstances:
    rows = np.flatnonzero(table["group"] >= 0)
    group, first, of_row = np.unique(table["group"][rows], return_index=True, return_inverse=True)
    begin, end = np.zeros((2, group.size), np.int64)
    np.maximum.at(begin, of_row, table["start_ps"][rows])
    np.maximum.at(end, of_row, table["end_ps"][rows])
    undone = np.bincount(of_row[table["end_ps"][rows] < 0], minlength=group.size) > 0
    size = np.bincount(of_row, table["size_bytes"][rows], group.size)
    return CollectiveInstances(
        rows,
        of_row,
        rows[first],
        size / np.maximum(1, np.bincount(of_row, minlength=group.size)),
        np.where(undone, -1, np.maximum(0, end - begin)),
    )


def factors(what: NDArray[np.str_], ranks: NDArray[np.int32]) -> Floats:
    """float64[n]: bus bandwidth over algorithm bandwidth: the bytes a rank must send per byte of
    the stated size, which makes results comparable with link rates, as in NVIDIA's nccl-tests
    (doc/PERFORMANCE.md)."""
    share = (ranks - 1) / ranks
    found = np.ones(what.size)
    found = np.where(np.isin(what, SHARED), share, found)
    return np.where(what == "all_reduce", 2 * share, found)


def rows_of_jobs(table: Table, jobs: Sequence[JobRows]) -> list[Table]:
    """Return each job's rows of an operation table, with operations numbered from 0."""
    found, first = [], 0
    for job in jobs:
        its = {name: column[first : first + job.n] for name, column in table.items()}
        its["blocked_by"] = np.where(its["blocked_by"] < 0, -1, its["blocked_by"] - first)
        found.append(its)
        first += job.n
    return found


def with_networks(table: Table, network: Network, steps: JobSteps | None) -> Table:
    """Return a job's table whose kinds of communication follow their network: "scale-up tp".

    A message or collective is scale-up if one scale-up network joins the hosts of all its ranks,
    and scale-out otherwise; if a formula times it, it has the network that the formula assumes. A
    launch has the network of its rank's next operation.
    """
    port = np.flatnonzero(network.is_scale_up[network.port_network])
    domain = np.full(network.n_hosts, -1, np.int64)
    domain[network.port_node[port]] = network.port_network[port]
    group, kind, rank = (table[name] for name in ("group", "kind", "rank"))
    its = np.flatnonzero(group >= 0)
    least, most = np.full((2, int(group.max(initial=-1)) + 1), -1, np.int64)
    least[group[its]] = domain[table["host"][its]]
    np.minimum.at(least, group[its], domain[table["host"][its]])
    np.maximum.at(most, group[its], domain[table["host"][its]])
    is_up = np.zeros(group.size, bool)
    is_up[its] = ((least == most) & (least >= 0))[group[its]]
    for name, assumed in (steps.formula_networks if steps else {}).items():
        is_up[table["is_analytic"] & (kind == name)] = assumed == SCALE_UP
    sent, which = np.unique(kind[its], return_inverse=True)
    launches = np.flatnonzero((group < 0) & np.isin(kind, sent) & (kind != ""))
    key = int(rank.max(initial=0)) + 1
    at, first = np.unique(which * key + rank[its], return_index=True)
    of_launch = np.searchsorted(sent, kind[launches]) * key + rank[launches]
    found = first[np.minimum(np.searchsorted(at, of_launch), at.size - 1)]
    is_up[launches] = is_up[its[found]]
    named = np.char.rstrip(np.char.add(np.where(is_up, f"{SCALE_UP} ", f"{SCALE_OUT} "), kind))
    communicates = group >= 0
    communicates[launches] = True
    return {**table, "kind": np.where(communicates, named, kind)}


def job_metrics(table: Table, job: JobRows, network: Network) -> dict[str, Any]:
    """Return the metrics of a job, whose table is `table`.

    They have, for each complete step ("steps") and in total, the time and its mean breakdown over
    ranks (`step_times`): compute, exposed communication by network and kind, bubble and skew; the
    model FLOPs utilization if FLOPs and peak are known, with the number format of that peak
    ("mfu_base"); and the bandwidths of messages and collectives ("collectives").
    """
    steps = job.steps
    start_ps = job.start_ps
    if start_ps is None:
        start_ps = int(table["start_ps"].min(where=table["start_ps"] >= 0, initial=INF))
    found = step_times(with_networks(table, network, steps), start_ps)
    entries = [step_entry(one, steps) for one in found]
    metrics: dict[str, Any] = {"name": job.name, "steps": entries, "step_ps": None, "mfu": None}
    if entries:
        total = sum(entry["time_ps"] for entry in entries)
        metrics["step_ps"] = total / len(entries)
        metrics["mfu"] = _utilization(metrics["step_ps"], steps)
        metrics["mfu_base"] = "" if metrics["mfu"] is None or steps is None else steps.peak_format
        metrics["exposed"] = sum(sum(entry["exposed_ps"].values()) for entry in entries) / total
        for name in ("bubble", "skew"):
            metrics[name] = sum(entry[f"{name}_ps"] for entry in entries) / total
    metrics["collectives"] = collectives = _collectives(table)
    if len(collectives) == 1 and not any(entry["compute_ps"] for entry in entries):
        metrics["busbw_bps"] = collectives[0]["busbw_bps"]
    return metrics


def step_entry(found: MeasuredStep, steps: JobSteps | None) -> dict[str, Any]:
    """Return a step's time and parts, averaged over ranks."""
    time_ps = found.end_ps - found.start_ps
    exposed = zip(found.kinds, found.exposed_ps.mean(0).tolist(), strict=True)
    return {
        "time_ps": time_ps,
        "compute_ps": float(found.compute_ps.mean()),
        "exposed_ps": dict(sorted(exposed, key=lambda pair: -pair[1])),
        "bubble_ps": float(found.bubble_ps.mean()),
        "skew_ps": float(found.skew_ps.mean()),
        "other_ps": float(found.other_ps.mean()),
        "mfu": _utilization(time_ps, steps),
    }


def _utilization(time_ps: float, steps: JobSteps | None) -> float | None:
    if steps is None or not steps.model_flops or not steps.peak_flops or time_ps <= 0:
        return None
    return steps.model_flops / (time_ps / 1e12 * steps.peak_flops)


def _collectives(table: Table) -> list[dict[str, Any]]:
    """Return messages and collectives by kind, operation type and number of ranks. A bandwidth is
    the sum of sizes over the sum of times; None if the times are analytic."""
    found = collective_instances(table)
    timed = np.flatnonzero((found.length_ps > 0) & (found.size_bytes > 0))
    rows = found.first[timed]
    what = np.where(
        table["operation_type"][rows] == "receive", "send", table["operation_type"][rows]
    )
    keys = np.array([table["kind"][rows], what, table["ranks"][rows].astype(str)])
    _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    entries = []
    for k, row in enumerate(rows[first].tolist()):
        these = timed[which == k]
        size, length = found.size_bytes[these], found.length_ps[these]
        formula = bool(table["is_analytic"][row])
        rate = 8e12 * size.sum() / length.sum()
        factor = factors(what[first[k] :][:1], table["ranks"][row : row + 1])[0]
        entries.append(
            {
                "kind": str(table["kind"][row]),
                "operation_type": str(what[first[k]]),
                "ranks": int(table["ranks"][row]),
                "count": these.size,
                "size_bytes": float(size.mean()),
                "time_ps": float(length.mean()),
                "time_max_ps": int(length.max()),
                "algbw_bps": None if formula else float(rate),
                "busbw_bps": None if formula else float(rate * factor),
            }
        )
    return entries
