"""Task records of a run, host by host, with their dependencies.

Flows that wait for flows delivered at their own source also wait by tasks, which are added after
those of the table.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Tasks:
    """Arrays of `HostState` for tasks."""

    tasks: Array
    next_task: Array
    next_tasks: Array
    send_task: Array
    receive_task: Array
    program: Array
    program_hosts: Array
    log: Array


@dataclass(frozen=True)
class Waiting:
    """Dependencies of flows on flows.

    ``tasks`` are those of the run and, after them, those of flows that wait for flows delivered at
    their own source; None if there are none. ``elsewhere`` (bool[m], per ``after_flow``) marks
    dependencies resolved out of band.
    """

    tasks: TaskTable | None
    elsewhere: Array


def waiting(simulation: Simulation) -> Waiting:
    """Split dependencies between flows into those their host sees and those out of band."""
    flows, here = simulation.flows, simulation.flows.waits_at_source()
    if flows.after_ptr is None or not here.any():
        return Waiting(simulation.tasks, ~here)
    waiter = np.repeat(np.arange(len(flows)), np.diff(flows.after_ptr))
    return Waiting(_with_flows(simulation, waiter[here], here), ~here)


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


def build_tasks(table: TaskTable | None, simulation: Simulation, program: Program) -> Tasks:
    """Return the arrays of tasks and of the program. Timers are numbered later."""
    flows = simulation.flows
    of_program = np.zeros(1, program.par), np.zeros(1, program.host), np.zeros((1, 1), np.int64)
    if table is None:
        one = np.zeros(1, np.int64)
        return Tasks(np.zeros(0, TASK), one, one, one, one, *of_program)
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
        of_program = _program_arrays(simulation, simulation.program, program, tasks)
    counts = np.bincount(first, minlength=order.size)
    return Tasks(
        tasks=tasks,
        next_task=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        next_tasks=np.concatenate([then[np.argsort(first, kind="stable")], [-1]]),
        send_task=_indices(table, SEND, index, len(flows)),
        receive_task=_indices(table, RECEIVE, index, len(flows)),
        program=of_program[0],
        program_hosts=of_program[1],
        log=of_program[2],
    )


def _program_arrays(
    simulation: Simulation, use: ProgramSpec, program: Program, tasks: Array
) -> tuple[Array, Array, Array]:
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
    return _parameters(simulation, program, use), hosts, _log(use, program)


def _log(use: ProgramSpec, program: Program) -> Array:
    """Return the rows of a program's log, which take no memory until written. Raises MemoryError if
    they exceed the address space."""
    shape = max(1, int(use.log_rows.sum())), 1 + len(program.log)
    try:
        numbers = untouched_zeros(shape[0] * shape[1], np.dtype(np.int64))
    except (OSError, ValueError) as error:
        raise MemoryError(f"the program's log_rows total {shape[0]:,} (reduce them)") from error
    return numbers.reshape(shape)


def _parameters(simulation: Simulation, program: Program, use: ProgramSpec) -> Array:
    """Return the record of a program's parameters."""
    packets = simulation.packets
    par = np.zeros(1, program.par)
    values = {
        **program_parameters(use.use.plugin, use.use.params),
        "payload_bytes": packets.payload_bytes,
        "header_bytes": packets.header_bytes,
        "control_bytes": packets.control_bytes,
        "seed": simulation.seed,
    }
    for name, value in values.items():
        par[name] = value
    return par


def _indices(table: TaskTable, kind: int, index: Array, n_flows: int) -> Array:
    """Return the record of each flow's task of a kind, or -1."""
    numbers = table.of_flows(kind, n_flows)
    return np.where(numbers >= 0, index[numbers], -1)
