"""Workloads: flows, tasks, and data of the application that made them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.model.columns import first_of
from netsim.model.flows import FlowTable
from netsim.model.programs import ProgramSpec, is_program, program_spec
from netsim.model.tasks import TaskTable, join_tasks
from netsim.plugins.registry import PluginSpec


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
