"""Tasks of hosts, and flows that wait for flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .host import TASK_TIMERS, Timer
from .model import Flow, Task, TaskResult
from .programs import Mixed

if TYPE_CHECKING:
    from .simulator import Simulator


class Running:
    """A task during a run."""

    def __init__(self, sim: Simulator, number: int, task: Task) -> None:
        self.number = number
        self.task = task
        self.host = sim.hosts[task.host]
        self.timer: Timer
        self.duration_ps = task.duration_ps
        self.deferred = task.deferred
        self.ready_ps = -1
        self.start_ps = -1
        self.end_ps = -1
        self.first_start_ps = -1
        self.runs = 0
        self.busy_ps = 0
        self.to_be_told = False

    @property
    def done(self) -> bool:
        """Return whether it is done and not running again."""
        return self.end_ps >= 0

    @property
    def result(self) -> TaskResult:
        times = self.ready_ps, self.first_start_ps, self.end_ps
        return TaskResult(*times, self.runs, self.busy_ps)


class Tasks:
    """All tasks of a run. When one is done, its host's tasks are visited until none changes."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.all = [Running(sim, k, task) for k, task in enumerate(sim.case.tasks)]
        self.delivered: dict[int, int] = {}  # flow -> time
        self.handed_over: dict[int, int] = {}  # flow -> time
        for one in self.all:
            slot = (TASK_TIMERS, one.number, 0)
            one.timer = Timer(one.host, slot, lambda one=one: self._fire(one))  # type: ignore[misc]
            if not one.task.after:
                one.ready_ps = 0
                if self._free(one):
                    one.timer.set(0)
        given = sim.case.program
        self.program = None if given is None else Mixed(self, given["first"])

    def results(self) -> list[TaskResult]:
        return [one.result for one in self.all]

    def on_delivered(self, flow: Flow) -> None:
        """Note that a flow's receiver has every byte."""
        self.delivered[flow.index] = self.sim.now
        self.settle(flow.dst)
        for other in self.sim.flows:
            if flow.index in self.sim.case.after.get(other.index, ()):
                self._flow_may_start(other)

    def on_handed_over(self, flow: Flow, end_ps: int) -> None:
        """Note that the last new packet of a flow is in transmission until ``end_ps``."""
        self.handed_over[flow.index] = end_ps
        for one in self._senders_of(flow):
            if not one.task.acked:
                one.timer.set(end_ps)

    def on_finished(self, flow: Flow, *, all_sent: bool) -> None:
        """Note that the transport has finished a flow; ``all_sent``: every packet was started."""
        self.handed_over.setdefault(flow.index, self.sim.now)
        for one in self._senders_of(flow):
            if one.task.acked:
                self._done(one)
            elif not all_sent:
                one.timer.set(self.sim.now)

    def _senders_of(self, flow: Flow) -> list[Running]:
        found = [one for one in self.all if one.task.kind == "send"]
        return [one for one in found if one.task.flow == flow.index and not one.runs]

    def _free(self, one: Running) -> bool:
        """Return whether it waits only for edges."""
        task = one.task
        if one.deferred:
            return False
        if task.kind == "receive":
            return task.flow in self.delivered
        if task.kind == "compute" and not task.deferred:
            before = self.all[: one.number]
            stream = (task.host, task.stream)
            in_stream = [o for o in before if o.task.kind == "compute" and not o.task.deferred]
            return all(o.runs for o in in_stream if (o.task.host, o.task.stream) == stream)
        return True

    def settle(self, host: int) -> None:
        """Start every task of a host that can start."""
        moved = True
        while moved:
            moved = False
            for one in self.all:
                if one.task.host != host or one.start_ps >= 0 or one.timer.armed:
                    continue
                if one.ready_ps < 0 and all(self.all[k].runs for k in one.task.after):
                    one.ready_ps = self.sim.now
                if one.ready_ps >= 0 and self._free(one):
                    self._start(one)
                    moved = True

    def _start(self, one: Running) -> None:
        one.start_ps = self.sim.now
        if not one.runs:
            one.first_start_ps = self.sim.now
        end_ps = self.sim.now + one.duration_ps
        if one.task.kind == "send":
            self.sim.start_flow(self.sim.flows[one.task.flow], end_ps)
        elif end_ps > self.sim.now:
            one.timer.set(end_ps)
        else:
            self._end(one)

    def start_again(self, one: Running) -> None:
        """Repeat a task that is done."""
        one.end_ps = -1
        self._start(one)
        self.settle(one.task.host)

    def _fire(self, one: Running) -> None:
        """Fire a task's timer: start it if it is ready at 0, else end it. If it is already done,
        notify its program."""
        if one.start_ps < 0:
            self._start(one)
            self.settle(one.task.host)
        elif not one.done:
            self._done(one)
        else:
            assert one.to_be_told
            assert self.program is not None
            one.to_be_told = False
            self.program.on_task(one.task.host, one)

    def _done(self, one: Running) -> None:
        self._end(one)
        self.settle(one.task.host)

    def _end(self, one: Running) -> None:
        one.end_ps = self.sim.now
        one.runs += 1
        one.busy_ps += one.end_ps - one.start_ps
        if self.program is not None and one in self.program.tasks:
            one.to_be_told = True
            one.timer.set(self.sim.now)

    def _flow_may_start(self, flow: Flow) -> None:
        awaited = self.sim.case.after[flow.index]
        if not all(other in self.delivered for other in awaited):
            return
        at = max(self.delivered[other] for other in awaited) + flow.delay_ps
        if any(self.sim.flows[other].dst != flow.src for other in awaited):
            at += self.sim.lookahead_ps
        self.sim.start_flow(flow, at)
