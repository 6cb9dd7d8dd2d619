"""Tasks: the table and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.common.terminal import done_of
from netsim.model.workload import COMPUTE, KINDS
from netsim.results.columns import TableSpec
from netsim.results.run_result import Run, Table

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.experiment.scenario import Scenario

TASKS = TableSpec.of(
    "tasks",
    """
    task       index  task, in the order of the traffic
    host       host   host of the task
    kind       -      compute, send, receive or join
    stream?    index  stream of a compute task; tasks of a host's stream run in sequence; else null
    flow?      index  flow that a send task starts and a receive task waits for; else null
    ready_ps?  ps     when the tasks that it waits for were done; null if they are not
    start_ps?  ps     when its stream was free, or its flow delivered; null if it did not start
    end_ps?    ps     end; null if it is not done
    runs*      runs   number of runs; start_ps is the start of the first
    busy_ps*   ps     duration of all its runs
    label*     -      name of the task in the traffic
    """,
    hash_order=3,
)

TABLES = (TASKS,)
ORDER = 20


def report(run: Run) -> dict[str, Any]:
    """Add the table of tasks, if there are any; return counts."""
    tasks = None if run.engine is None else task_table(run.engine, run.scenario)
    if tasks is None:
        return {}
    run.tables["tasks"] = tasks
    return {"tasks": tasks["task"].size, "tasks_done": int((tasks["end_ps"] >= 0).sum())}


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the number of tasks, or "done/all"."""
    if "tasks" in summary:
        yield "tasks", done_of(summary["tasks_done"], summary["tasks"])


def task_table(engine: Engine, scenario: Scenario) -> Table | None:
    """Return one row per task, without tasks that relay messages; None without tasks."""
    tasks, states, segments = engine.tasks, engine.task_states(), scenario.segments
    if tasks is None or (segments is not None and segments.tasks is None):
        return None
    table: Table = {
        "task": np.arange(len(tasks)),
        "host": tasks.host,
        "kind": np.array(KINDS)[tasks.kind],
        "stream": np.where(tasks.kind == COMPUTE, tasks.stream, -1),
        "flow": tasks.flow if segments is None else segments.of_flows(tasks.flow),
        "ready_ps": states.ready_ps,
        "start_ps": states.start_ps,
        "end_ps": states.end_ps,
        **({"runs": states.runs, "busy_ps": states.busy_ps} if engine.has_program else {}),
        **({"label": np.array(tasks.label)} if tasks.label is not None else {}),
    }
    if segments is None or segments.tasks is None:
        return table
    return {name: column[: len(segments.tasks)] for name, column in table.items()}
