"""Task records of a run, host by host, with their dependencies.

Flows that wait for flows delivered at their own source also wait by tasks, which are added after
those of the table.
"""

from __future__ import annotations

import numpy as np

from netsim.engine.compiling.declarations import Program, program_parameters
from netsim.engine.kernels.ids import Array
from netsim.engine.kernels.layout import TASK
from netsim.engine.records import untouched_zeros
from netsim.engine.simulation import Simulation
from netsim.model.flows import FlowTable
from netsim.model.programs import ProgramSpec
from netsim.model.tasks import ACKED, RECEIVE, SEND, TaskTable
from netsim.model.workload import Workload


def waiting(simulation: Simulation) -> tuple[TaskTable | None, Array]:
    """Split dependencies between flows into those their host sees and those out of band.

    Return the tasks of the run, followed by those of flows that wait for flows delivered at their
    own source, or None if there are none; and the dependencies resolved out of band, bool[m] per
    ``after_flow``.
    """
    flows, here = simulation.flows, simulation.flows.waits_at_source()
    if flows.after_ptr is None or not here.any():
        return simulation.tasks, ~here
    waiter = np.repeat(np.arange(len(flows)), np.diff(flows.after_ptr))
    return _with_flows(simulation, waiter[here], here), ~here


def _with_flows(simulation: Simulation, waiter: Array, here: Array) -> TaskTable:
    """Return the tasks of a run, followed by those by which ``waiter`` wait for flows."""
    flows = simulation.flows
    assert flows.after_flow is not None
    awaited, receive = np.unique(flows.after_flow[here], return_inverse=True)
    starting, send = np.unique(waiter, return_inverse=True)
    added = TaskTable(
        np.repeat([RECEIVE, SEND], [awaited.size, starting.size]),
        np.concatenate([flows.dst[awaited], flows.src[starting]]),
        np.concatenate([np.zeros(awaited.size, np.int64), flows.start_ps[starting]]),
        flow=np.concatenate([awaited, starting]),
        done_when=np.repeat([0, ACKED], [awaited.size, starting.size]),
    )
    added.wait_for_pairs(receive, awaited.size + send)
    if simulation.tasks is None:
        return added
    # Both parts number the same flows from 0, so no flows are joined.
    none = FlowTable([], [], [])
    both = Workload.join([Workload(none, simulation.tasks), Workload(none, added)]).tasks
    assert both is not None
    return both


def build_tasks(
    table: TaskTable | None, simulation: Simulation, program: Program
) -> dict[str, Array]:
    """Return the arrays of `HostState` for tasks and the program. Timers are numbered later."""
    flows, one = simulation.flows, np.zeros(1, np.int64)
    arrays = {
        "tasks": np.zeros(0, TASK),
        **dict.fromkeys(("next_task", "next_tasks", "send_task", "receive_task"), one),
        "program": np.zeros(1, program.par),
        "program_hosts": np.zeros(1, program.host),
        "log": np.zeros((1, 1), np.int64),
    }
    if table is None:
        return arrays
    order = np.argsort(table.host, kind="stable")
    index = np.empty(order.size, np.int64)
    index[order] = np.arange(order.size)
    tasks = np.zeros(order.size, program.task)
    tasks["number"] = order
    for name in ("kind", "host", "flow", "duration_ps"):
        tasks[name] = getattr(table, name)[order]
    tasks["until_acked"] = table.done_when[order] == ACKED
    for name in ("in_stream", "next_done", "ready_ps", "start_ps", "end_ps"):
        tasks[name] = -1
    first, then = (index[side] for side in table.edges())
    tasks["edges"] = np.bincount(then, minlength=order.size)
    tasks["ready_ps"][tasks["edges"] == 0] = 0
    before, behind = (index[side] for side in table.stream_edges())
    tasks["in_stream"][before] = behind
    tasks["pending"][behind] = 1
    tasks["pending"][tasks["kind"] == RECEIVE] = 1
    if simulation.program is not None:
        tasks["pending"] += table.deferred[order]
        arrays |= _program_arrays(simulation, simulation.program, program, tasks)
    counts = np.bincount(first, minlength=order.size)
    return arrays | {
        "tasks": tasks,
        "next_task": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "next_tasks": np.concatenate([then[np.argsort(first, kind="stable")], [-1]]),
        "send_task": _indices(table, SEND, index, len(flows)),
        "receive_task": _indices(table, RECEIVE, index, len(flows)),
    }


def _program_arrays(
    simulation: Simulation, use: ProgramSpec, program: Program, tasks: Array
) -> dict[str, Array]:
    """Return a program's parameters, hosts and log; mark its tasks in ``tasks``."""
    assert simulation.tasks is not None
    end = use.first_task + use.n_tasks
    its = np.flatnonzero((tasks["number"] >= use.first_task) & (tasks["number"] < end))
    row = tasks["number"][its] - use.first_task
    tasks["of_program"][its] = 1
    tasks["waits_for_start"][its] = simulation.tasks.deferred[use.first_task : end][row]
    whole = np.flatnonzero((tasks["kind"] == SEND) & (tasks["of_program"] == 1))
    whole = whole[~np.isin(tasks["flow"][whole], use.relayed)]
    tasks["most_bytes"][whole] = simulation.flows.size_bytes[tasks["flow"][whole]]
    for name, column in use.task_state.items():
        tasks[name][its] = column[row]
    hosts = np.zeros(simulation.network.n_hosts, program.host)
    hosts["host"] = np.arange(hosts.size)
    hosts["n_tasks"] = np.bincount(tasks["host"][its], minlength=hosts.size)
    hosts["calls_at"] = -1
    # Sorted by host, then number: a host's tasks are consecutive.
    here, first = np.unique(tasks["host"][its], return_index=True)
    hosts["first_task"][here] = its[first]
    tasks["index"][its] = its - hosts["first_task"][tasks["host"][its]]
    for name, column in use.host_state.items():
        hosts[name] = column
    hosts["end_row"] = np.cumsum(use.log_rows)
    hosts["first_row"] = hosts["next_row"] = hosts["end_row"] - use.log_rows
    parameters = program_parameters(use.use.plugin, use.use.params)
    return {
        "program": simulation.parameters(program.par, parameters),
        "program_hosts": hosts,
        "log": _log(use, program),
    }


def _log(use: ProgramSpec, program: Program) -> Array:
    """Return the rows of a program's log, which take no memory until written. Raises MemoryError if
    they exceed the address space."""
    shape = max(1, int(use.log_rows.sum())), 1 + len(program.log)
    try:
        numbers = untouched_zeros(shape[0] * shape[1], np.dtype(np.int64))
    except (OSError, ValueError) as error:
        raise MemoryError(f"the program's log_rows total {shape[0]:,} (reduce them)") from error
    return numbers.reshape(shape)


def _indices(table: TaskTable, kind: int, index: Array, n_flows: int) -> Array:
    """Return the record of each flow's task of a kind, or -1."""
    numbers = table.of_flows(kind, n_flows)
    return np.where(numbers >= 0, index[numbers], -1)
