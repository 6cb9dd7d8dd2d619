"""Workloads: flows, tasks, and what the application that made them carries along."""

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
from netsim.model.tasks import TaskTable, joined_tasks
from netsim.plugins.registry import PluginSpec


class WorkloadPart:
    """What an application knows of a workload: the simulator carries it and asks it this."""

    expected_ps: int = 0
    """When its work would be done without a network, for predictions."""

    assumption: str = ""
    """What the prediction of its run takes for granted."""

    def moved(self, first_flow: int, first_task: int) -> Self:  # noqa: ARG002
        """The same in a workload that numbers its flows and tasks from these on."""
        return self

    def with_last_tasks(self, last: NDArray[np.int64]) -> Self:  # noqa: ARG002
        """The same where task `last[k]` ends what task k did, since messages were cut."""
        return self

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Those of several workloads in one, after `moved`; by default the first."""
        return parts[0]

    def progress(
        self,
        total: Callable[[str], int],  # noqa: ARG002
    ) -> tuple[str, int, int] | None:
        """What is counted, such as "requests", how many are done, and of how many.

        `total` gives the sum of a field of the program over all hosts.
        """
        return None


Part = TypeVar("Part", bound=WorkloadPart)


@dataclass(frozen=True)
class Workload:
    """Flows, and tasks that start them and wait for them.

    Attributes:
        task_state, host_state: of a program (`netsim.program`), values of its fields as the run
            begins: a column for each name, an entry for each task or each host, or a lone value
            for all. What is not given is 0.
        log_rows: of a program, how many rows of its log each host may write: one number for all, or
            an entry for each host. Rows that are not written take no memory.
        program: the program that starts deferred tasks; whoever calls `flows` fills it in.
        notes: what is to be known of the traffic beside its flows, a sentence each: the mean of a
            table of sizes, what of a file is not simulated. `netsim check` and `netsim run` print
            them, and they stand in the result's summary.
        parts: what an application knows of the workload beside flows and tasks.
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
        """The part of a kind, if there is one."""
        return next((one for one in self.parts if isinstance(one, kind)), None)

    def with_part(self, part: WorkloadPart) -> Workload:
        """The workload with a part, in place of another one of its kind."""
        others = (one for one in self.parts if type(one) is not type(part))
        return replace(self, parts=(*others, part))

    @property
    def has_tasks(self) -> bool:
        """Has it tasks, or flows that wait for flows that are delivered where they start?"""
        return self.tasks is not None or bool(self.flows.waits_here().any())

    def validate(self, n_hosts: int) -> None:
        """Raises InputError, naming the first flow or task that is at fault."""
        self.flows.validate(n_hosts)
        if self.tasks is None:
            return
        self.tasks.validate(self.flows, n_hosts)
        for task in first_of(
            self.tasks.deferred if self.program is None else self.tasks.deferred[:0]
        ):
            raise InputError(
                f"{self.tasks.name(task)}: is deferred, and no program is there to start it",
                hint="a handler, on_begin, on_task or on_timer, in the file of the traffic pattern",
            )

    def with_program(self, use: PluginSpec, n_hosts: int) -> Workload:
        """The workload with its program, if ``use`` is one. Raises InputError if it cannot be."""
        if not is_program(use.module):
            for what, given in (("task", self.task_state), ("host", self.host_state)):
                for name in given:
                    raise InputError(
                        f"{what}_state gives {name}, and there is no handler to read it"
                    )
            if np.any(self.log_rows):
                raise InputError("log_rows is given, and there is no handler to write a log")
            return self
        if self.tasks is None or not len(self.tasks):
            raise InputError("is a program and has no tasks", file=str(use.plugin.path))
        state = self.task_state, self.host_state
        program = program_spec(use, len(self.tasks), n_hosts, *state, self.log_rows)
        return replace(self, program=program)

    @staticmethod
    def join(loads: Sequence[Workload]) -> Workload:
        """Several workloads in one, in order.

        Flows and tasks wait for those of their own workload. So do streams: a host's in one
        workload are numbered on from those of the workloads before it. Raises InputError if
        several are programs.
        """
        flows = FlowTable.join([load.flows for load in loads])
        notes = tuple(dict.fromkeys(note for load in loads for note in load.notes))
        if all(load.tasks is None for load in loads):
            return Workload(flows, notes=notes)
        if len(loads) == 1:
            return loads[0]
        first_flow = np.cumsum([0, *(len(load.flows) for load in loads)])
        parts = [(load.tasks, int(at)) for load, at in zip(loads, first_flow, strict=False)]
        tasks = joined_tasks([(one, at) for one, at in parts if one is not None])
        first_task = np.cumsum([0, *(len(load.tasks or ()) for load in loads)]).tolist()
        programs = [
            replace(load.program, first_task=at)
            for load, at in zip(loads, first_task, strict=False)
            if load.program is not None
        ]
        if len(programs) > 1:
            both = " and ".join(program.name for program in programs[:2])
            raise InputError(f"{both} are both programs", hint="a run has one program at most")
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
