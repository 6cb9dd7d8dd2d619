"""A random program that uses every service, for comparison with the reference.

Its twin is `reference/mixed_program.py`.
"""

import numpy as np

from netsim.flows import FlowTable, TaskTable, Workload
from netsim.params import Param
from netsim.program import (
    COMPUTE,
    JOIN,
    RECEIVE,
    SEND,
    armed,
    cancel_timer,
    flow_bytes,
    log_row,
    peer_host,
    rand32,
    set_duration,
    set_size,
    set_timer,
    set_words,
    start,
    task_at,
    word_of,
)

PARAMS = [
    Param("gap", "time", "3us", "durations and waits are shorter"),
    Param("most_runs", "count", 3, "times that a task runs"),
    Param("resize", "count", 1, "of 4 times that it may be, a flow's size is set"),
    Param("most_draws", "count", 200, "after which a host does nothing more"),
]

HOST_STATE = ("draws", ("told", 2))
TASK_STATE = ("weight", ("share", float), "listed")
TIMERS = 3
LOG = ("event", "number", "is_join")

CHANCE = 96
TOLD, FIRED = 0, 1  # logged events


def flows(params, network, rng, context):
    """Let each host compute and send to the next one."""
    n = network.n_hosts
    flow = np.arange(4 * n)
    table = FlowTable(flow % n, (flow + 1) % n, 1 + rng.integers(40_000, size=4 * n))
    tasks = TaskTable(
        np.repeat([SEND, RECEIVE, COMPUTE, JOIN], 4 * n),
        np.concatenate([table.src, table.dst, flow % n, flow % n]),
        np.repeat([0, 0, params["gap"], 0], 4 * n),
        flow=np.concatenate([flow, flow, flow * 0 - 1, flow * 0 - 1]),
        deferred=rng.random(16 * n) < 0.6,
    )
    listed = table.size_bytes[np.maximum(tasks.flow, 0)]
    state = {"weight": np.arange(16 * n), "share": 0.25, "listed": listed}
    return Workload(table, tasks, state, log_rows=10**6)


def draw(env):
    env.host.draws += 1
    return rand32(env.par.seed, CHANCE, env.host.host, env.host.draws)


def on_begin(env, now):
    for index in range(env.host.n_tasks):
        act(env, now, task_at(env, index))
    set_timer(env, now, draw(env) % TIMERS, draw(env) % env.par.gap)


def on_task(env, now, task):
    env.host.told[0] += task.index
    env.host.told[1] += now % 1000
    log_row(env, now, TOLD, task.index, task.kind == JOIN)
    act(env, now, task)
    if draw(env) % 3 > 0:
        act_on_any(env, now)


def on_timer(env, now, k):
    log_row(env, now, FIRED, k, False)
    if env.host.draws > env.par.most_draws:
        return
    act_on_any(env, now)
    act_on_any(env, now)
    chance = draw(env)
    if chance % 4 > 0:
        set_timer(env, now, (k + chance) % TIMERS, now + draw(env) % env.par.gap)
    elif armed(env, chance % TIMERS):
        cancel_timer(env, chance % TIMERS)
    else:
        set_timer(env, now, k, now - 1)


def act_on_any(env, now):
    act(env, now, task_at(env, draw(env) % env.host.n_tasks))


def act(env, now, task):
    if env.host.draws > env.par.most_draws:
        return
    chance = draw(env) + task.weight + flow_bytes(env, task) + peer_host(env, task)
    if task.kind == SEND or (task.kind == RECEIVE and task.start_ps >= 0):
        chance += word_of(env, task, chance % 2)
    task.weight = chance % 1000 + int(task.share * 8)
    under_way = task.start_ps >= 0 and task.end_ps < 0
    if chance % 4 == 0 and task.kind != JOIN and not under_way:
        set_duration(env, task, (chance >> 4) % 3 // 2 * ((chance >> 6) % env.par.gap))
    if task.kind == SEND and task.start_ps < 0 and (chance >> 5) % 4 < env.par.resize:
        set_size(env, task, 1 + (chance >> 7) % task.listed)
    if task.kind == SEND and task.start_ps < 0 and chance % 2 == 0:
        set_words(env, task, chance % 997, -(chance % 991))
    may_again = task.kind in (COMPUTE, JOIN)
    if task.end_ps < 0 or task.unreported == 1 or task.runs >= env.par.most_runs:
        may_again = False
    if chance % 4 < 3 and (task.waits_for_start == 1 or may_again):
        start(env, now, task)
