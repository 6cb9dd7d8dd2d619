"""The handlers of a queue discipline: names, arguments, and when they are called.

`QUEUE_HANDLERS` is the table; MODEL.md ("Switch: ports") is the contract. To add a handler, write
it here with its own number, declare it in `specialization_constants.py`, call that in `ports.py` or
`coupled_switch.py` after ``env.switch.handler = IN_...``, and describe it in
`netsim/queues/README.md`.
"""

from __future__ import annotations

from netsim.engine.kernels.handler_table import HandlerTable
from netsim.engine.kernels.handlers import SWITCH

FIRST = 32  # numbers below are those of transports

(
    IN_ON_ARRIVAL,
    IN_ADMIT,
    IN_CHOOSE_CLASS,
    IN_CHOOSE_PACKET,
    IN_ON_SEND,
    IN_ON_DEPARTURE,
) = range(FIRST, FIRST + 6)
"""Values of ``switch.handler``: the current or last handler of this step."""

COMING, LEAVING = "pkt coming", "pkt leaving"
"""State of the packet: arriving at a queue, or starting its transmission."""

QUEUE_HANDLERS = HandlerTable(FIRST)  # handlers by name, in the order of their numbers


@QUEUE_HANDLERS.row(
    IN_ON_ARRIVAL,
    SWITCH,
    "a packet came in: returns `ACCEPT` or `DROP`",
    returns="ACCEPT or DROP",
    packet=COMING,
)
def on_arrival(env, now, port, pkt):
    """Every packet is accepted."""


@QUEUE_HANDLERS.row(
    IN_ADMIT,
    SWITCH,
    "it will leave by `port`: returns a class, or `DROP`",
    required=True,
    returns="a class, or DROP",
    packet=COMING,
)
def admit(env, now, port, pkt):
    """Required."""
    raise NotImplementedError


@QUEUE_HANDLERS.row(
    IN_CHOOSE_CLASS,
    SWITCH,
    "the port is free: returns a class, or `NO_CLASS`",
    returns="a class, or NO_CLASS",
)
def choose_class(env, now, port):
    """The lowest open class."""


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
    """The packet is unchanged."""


@QUEUE_HANDLERS.row(
    IN_ON_DEPARTURE,
    SWITCH,
    "a packet that came in by `port` has been sent",
)
def on_departure(env, now, port, cls, size):
    """Nothing is counted."""
