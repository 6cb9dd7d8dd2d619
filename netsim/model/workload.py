"""Workloads: flows, tasks, programs, and data of the application that made them.

A program's handlers start tasks during the run. `netsim/engine/MODEL.md` defines what they do,
`netsim/program.py` what their files contain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError, did_you_mean
from netsim.limits import COUNT
from netsim.model.columns import column_of, first_of
from netsim.model.flows import FlowTable
from netsim.model.tasks import TaskTable, join_tasks
from netsim.plugins.registry import PluginSpec

Ints = NDArray[np.int64]

HANDLER_NAMES = ("on_begin", "on_task", "on_timer")
"""A traffic pattern whose file has one of these functions is a program."""

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
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
    try:
        rows: Ints = column_of(given, n_hosts, np.int64, "log_rows")
    except InputError as error:
        raise error.at(file=file) from None
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


class WorkloadPart:
    """Data of an application that the simulator carries along, and its hooks."""

    expected_ps: int = 0
    """Predicted end of its work without a network."""

    assumption: str = ""
    """Assumption of that prediction."""

    def moved(self, first_flow: int, first_task: int) -> Self:  # noqa: ARG002
        """Return this part with flows and tasks numbered from these on."""
        return self

    def named(self, name: str) -> Self:  # noqa: ARG002
        """Return this part as that of the traffic `name`: "traffic", or a flow class."""
        return self

    def advice(self, budget_s: float, seconds: float) -> str | None:  # noqa: ARG002
        """Return what `netsim check` says about a run of `seconds` for who has `budget_s`."""
        return None

    def with_last_tasks(self, last: NDArray[np.int64]) -> Self:  # noqa: ARG002
        """Return this part where task `last[k]` completes task k, after messages were cut."""
        return self

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the joined parts of several workloads, after `moved`; default: the first."""
        return parts[0]

    def progress(
        self,
        total: Callable[[str], int],  # noqa: ARG002
    ) -> tuple[str, int, int] | None:
        """Return what is counted (such as "requests"), how many are done, and the total. `total`
        returns the sum of a field of the program over all hosts."""
        return None


Part = TypeVar("Part", bound=WorkloadPart)


@dataclass(frozen=True)
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
        parts: data of applications besides flows and tasks.
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
        return replace(self, program=program)

    @staticmethod
    def join(loads: Sequence[Workload]) -> Workload:
        """Join workloads, in order. Flows, tasks and streams of a workload remain independent of
        the others'. Raises InputError if several are programs."""
        flows = FlowTable.join([load.flows for load in loads])
        notes = tuple(dict.fromkeys(note for load in loads for note in load.notes))
        if all(load.tasks is None for load in loads):
            return Workload(flows, notes=notes)
        if len(loads) == 1:
            return loads[0]
        first_flow = np.cumsum([0, *(len(load.flows) for load in loads)])
        parts = [(load.tasks, int(at)) for load, at in zip(loads, first_flow, strict=False)]
        tasks = join_tasks([(one, at) for one, at in parts if one is not None])
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
