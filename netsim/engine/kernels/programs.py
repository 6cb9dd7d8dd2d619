"""Calls of a program's handlers: at the start, for tasks that are done, and for its timers.

All run as timers of the host, and so never inside a transport's handler.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.env import Env, program_env_of
from netsim.engine.kernels.fields import TimerRecord
from netsim.engine.kernels.ids import Ps, TaskId
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
    program_on_begin,
    program_on_task,
    program_on_timer,
)
from netsim.engine.kernels.task_fields import ProgramHostRecord


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
    """Break a rule if the program is called endlessly at one instant."""
    if now > host.calls_at:
        host.calls_at = now
        host.calls = 0
    host.calls += 1
    if host.calls > MAX_FIRINGS + MAX_FIRINGS_OF_A_TIMER * (host.n_tasks + N_PROGRAM_TIMERS):
        broken(env.host, OVER_AND_OVER, host.calls)
