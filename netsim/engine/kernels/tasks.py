"""Tasks of a host: dependencies, starts and ends.

Everything happens at one host and one instant: whatever waits for a task starts when it is done.
Only tasks and timers change, so this may run inside a transport's handler. A program's handlers are
called as timers fire, and so never inside one.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.env import Env, program_env_of
from netsim.engine.kernels.fields import (
    ProgramHostRecord,
    RxRecord,
    TaskRecord,
    TimerRecord,
    TxRecord,
)
from netsim.engine.kernels.ids import NO_TASK, Ps, TaskId
from netsim.engine.kernels.layout import TIMER_BEGIN, TIMER_PROGRAM, TIMER_TASK
from netsim.engine.kernels.program_handlers import IN_ON_BEGIN, IN_ON_TASK, IN_ON_TIMER
from netsim.engine.kernels.rules import (
    MAX_FIRINGS,
    MAX_FIRINGS_OF_A_TIMER,
    OVER_AND_OVER,
    broken,
)
from netsim.engine.kernels.specialization_constants import (
    N_PROGRAM_TIMERS,
    PROGRAM,
    program_on_begin,
    program_on_task,
    program_on_timer,
)
from netsim.engine.kernels.timers import arm, start_timer
from netsim.model.tasks import SEND


def begin(env: Env, now: Ps, task: TaskRecord) -> bool:
    """Start a task that waits for nothing; return whether it is already done."""
    task.start_ps = now
    if PROGRAM:
        note_begin(env, task)
    if task.kind == SEND:
        tx = env.tx[task.flow]
        tx.waits_for = 0
        tx.start_ps = now + task.duration_ps
        arm(env.hosts.timers, env.hosts.heap, env.host, start_timer(tx), tx.start_ps)
        return False
    if task.duration_ps == 0:
        return True
    arm(env.hosts.timers, env.hosts.heap, env.host, task.timer, now + task.duration_ps)
    return False


def waits_for_nothing(task: TaskRecord) -> bool:
    """Return whether a task can start."""
    return task.edges == 0 and task.pending == 0


def complete_task(env: Env, now: Ps, first: TaskId) -> None:
    """Complete a task, and every task that this starts and that takes no time. They form a list in
    the order in which they are found."""
    last = first
    done = first
    while done >= 0:
        task = env.hosts.tasks[done]
        task.end_ps = now
        env.host.tasks_done += 1
        env.host.last_done_ps = now
        holds_up = True
        if PROGRAM:
            holds_up = note_end(env, now, done)
        if holds_up:
            for i in range(env.hosts.next_task[done], env.hosts.next_task[TaskId(done + 1)]):
                k = env.hosts.next_tasks[i]
                follower = env.hosts.tasks[k]
                follower.edges -= 1
                if follower.edges == 0:
                    follower.ready_ps = now
                if waits_for_nothing(follower) and begin(env, now, follower):
                    env.hosts.tasks[last].next_done = k
                    last = k
            if task.in_stream >= 0:
                k = task.in_stream
                follower = env.hosts.tasks[k]
                follower.pending -= 1
                if waits_for_nothing(follower) and begin(env, now, follower):
                    env.hosts.tasks[last].next_done = k
                    last = k
        done = task.next_done


def note_begin(env: Env, task: TaskRecord) -> None:
    """Count a task that starts, to find the run's end."""
    host = env.hosts.program_hosts[env.host.host]
    host.under_way += 1
    if task.kind == SEND:
        host.begun_flows += 1


def note_end(env: Env, now: Ps, k: TaskId) -> bool:
    """Count a task that is done; its timer notifies the program. Returns whether it is done for the
    first time, so that others may have waited for it."""
    task: Any = env.hosts.tasks[k]
    if task.of_program == 1:
        task.unreported = 1
        arm(env.hosts.timers, env.hosts.heap, env.host, task.timer, now)
    else:
        env.hosts.program_hosts[env.host.host].under_way -= 1
    if task.runs == 0:
        task.first_start_ps = task.start_ps
    task.runs += 1
    task.busy_ps += now - task.start_ps
    return bool(task.runs == 1)


def task_timer(env: Env, now: Ps, k: TaskId) -> None:
    """Handle a task's timer: start the task, or complete it."""
    task = env.hosts.tasks[k]
    if task.start_ps >= 0 or begin(env, now, task):
        complete_task(env, now, k)


def flow_delivered(env: Env, now: Ps, rx: RxRecord) -> None:
    """Note that a flow is delivered: a receive task may wait for it."""
    k = env.hosts.receive_task[rx.flow]
    if k >= 0:
        task = env.hosts.tasks[k]
        task.pending -= 1
        if waits_for_nothing(task) and begin(env, now, task):
            complete_task(env, now, k)


def flow_finished(env: Env, now: Ps, tx: TxRecord) -> None:
    """Note that the transport has finished a flow. A send task that still waits for its packets is
    done now, unless the last one's transmission begins now (`handed_over`)."""
    k = env.hosts.send_task[tx.flow]
    if k >= 0:
        if env.hosts.tasks[k].until_acked == 1:
            complete_task(env, now, k)
        else:
            arm(env.hosts.timers, env.hosts.heap, env.host, env.hosts.tasks[k].timer, now)


def handed_over(env: Env, tx: TxRecord, free_at: Ps) -> None:
    """Note that a data packet is in transmission until ``free_at``; it may be the last new one."""
    k = env.hosts.send_task[tx.flow]
    if k >= 0 and tx.high_seq == tx.n_packets and tx.skipped == 0:
        if env.hosts.tasks[k].until_acked == 0:
            env.hosts.send_task[tx.flow] = NO_TASK
            arm(env.hosts.timers, env.hosts.heap, env.host, env.hosts.tasks[k].timer, free_at)


def program_timer(env: Env, now: Ps, timer: TimerRecord) -> bool:
    """Call the program for a timer of a task or its own; False if the timer is not for it."""
    code = timer.code
    if code == TIMER_TASK:
        return report_task(env, now, TaskId(timer.owner))
    own = program_env_of(env)
    count_call(env, own.host, now)
    if code == TIMER_BEGIN:
        env.host.handler = IN_ON_BEGIN
        program_on_begin(own, now)
    else:
        own.host.under_way -= 1
        env.host.handler = IN_ON_TIMER
        program_on_timer(own, now, TIMER_PROGRAM - code)
    return True


def report_task(env: Env, now: Ps, k: TaskId) -> bool:
    """Call `on_task` for a task that is done; False if there is nothing to report."""
    task: Any = env.hosts.tasks[k]
    if task.unreported == 0:
        return False
    own = program_env_of(env)
    count_call(env, own.host, now)
    task.unreported = 0
    own.host.under_way -= 1
    env.host.handler = IN_ON_TASK
    program_on_task(own, now, task)
    return True


def count_call(env: Env, host: ProgramHostRecord, now: Ps) -> None:
    """Note a call of the program; break a rule if it is called endlessly at one instant."""
    env.host.last_done_ps = now
    if now > host.calls_at:
        host.calls_at = now
        host.calls = 0
    host.calls += 1
    if host.calls > MAX_FIRINGS + MAX_FIRINGS_OF_A_TIMER * (host.n_tasks + N_PROGRAM_TIMERS):
        broken(env.host, OVER_AND_OVER, host.calls)
