"""Records of tasks, and of a program's hosts."""

from __future__ import annotations

from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.ids import Bytes, FlowId, HostId, Ps, TaskId, TimerSlot


class TaskRecord(Declared):
    number: int  # index in the table of tasks; tasks that flows wait by come after those
    kind: int
    host: HostId
    flow: FlowId  # of a send or receive task
    duration_ps: Ps
    until_acked: int  # of a send task: 1 if done when the transport finishes the flow
    timer: TimerSlot
    edges: int  # unfinished tasks of this host that it waits for
    pending: int  # the flow's delivery, the previous task of its stream, or the program's start
    in_stream: TaskId  # next task of its stream
    next_done: TaskId  # list of tasks that are done together
    ready_ps: Ps
    start_ps: Ps
    end_ps: Ps


class ProgramTaskRecord(TaskRecord):
    """A task of a run with a program, followed by the program's own fields."""

    of_program: int  # 1 if it belongs to the program
    index: int  # among the program's tasks of its host
    waits_for_start: int  # 1 until the program starts it
    unreported: int  # 1 from its end until the program is notified
    runs: int  # completed runs
    first_start_ps: Ps  # of its first completed run
    busy_ps: Ps  # total over its completed runs
    most_bytes: Bytes  # of a send task, the largest size that may be set; 0 for none


class ProgramHostRecord(Declared):
    """A host of a program, followed by the program's own fields."""

    host: HostId
    n_tasks: int  # of the program on this host
    first_task: TaskId
    first_timer: TimerSlot  # first of the program's own
    first_row: int  # of the log: first row, ...
    next_row: int  # ... next row ...
    end_row: int  # ... and end of the host's rows
    calls: int  # calls of its handlers at one instant ...
    calls_at: Ps  # ... and that instant
    # Changes in this window:
    under_way: int  # tasks started and not reported, and timers set
    begun_flows: int  # flows started by send tasks
