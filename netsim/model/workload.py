"""Workloads: flows, tasks, programs, and data of the application that made them.

Tasks are hosts' work other than sending, and its order. A task waits only for tasks of its own
host; flows connect hosts. A program's handlers start tasks during the run. `netsim/engine/MODEL.md`
defines exactly what tasks and programs do, `netsim/program.py` the files of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from types import ModuleType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError, did_you_mean, errors_at
from netsim.frozen import frozen
from netsim.limits import COUNT, HORIZON_PS
from netsim.model.columns import (
    Edges,
    Flags,
    Ints,
    Waiting,
    column_of,
    find_cycle,
    first_of,
    rank_of_each,
)
from netsim.model.flows import FlowTable
from netsim.plugins.registry import PluginSpec

COMPUTE, SEND, RECEIVE, JOIN = range(4)
KINDS = ("compute", "send", "receive", "join")  # names of the kinds of tasks

SENT, ACKED = range(2)
DONE_WHEN = ("sent", "acked")
"""When a send task is done: all packets were sent once, or the transport knows of the delivery."""


class TaskTable(Waiting):
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
        after_ptr, after: int64[n + 1], int64[m], or None if no task waits for another. Task k
            starts when all of `after[after_ptr[k]:after_ptr[k + 1]]`, of its host, are done.
        label: a text for each task, or None.
    """

    noun = "task"

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
        if label is not None and len(label) != n:
            raise InputError(f"a task table has {len(label)} labels for {n} tasks")
        self.label: Sequence[str] | None = label

    def __len__(self) -> int:
        return int(self.kind.size)

    def local_indices(self) -> Ints:
        """Return int64[n], the index of each task at its host."""
        return rank_of_each(self.host, np.bincount(self.host))

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
        has_task = (starts >= 0) | (self.of_flows(RECEIVE, n) >= 0)
        first, then = flows.edges()
        for i in first_of(has_task[first] | has_task[then]):
            message = f"flow {then[i]}: waits for flow {first[i]}, but one has tasks"
            raise InputError(message, hint="let tasks wait for each other instead")

    def _check_edges(self) -> None:
        self.check_edges()
        first, then = self.edges()
        for i in first_of(self.host[first] != self.host[then]):
            message = f"{self.name(then[i])}: waits for {self.name(first[i])}"
            hint = "only tasks of one host; use a flow with a send and a receive task"
            raise InputError(message, hint=hint)

    def first_and_last(self) -> tuple[Flags, Flags]:
        """Return bool[n] twice: tasks that wait for nothing, and tasks that no other waits for."""
        streams = self.stream_edges()
        (first, then), first_tasks, last_tasks = self.edges(), self.kind != RECEIVE, self.kind >= 0
        for waiters in (then, streams[1]):
            first_tasks[waiters] = False
        for awaited in (first, streams[0]):
            last_tasks[awaited] = False
        return first_tasks, last_tasks

    def find_cycle(self, n_flows: int) -> list[int]:
        """Return a cycle of tasks that wait by edges, streams and flows; [] if there is none."""
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


START = "start"  # label of the tasks that others wait for until their workload's start


def _delayed(tasks: TaskTable, start_ps: int) -> TaskTable:
    """Return the tasks, followed by a task of `start_ps` at each host, for which tasks without
    dependencies wait."""
    first, then = tasks.edges()
    roots = np.flatnonzero(tasks.first_and_last()[0])
    hosts, at = np.unique(tasks.host[roots], return_inverse=True)
    starts = TaskTable(np.full(hosts.size, COMPUTE), hosts, start_ps, label=[START] * hosts.size)
    joined = join_tasks([(tasks, 0), (starts, 0)])
    joined.wait_for_pairs(np.concatenate([first, len(tasks) + at]), np.concatenate([then, roots]))
    return joined


# --- programs -------------------------------------------------------------------------------------

HANDLER_NAMES = ("on_begin", "on_task", "on_timer")
"""A traffic pattern whose file has one of these functions is a program."""

Columns = Mapping[str, NDArray[Any]]


@frozen
class ProgramSpec:
    """A program in a run: its file and parameters, its tasks, and initial values of its fields.

    It has ``n_tasks`` tasks from ``first_task`` on. ``task_state`` has an entry for each task,
    ``host_state`` for each host; ``log_rows`` (int64[n_hosts]) is the number of log rows that each
    host may write. It cannot set the size of ``relayed`` flows (int64[...], numbers of flows of the
    run).
    """

    use: PluginSpec
    first_task: int
    n_tasks: int
    task_state: Columns
    host_state: Columns
    log_rows: NDArray[np.int64]
    relayed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def name(self) -> str:
        return self.use.name

    def at_hosts(self, hosts: Ints, n_hosts: int) -> ProgramSpec:
        """Return the program at these hosts of n_hosts."""

        def moved(column: NDArray[Any]) -> NDArray[Any]:
            values = np.zeros((n_hosts, *column.shape[1:]), column.dtype)
            values[hosts] = column
            return values

        state = {name: moved(column) for name, column in self.host_state.items()}
        return replace(self, host_state=state, log_rows=moved(self.log_rows))


def is_program(module: ModuleType) -> bool:
    return any(hasattr(module, name) for name in HANDLER_NAMES)


def program_spec(
    use: PluginSpec,
    n_tasks: int,
    n_hosts: int,
    task_state: Mapping[str, ArrayLike],
    host_state: Mapping[str, ArrayLike],
    log_rows: ArrayLike = 0,
) -> ProgramSpec:
    """Return the program of a workload's tasks. Raises InputError for values that fit no field."""
    module, file = use.module, str(use.plugin.path)
    return ProgramSpec(
        use=use,
        first_task=0,
        n_tasks=n_tasks,
        task_state=_columns(module, "TASK_STATE", task_state, n_tasks, file),
        host_state=_columns(module, "HOST_STATE", host_state, n_hosts, file),
        log_rows=_log_rows(module, log_rows, n_hosts, file),
    )


def _log_rows(module: ModuleType, given: ArrayLike, n_hosts: int, file: str) -> Ints:
    """Return int64[n_hosts], the number of log rows that each host may write."""
    with errors_at(file=file):
        rows: Ints = column_of(given, n_hosts, np.int64, "log_rows")
    for host in first_of((rows < 0) | (rows > COUNT)):
        hint = "0 to 2^31 - 1 for each host"
        message = f"log_rows of host {host} is out of range ({rows[host]})"
        raise InputError(message, file=file, hint=hint)
    if rows.any() and not getattr(module, "LOG", ()):
        message = "missing, but there are log_rows"
        raise InputError(message, file=file, key="LOG", hint='LOG = ("event",)')
    return rows


def _columns(
    module: ModuleType, declared: str, given: Mapping[str, ArrayLike], n: int, file: str
) -> Columns:
    """Return the initial values of the fields of a record; their declarations have been checked."""
    declarations = getattr(module, declared, ())
    fields: dict[str, Any] = dict(
        field if isinstance(field, tuple) else (field, int) for field in declarations
    )
    columns = {}
    for name, values in given.items():
        key = f"{declared.lower()}.{name}"
        if name not in fields:
            hint = did_you_mean(name, fields) if fields else f'{declared} = ("{name}",)'
            raise InputError(f"unknown field of {declared}", file=file, key=key, hint=hint)
        column, kind = np.asarray(values), fields[name]
        shape = (n, kind) if isinstance(kind, int) else (n,)
        if column.ndim and column.shape != shape:
            raise InputError(f"shape {column.shape} must be {shape}", file=file, key=key)
        allowed = (np.integer, np.bool_, np.floating) if kind is float else (np.integer, np.bool_)
        if column.size and not any(np.issubdtype(column.dtype, one) for one in allowed):
            raise InputError(f"must not contain {column.dtype}", file=file, key=key)
        dtype = np.float64 if kind is float else np.int64
        columns[name] = np.broadcast_to(column.astype(dtype), shape)
    return columns


# --- workloads ------------------------------------------------------------------------------------


class WorkloadPart:
    """Data of an application that the simulator carries along, and its hooks."""

    expected_ps: int = 0  # predicted end of its work without a network
    assumption: str = ""  # assumption of that prediction

    def moved(self, first_flow: int, first_task: int) -> Self:  # noqa: ARG002
        """Return this part with flows and tasks numbered from these numbers on."""
        return self

    def named(self, name: str) -> Self:  # noqa: ARG002
        """Return this part as part of the traffic `name`: "traffic", a flow class, or a job."""
        return self

    def at_hosts(self, hosts: Ints) -> Self:  # noqa: ARG002
        """Return this part with `hosts[h]` instead of host h."""
        return self

    def delayed(self, start_ps: int) -> Self:  # noqa: ARG002
        """Return this part of a workload that starts later (`Workload.delayed`)."""
        return self

    def queued(self) -> Self:
        """Return this part of a job whose start depends on others."""
        return self

    def advice(self, budget_s: float, seconds: float) -> str | None:  # noqa: ARG002
        """Return the advice of `netsim check` about a run of `seconds` for a budget of
        `budget_s`."""
        return None

    def with_last_tasks(self, last: NDArray[np.int64]) -> Self:  # noqa: ARG002
        """Return this part with task `last[k]` completing task k, after messages were cut."""
        return self

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the joined parts of several workloads, after `moved`; default: the first."""
        return parts[0]

    def progress(
        self,
        total: Callable[[str], int],  # noqa: ARG002
    ) -> tuple[str, int, int] | None:
        """Return the counted unit (such as "requests"), the number done, and the total. `total`
        returns the sum of a field of the program over all hosts."""
        return None


Part = TypeVar("Part", bound=WorkloadPart)


@frozen
class Workload:
    """Flows, and tasks that start them and wait for them.

    Attributes:
        task_state, host_state: initial values of a program's fields (`netsim.program`): a column
            for each name, with an entry for each task or host, or a single value; default 0.
        log_rows: log rows that each host of a program may write: one number, or one for each host.
            Unused rows take no memory.
        program: the program that starts deferred tasks; set by the caller of `flows`.
        notes: sentences about the traffic, such as the mean of a table of sizes, or parts of a file
            not simulated. `netsim check` and `netsim run` print them, and the summary has them.
        parts: data of applications in addition to flows and tasks.
    """

    flows: FlowTable
    tasks: TaskTable | None = None
    task_state: Mapping[str, ArrayLike] = field(default_factory=dict)
    host_state: Mapping[str, ArrayLike] = field(default_factory=dict)
    log_rows: ArrayLike = 0
    program: ProgramSpec | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[WorkloadPart, ...] = ()

    def part(self, kind: type[Part]) -> Part | None:
        return next((one for one in self.parts if isinstance(one, kind)), None)

    def with_part(self, part: WorkloadPart) -> Workload:
        """Return the workload with a part that replaces another of its kind."""
        others = (one for one in self.parts if type(one) is not type(part))
        return replace(self, parts=(*others, part))

    def at_hosts(self, hosts: Ints, n_hosts: int) -> Workload:
        """Return the workload on other hosts, of `n_hosts`: host h becomes `hosts[h]`."""
        flows, tasks = copy(self.flows), copy(self.tasks)
        flows.src, flows.dst = (hosts[end].astype(np.int32) for end in (flows.src, flows.dst))
        if tasks is not None:
            tasks.host = hosts[tasks.host].astype(np.int32)
        parts = tuple(part.at_hosts(hosts) for part in self.parts)
        program = None if self.program is None else self.program.at_hosts(hosts, n_hosts)
        return replace(self, flows=flows, tasks=tasks, parts=parts, program=program)

    def delayed(self, start_ps: int) -> Workload:
        """Return the workload with a later start: flows that start at a time start later, and tasks
        that wait for nothing wait for a task at their host that takes `start_ps`."""
        if not start_ps:
            return self
        flows, tasks = copy(self.flows), self.tasks
        timed = flows.starts_at_time()
        if tasks is not None:
            timed &= tasks.of_flows(SEND, len(flows)) < 0
            tasks = _delayed(tasks, start_ps)
        flows.start_ps = flows.start_ps + timed * start_ps
        parts = tuple(part.delayed(start_ps) for part in self.parts)
        return replace(self, flows=flows, tasks=tasks, parts=parts)

    def with_all_tasks(self) -> Workload:
        """Return the workload with a send and a receive task for each flow. Raises InputError for
        flows that wait for deliveries at other hosts."""
        flows, tasks = copy(self.flows), self.tasks or TaskTable([], [])
        first, then = flows.edges()
        for i in first_of(flows.dst[first] != flows.src[then]):
            message = f"flow {then[i]}: waits for flow {first[i]}, which ends at another host"
            raise InputError(message, hint="a job of a list starts flows after those to their host")
        n, made = len(flows), [tasks]
        sends, receives = (np.flatnonzero(tasks.of_flows(kind, n) < 0) for kind in (SEND, RECEIVE))
        made += [
            TaskTable(
                np.full(sends.size, SEND), flows.src[sends], flows.start_ps[sends], flow=sends
            ),
            TaskTable(np.full(receives.size, RECEIVE), flows.dst[receives], flow=receives),
        ]
        flows.start_ps = np.zeros(n, np.int64)
        flows.after_ptr = flows.after = None
        joined = join_tasks([(table, 0) for table in made])
        ends = joined.of_flows(RECEIVE, n)[first], joined.of_flows(SEND, n)[then]
        edges = zip(joined.edges(), ends, strict=True)
        joined.wait_for_pairs(*(np.concatenate(pair) for pair in edges))
        return replace(self, flows=flows, tasks=joined)

    @property
    def has_tasks(self) -> bool:
        """Whether it has tasks, or flows that wait for deliveries at their own source."""
        return self.tasks is not None or bool(self.flows.waits_at_source().any())

    def validate(self, n_hosts: int) -> None:
        self.flows.validate(n_hosts)
        if self.tasks is None:
            return
        self.tasks.validate(self.flows, n_hosts)
        for task in first_of(
            self.tasks.deferred if self.program is None else self.tasks.deferred[:0]
        ):
            message = f"{self.tasks.name(task)}: is deferred, but there is no program to start it"
            hint = "add on_begin, on_task or on_timer to the traffic pattern"
            raise InputError(message, hint=hint)

    def with_program(self, use: PluginSpec, n_hosts: int) -> Workload:
        """Return the workload with its program, if ``use`` is one. Raises InputError if invalid."""
        if not is_program(use.module):
            for what, given in (("task", self.task_state), ("host", self.host_state)):
                for name in given:
                    raise InputError(f"{what}_state has {name}, but there is no handler")
            if np.any(self.log_rows):
                raise InputError("log_rows conflicts with a traffic pattern without handlers")
            return self
        if self.tasks is None or not len(self.tasks):
            raise InputError("program without tasks", file=str(use.plugin.path))
        state = self.task_state, self.host_state
        program = program_spec(use, len(self.tasks), n_hosts, *state, self.log_rows)
        return replace(self, program=program, task_state={}, host_state={}, log_rows=0)

    @staticmethod
    def join(loads: Sequence[Workload]) -> Workload:
        """Join workloads, in order. Flows, tasks and streams of different workloads stay
        independent of each other. Raises InputError if several are programs."""
        if len(loads) == 1:
            return loads[0]
        flows = FlowTable.join([load.flows for load in loads])
        notes = tuple(dict.fromkeys(note for load in loads for note in load.notes))
        first_flow = np.cumsum([0, *(len(load.flows) for load in loads)])
        parts = [
            (load.tasks, int(at))
            for load, at in zip(loads, first_flow, strict=False)
            if load.tasks is not None
        ]
        tasks = join_tasks(parts) if parts else None
        first_task = np.cumsum([0, *(len(load.tasks or ()) for load in loads)]).tolist()
        programs = [
            replace(load.program, first_task=at)
            for load, at in zip(loads, first_task, strict=False)
            if load.program is not None
        ]
        if len(programs) > 1:
            both = " and ".join(program.name for program in programs[:2])
            raise InputError(f"{both} are both programs", hint="at most one program in a run")
        carried: dict[type[WorkloadPart], list[WorkloadPart]] = {}
        for load, flow, task in zip(loads, first_flow.tolist(), first_task, strict=False):
            for part in load.parts:
                carried.setdefault(type(part), []).append(part.moved(flow, task))
        return Workload(
            flows,
            tasks,
            program=programs[0] if programs else None,
            notes=notes,
            parts=tuple(kind.join(these) for kind, these in carried.items()),
        )
