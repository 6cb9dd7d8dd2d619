"""Tasks, queue pairs and plans of joined workloads."""

from typing import Any

import numpy as np
from raises_input import raises_input

from netsim.flows import ACKED, COMPUTE, JOIN, RECEIVE, SEND, FlowTable, TaskTable, Workload
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.serving.plan import DECODE, PREFILL, Requests, ServingInstances, ServingPlan

FLOWS = FlowTable([0, 1], [1, 0], 5000)


def table(kind: Any, host: Any, after: Any = None, **given: Any) -> TaskTable:
    tasks = TaskTable(kind, host, **given)
    if after is not None:
        tasks.wait_for(after)
    return tasks


def test_invalid_task_error_names_the_task() -> None:
    for tasks, message in [
        (table([7], 0), ("task 0", "7", "host 0")),
        (table([JOIN], 3), ("task 0", "host 3", "0..1")),
        (table([COMPUTE], 0, duration_ps=-1), "duration"),
        (table([COMPUTE], 0, duration_ps=1 << 56), "20"),
        (table([COMPUTE], 0, stream=-1), "stream"),
        (table([JOIN], 0, stream=1), "task"),
        (table([JOIN], 0, duration_ps=1), "join"),
        (table([JOIN], 0, flow=0), "task"),
        (table([JOIN], 0, done_when=ACKED), "done_when"),
        (table([SEND], 0, flow=0, done_when=2), ("done_when", "SENT", "ACKED")),
        (table([SEND], 0, flow=2), ("task 0", "flow 2", "host 0")),
        (table([SEND], 0), "flow"),
        (table([SEND], 1, flow=0), "host 0"),
        (table([RECEIVE], 0, flow=0), "host 1"),
        (table([RECEIVE, RECEIVE], 1, flow=0), ("task 1", "flow 0", "host 1", "task 0")),
        (table([JOIN, JOIN], 0, [[], [5]]), ("task 1", "task 5")),
        (table([JOIN, COMPUTE], [0, 1], [[], [0]]), ("task 1", "host 1", "task 0", "host 0")),
        (table([JOIN, JOIN], 0, [[1], [0]]), ""),
        # A cycle: the first task waits for the second of its stream.
        (table([COMPUTE, COMPUTE], 0, [[1], []]), ""),
        # A cycle: each host sends once it has received.
        (table([RECEIVE, SEND] * 2, [1, 1, 0, 0], [[], [0], [], [2]], flow=[0, 1, 1, 0]), ""),
    ]:
        with raises_input(message):
            tasks.validate(FLOWS, 2)


def test_sent_flow_must_not_have_a_start_time_or_dependencies() -> None:
    tasks = TaskTable([SEND], 0, flow=0)
    with raises_input("flow 0", "task 0"):
        tasks.validate(FlowTable([0], [1], 5000, start_ps=1), 2)
    waits = FlowTable([0, 1], [1, 0], 5000)
    waits.wait_for([[], [0]])
    with raises_input("flow 1", "flow 0"):
        tasks.validate(waits, 2)


def test_dependency_lists_and_pairs_are_equivalent() -> None:
    by_lists = table([JOIN] * 4, 0, [[], [0], [], [0, 1, 2]])
    by_pairs = TaskTable([JOIN] * 4, 0)
    by_pairs.wait_for_pairs([0, 0, 1, 2], [1, 3, 3, 3])
    for tasks in (by_lists, by_pairs):
        assert tasks.edges()[0].tolist() == [0, 0, 1, 2]
        assert tasks.edges()[1].tolist() == [1, 3, 3, 3]


def test_joined_workloads_renumber_flows_tasks_and_streams() -> None:
    one = Workload(FLOWS, table([COMPUTE, SEND], 0, [[], [0]], flow=[-1, 0], stream=[2, 0]))
    plain = Workload(FlowTable([1], [0], 700))
    other = Workload(
        FlowTable([1], [0], 5000),
        table([COMPUTE, JOIN, RECEIVE], 0, [[], [0], [1]], flow=[-1, -1, 0]),
    )
    joined = Workload.join([one, plain, other])
    joined.validate(2)
    tasks = joined.tasks
    assert tasks is not None
    assert (joined.has_tasks, plain.has_tasks) == (True, False)
    assert joined.flows.src.tolist() == [0, 1, 1, 1]
    assert tasks.flow.tolist() == [-1, 0, -1, -1, 3]
    assert tasks.stream.tolist() == [2, 0, 3, 0, 0]  # streams of another job are renumbered
    assert [edge.tolist() for edge in tasks.edges()] == [[0, 2, 3], [1, 3, 4]]


def plan() -> ServingPlan:
    """Two prefill instances of two hosts, a decode instance of three, two requests."""
    roles, hosts = np.array([PREFILL, PREFILL, DECODE], np.int8), [8, 9, 4, 5, 1, 2, 3]
    instances = ServingInstances(roles, np.array([0, 2, 4, 7]), np.array(hosts, np.int32))
    return ServingPlan(
        instances=instances,
        requests=Requests(np.array([0, 5]), np.array([10, 20]), np.array([3, 1])),
        prefill_instance=np.array([0, 1], np.int32),
        decode_instance=np.array([2, -1], np.int32),
        costs=(None, None, None),
        ttft_ps=None,
        tbt_ps=None,
        kv_first_flow=np.array([0, 3]),
        kv_flows=np.array([3, 0]),
    )


def test_joined_serving_plan_shifts_its_flow_numbers() -> None:
    other = Workload(FlowTable([0, 1], [1, 0], 100))
    served = Workload(FlowTable([8, 9, 8], [1, 2, 3], 50), TaskTable([3], [0]), parts=(plan(),))
    joined = Workload.join([other, served]).part(ServingPlan)
    assert joined is not None
    assert joined.kv_first_flow.tolist() == [2, 5]
    assert joined.kv_flows.tolist() == [3, 0]
    alone = Workload.join([served]).part(ServingPlan)
    assert alone is not None
    assert alone.kv_first_flow.tolist() == [0, 3]


def test_joined_workloads_without_steps_are_step_zero() -> None:
    one = JobSteps(np.array([0, 1, 2], np.int32), 5e12, 1e15)
    other = JobSteps(np.array([1, 0], np.int32), 2e12, 3e15)
    both = JobSteps.join([(one, 3), (None, 2), (other, 2)])
    assert both is not None
    assert both.step.tolist() == [0, 1, 2, 0, 0, 1, 0]
    assert both.n == 3
    assert JobSteps.join([(None, 3), (None, 2)]) is None
