"""The critical path of a result: the chain of dependencies back from its end to time 0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from netsim.common.steps import step as tell
from netsim.errors import InputError, did_you_mean, errors_at
from netsim.experiment import Point
from netsim.experiment.scenario import Scenario
from netsim.frozen import frozen
from netsim.model.columns import Ints
from netsim.model.flows import FlowTable
from netsim.model.ideal import hand_over_times
from netsim.model.workload import ACKED, KINDS, SEND, START, TaskTable
from netsim.results import Result
from netsim.tracing.critical_path_search import PathSegment, Times, path_segments
from netsim.tracing.record import Replay
from netsim.units import written
from netsim.workloads.operations.table import WHATS, OperationTable
from netsim.workloads.reports.job import CRITICAL, jobs_of

RECEIVE = WHATS.index("receive")  # operation types after this one are collectives

Step = int | tuple[str, int]
"""A step of the first job, or of a job by its name."""


@frozen
class CriticalPath:
    """The critical path of a result."""

    segments: pl.DataFrame  # one row each, in order of time; columns as in `COLUMNS["critical"]`
    point: str  # name of the result's point, with the step if any
    start_ps: int = 0  # start of the first segment: 0, or the end of the previous step
    warnings: tuple[str, ...] = ()  # changes since the result was written

    @property
    def end_ps(self) -> int:
        return int(self.segments["end_ps"][-1]) if len(self.segments) else self.start_ps

    def hosts(self, most: int, from_ps: int = 0, to_ps: int | None = None) -> list[int]:
        """Return the `most` hosts with the longest time on the path between two times, sorted;
        flows count at their source."""
        end = self.end_ps if to_ps is None else to_ps
        length = pl.col("end_ps").clip(from_ps, end) - pl.col("start_ps").clip(from_ps, end)
        found = self.segments.group_by("host").agg(length.sum().alias("time_ps"))
        found = found.filter(pl.col("time_ps") > 0).sort(
            "time_ps", "host", descending=[True, False]
        )
        return sorted(found["host"].head(most).to_list())

    def by_kind(self) -> pl.DataFrame:
        """Return the time of each type and kind of segment (`segment_type`, `kind`), longest first.

        Columns: `segments`, the number that took time; `time_ps`, their sum; its parts `ideal_ps`,
        the ideal times of flows, and `waited_ps`, the rest (null without flows); and `stream_ps`,
        the time of segments whose successor waited only for its stream.
        """
        held = (pl.col("start_reason").shift(-1) == "stream").fill_null(value=False)
        of_flows = pl.col("ideal_ps").is_not_null().any()
        return (
            self.segments.with_columns(time_ps=pl.col("end_ps") - pl.col("start_ps"))
            .with_columns(
                waited_ps=pl.col("time_ps") - pl.col("ideal_ps"),
                stream_ps=pl.when(held).then("time_ps").otherwise(0),
            )
            .group_by("segment_type", "kind", maintain_order=True)
            .agg(
                (pl.col("time_ps") > 0).sum().alias("segments"),
                pl.col("time_ps").sum(),
                *(pl.when(of_flows).then(pl.col(name).sum()) for name in ("ideal_ps", "waited_ps")),
                pl.col("stream_ps").sum(),
            )
            .sort("time_ps", descending=True, maintain_order=True)
        )


def critical_path(
    result: Result,
    directory: Path | None = None,
    step: Step | None = None,
    *,
    trust: bool = False,
    replay: Replay | None = None,
) -> CriticalPath:
    """Return the critical path of a result, or of the completed part of an interrupted run.

    With `step`, it is the path to the end of the step's last operation, back to the end of the
    previous step, or the job's start. The experiment gives the dependencies, the result their
    times; nothing is simulated. `directory` is searched for files that the experiment refers to.
    Plugins from outside netsim run only with `trust`. `replay` is the result's, if one exists.

    Raises InputError for programs, whose reasons to start tasks are not recorded, if nothing was
    simulated, if the experiment has changed since, and for an unknown or incomplete step.
    """
    file = str(result.path)
    replay = replay or Replay.of(result, directory, trust=trust)
    scenario = replay.scenario
    tell("finding the critical path")
    if scenario.load.program is not None:
        raise InputError(
            f"{scenario.load.program.name} is a program: the causes of its tasks are not recorded",
            file=file,
            hint="traffic whose tasks wait only for tasks and flows",
        )
    tasks, flows = scenario.tasks or TaskTable([], []), scenario.messages
    _same(result, tasks, flows)
    last, start_ps = (None, 0) if step is None else _of_step(result, scenario, tasks, step)
    with errors_at(file=file):
        found = path_segments(tasks, flows, recorded_times(result), last)
    found = [
        one._replace(start_ps=max(one.start_ps, start_ps)) for one in found if one.end_ps > start_ps
    ]
    table = _table(found, scenario, tasks, replay.point)
    name = result.name if step is None else f"{result.name}, {step_name(step)}"
    return CriticalPath(table, name, start_ps, tuple(replay.changes))


def steps_done(result: Result, job: int = 0) -> int:
    """Return the number of complete steps of a result's job; 0 without a job."""
    jobs = jobs_of(result.summary)
    return len(jobs[job]["steps"]) if jobs else 0


def step_name(step: Step) -> str:
    return f"step {step}" if isinstance(step, int) else f"step {step[1]} of {step[0]}"


def _of_step(result: Result, scenario: Scenario, tasks: TaskTable, step: Step) -> tuple[int, int]:
    """Return the last task of a step, and the end of the previous step, or the job's start."""
    file, table = str(result.path), result.operations
    operations = scenario.load.part(OperationTable)
    if table is None or operations is None:
        raise InputError("the traffic has no steps", file=file, key="--step")
    jobs, job = operations.jobs, 0
    if not isinstance(step, int):
        names = [one.name for one in jobs]
        if step[0] not in names:
            hint = did_you_mean(step[0], names)
            raise InputError(f"unknown job {written(step[0])}", file=file, key="--step", hint=hint)
        job, step = names.index(step[0]), step[1]
    done = steps_done(result, job)
    if not 0 <= step < done:
        hint = f"0 to {done - 1}" if done else "no step is complete"
        raise InputError(
            f"step {step} is unknown or incomplete", file=file, key="--step", hint=hint
        )
    # Chunked messages may add tasks at the end that are not the traffic's.
    known = pl.Series(operations.end_task < len(tasks))
    first = sum(one.n for one in jobs[:job])
    own = pl.col("operation").is_between(first, first + jobs[job].n - 1)
    before = table.filter((pl.col("step") == step - 1) & own)
    its = table.filter((pl.col("step") == step) & known & own)
    last = its.sort("end_ps", maintain_order=True)["operation"][-1]
    start_ps = before["end_ps"].max() or jobs[job].start_ps
    if start_ps is None:
        start_ps = its["start_ps"].min()
    return int(operations.end_task[last]), int(start_ps)  # type: ignore[arg-type]


def _same(result: Result, tasks: TaskTable, flows: FlowTable) -> None:
    """Raise InputError if the experiment's traffic is no longer the result's."""
    rows, n_tasks = result.flows, 0 if result.tasks is None else len(result.tasks)
    same = len(rows) == len(flows) and n_tasks == len(tasks)
    for name in ("src", "dst", "size_bytes"):
        same = same and np.array_equal(rows[name].to_numpy(), getattr(flows, name))
    if same and result.tasks is not None:
        for name in ("host", "flow"):
            column = result.tasks[name].fill_null(-1).to_numpy()
            same = same and np.array_equal(column, getattr(tasks, name))
        kinds = result.tasks["kind"].cast(str).to_list()
        same = same and kinds == [KINDS[kind] for kind in tasks.kind.tolist()]
    if not same:
        raise InputError(
            "the traffic has changed since this result was written", file=str(result.path)
        )


def recorded_times(result: Result) -> Times:
    def column(table: pl.DataFrame | None, name: str) -> Ints:
        if table is None:
            return np.zeros(0, np.int64)
        return table[name].fill_null(-1).to_numpy().astype(np.int64)

    start, fct = column(result.flows, "start_ps"), column(result.flows, "fct_ps")
    ready, begin, end = (column(result.tasks, f"{name}_ps") for name in ("ready", "start", "end"))
    return Times(ready, begin, end, start, np.where(fct < 0, -1, start + fct))


def _table(
    found: Sequence[PathSegment], scenario: Scenario, tasks: TaskTable, point: Point
) -> pl.DataFrame:
    """Return the segments with their operations and ideal times; null where there is none."""
    flows, table = scenario.messages, scenario.load.part(OperationTable)
    send, (flow_kind, kinds) = tasks.of_flows(SEND, len(flows)), flows.named_kinds()
    alone, left = scenario.alone or scenario.ideal, _handed_over(scenario, point)
    of_task, of_messages = np.full(len(tasks), -1, np.int64), set()
    if table is not None:
        # Chunked messages may add tasks at the end that are not the traffic's.
        of_task = table.of_tasks(len(scenario.load.tasks or ()))[: len(tasks)]
        of_messages = {table.kinds[kind] for kind in table.kind[table.group >= 0]} - {""}
    rows = []
    for number, one in enumerate(found):
        crossing, computes = one.segment_type in ("flow", "send"), one.segment_type == "compute"
        row: dict[str, Any] = {"segment": number, **one._asdict(), "to": None, "ideal_ps": None}
        if crossing:
            times = alone.fct_ps
            if one.segment_type == "send":
                times = alone.acked_ps if tasks.done_when[one.task] == ACKED else left
            # For flows with several parts or port pairs the ideal is not exact.
            row["ideal_ps"] = min(int(times[one.flow]), one.end_ps - one.start_ps)
            row["to"] = int(flows.dst[one.flow])
        operation = int(of_task[one.task]) if one.task >= 0 else -1
        stream = int(tasks.stream[one.task]) if computes else -1
        kind = kinds[flow_kind[one.flow]] if one.flow >= 0 else ""
        if table is not None and operation >= 0:
            kind = kind or table.kinds[table.kind[operation]]
            if computes:
                stream = int(table.stream[operation])
                if table.what[operation] > RECEIVE:
                    row["segment_type"] = "formula"
                elif kind in of_messages:
                    row["segment_type"] = "latency"
        elif computes and tasks.label is not None and tasks.label[one.task] == START:
            row["segment_type"] = "start"
        numbers = {"task": one.task, "flow": one.flow, "operation": operation, "stream": stream}
        row |= {name: None if value < 0 else value for name, value in numbers.items()}
        rows.append(row | {"kind": kind, "label": _label(one, tasks, flows, send)})
    return pl.DataFrame(rows, schema=CRITICAL.schema())


def _handed_over(scenario: Scenario, point: Point) -> Ints:
    """Return the earliest time by which each flow's last packet has left its source."""
    left = hand_over_times(scenario.network, scenario.flows, point.packets, scenario.port_pairs)
    segments = scenario.segments
    if segments is None:
        return left
    found = np.zeros(len(segments.flows), np.int64)  # parts of a message leave in sequence
    np.add.at(found, segments.message[segments.segment < 2], left[segments.segment < 2])
    return found


def _label(one: PathSegment, tasks: TaskTable, flows: FlowTable, send: Ints) -> str:
    task = one.task if one.task >= 0 or one.flow < 0 else int(send[one.flow])
    if tasks.label is not None and task >= 0 and tasks.label[task]:
        return tasks.label[task]
    return flows.label[one.flow] if flows.label is not None and one.flow >= 0 else ""
