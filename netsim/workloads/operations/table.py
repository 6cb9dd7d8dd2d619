"""The table of operations of ranks, and their steps.

A rank computes, sends, receives, and takes part in collectives. Each of these is an operation per
rank, with a first and a last task at the rank's host, which may be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.model.columns import join_names
from netsim.model.workload import Workload, WorkloadPart
from netsim.workloads.collectives.steps import COLLECTIVES

WHATS = ("compute", "join", "send", "receive", *COLLECTIVES)
"""Types of operations."""


@dataclass(frozen=True, eq=False)
class JobSteps:
    """The steps of a workload's operations, as in training.

    Attributes:
        step: int32[n_operations], the step of each operation, from 0.
        model_flops: the model's floating-point operations per step (without recomputation) of all
            simulated ranks; None: unknown.
        peak_flops: peak FLOP/s of these ranks in total.
        formula_networks: the network ("scale-up" or "scale-out") of each kind timed by a formula.
        peak_format: number format of the peak, such as fp8.
        forecast: for a sample of a job, returns the forecast of the whole job's step, as in
            "job" of the summary, from the sample's table of operations, the network, the sizes of
            packets and the sample's metrics; {} if there is none.
        advice: as `WorkloadPart.advice`.
    """

    step: NDArray[np.int32]
    model_flops: float | None = None
    peak_flops: float | None = None
    formula_networks: Mapping[str, str] = field(default_factory=dict)
    peak_format: str = ""
    forecast: Callable[[Any, Any, Any, Any], dict[str, Any]] | None = None
    advice: Callable[[float, float], str | None] | None = None

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
    """A job in a table: its name, its number of rows, which follow the previous job's, its steps.

    The name is "traffic", or that of its flow class.
    """

    name: str
    n: int
    steps: JobSteps | None


@dataclass(frozen=True, eq=False)
class OperationTable(WorkloadPart):
    """A table of n operations; an operation is identified by its row.

    Attributes:
        rank, host: int32[n].
        stream: int16[n]; operations of one stream of a rank run in sequence; -1: none.
        kind, kinds: int16[n] and names, such as "tp"; operation k is of kind `kinds[kind[k]]`.
        what: int8[n], index into WHATS.
        size_bytes: int64[n], of a message or of a collective's buffer; else 0.
        group: int64[n], index of its message or collective; -1: none.
        n: int32[n], number of ranks taking part.
        begin_task, end_task: int64[n], first and last task. (So a receive begins with its delivery,
            unless other operations wait for its start: then with its last dependency.)
        label: one text per operation, or None.
        steps: the steps of the operations, or None.
        title, joined: its name if it is a single job; else the jobs that it consists of.
    """

    rank: NDArray[np.int32]
    host: NDArray[np.int32]
    stream: NDArray[np.int16]
    kind: NDArray[np.int16]
    kinds: tuple[str, ...]
    what: NDArray[np.int8]
    size_bytes: NDArray[np.int64]
    group: NDArray[np.int64]
    n: NDArray[np.int32]
    begin_task: NDArray[np.int64]
    end_task: NDArray[np.int64]
    label: Sequence[str] | None = None
    steps: JobSteps | None = None
    title: str = "traffic"
    joined: tuple[JobRows, ...] = ()

    def __len__(self) -> int:
        return int(self.rank.size)

    @property
    def jobs(self) -> tuple[JobRows, ...]:
        return self.joined or (JobRows(self.title, len(self), self.steps),)

    def advice(self, budget_s: float, seconds: float) -> str | None:
        """Return the advice of a single job."""
        advice = None if self.steps is None else self.steps.advice
        return None if advice is None else advice(budget_s, seconds)

    def named(self, name: str) -> OperationTable:
        return replace(self, title=name)

    def name(self, operation: int) -> str:
        """Return the name for messages, such as "all_reduce tp (gradients) of rank 3"."""
        words = [WHATS[self.what[operation]], self.kinds[self.kind[operation]]]
        if self.label is not None and self.label[operation]:
            words.append(f"({self.label[operation]})")
        return f"{' '.join(filter(None, words))} of rank {self.rank[operation]}"

    def of_tasks(self, n_tasks: int) -> NDArray[np.int64]:
        """int64[n_tasks]: the operation with this first or last task, or -1."""
        found = np.full(n_tasks, -1, np.int64)
        for tasks in (self.end_task, self.begin_task):
            found[tasks] = np.arange(len(self))
        return found

    def moved(self, first_flow: int, first_task: int) -> OperationTable:  # noqa: ARG002
        begin, end = self.begin_task + first_task, self.end_task + first_task
        return replace(self, begin_task=begin, end_task=end)

    def with_last_tasks(self, last: NDArray[np.int64]) -> OperationTable:
        """Return the table with `last[k]` instead of task k as last task."""
        return replace(self, end_task=last[self.end_task])

    def without(self, which: NDArray[np.bool_]) -> OperationTable:
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


COLUMNS = tuple(one.name for one in fields(OperationTable) if str(one.type).startswith("NDArray"))
"""Columns with a value per operation."""
