"""What a program is made of: the names that the file of a traffic pattern with handlers imports.

A traffic pattern says before the run which flows and tasks there are. If its file has functions
("handlers") as well, it is a program: the engine calls them at hosts, as tasks are done and timers
fire, and they start tasks that the table says are ``held``, and run others once more. They are
compiled into the engine, and nothing in the file is decorated. They see records, whose fields they
read and, of those that the file declares, assign, and ``env``, through which they use the functions
of this module.

============================  ======================================================================
handler                       called
============================  ======================================================================
``on_begin(env, now)``        the run begins, at each host that has tasks of the program
``on_task(env, now, task)``   ``task``, of this host, is done
``on_timer(env, now, k)``     timer ``k`` of the program on this host fires
============================  ======================================================================

A handler touches nothing but its own host: what joins hosts is flows. ``env.host`` is the host's
record: ``host``, its number, ``n_tasks``, and what is declared in ``HOST_STATE``. ``task_of`` gives
a task by its place among the program's tasks of this host, in the order of the table
(`TaskTable.places`). A task's record has ``index``, this place, ``kind``, ``flow``,
``duration_ps``, ``runs``, how often it was done, ``ready_ps``, ``start_ps`` and ``end_ps`` (-1
where there is no such time), and what is declared in ``TASK_STATE``. Fields begin as the
`Workload` says (``task_state``, ``host_state``), else as 0. ``TIMERS = 2`` gives each host so many
timers.

``LOG = ("what", "request")`` gives the program a log, whose rows, with the host and the time before
these columns, are a table of the result (``log.parquet``). `note` adds one, a whole number for each
column; how many a host may have at most says the `Workload` (``log_rows``).

``env.par`` holds the parameters of the pattern that are numbers or choices, in engine units (ps,
bytes, bit/s), and ``payload_bytes``, ``header_bytes``, ``control_bytes`` and ``seed``. Random
numbers are `rand32` of the parameter ``seed``, a purpose from 96 on, ``env.host.host`` and a count
that the host keeps.
"""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.program_services import (
    armed,
    cancel_timer,
    note,
    peer_of,
    set_duration,
    set_size,
    set_timer,
    size_of,
    start,
    task_of,
)
from netsim.model.arithmetic import below, mix, rand32, serialisation_ps
from netsim.model.tasks import COMPUTE, JOIN, RECEIVE, SEND

__all__ = [
    "COMPUTE",
    "INF",
    "JOIN",
    "RECEIVE",
    "SEND",
    "armed",
    "below",
    "cancel_timer",
    "mix",
    "note",
    "peer_of",
    "rand32",
    "serialisation_ps",
    "set_duration",
    "set_size",
    "set_timer",
    "size_of",
    "start",
    "task_of",
]
