"""Events of a host besides packets: timers, tasks, and programs.

Timers are a binary heap per host, ordered by (key, slot). Moving a deadline later, as
retransmission timers do on every acknowledgment, costs one store: the heap entry stays and is
corrected when it surfaces. A host's segment of ``heap`` has an entry for each of its timers, after
one for the heap's length.

Everything that waits for a task starts when it is done, at the same host and instant. Only tasks
and timers change, so this may run inside a transport's handler. A program's handlers are called
when timers fire, and so never inside a transport's. `netsim.program` exports the services for them.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.fields import (
    NO_TASK,
    NO_TIMER,
    Bytes,
    HostId,
    HostRecord,
    ProgramHostRecord,
    ProgramTaskRecord,
    Ps,
    RxRecord,
    TaskId,
    TaskRecord,
    TimerRecord,
    TimerSlot,
    TxRecord,
)
from netsim.engine.kernels.handlers import (
    IN_PROGRAM_ON_BEGIN,
    IN_PROGRAM_ON_TASK,
    IN_PROGRAM_ON_TIMER,
    LOG_FULL,
    MAX_FIRINGS,
    MAX_FIRINGS_OF_A_TIMER,
    NO_ALARM,
    NO_COLUMNS,
    NO_DURATION,
    NO_SIZE_OF_ITS_OWN,
    NO_SUCH_SIZE,
    NO_TASK_THERE,
    NO_WORD,
    NOT_AGAIN,
    OVER_AND_OVER,
    TOO_LATE_FOR_SIZE,
    UNDER_WAY,
    Env,
    ProgramEnv,
    broken,
    program_env_of,
    program_on_begin,
    program_on_task,
    program_on_timer,
)
from netsim.engine.kernels.instructions import write_behind
from netsim.engine.kernels.layout import INF, TIMER_BEGIN, TIMER_PROGRAM, TIMER_TASK, Heap, Timers
from netsim.engine.kernels.specialization_constants import N_PROGRAM_TIMERS, PROGRAM
from netsim.limits import HORIZON_PS
from netsim.model.workload import JOIN, RECEIVE, SEND


def length(heap: Heap, host: HostRecord) -> int:
    """Return the number of timers in a host's heap, which is stored before it."""
    return int(heap[host.heap_off - 1])


def _earlier(timers: Timers, a: TimerSlot, b: TimerSlot) -> bool:
    """Return whether ``a`` precedes ``b`` in a heap."""
    ka = timers[a].key
    kb = timers[b].key
    return ka < kb or (ka == kb and a < b)


def _sift_up(timers: Timers, heap: Heap, off: int, i: int) -> None:
    """Move entry ``i`` of the heap at ``off`` up to its position."""
    slot = heap[off + i]
    while i > 0:
        up = (i - 1) >> 1
        other = heap[off + up]
        if not _earlier(timers, slot, other):
            break
        heap[off + i] = other
        timers[other].pos = i
        i = up
    heap[off + i] = slot
    timers[slot].pos = i


def _sift_down(timers: Timers, heap: Heap, off: int, n: int, i: int) -> None:
    """Move entry ``i`` of the heap of ``n`` at ``off`` down to its position."""
    slot = heap[off + i]
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and _earlier(timers, heap[off + down + 1], heap[off + down]):
            down += 1
        other = heap[off + down]
        if not _earlier(timers, other, slot):
            break
        heap[off + i] = other
        timers[other].pos = i
        i = down
    heap[off + i] = slot
    timers[slot].pos = i


def start_timer(tx: TxRecord) -> TimerSlot:
    """Return the start and pacing timer of a flow, which precedes its transport's timers."""
    return tx.first_timer - 1


def arm(timers: Timers, heap: Heap, host: HostRecord, slot: TimerSlot, deadline: Ps) -> None:
    """Set the deadline of timer ``slot`` of ``host``, replacing the old one."""
    timer = timers[slot]
    timer.deadline = deadline
    if timer.pos < 0:
        timer.key = deadline
        n = length(heap, host)
        heap[host.heap_off + n] = slot
        heap[host.heap_off - 1] = TimerSlot(n + 1)
        _sift_up(timers, heap, host.heap_off, n)
    elif deadline < timer.key:
        timer.key = deadline
        _sift_up(timers, heap, host.heap_off, timer.pos)


def pop(timers: Timers, heap: Heap, host: HostRecord) -> None:
    """Remove the top entry of the host's heap."""
    off = host.heap_off
    n = length(heap, host) - 1
    heap[off - 1] = TimerSlot(n)
    timers[heap[off]].pos = -1
    if n > 0:
        heap[off] = heap[off + n]
        _sift_down(timers, heap, off, n, 0)


def first_key(timers: Timers, heap: Heap, host: HostRecord) -> Ps:
    """Return the earliest key of a host's timers, a lower bound of its next deadline."""
    if length(heap, host) == 0:
        return INF
    return timers[heap[host.heap_off]].key


def surface(timers: Timers, heap: Heap, host: HostRecord) -> TimerSlot:
    """Remove and return the top timer if its deadline is its key; otherwise correct its entry.
    Returns NO_TIMER in the latter case."""
    slot = heap[host.heap_off]
    timer = timers[slot]
    if timer.deadline == timer.key:
        pop(timers, heap, host)
        timer.deadline = INF
        return slot
    if timer.deadline >= INF:
        pop(timers, heap, host)
    else:
        timer.key = timer.deadline
        _sift_down(timers, heap, host.heap_off, length(heap, host), 0)
    return NO_TIMER


# --- tasks ----------------------------------------------------------------------------------------


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
        env.host.handler = IN_PROGRAM_ON_BEGIN
        program_on_begin(own, now)
    else:
        own.host.under_way -= 1
        env.host.handler = IN_PROGRAM_ON_TIMER
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
    env.host.handler = IN_PROGRAM_ON_TASK
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


# --- services for programs ------------------------------------------------------------------------


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


N_WORDS = 2  # that a flow carries


def set_words(env: ProgramEnv, task: ProgramTaskRecord, first: int, second: int) -> None:
    """Set two numbers that the flow of an unstarted send task carries: its receive task reads them
    with `word_of`, its transport with `flow_word`."""
    if task.most_bytes == 0:
        broken(env.engine.host, NO_SIZE_OF_ITS_OWN, task.index)
    elif task.start_ps >= 0:
        broken(env.engine.host, TOO_LATE_FOR_SIZE, task.index)
    else:
        env.engine.hosts.words[task.flow, 0] = first
        env.engine.hosts.words[task.flow, 1] = second


def word_of(env: ProgramEnv, task: ProgramTaskRecord, k: int) -> int:
    """Return number ``k``, 0 or 1, carried by the flow of a send or started receive task."""
    is_known = task.kind == SEND or (task.kind == RECEIVE and task.start_ps >= 0)
    if not is_known or not 0 <= k < N_WORDS:
        broken(env.engine.host, NO_WORD, task.index)
        return 0
    return env.engine.hosts.words[task.flow, k]


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
