"""The handlers of a transport: which there are, what they are given, when they are called.

Each function here is one of them: its name, its arguments, and in its body what happens where
a transport does not have it. `HANDLERS` is the table of all. To add a handler:

1. write it here, with a number of its own;
2. give it a hole in `holes.py`;
3. call that in the engine's kernel, after ``host.doing = IN_...`` if it runs on a host: so what
   goes wrong in it is told by its name;
4. describe it on the pages that `tests/engine/test_handlers.py` compares with the table.

All else is made from the table: what is checked in a transport's file (`protocol.py` and
`netsim.lint`), how the handlers of several transports are joined (`join.py`, where one that
runs for no flow needs a way of its own), and how conformance tests watch them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, MappingProxyType
from typing import Any

(
    NOTHING,
    IN_SETUP,
    IN_ON_START,
    IN_READY,
    IN_FILL,
    IN_ON_DATA,
    IN_ON_TRIMMED,
    IN_ON_REQUEST,
    IN_ON_CONTROL,
    IN_ON_TIMER,
    IN_ON_RX_TIMER,
    IN_ON_HOST_TIMER,
    IN_RANK,
    IN_ON_FORWARD,
) = range(14)
"""What a host is doing (``host.doing``): the handler that runs, or ran last in this step."""

BEFORE, SOURCE, DESTINATION = "before the run", "source", "destination"
ANY_HOST, SWITCH = "any host", "switch"
"""Where handlers run."""

FILLED, SENT, ARRIVED, FORWARDED = "pkt filled", "pkt sent", "pkt arrived", "pkt forwarded"
"""A packet as `fill` has it, as `send` returns it, as a host gets it and as a switch sends it."""


@dataclass(frozen=True)
class Handler:
    """One row of the table: a function that a transport may have, or must have.

    ``called`` says when, in one line for the pages; ``returns`` what it must return, if anything;
    ``packet`` what ``pkt`` is, if it is among its arguments. ``default`` is what a transport has
    that does not say anything; of a required one it is never called.
    """

    number: int
    runs_on: str
    called: str
    default: FunctionType
    required: bool
    returns: str
    packet: str

    @property
    def name(self) -> str:
        """Its name in a transport's file."""
        return self.default.__name__

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of what it is given."""
        code = self.default.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def form(self) -> str:
        """How it is written: ``on_data(env, now, rx, pkt)``."""
        return f"{self.name}({', '.join(self.arguments)})"

    @property
    def side(self) -> str:
        """The record of the flow that it runs for, "tx" or "rx"; "" if it runs for none."""
        return next((name for name in ("tx", "rx") if name in self.arguments), "")


_rows: dict[str, Handler] = {}

HANDLERS: Mapping[str, Handler] = MappingProxyType(_rows)
"""Every handler by its name, in the order of their numbers."""


def _handler(
    number: int,
    runs_on: str,
    called: str,
    *,
    required: bool = False,
    returns: str = "",
    packet: str = ARRIVED,
) -> Callable[[Any], Any]:
    """Put the function below into the table."""

    def add(default: Any) -> Any:
        row = Handler(number, runs_on, called, default, required, returns, packet)
        assert number == len(_rows) + 1, f"{row.name} is not in the order of the numbers"
        _rows[row.name] = row
        return default

    return add


def handler_name(number: int) -> str:
    """The handler that has this number in ``host.doing``; "" for NOTHING."""
    return "" if number == NOTHING else list(HANDLERS)[number - 1]


@_handler(IN_SETUP, BEFORE, "once a flow, before the run; only it sees both sides")
def setup(env, tx, rx):
    """Nothing to initialise beyond zeros."""


@_handler(IN_ON_START, SOURCE, "at the flow's start")
def on_start(env, now, tx):
    """The flow joins the ready list, no more."""


@_handler(
    IN_READY,
    SOURCE,
    "the NIC is free: returns `now`, a later time or `BLOCKED`",
    required=True,
    returns="a time in ps, or BLOCKED",
)
def ready(env, now, tx):
    """Every transport says when a flow may send."""
    raise NotImplementedError


@_handler(
    IN_FILL,
    SOURCE,
    "a packet is built: sets `pkt.seq`, and more if it likes",
    required=True,
    packet=FILLED,
)
def fill(env, now, tx, pkt):
    """Every transport says what a flow sends."""
    raise NotImplementedError


@_handler(IN_ON_DATA, DESTINATION, "a data packet arrived")
def on_data(env, now, rx, pkt):
    """Data is ignored."""


@_handler(IN_ON_TRIMMED, DESTINATION, "the header of one arrived, its payload was cut off")
def on_trimmed(env, now, rx, pkt):
    """A trimmed packet counts as lost."""


@_handler(IN_ON_REQUEST, DESTINATION, "another packet for the receiver (kinds 2 to 7)")
def on_request(env, now, rx, pkt):
    """No such packets."""


@_handler(IN_ON_CONTROL, SOURCE, "a control packet for the sender (kinds 8 to 14)")
def on_control(env, now, tx, pkt):
    """No such packets."""


@_handler(IN_ON_TIMER, SOURCE, "the sender's timer `k` fired")
def on_timer(env, now, tx, k):
    """No timers."""


@_handler(IN_ON_RX_TIMER, DESTINATION, "the receiver's timer `k` fired")
def on_rx_timer(env, now, rx, k):
    """No timers."""


@_handler(IN_ON_HOST_TIMER, ANY_HOST, "the host's timer `k` fired")
def on_host_timer(env, now, k):
    """No timers."""


@_handler(
    IN_RANK,
    SOURCE,
    "the flow joins the list: the smallest rank is served first",
    returns="a whole number",
)
def rank(env, tx):
    """All flows are alike."""
    return 0


@_handler(
    IN_ON_FORWARD,
    SWITCH,
    "a data packet's transmission starts (telemetry)",
    packet=FORWARDED,
)
def on_forward(now, pkt, port, queue):
    """Switches tell nothing."""
