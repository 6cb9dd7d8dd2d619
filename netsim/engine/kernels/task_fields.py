"""The records of tasks, and of the hosts of a program; what records are stands in `fields.py`."""

from __future__ import annotations

from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.ids import Bytes, FlowId, HostId, Ps, TaskId, TimerSlot


class TaskRecord(Declared):
    number: int  # in the table of tasks; those that flows wait by have the numbers behind it
    kind: int
    host: HostId
    flow: FlowId  # of a send task
    duration_ps: Ps
    until_acked: int  # of a send task: 1 if it is done when the transport finishes its flow
    timer: TimerSlot
    edges: int  # tasks of this host that are to be done before it is ready
    pending: (
        int  # its flow is to be delivered, the one before it in its stream done, or it be started
    )
    in_stream: TaskId  # the task behind it in its stream
    next_done: TaskId  # while tasks that are done together are gone through
    ready_ps: Ps
    start_ps: Ps
    end_ps: Ps


class ProgramTaskRecord(TaskRecord):
    """A task of a run that has a program, whose own fields stand behind these."""

    of_program: int  # 1 if it is one of the program's
    index: int  # of those, among its host's
    waits_for_start: int  # 1 until the program starts it
    unreported: int  # 1 from when it is done until the program is told
    runs: int  # how often it was done
    first_start_ps: Ps  # of the first time that it was done
    busy_ps: Ps  # for how long it was under way, each time that it was done
    most_bytes: Bytes  # of a send task, the most that may be set; 0 if nothing may


class ProgramHostRecord(Declared):
    """A host as a program finds it, whose own fields stand behind these."""

    host: HostId
    n_tasks: int  # of the program on this host
    first_task: TaskId
    first_timer: TimerSlot  # of the program's own
    first_row: int  # of the log: its rows begin here, ...
    next_row: int  # ... the next one is this ...
    end_row: int  # ... and there is room before this
    calls: int  # of its handlers, at one instant ...
    calls_at: Ps  # ... which is this
    # What became more, or less, in this window:
    under_way: int  # tasks that started and are not done and told, and timers that are set
    begun_flows: int  # that had waited for their send tasks
