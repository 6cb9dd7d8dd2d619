"""Length of a workload's dependency chains through tasks and flows.

Flows take as long as they would alone. So the result is a lower bound, except for what closed forms
omit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.model.columns import longest_chains
from netsim.model.flows import FlowTable
from netsim.model.tasks import RECEIVE, SEND, TaskTable

Ints = NDArray[np.int64]


def longest_chain_ps(tasks: TaskTable, flows: FlowTable, fct_ps: Ints, left_ps: Ints) -> int:
    """Return when the last task is done, or the last flow of a task is delivered.

    Args:
        tasks, flows: of one workload, without cycles.
        fct_ps, left_ps: int64[flows], from a flow's start until its receiver has it, and until it
            has left its sender.
    """
    n, first, then, takes_ps = _links(tasks, flows, fct_ps, left_ps)
    return int(longest_chains(n, first, then, takes_ps).max(initial=0))


def task_times(
    tasks: TaskTable, flows: FlowTable, fct_ps: Ints, left_ps: Ints
) -> tuple[Ints, Ints]:
    """Return int64[tasks] twice, when each task starts and ends; see `longest_chain_ps`."""
    n, first, then, takes_ps = _links(tasks, flows, fct_ps, left_ps)
    found = longest_chains(n, first, then, takes_ps)
    return found[: n - 1 : 2], found[1:n:2]


def _links(
    tasks: TaskTable, flows: FlowTable, fct_ps: Ints, left_ps: Ints
) -> tuple[int, Ints, Ints, Ints]:
    """Return the number of nodes, and edges between them with their minimum delays.

    Task k is two nodes: start 2k and end 2k + 1. A receive task starts when its flow is delivered
    and its dependencies are done.
    """
    n = len(tasks)
    row = np.arange(n)
    own_ps = tasks.duration_ps.copy()
    sends, receives = (tasks.of_flows(kind, len(flows)) for kind in (SEND, RECEIVE))
    own_ps[sends[sends >= 0]] += left_ps[sends >= 0]
    joined = np.flatnonzero((sends >= 0) & (receives >= 0))
    alone = np.flatnonzero((sends < 0) & (receives >= 0))
    latency_ps = tasks.duration_ps[sends[joined]]
    by_edges, stream_edges = tasks.edges(), tasks.stream_edges()
    # Flows that no task starts depend on an origin node at time 0.
    origin = 2 * n
    links = [
        (2 * row, 2 * row + 1, own_ps),
        (2 * by_edges[0] + 1, 2 * by_edges[1], np.zeros(by_edges[0].size, np.int64)),
        (2 * stream_edges[0] + 1, 2 * stream_edges[1], np.zeros(stream_edges[0].size, np.int64)),
        (2 * sends[joined], 2 * receives[joined], latency_ps + fct_ps[joined]),
        (np.full(alone.size, origin), 2 * receives[alone], flows.start_ps[alone] + fct_ps[alone]),
    ]
    first, then, takes_ps = (np.concatenate(side) for side in zip(*links, strict=True))
    return origin + 1, first, then, takes_ps
