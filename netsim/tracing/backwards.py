"""What the end of a run waited for, piece by piece, back to time 0.

A piece is a task, or a flow from its start to its delivery. Each one began at the very instant in
which the one before it ended, and because of that: a task of the same host that it waited for was
done, its stream was free, its flow was delivered. So the pieces fill the time from 0 to the end,
and nothing that lies beside them could have made the run shorter by being faster.
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

WHAT = ("compute", "join", "flow", "send", "latency", "start")
"""Kinds of pieces: a compute task; a join; a flow, from its start to its delivery; a flow until its
send task is done, as it is handed over or acknowledged; software's time before a flow or behind its
delivery; the time until a flow that waits for nothing was to start."""

START_REASONS = ("begin", "task", "stream", "flow", "same_flow")
"""Why a piece began when it did: nothing was before it; the last of the tasks that it waited for
was done; the compute task before it in its stream was; a flow was delivered; of a flow, the piece
before it is its own latency or start."""


class Piece(NamedTuple):
    """A piece of the path. Of what does not concern it, -1."""

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


def pieces(
    tasks: TaskTable, flows: FlowTable, times: Times, last: int | None = None
) -> list[Piece]:
    """The pieces in the order of time, to the end of task `last`, or of what ends last; none if
    nothing is done.

    Of two that would both explain when another began, it is the delivery of a flow rather than a
    task, a task rather than the stream, and the one with the lowest number.

    Raises InputError where no piece explains when another began: the times are not of these tasks.
    """
    walk = _Walk(tasks, flows, times)
    end = walk.last() if last is None else _Step("", task=last)
    return [*walk.backwards(end)][::-1]


class _Step(NamedTuple):
    """What comes next on the way back: a task or a flow (the other is -1), or neither."""

    start_reason: str
    task: int = -1
    flow: int = -1


BEGIN = _Step("begin")


class _Walk:
    def __init__(self, tasks: TaskTable, flows: FlowTable, times: Times) -> None:
        self.tasks, self.flows, self.times = tasks, flows, times
        self.send = tasks.of_flows(SEND, len(flows))
        first, then = tasks.in_streams()
        self.in_stream = np.full(len(tasks), -1, np.int64)
        self.in_stream[then] = first

    def backwards(self, step: _Step) -> Iterator[Piece]:
        """The pieces from the end of a task or flow on, back in time."""
        while step != BEGIN:
            if step.task >= 0:
                step, found = self._of_task(step.task)
            else:
                step, found = self._of_flow(step.flow)
            yield from found

    def last(self) -> _Step:
        """The task or flow that ends last; of several a task, the last one."""
        end, delivered = self.times.end_ps, self.times.delivered_ps
        last_task, last_flow = int(end.max(initial=-1)), int(delivered.max(initial=-1))
        if max(last_task, last_flow) < 0:
            return BEGIN
        if last_task >= last_flow:
            return _Step("", task=int(np.flatnonzero(end == last_task)[-1]))
        return _Step("", flow=int(np.argmax(delivered)))

    def _of_task(self, k: int) -> tuple[_Step, list[Piece]]:
        """The pieces that end as task k is done, and what they waited for."""
        times, kind, flow = self.times, int(self.tasks.kind[k]), int(self.tasks.flow[k])
        start, end = int(times.start_ps[k]), int(times.end_ps[k])
        if kind == SEND:
            begin = int(times.flow_start_ps[flow])
            own = Piece("send", "same_flow", int(self.tasks.host[k]), k, flow, begin, end)
            step, before = self._flow_starts(flow)
            return step, [own, *before]
        if kind == RECEIVE and int(times.delivered_ps[flow]) == start:
            step = _Step("flow", flow=flow)
        elif kind == COMPUTE and start > times.ready_ps[k]:
            step = self._in_stream(k, start)
        else:
            step = self._edges(k, start)
        what = {COMPUTE: "compute", RECEIVE: "latency"}.get(kind, "join")
        host = int(self.tasks.host[k])
        return step, [Piece(what, step.start_reason, host, k, flow, start, end)]

    def _of_flow(self, flow: int) -> tuple[_Step, list[Piece]]:
        """The pieces that end as a flow is delivered, and what they waited for."""
        begin, end = int(self.times.flow_start_ps[flow]), int(self.times.delivered_ps[flow])
        step, before = self._flow_starts(flow)
        host = int(self.flows.src[flow])
        return step, [Piece("flow", "same_flow", host, -1, flow, begin, end), *before]

    def _flow_starts(self, flow: int) -> tuple[_Step, list[Piece]]:
        """The piece, if there is one, that ends as a flow starts, and what it waited for."""
        task, host = int(self.send[flow]), int(self.flows.src[flow])
        start = int(self.times.flow_start_ps[flow])
        if task >= 0:
            begin = int(self.times.start_ps[task])
            step = self._edges(task, begin)
            return step, [Piece("latency", step.start_reason, host, task, flow, begin, start)]
        awaited = self.flows.waits_for(flow)
        if awaited:
            begin, first = max((int(self.times.delivered_ps[g]), -g) for g in awaited)
            if 0 <= begin <= start:
                step = _Step("flow", flow=-first)
                return step, [Piece("latency", "flow", host, -1, flow, begin, start)]
            raise _loose(f"flow {flow}")
        return BEGIN, [Piece("start", "begin", host, -1, flow, 0, start)]

    def _in_stream(self, k: int, start: int) -> _Step:
        before = int(self.in_stream[k])
        if before < 0 or self.times.end_ps[before] != start:
            raise _loose(self.tasks.name(k))
        return _Step("stream", task=before)

    def _edges(self, k: int, start: int) -> _Step:
        """The task that made task k ready, at its start."""
        ptr, after = self.tasks.after_ptr, self.tasks.after_task
        awaited = np.zeros(0, np.int64)
        if ptr is not None and after is not None:
            awaited = after[ptr[k] : ptr[k + 1]]
        if not awaited.size and start == 0:
            return BEGIN
        last = awaited[self.times.end_ps[awaited] == start]
        if not last.size:
            raise _loose(self.tasks.name(k))
        return _Step("task", task=int(last.min()))


def _loose(name: str) -> InputError:
    return InputError(
        f"nothing that {name} waits for ended as it began: the times are not those of these tasks"
    )
