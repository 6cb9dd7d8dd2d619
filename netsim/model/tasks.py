"""Tasks: work of hosts besides sending, and its order.

A task waits only for tasks of its own host; flows connect hosts. `netsim/engine/MODEL.md` defines
exactly what tasks do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.limits import COUNT, HORIZON_PS
from netsim.model.columns import column_of, find_cycle, first_of, offsets, rank_of_each
from netsim.model.flows import FlowTable

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

COMPUTE, SEND, RECEIVE, JOIN = range(4)
KINDS = ("compute", "send", "receive", "join")
"""Names of the kinds of tasks."""

SENT, ACKED = range(2)
DONE_WHEN = ("sent", "acked")
"""When a send task is done: all packets were sent once, or the transport knows of the delivery."""

Edges = tuple[Ints, Ints]
"""Pairs of tasks: the first, and those that follow."""


class TaskTable:
    """A table of n tasks; a task is identified by its row.

    The constructor takes integers of any type. Kinds are an array or list of n; everywhere else a
    single number applies to all tasks.

    Attributes:
        kind: int8[n], COMPUTE, SEND, RECEIVE or JOIN.
        host: int32[n].
        duration_ps: int64[n]; a compute task's duration, the software latency of a send task before
            its flow starts or of a receive task after its flow's delivery.
        stream: int32[n]; compute tasks of a host's stream run in the order of their rows.
        flow: int64[n], flow that a send task starts or a receive task waits for, else -1.
        done_when: int8[n], SENT or ACKED for send tasks.
        deferred: bool[n]; the workload's program starts the task. A deferred compute task is in no
            stream.
        after_ptr, after_task: int64[n + 1], int64[m], or None if no task waits for another. Task k
            starts when all of `after_task[after_ptr[k]:after_ptr[k + 1]]`, of its host, are done.
        label: a text for each task, or None.
    """

    def __init__(
        self,
        kind: ArrayLike,
        host: ArrayLike,
        duration_ps: ArrayLike = 0,
        *,
        stream: ArrayLike = 0,
        flow: ArrayLike = -1,
        done_when: ArrayLike = SENT,
        deferred: ArrayLike = False,
        label: Sequence[str] | None = None,
    ) -> None:
        n = np.asarray(kind).size

        def column(values: ArrayLike, dtype: type, name: str) -> Any:
            return column_of(values, n, dtype, f"task table: {name}")

        self.kind: NDArray[np.int8] = column(np.atleast_1d(kind), np.int8, "kind")
        self.host: NDArray[np.int32] = column(host, np.int32, "host")
        self.duration_ps: Ints = column(duration_ps, np.int64, "duration_ps")
        self.stream: NDArray[np.int32] = column(stream, np.int32, "stream")
        self.flow: Ints = column(flow, np.int64, "flow")
        self.done_when: NDArray[np.int8] = column(done_when, np.int8, "done_when")
        self.deferred: Flags = column(np.asarray(deferred, np.int8), np.int8, "deferred") != 0
        self.after_ptr: Ints | None = None
        self.after_task: Ints | None = None
        if label is not None and len(label) != n:
            raise InputError(f"a task table has {len(label)} labels for {n} tasks")
        self.label: Sequence[str] | None = label

    def __len__(self) -> int:
        return int(self.kind.size)

    def local_indices(self) -> Ints:
        """Return int64[n], the index of each task among those of its host."""
        return rank_of_each(self.host, np.bincount(self.host))

    def wait_for(self, after: Sequence[Iterable[int]]) -> None:
        """Make each task k wait for the tasks `after[k]`; one entry for each task."""
        if len(after) != len(self):
            raise InputError(f"{len(after)} lists of dependencies for {len(self)} tasks")
        lists = [list(tasks) for tasks in after]
        counts = np.array([len(tasks) for tasks in lists], np.int64)
        self.after_ptr = offsets(counts)
        self.after_task = np.array([k for tasks in lists for k in tasks], np.int64)

    def wait_for_pairs(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make each task `then[i]` wait for `first[i]`, replacing all dependencies."""
        one, other = np.asarray(first, np.int64), np.asarray(then, np.int64)
        counts = np.bincount(other, minlength=len(self))
        self.after_ptr = offsets(counts)
        self.after_task = one[np.argsort(other, kind="stable")]

    def edges(self) -> Edges:
        """Return the pairs in which the second task waits for the first."""
        if self.after_ptr is None or self.after_task is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return self.after_task, np.repeat(np.arange(len(self)), np.diff(self.after_ptr))

    def stream_edges(self) -> Edges:
        """Return the pairs of consecutive compute tasks of a host's stream."""
        compute = np.flatnonzero((self.kind == COMPUTE) & ~self.deferred)
        order = compute[np.lexsort((compute, self.stream[compute], self.host[compute]))]
        first, then = order[:-1], order[1:]
        same = (self.host[first] == self.host[then]) & (self.stream[first] == self.stream[then])
        return first[same], then[same]

    def of_flows(self, kind: int, n_flows: int) -> Ints:
        """Return int64[n_flows], the send or receive task of each flow, or -1."""
        tasks = np.flatnonzero(self.kind == kind)
        found = np.full(n_flows, -1, np.int64)
        found[self.flow[tasks]] = tasks
        return found

    def name(self, task: int) -> str:
        """Return a task's name in messages: "task 17 (receive flow 4) of host 3"."""
        kind = int(self.kind[task])
        what = KINDS[kind] if 0 <= kind < len(KINDS) else f"kind {kind}"
        if kind in (SEND, RECEIVE):
            what += f" flow {self.flow[task]}"
        if self.label is not None and self.label[task]:
            what += f", {self.label[task]}"
        return f"task {task} ({what}) of host {self.host[task]}"

    def validate(self, flows: FlowTable, n_hosts: int) -> None:
        """Raise InputError for the first task that is invalid with these flows and hosts."""
        if len(self) > COUNT:
            raise InputError(f"{len(self)} tasks", hint="at most 2^31 - 1")
        communicates = (self.kind == SEND) | (self.kind == RECEIVE)
        wrong = [
            ((self.kind < 0) | (self.kind > JOIN), "unknown kind"),
            ((self.host < 0) | (self.host >= n_hosts), f"hosts are 0..{n_hosts - 1}"),
            (self.stream < 0, "stream is negative"),
            ((self.stream != 0) & (self.kind != COMPUTE), "only compute tasks have a stream"),
            (self.duration_ps < 0, "duration is negative"),
            (self.duration_ps >= HORIZON_PS, "duration exceeds 20 h"),
            ((self.duration_ps != 0) & (self.kind == JOIN), "a join has no duration"),
            (~communicates & (self.flow != -1), "only send and receive tasks have a flow"),
            ((self.done_when < SENT) | (self.done_when > ACKED), "done_when must be SENT or ACKED"),
            ((self.done_when != SENT) & (self.kind != SEND), "only send tasks have done_when"),
        ]
        for bad, what in wrong:
            for task in first_of(bad):
                raise InputError(f"{self.name(task)}: {what}")
        self._check_flows(flows)
        self._check_edges()
        for stuck in self.find_cycle(len(flows))[:1]:
            raise InputError(f"{self.name(stuck)}: waits for itself through others")

    def _check_flows(self, flows: FlowTable) -> None:
        """Refuse several tasks of a kind per flow, tasks at the wrong host, and several starts."""
        n = len(flows)
        for kind, ends in ((SEND, flows.src), (RECEIVE, flows.dst)):
            tasks = np.flatnonzero(self.kind == kind)
            of = self.flow[tasks]
            for i in first_of((of < 0) | (of >= n)):
                raise InputError(f"{self.name(tasks[i])}: unknown flow (0..{n - 1})")
            for i in first_of(self.host[tasks] != ends[of]):
                verb = "comes from" if kind == SEND else "goes to"
                raise InputError(f"{self.name(tasks[i])}: that flow {verb} host {ends[of[i]]}")
            for flow in first_of(np.bincount(of, minlength=n) > 1):
                one, other = tasks[of == flow][:2].tolist()
                raise InputError(f"{self.name(other)}: duplicates {self.name(one)}")
        starts = self.of_flows(SEND, n)
        for flow in first_of((starts >= 0) & (flows.start_ps != 0)):
            message = f"flow {flow}: start_ps conflicts with {self.name(starts[flow])}"
            raise InputError(message, hint="set start_ps to 0, as the task starts the flow")
        if flows.after_ptr is None or flows.after_flow is None:
            return
        has_task = (starts >= 0) | (self.of_flows(RECEIVE, n) >= 0)
        waiter = np.repeat(np.arange(n), np.diff(flows.after_ptr))
        for i in first_of(has_task[waiter] | has_task[flows.after_flow]):
            message = f"flow {waiter[i]}: waits for flow {flows.after_flow[i]}, but one has tasks"
            raise InputError(message, hint="let tasks wait for each other instead")

    def _check_edges(self) -> None:
        ptr, after, n = self.after_ptr, self.after_task, len(self)
        if ptr is None or after is None:
            return
        if ptr[0] != 0 or ptr[-1] != after.size or (np.diff(ptr) < 0).any():
            raise InputError("after_ptr must rise from 0 to the length of after_task")
        first, then = self.edges()
        for i in first_of((first < 0) | (first >= n)):
            raise InputError(
                f"{self.name(then[i])}: waits for task {first[i]}, which does not exist "
                f"(tasks are 0..{n - 1})"
            )
        for i in first_of(self.host[first] != self.host[then]):
            message = f"{self.name(then[i])}: waits for {self.name(first[i])}"
            hint = "only tasks of one host; use a flow with a send and a receive task"
            raise InputError(message, hint=hint)

    def find_cycle(self, n_flows: int) -> list[int]:
        """Return tasks that each wait for the next, by an edge, stream or flow; [] if none do."""
        sends, receives = (self.of_flows(kind, n_flows) for kind in (SEND, RECEIVE))
        joined = (sends >= 0) & (receives >= 0)
        pairs = [self.edges(), self.stream_edges(), (sends[joined], receives[joined])]
        first = np.concatenate([one for one, _ in pairs])
        then = np.concatenate([other for _, other in pairs])
        # Tasks that wait only for earlier ones form no cycle.
        return find_cycle(len(self), then, first) if (first >= then).any() else []


def join_tasks(parts: Sequence[tuple[TaskTable, int]]) -> TaskTable:
    """Concatenate tables of tasks, each with the number of the first flow of its workload."""
    tables = [table for table, _ in parts]
    n_streams = [int(table.stream.max(initial=-1)) + 1 for table in tables]
    streams = zip(tables, np.cumsum([0, *n_streams]).tolist(), strict=False)
    joined = TaskTable(
        np.concatenate([table.kind for table in tables]),
        np.concatenate([table.host for table in tables]),
        np.concatenate([table.duration_ps for table in tables]),
        stream=np.concatenate([np.where(t.kind == COMPUTE, t.stream + k, 0) for t, k in streams]),
        flow=np.concatenate([np.where(t.flow >= 0, t.flow + at, -1) for t, at in parts]),
        done_when=np.concatenate([table.done_when for table in tables]),
        deferred=np.concatenate([table.deferred for table in tables]),
    )
    if any(table.label is not None for table in tables):
        joined.label = [text for table in tables for text in (table.label or [""] * len(table))]
    first_task = np.cumsum([0, *map(len, tables)]).tolist()
    edges = [
        (k + table.edges()[0], k + table.edges()[1])
        for table, k in zip(tables, first_task, strict=False)
    ]
    joined.wait_for_pairs(*(np.concatenate(side) for side in zip(*edges, strict=True)))
    return joined
