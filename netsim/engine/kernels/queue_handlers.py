"""The handlers of a queue discipline: which there are, what they are given, when they are called.

`QUEUE_HANDLERS` is the table of all, as `HANDLERS` of handlers.py is of a transport's. Exactly when
each is called, and what holds then, is the contract of `MODEL.md` ("Switch: ports"). To add a
handler: write it here, with a number of its own, declare it in `specialization_constants.py`; call
that in `ports.py`, after ``env.switch.handler = IN_...``, and describe it in
`netsim/queues/README.md`.
"""

from __future__ import annotations

from netsim.engine.kernels.handler_table import HandlerTable
from netsim.engine.kernels.handlers import SWITCH

FIRST = 32
"""Numbers below are those of transports' handlers."""

(
    IN_ON_ARRIVAL,
    IN_ADMIT,
    IN_CHOOSE_CLASS,
    IN_CHOOSE_PACKET,
    IN_ON_SEND,
    IN_ON_DEPARTURE,
    IN_PREDICT_PAUSE,
) = range(FIRST, FIRST + 7)
"""What a switch is doing (``switch.handler``): the handler that runs, or ran last in this step."""

COMING, LEAVING = "pkt coming", "pkt leaving"
"""A packet on its way into a switch's queue, and one whose transmission starts."""

QUEUE_HANDLERS = HandlerTable(FIRST)
"""Every handler by its name, in the order of their numbers."""


@QUEUE_HANDLERS.row(
    IN_ON_ARRIVAL,
    SWITCH,
    "a packet came in: returns `ACCEPT` or `DROP`",
    returns="ACCEPT or DROP",
    packet=COMING,
)
def on_arrival(env, now, port, pkt):
    """Whatever comes is let in."""


@QUEUE_HANDLERS.row(
    IN_ADMIT,
    SWITCH,
    "it will leave by `port`: returns a class, or `DROP`",
    required=True,
    returns="a class, or DROP",
    packet=COMING,
)
def admit(env, now, port, pkt):
    """Every discipline says what it admits."""
    raise NotImplementedError


@QUEUE_HANDLERS.row(
    IN_CHOOSE_CLASS,
    SWITCH,
    "the port is free: returns a class, or `NO_CLASS`",
    returns="a class, or NO_CLASS",
)
def choose_class(env, now, port):
    """The open class with the lowest number."""


@QUEUE_HANDLERS.row(
    IN_CHOOSE_PACKET,
    SWITCH,
    "`queue` is served: returns the index of a packet",
    returns="the index of a waiting packet",
)
def choose_packet(env, now, port, queue):
    """The head."""


@QUEUE_HANDLERS.row(
    IN_ON_SEND,
    SWITCH,
    "a packet of `queue` begins to be sent",
    packet=LEAVING,
)
def on_send(env, now, port, queue, pkt):
    """Packets are sent as they are."""


@QUEUE_HANDLERS.row(
    IN_ON_DEPARTURE,
    SWITCH,
    "a packet that came in by `port` has been sent",
)
def on_departure(env, now, port, cls, size):
    """Nobody counts."""


@QUEUE_HANDLERS.row(
    IN_PREDICT_PAUSE,
    SWITCH,
    "what `size` bytes by `port` may lead to",
    returns="NO_EFFECT, MAY_PAUSE or MAY_DROP",
)
def predict_pause(env, port, cls, size, change):
    """Nobody knows: all is simulated in the order of time."""
