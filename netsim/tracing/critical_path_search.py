"""Find the critical path of a run, segment by segment, back to time 0.

A segment is a task, or a flow from its start to its delivery. Each started at the instant at which
the one before it ended, and because of that: an awaited task of the same host was done, its stream
was free, or its flow was delivered. The segments therefore fill the time from 0 to the end, and
speeding up anything else would not have shortened the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.model.flows import FlowTable
from netsim.model.tasks import COMPUTE, RECEIVE, SEND, TaskTable

Ints = NDArray[np.int64]

SEGMENT_TYPES = ("compute", "join", "flow", "send", "latency", "start")
"""A compute task; a join; a flow, from its start to its delivery; a flow until its send task is
done (handed over or acknowledged); software time before a flow or after its delivery; the time
until the start of a flow that waits for nothing."""

START_REASONS = ("begin", "task", "stream", "flow", "same_flow")
"""Nothing came before; the last awaited task was done; the previous compute task of its stream was
done; a flow was delivered; the segment before is the latency or the start of the same flow."""


class PathSegment(NamedTuple):
    """A segment of the path; -1 for fields that do not apply."""

    segment_type: str
    start_reason: str
    host: int
    task: int
    flow: int
    start_ps: int
    end_ps: int


@dataclass(frozen=True)
class Times:
    """When what happened, in ps; -1 where it did not.

    Attributes:
        ready_ps, start_ps, end_ps: int64[n_tasks], as in tasks.parquet.
        flow_start_ps, delivered_ps: int64[n_flows].
    """

    ready_ps: Ints
    start_ps: Ints
    end_ps: Ints
    flow_start_ps: Ints
    delivered_ps: Ints


def path_segments(
    tasks: TaskTable, flows: FlowTable, times: Times, last: int | None = None
) -> list[PathSegment]:
    """Return the segments in order of time, up to the end of task `last`, or to the last end of
    all; none if nothing is done.

    Of several segments that explain a start, the delivery of a flow is preferred to a task, a task
    to the stream, and then the lowest number.

    Raises InputError if no segment explains a start: the times are not of these tasks.
    """
    search = _PathSearch(tasks, flows, times)
    end = search.last() if last is None else _Cause("", task=last)
    return [*search.segments_to(end)][::-1]


class _Cause(NamedTuple):
    """What a segment waited for: a task or a flow (the other is -1), or nothing."""

    start_reason: str
    task: int = -1
    flow: int = -1


BEGIN = _Cause("begin")


class _PathSearch:
    def __init__(self, tasks: TaskTable, flows: FlowTable, times: Times) -> None:
        self.tasks, self.flows, self.times = tasks, flows, times
        self.send = tasks.of_flows(SEND, len(flows))
        first, then = tasks.in_streams()
        self.in_stream = np.full(len(tasks), -1, np.int64)
        self.in_stream[then] = first

    def segments_to(self, step: _Cause) -> Iterator[PathSegment]:
        """Yield the segments back from the end of a task or flow."""
        while step != BEGIN:
            if step.task >= 0:
                step, found = self._of_task(step.task)
            else:
                step, found = self._of_flow(step.flow)
            yield from found

    def last(self) -> _Cause:
        """Return the task or flow that ends last; of several, the task with the highest number."""
        end, delivered = self.times.end_ps, self.times.delivered_ps
        last_task, last_flow = int(end.max(initial=-1)), int(delivered.max(initial=-1))
        if max(last_task, last_flow) < 0:
            return BEGIN
        if last_task >= last_flow:
            return _Cause("", task=int(np.flatnonzero(end == last_task)[-1]))
        return _Cause("", flow=int(np.argmax(delivered)))

    def _of_task(self, k: int) -> tuple[_Cause, list[PathSegment]]:
        """Return the segments that end with task k, and their cause."""
        times, kind, flow = self.times, int(self.tasks.kind[k]), int(self.tasks.flow[k])
        start, end = int(times.start_ps[k]), int(times.end_ps[k])
        if kind == SEND:
            begin = int(times.flow_start_ps[flow])
            own = PathSegment("send", "same_flow", int(self.tasks.host[k]), k, flow, begin, end)
            step, before = self._flow_starts(flow)
            return step, [own, *before]
        if kind == RECEIVE and int(times.delivered_ps[flow]) == start:
            step = _Cause("flow", flow=flow)
        elif kind == COMPUTE and start > times.ready_ps[k]:
            step = self._in_stream(k, start)
        else:
            step = self._edges(k, start)
        what = {COMPUTE: "compute", RECEIVE: "latency"}.get(kind, "join")
        host = int(self.tasks.host[k])
        return step, [PathSegment(what, step.start_reason, host, k, flow, start, end)]

    def _of_flow(self, flow: int) -> tuple[_Cause, list[PathSegment]]:
        """Return the segments that end with the delivery of a flow, and their cause."""
        begin, end = int(self.times.flow_start_ps[flow]), int(self.times.delivered_ps[flow])
        step, before = self._flow_starts(flow)
        host = int(self.flows.src[flow])
        return step, [PathSegment("flow", "same_flow", host, -1, flow, begin, end), *before]

    def _flow_starts(self, flow: int) -> tuple[_Cause, list[PathSegment]]:
        """Return the segment, if any, that ends with the start of a flow, and its cause."""
        task, host = int(self.send[flow]), int(self.flows.src[flow])
        start = int(self.times.flow_start_ps[flow])
        if task >= 0:
            begin = int(self.times.start_ps[task])
            step = self._edges(task, begin)
            return step, [PathSegment("latency", step.start_reason, host, task, flow, begin, start)]
        awaited = self.flows.waits_for(flow)
        if awaited:
            begin, first = max((int(self.times.delivered_ps[g]), -g) for g in awaited)
            if 0 <= begin <= start:
                step = _Cause("flow", flow=-first)
                return step, [PathSegment("latency", "flow", host, -1, flow, begin, start)]
            raise _unexplained(f"flow {flow}")
        return BEGIN, [PathSegment("start", "begin", host, -1, flow, 0, start)]

    def _in_stream(self, k: int, start: int) -> _Cause:
        before = int(self.in_stream[k])
        if before < 0 or self.times.end_ps[before] != start:
            raise _unexplained(self.tasks.name(k))
        return _Cause("stream", task=before)

    def _edges(self, k: int, start: int) -> _Cause:
        """Return the task that made task k ready, at its start."""
        ptr, after = self.tasks.after_ptr, self.tasks.after_task
        awaited = np.zeros(0, np.int64)
        if ptr is not None and after is not None:
            awaited = after[ptr[k] : ptr[k + 1]]
        if not awaited.size and start == 0:
            return BEGIN
        last = awaited[self.times.end_ps[awaited] == start]
        if not last.size:
            raise _unexplained(self.tasks.name(k))
        return _Cause("task", task=int(last.min()))


def _unexplained(name: str) -> InputError:
    return InputError(
        f"{name} started when nothing that it waits for ended: the times are of other tasks"
    )
