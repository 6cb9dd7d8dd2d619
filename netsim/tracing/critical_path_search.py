"""Find the critical path of a run, segment by segment, back to time 0.

A segment is a task, or a flow from its start to its delivery. It started when its predecessor
ended: the last awaited task, the previous task of its stream, or a delivered flow. The segments
fill the time from 0 to the end without gaps, so only they determine when the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.columns import Ints
from netsim.model.flows import FlowTable
from netsim.model.workload import COMPUTE, RECEIVE, SEND, TaskTable

SEGMENT_TYPES = ("compute", "join", "flow", "send", "latency", "start")
"""A compute task; a join; a flow from start to delivery; a flow until its send task ends (handed
over or acknowledged); software latency before a flow or after its delivery; the time before a flow
that waits for nothing."""

START_REASONS = ("begin", "task", "stream", "flow", "same_flow")
"""No predecessor; the last awaited task ended; the previous compute task of its stream ended; a
flow was delivered; the predecessor is the latency or start segment of the same flow."""


class PathSegment(NamedTuple):
    """One segment of the path; -1 in fields that do not apply."""

    segment_type: str
    start_reason: str
    host: int
    task: int
    flow: int
    start_ps: int
    end_ps: int


@frozen
class Times:
    """Event times in ps; -1 for events that did not happen. `ready_ps`, `start_ps` and `end_ps` are
    int64[n_tasks], as in tasks.parquet; the others are int64[n_flows]."""

    ready_ps: Ints
    start_ps: Ints
    end_ps: Ints
    flow_start_ps: Ints
    delivered_ps: Ints


Program = Callable[[int, int], tuple[int, int]]
"""Why a program started a task at a time: the task whose end led to it (-1: none), and when the
host began to compute for it."""


def path_segments(
    tasks: TaskTable,
    flows: FlowTable,
    times: Times,
    last: int | None = None,
    program: Program | None = None,
) -> list[PathSegment]:
    """Return the segments up to the end of task `last` (default: whatever ends last), in time
    order. A segment of computing leads to each task that `program` starts.

    If several predecessors explain a start, prefer the delivery of a flow, then an awaited task,
    then the stream, then the lowest number. Return an empty list if nothing ended.

    Raises InputError if no predecessor explains a start: the times belong to other tasks.
    """
    search = _PathSearch(tasks, flows, times, program)
    end = search.find_last() if last is None else _Cause("", task=last)
    return [*search.walk_back(end)][::-1]


class _Cause(NamedTuple):
    """The predecessor of a segment: a task, a flow, or nothing; -1 in fields that do not apply."""

    start_reason: str
    task: int = -1
    flow: int = -1


BEGIN = _Cause("begin")


class _PathSearch:
    def __init__(
        self, tasks: TaskTable, flows: FlowTable, times: Times, program: Program | None
    ) -> None:
        self.tasks, self.flows, self.times, self.program = tasks, flows, times, program
        self.send = tasks.of_flows(SEND, len(flows))
        first, then = tasks.stream_edges()
        self.previous_in_stream = np.full(len(tasks), -1, np.int64)
        self.previous_in_stream[then] = first

    def walk_back(self, step: _Cause) -> Iterator[PathSegment]:
        while step != BEGIN:
            if step.task >= 0:
                step, segments = self._explain_task(step.task)
            else:
                step, segments = self._explain_flow(step.flow)
            yield from segments

    def find_last(self) -> _Cause:
        """Return the task or flow that ends last; on a tie, the task with the highest number."""
        end, delivered = self.times.end_ps, self.times.delivered_ps
        last_task, last_flow = int(end.max(initial=-1)), int(delivered.max(initial=-1))
        if max(last_task, last_flow) < 0:
            return BEGIN
        if last_task >= last_flow:
            return _Cause("", task=int(np.flatnonzero(end == last_task)[-1]))
        return _Cause("", flow=int(np.argmax(delivered)))

    def _explain_task(self, k: int) -> tuple[_Cause, list[PathSegment]]:
        """Return the cause of task k, and the segments from there to its end, last first."""
        times, kind, flow = self.times, int(self.tasks.kind[k]), int(self.tasks.flow[k])
        start, end = int(times.start_ps[k]), int(times.end_ps[k])
        before: list[PathSegment] = []
        if kind == SEND:
            begin = int(times.flow_start_ps[flow])
            own = PathSegment("send", "same_flow", int(self.tasks.host[k]), k, flow, begin, end)
            step, before = self._explain_start(flow)
            return step, [own, *before]
        if kind == RECEIVE and int(times.delivered_ps[flow]) == start:
            step = _Cause("flow", flow=flow)
        elif kind == COMPUTE and start > times.ready_ps[k]:
            step = self._stream_cause(k, start)
        else:
            step, before = self._task_cause(k, start)
        what = {COMPUTE: "compute", RECEIVE: "latency"}.get(kind, "join")
        host, reason = int(self.tasks.host[k]), "task" if before else step.start_reason
        return step, [PathSegment(what, reason, host, k, flow, start, end), *before]

    def _explain_flow(self, flow: int) -> tuple[_Cause, list[PathSegment]]:
        """Return the cause of a flow, and the segments from there to its delivery, last first."""
        begin, end = int(self.times.flow_start_ps[flow]), int(self.times.delivered_ps[flow])
        step, before = self._explain_start(flow)
        host = int(self.flows.src[flow])
        return step, [PathSegment("flow", "same_flow", host, -1, flow, begin, end), *before]

    def _explain_start(self, flow: int) -> tuple[_Cause, list[PathSegment]]:
        """Return the cause of a flow's start, and the segment from there to the start."""
        task, host = int(self.send[flow]), int(self.flows.src[flow])
        start = int(self.times.flow_start_ps[flow])
        if task >= 0:
            begin = int(self.times.start_ps[task])
            step, before = self._task_cause(task, begin)
            reason = "task" if before else step.start_reason
            return step, [PathSegment("latency", reason, host, task, flow, begin, start), *before]
        awaited = self.flows.awaited(flow)
        if awaited:
            begin, first = max((int(self.times.delivered_ps[g]), -g) for g in awaited)
            if 0 <= begin <= start:
                step = _Cause("flow", flow=-first)
                return step, [PathSegment("latency", "flow", host, -1, flow, begin, start)]
            raise _unexplained(f"flow {flow}")
        return BEGIN, [PathSegment("start", "begin", host, -1, flow, 0, start)]

    def _stream_cause(self, k: int, start: int) -> _Cause:
        before = int(self.previous_in_stream[k])
        if before < 0 or self.times.end_ps[before] != start:
            raise _unexplained(self.tasks.name(k))
        return _Cause("stream", task=before)

    def _task_cause(self, k: int, start: int) -> tuple[_Cause, list[PathSegment]]:
        """Return the awaited task that ended when task k started, or why the program started it and
        the computing before that."""
        awaited = np.array(self.tasks.awaited(k), np.int64)
        last = awaited[self.times.end_ps[awaited] == start]
        if last.size:
            return _Cause("task", task=int(last.min())), []
        if not awaited.size and start == 0:
            return BEGIN, []
        if awaited.size or self.program is None:
            raise _unexplained(self.tasks.name(k))
        before, since = self.program(k, start)
        step = BEGIN if before < 0 else _Cause("task", task=before)
        host = int(self.tasks.host[k])
        return step, [PathSegment("compute", step.start_reason, host, k, -1, since, start)]


def _unexplained(name: str) -> InputError:
    return InputError(
        f"{name} started when none of its predecessors ended: the times belong to other tasks"
    )
