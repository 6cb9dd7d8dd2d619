"""The handlers of a workload program: which there are, what they are given, when they are called.

`PROGRAM_HANDLERS` is the table of all, as `HANDLERS` of handlers.py is of a transport's. Exactly
when each is called is the contract of `MODEL.md` ("Programs"). To add a handler: write it here,
with a number of its own, declare it in `specialization_constants.py` and its name to
`netsim/model/programs.py`; call it in `programs.py`, after ``env.engine.host.handler = IN_...``,
and describe it in `netsim/traffic/README.md`.
"""

from __future__ import annotations

from netsim.engine.kernels.handler_table import HandlerTable
from netsim.engine.kernels.handlers import ANY_HOST

FIRST = 64
"""Numbers below are those of transports' and of queue disciplines' handlers."""

IN_ON_BEGIN, IN_ON_TASK, IN_ON_TIMER = range(FIRST, FIRST + 3)
"""What a host is doing (``host.handler``): the handler that runs, or ran last in this step."""

PROGRAM_HANDLERS = HandlerTable(FIRST)
"""Every handler by its name, in the order of their numbers."""


@PROGRAM_HANDLERS.row(
    IN_ON_BEGIN, ANY_HOST, "the run begins, at each host that has tasks of the program"
)
def on_begin(env, now):
    """Nothing is started."""


@PROGRAM_HANDLERS.row(IN_ON_TASK, ANY_HOST, "`task`, of this host, is done")
def on_task(env, now, task):
    """Nobody waits for it but other tasks."""


@PROGRAM_HANDLERS.row(IN_ON_TIMER, ANY_HOST, "timer `k` of the program on this host fires")
def on_timer(env, now, k):
    """Nobody sets any."""
