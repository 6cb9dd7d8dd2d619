"""The critical path of a serving iteration with its all-reduces in packets, and of a KV cache
transfer: messages, collectives and computing, back from its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.model.tasks import JOIN, TaskTable
from netsim.tracing.critical_path_search import PathSegment, Program, path_segments
from netsim.workloads.serving.data import ServingPlan
from netsim.workloads.serving.state import ANNOUNCED, POOL_READ, POOL_REQUEST, REDUCED, REQUEST
from netsim.workloads.tracing.critical_path import recorded_times

if TYPE_CHECKING:
    from netsim.experiment.scenario import Scenario
    from netsim.results import Result

AT_ONCE = (POOL_REQUEST, POOL_READ)
"""Roles of tasks after which a host goes on at the same instant, or not because of them."""


class ServingPaths:
    """The critical paths of a serving run. A path that is not recorded unambiguously, such as that
    of a transfer that a failure repeated, raises InputError."""

    def __init__(self, result: Result, scenario: Scenario) -> None:
        self.flows, self.tasks = scenario.messages, scenario.tasks or TaskTable([], [])
        self.times = recorded_times(result)
        state, n = scenario.load.task_state, len(self.tasks)
        plan = scenario.load.part(ServingPlan)
        self.leader = [] if plan is None else plan.instances.leader.tolist()
        self.role, self.request = (np.asarray(state[name])[:n] for name in ("role", "request"))

    def of_iteration(self, instance: int, start_ps: int, end_ps: int) -> list[PathSegment]:
        """Return the path of an iteration of an instance; [] if no packets end it."""
        ends = (self.role == REDUCED) & (self.tasks.host == self.leader[instance])
        return self._path(ends, start_ps, end_ps, self._after_work(start_ps))

    def of_transfer(self, request: int, start_ps: int, end_ps: int) -> list[PathSegment]:
        """Return the path of a request's KV cache from its first token on; [] if it is unknown."""
        ends = (self.role == REQUEST) & (self.request == request) & (self.tasks.kind == JOIN)
        return self._path(ends, start_ps, end_ps, lambda _, begin_ps: (-1, begin_ps))

    def _path(
        self, ends: np.ndarray, start_ps: int, end_ps: int, program: Program
    ) -> list[PathSegment]:
        """Return the path to a task that ends at a time, back to `start_ps`."""
        last = np.flatnonzero(ends & (self.times.end_ps == end_ps))
        if not last.size:
            return []
        found = path_segments(self.tasks, self.flows, self.times, int(last[0]), program)
        return [
            one._replace(start_ps=max(one.start_ps, start_ps))
            for one in found
            if one.end_ps > start_ps
        ]

    def _after_work(self, begin_ps: int) -> Program:
        """Return why hosts start tasks in an iteration that begins at a time: after computing since
        an all-reduce or the announcement, or because of the pool."""

        def program(task: int, start_ps: int) -> tuple[int, int]:
            end_ps = self.times.end_ps
            here = (self.tasks.host == self.tasks.host[task]) & (end_ps >= 0)
            asked = np.flatnonzero(here & np.isin(self.role, AT_ONCE) & (end_ps == start_ps))
            if asked.size:
                return int(asked[0]), start_ps
            worked = here & np.isin(self.role, (REDUCED, ANNOUNCED))
            before = np.flatnonzero(worked & (end_ps <= start_ps) & (end_ps > begin_ps))
            if not before.size:
                return -1, begin_ps
            last = int(before[np.argmax(end_ps[before])])
            return last, int(end_ps[last])

        return program
