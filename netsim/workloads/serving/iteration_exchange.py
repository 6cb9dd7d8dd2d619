"""Iterations whose all-reduces are packets: GPUs alternate compute and all-reduce.

The leader announces an iteration to the other GPUs with two messages whose sizes encode the number
of rows and the compute time. Each GPU then proceeds group by group, waiting only for all-reduces.
Compiled into the engine, as `instance.py` is.
"""

from netsim.program import SEND, flow_bytes, set_size, set_timer, start, task_at
from netsim.workloads.inference.cost import compute_ps
from netsim.workloads.serving.state import END, ROW_BYTES, TICKS


def announce_iteration(env, now):
    """At a leader: begin an iteration and announce it to the other GPUs."""
    host = env.host
    if host.iteration == host.n_iterations:
        raise IndexError("out of declared iterations: raise traffic.max_iterations")
    rows = host.tokens + host.batch
    work = compute_ps(host, rows, host.pairs, host.batch, host.context)
    ticks = min((work + host.clock_ps // 2) // host.clock_ps, TICKS)
    others = host.size - 1
    place = host.messages + 2 * others * host.iteration
    for _ in range(others):
        send_size(env, now, place, ROW_BYTES * rows)
        send_size(env, now, place + 1, ticks)
        place += 2
    request_pool_reads(env, now)
    begin_groups(env, now, rows, ticks)


def request_pool_reads(env, now):
    """At a leader: request the iteration's reads from the pool's hosts."""
    host = env.host
    amount = TICKS
    if host.max_context > 0:
        amount = (host.context * TICKS + host.max_context - 1) // host.max_context
    first = host.pool_requests + host.n_pool_requests * host.iteration
    for place in range(first, first + host.n_pool_requests):
        send_size(env, now, place, amount)


def answer_pool_read(env, now, task):
    """At a pool host: send the requested amount to each GPU of the instance."""
    amount = flow_bytes(env, task) - env.par.control_message_size
    for place in range(task.of, task.of + task.parts):
        answer = task_at(env, place)
        set_size(env, answer, max(1, answer.max_bytes * amount // TICKS))
        start(env, now, answer)


def send_size(env, now, place, more):
    """Send a control message with `more` bytes, the number that it encodes."""
    message = task_at(env, place)
    set_size(env, message, env.par.control_message_size + more)
    start(env, now, message)


def iteration_announced(env, now):
    """At another GPU: an iteration has been announced."""
    host = env.host
    host.n_announced += 1
    if host.busy == 0:
        begin_next(env, now)


def begin_next(env, now):
    """At another GPU: begin the next iteration."""
    host = env.host
    host.busy = 1
    rows = (
        flow_bytes(env, task_at(env, host.announcements + host.iteration))
        - env.par.control_message_size
    )
    ticks = (
        flow_bytes(env, task_at(env, host.announcements + host.n_iterations + host.iteration))
        - env.par.control_message_size
    )
    begin_groups(env, now, rows // ROW_BYTES, ticks)


def begin_groups(env, now, rows, ticks):
    host = env.host
    host.group = 0
    host.rows = rows
    host.group_ps = ticks * host.clock_ps // host.n_groups + host.left_out_ps
    set_timer(env, now, END, now + host.group_ps)


def end_computation(env, now):
    """End a compute phase; the last group's all-reduce also waits for reads from the pool."""
    host = env.host
    if host.pooled == 1 and host.group == host.n_groups - 1 and host.reads <= host.iteration:
        host.waits_for_read = 1
    else:
        start_all_reduce(env, now)


def end_pool_read(env, now):
    host = env.host
    host.reads += 1
    if host.waits_for_read == 1:
        host.waits_for_read = 0
        start_all_reduce(env, now)


def start_all_reduce(env, now):
    host = env.host
    first = host.reduces + (host.iteration * host.n_groups + host.group) * host.reduce_tasks
    for place in range(first, first + host.reduce_tasks):
        task = task_at(env, place)
        if task.kind == SEND:
            set_size(env, task, max(1, task.max_bytes * host.rows // host.max_rows))
    start(env, now, task_at(env, first + host.reduce_begin))


def end_group(host):
    """End an all-reduce; return whether it was the last one of the iteration."""
    host.group += 1
    if host.group < host.n_groups:
        return False
    host.iteration += 1
    return True


def begin_next_group(env, now):
    set_timer(env, now, END, now + env.host.group_ps)


def end_follower_iteration(env, now):
    """At another GPU: end an iteration."""
    host = env.host
    host.busy = 0
    if host.n_announced > host.iteration:
        begin_next(env, now)
