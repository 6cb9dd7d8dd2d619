"""The handlers of a workload program: names, arguments, and when they are called.

`PROGRAM_HANDLERS` is the table; MODEL.md ("Programs") is the contract. To add a handler, write it
here with its own number, declare it in `specialization_constants.py` and
`netsim/model/programs.py`, call it in `tasks.py` after ``env.engine.host.handler = IN_...``, and
describe it in `netsim/traffic/README.md`.
"""

from __future__ import annotations

from netsim.engine.kernels.handler_table import HandlerTable
from netsim.engine.kernels.handlers import ANY_HOST

FIRST = 64  # numbers below are those of transports and queue disciplines

IN_ON_BEGIN, IN_ON_TASK, IN_ON_TIMER = range(FIRST, FIRST + 3)
"""Values of ``host.handler``: the current or last handler of this step."""

PROGRAM_HANDLERS = HandlerTable(FIRST)  # handlers by name, in the order of their numbers


@PROGRAM_HANDLERS.row(
    IN_ON_BEGIN, ANY_HOST, "the run begins, at each host that has tasks of the program"
)
def on_begin(env, now):
    """Nothing is started."""


@PROGRAM_HANDLERS.row(IN_ON_TASK, ANY_HOST, "`task`, of this host, is done")
def on_task(env, now, task):
    """Only other tasks wait for it."""


@PROGRAM_HANDLERS.row(IN_ON_TIMER, ANY_HOST, "timer `k` of the program on this host fires")
def on_timer(env, now, k):
    """No timers."""
