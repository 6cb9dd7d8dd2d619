"""Task tables: validation and its messages, dependencies, and joined workloads."""

from __future__ import annotations

from typing import Any

from raises_input import raises_input

from netsim.flows import ACKED, COMPUTE, JOIN, RECEIVE, SEND, FlowTable, TaskTable, Workload

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
        (
            table([RECEIVE, RECEIVE], 1, flow=0),
            ("task 1", "flow 0", "host 1", "task 0"),
        ),
        (table([JOIN, JOIN], 0, [[], [5]]), ("task 1", "task 5")),
        (
            table([JOIN, COMPUTE], [0, 1], [[], [0]]),
            ("task 1", "host 1", "task 0", "host 0"),
        ),
        (table([JOIN, JOIN], 0, [[1], [0]]), ""),
        # A cycle: the first task waits for the second of its stream.
        (table([COMPUTE, COMPUTE], 0, [[1], []]), ""),
        # A cycle: each host sends once it has received.
        (
            table([RECEIVE, SEND] * 2, [1, 1, 0, 0], [[], [0], [], [2]], flow=[0, 1, 1, 0]),
            "",
        ),
    ]:
        with raises_input(message):
            tasks.validate(FLOWS, 2)


def test_sent_flow_must_not_have_a_start_time_or_dependencies() -> None:
    tasks = TaskTable([SEND], 0, flow=0)
    with raises_input("flow 0", "task 0"):
        tasks.validate(FlowTable([0], [1], 5000, start_ps=1), 2)
    waits = FlowTable([0, 1], [1, 0], 5000)
    waits.set_dependencies([[], [0]])
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
