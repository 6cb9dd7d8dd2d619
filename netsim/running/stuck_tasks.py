"""Which tasks of a run are not done, and what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.model.tasks import DONE_WHEN, RECEIVE, SEND
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import Ints
    from netsim.model.tasks import TaskTable

MAX_NAMED = 5
"""Tasks that a message names; of more it gives the number."""


def not_done(engine: Engine) -> Ints:
    """Tasks that are not done, but those that a program may leave: it has not let them start."""
    states = engine.task_states()
    return np.flatnonzero((states.end_ps < 0) & ((states.start_ps >= 0) | ~engine.has_program))


def stuck(engine: Engine) -> str:
    """Which tasks hold up the others, and by what; "" if all are done.

    Named are those that wait for no other task.
    """
    tasks, never = engine.tasks, not_done(engine)
    if tasks is None or not never.size:
        return ""
    pairs = (tasks.edges(), tasks.in_streams())
    first, then = (np.concatenate(side) for side in zip(*pairs, strict=True))
    is_open = np.zeros(len(tasks), bool)
    is_open[never] = True
    held_up = np.bincount(then[is_open[first]], minlength=len(tasks)) > 0
    holding = np.flatnonzero(is_open & ~held_up)
    named = [
        f"{tasks.name(k)} waits {_waits(engine, tasks, k)}" for k in holding[:MAX_NAMED].tolist()
    ]
    if holding.size > MAX_NAMED:
        named.append(f"and {holding.size - MAX_NAMED} more")
    return f"{never.size} of {len(tasks)} tasks are not done: {', '.join(named)}"


def _waits(engine: Engine, tasks: TaskTable, task: int) -> str:
    """What a task waits for that waits for no other one."""
    kind, start_ps = int(tasks.kind[task]), int(engine.task_states().start_ps[task])
    if start_ps < 0:
        return "for its flow" if kind == RECEIVE else "to start"
    if kind == SEND:
        return f"for its flow to be {DONE_WHEN[int(tasks.done_when[task])]}"
    return f"until {format_time(start_ps + int(tasks.duration_ps[task]), 4)}"
