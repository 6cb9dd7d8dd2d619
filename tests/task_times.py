"""A slow and obvious timing of workloads on a network in which flows do not interact.

Every flow takes its bytes divided by one rate, plus a delay; a host sends any number of flows at
once."""

from collections.abc import Callable
from typing import Any

import numpy as np
from engine_runs import DROP_TAIL, build, run
from traffic_cases import star

from netsim.flows import RECEIVE, SEND, Workload
from netsim.limits import PS_BITS
from netsim.model.columns import Ints
from netsim.workloads.operations.table import WHATS, JobSteps, OperationTable


class Times:
    """Start and end of every task, and of operations from their tasks."""

    def __init__(self, load: Workload, start: Ints, end: Ints) -> None:
        self.load = load
        self.start = start
        self.end = end

    @property
    def makespan(self) -> int:
        return int(self.end.max())

    def rows(self, what: str | None = None, kind: str | None = None) -> Ints:
        """Return the operations of a type and kind."""
        table = operations_of(self.load)
        assert table is not None
        chosen = np.ones(len(table), bool)
        if what is not None:
            chosen &= table.what == WHATS.index(what)
        if kind is not None:
            chosen &= table.kind == (table.kinds.index(kind) if kind in table.kinds else -1)
        return np.flatnonzero(chosen)

    def span(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return when operations start and end."""
        table = operations_of(self.load)
        assert table is not None
        return self.start[table.begin_task[rows]], self.end[table.end_task[rows]]

    def by_name(self) -> dict[tuple[str, int, str], tuple[int, int]]:
        """Return the start and end of each operation by type, rank and label."""
        table = operations_of(self.load)
        begins, ends = (side.tolist() for side in self.span(np.arange(len(table))))
        labels = table.label or [""] * len(table)
        return {
            (WHATS[table.what[k]], int(table.rank[k]), labels[k]): (begins[k], ends[k])
            for k in range(len(table))
        }


def simulated(load: Workload, n_hosts: int, **more: Any) -> Times:
    """Simulate a workload packet by packet, around one switch of 100 Gbps."""
    more = {"tasks": load.tasks, "jit": False, **more}
    engine = build(star(n_hosts), load.flows, "datagram", DROP_TAIL, **more)
    states = run(engine).task_states()
    assert (states.end_ps >= 0).all()
    return Times(load, states.start_ps, states.end_ps)


def run_alone(
    load: Workload, rate_bps: Callable[[int, int], int] | None = None, delay_ps: int = 0
) -> Times:
    """Return when every task starts and ends. Without a rate, bytes take no time. A send task ends
    when its bytes are handed over; they are delivered ``delay_ps`` later."""
    tasks, flows = load.tasks, load.flows
    assert tasks is not None
    n = len(tasks)
    before: list[list[int]] = [[] for _ in range(n)]
    for pairs in (tasks.edges(), tasks.stream_edges()):
        for first, then in zip(*(side.tolist() for side in pairs), strict=True):
            before[then].append(first)
    of_flow = {}
    for task in np.flatnonzero(tasks.kind == SEND).tolist():
        of_flow[int(tasks.flow[task])] = task
    sender = [
        of_flow[int(flow)] if kind == RECEIVE else -1
        for kind, flow in zip(tasks.kind, tasks.flow, strict=True)
    ]
    took = tasks.duration_ps.tolist()
    for task in of_flow.values():
        flow = int(tasks.flow[task])
        if rate_bps is not None:
            rate = rate_bps(int(flows.src[flow]), int(flows.dst[flow]))
            took[task] += int(flows.size_bytes[flow]) * PS_BITS // rate
    start, end = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    stack = list(range(n))
    while stack:
        task = stack[-1]
        if end[task] >= 0:
            stack.pop()
            continue
        needs = [*before[task], *([sender[task]] if sender[task] >= 0 else [])]
        missing = [one for one in needs if end[one] < 0]
        if missing:
            stack += missing
            continue
        stack.pop()
        ready = max((int(end[one]) for one in before[task]), default=0)
        if sender[task] >= 0:
            ready = max(ready, int(end[sender[task]]) + delay_ps)
        start[task], end[task] = ready, ready + took[task]
    return Times(load, start, end)


def operations_of(load: Workload) -> OperationTable:
    table = load.part(OperationTable)
    assert table is not None
    return table


def steps_of(load: Workload) -> JobSteps:
    steps = operations_of(load).steps
    assert steps is not None
    return steps
