"""The longest chain of tasks and flows against closed forms for small workloads."""

from __future__ import annotations

import numpy as np

from netsim.model.flows import FlowTable
from netsim.model.ideal import longest_chain_ps
from netsim.model.workload import COMPUTE, RECEIVE, SEND, TaskTable
from netsim.workloads.operations import CollectiveOptions, Operations

FCT_PS, LEFT_PS = 1_000, 400


def longest(tasks: TaskTable, flows: FlowTable) -> int:
    times = np.full(len(flows), FCT_PS), np.full(len(flows), LEFT_PS)
    return longest_chain_ps(tasks, flows, *times)


def test_ring_all_reduce_chain_has_all_its_steps() -> None:
    for n in [2, 5, 64]:
        ops = Operations(n)
        how = CollectiveOptions("ring", latency_ps=7)
        ops.collective("all_reduce", np.arange(n)[None, :], 1 << 20, how=how)
        load = ops.lower(np.arange(n))
        assert load.tasks is not None
        assert longest(load.tasks, load.flows) == 2 * (n - 1) * (FCT_PS + 7)


def test_chain_adds_stream_order_messages_and_dependencies() -> None:
    """Host 0 computes twice and sends; host 1 receives and then computes."""
    tasks = TaskTable(
        [COMPUTE, COMPUTE, SEND, RECEIVE, COMPUTE],
        [0, 0, 0, 1, 1],
        [10, 20, 5, 3, 100],
        flow=[-1, -1, 0, 0, -1],
    )
    tasks.wait_for_pairs([1, 3], [2, 4])
    assert longest(tasks, FlowTable([0], [1], 4096)) == 10 + 20 + 5 + FCT_PS + 3 + 100


def test_task_after_a_send_waits_until_the_data_left() -> None:
    tasks = TaskTable([SEND, COMPUTE], [0, 0], [5, 2_000], flow=[0, -1])
    tasks.wait_for_pairs([0], [1])
    assert longest(tasks, FlowTable([0], [1], 4096)) == 5 + LEFT_PS + 2_000
