"""Functions that a program's handlers call, imported from `netsim.program`.

An invalid argument breaks a rule (rules.py), and nothing happens.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.env import ProgramEnv
from netsim.engine.kernels.fields import ProgramTaskRecord
from netsim.engine.kernels.ids import NO_TASK, Bytes, HostId, Ps, TaskId, TimerSlot
from netsim.engine.kernels.instructions import write_behind
from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.rules import (
    LOG_FULL,
    NO_ALARM,
    NO_COLUMNS,
    NO_DURATION,
    NO_SIZE_OF_ITS_OWN,
    NO_SUCH_SIZE,
    NO_TASK_THERE,
    NOT_AGAIN,
    TOO_LATE_FOR_SIZE,
    UNDER_WAY,
    broken,
)
from netsim.engine.kernels.specialization_constants import N_PROGRAM_TIMERS
from netsim.engine.kernels.tasks import begin, complete_task, waits_for_nothing
from netsim.engine.kernels.timers import arm
from netsim.limits import HORIZON_PS
from netsim.model.tasks import JOIN, RECEIVE, SEND


def task_at(env: ProgramEnv, index: int) -> Any:
    """Return task ``index`` of this host, from 0 among the program's."""
    if not 0 <= index < env.host.n_tasks:
        broken(env.engine.host, NO_TASK_THERE, index)
        return env.engine.hosts.tasks[env.host.first_task]
    return env.engine.hosts.tasks[TaskId(env.host.first_task + index)]


def start(env: ProgramEnv, now: Ps, task: ProgramTaskRecord) -> None:
    """Start a deferred task, or repeat a compute task or a join that is done. A deferred task that
    waits for other tasks or its flow starts after those."""
    if task.waits_for_start == 1:
        task.waits_for_start = 0
        task.pending -= 1
    elif task.end_ps < 0 or task.unreported == 1:
        broken(env.engine.host, UNDER_WAY, task.index)
        return
    elif task.kind == SEND or task.kind == RECEIVE:
        broken(env.engine.host, NOT_AGAIN, task.index)
        return
    else:
        task.end_ps = Ps(-1)
        task.next_done = NO_TASK
    if waits_for_nothing(task) and begin(env.engine, now, task):
        complete_task(env.engine, now, TaskId(env.host.first_task + task.index))


def set_duration(env: ProgramEnv, task: ProgramTaskRecord, duration_ps: Ps) -> None:
    """Set how long a task takes from its next start on, 0 to 20 h; it must not be running."""
    if task.start_ps >= 0 and task.end_ps < 0:
        broken(env.engine.host, UNDER_WAY, task.index)
    elif task.kind == JOIN or not 0 <= duration_ps < HORIZON_PS:
        broken(env.engine.host, NO_DURATION, duration_ps)
    else:
        task.duration_ps = duration_ps


def set_size(env: ProgramEnv, task: ProgramTaskRecord, size_bytes: Bytes) -> None:
    """Set the size of an unstarted send task's flow: 1 byte to its size in the table. The receiver
    learns it from the first packet that arrives."""
    if task.most_bytes == 0:
        broken(env.engine.host, NO_SIZE_OF_ITS_OWN, task.index)
    elif task.start_ps >= 0:
        broken(env.engine.host, TOO_LATE_FOR_SIZE, task.index)
    elif not 1 <= size_bytes <= task.most_bytes:
        broken(env.engine.host, NO_SUCH_SIZE, size_bytes)
    else:
        tx = env.engine.tx[task.flow]
        payload = env.par.payload_bytes
        tx.size_bytes = size_bytes
        tx.n_packets = (size_bytes + payload - 1) // payload
        tx.last_bytes = Bytes(size_bytes - (tx.n_packets - 1) * payload)


def flow_bytes(env: ProgramEnv, task: ProgramTaskRecord) -> Bytes:
    """Return the bytes of the flow that a task sends or receives; 0 for other tasks. At the
    receiver, the table's size until the first packet arrives."""
    if task.kind == SEND:
        return env.engine.tx[task.flow].size_bytes
    if task.kind == RECEIVE:
        return env.engine.rx[task.flow].size_bytes
    return Bytes(0)


def peer_host(env: ProgramEnv, task: ProgramTaskRecord) -> HostId:
    """Return the host at the other end of a task's flow; -1 for other tasks."""
    if task.kind == SEND:
        return env.engine.tx[task.flow].peer
    if task.kind == RECEIVE:
        return env.engine.rx[task.flow].peer
    return HostId(-1)


def log_row(env: ProgramEnv, now: Ps, *values: int) -> None:
    """Add a row to the program's log: a whole number for each column of ``LOG``."""
    host = env.host
    log = env.engine.hosts.log
    if len(values) != log.shape[1] - 1:
        broken(env.engine.host, NO_COLUMNS, len(values))
    elif host.next_row == host.end_row:
        broken(env.engine.host, LOG_FULL, host.end_row - host.first_row)
    else:
        log[host.next_row, 0] = now
        write_behind(log, host.next_row, values)
        host.next_row += 1


def _timer(env: ProgramEnv, k: int) -> TimerSlot:
    """Return timer ``k`` of the program on this host; an unknown one breaks a rule."""
    if not 0 <= k < N_PROGRAM_TIMERS:
        broken(env.engine.host, NO_ALARM, k)
        return env.host.first_timer
    return env.host.first_timer + k


def set_timer(env: ProgramEnv, now: Ps, k: int, deadline: Ps) -> None:
    """Set timer ``k`` of the program on this host; it fires once, at ``deadline`` or now."""
    if deadline > now + HORIZON_PS:
        broken(env.engine.host, NO_ALARM, k)
        return
    slot = _timer(env, k)
    if env.engine.host.rule_broken == 0:
        if env.engine.hosts.timers[slot].deadline == INF:
            env.host.under_way += 1
        arm(
            env.engine.hosts.timers,
            env.engine.hosts.heap,
            env.engine.host,
            slot,
            max(now, deadline),
        )


def cancel_timer(env: ProgramEnv, k: int) -> None:
    """Cancel timer ``k`` of the program on this host."""
    slot = _timer(env, k)
    if env.engine.host.rule_broken == 0 and env.engine.hosts.timers[slot].deadline < INF:
        env.host.under_way -= 1
        env.engine.hosts.timers[slot].deadline = INF


def armed(env: ProgramEnv, k: int) -> bool:
    """Return whether timer ``k`` of the program on this host is set."""
    return env.engine.hosts.timers[_timer(env, k)].deadline < INF
