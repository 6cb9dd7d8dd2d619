"""The handlers of a routing algorithm: names, arguments, and when they are called.

`ROUTING_HANDLERS` is the table; MODEL.md ("Switch: routing") is the contract. To add a handler,
write it here with its own number, declare it in `specialization_constants.py`, call that in
`routing.py` after ``env.home.handler = IN_...``, and describe it in
`netsim/routing_algorithms/README.md`.
"""

from __future__ import annotations

from netsim.engine.kernels.handler_table import HandlerTable
from netsim.engine.kernels.handlers import ANY_HOST, SWITCH

FIRST = 48  # numbers below are those of transports and queue disciplines

(
    IN_AT_SOURCE,
    IN_AT_SWITCH,
    IN_CHOOSE,
    IN_ON_ROUTE,
    IN_ON_DEPART,
    IN_ON_TICK,
    IN_CHOOSE_PLANE,
) = range(FIRST, FIRST + 7)
"""Values of ``switch.handler`` or ``host.handler``: the current or last handler of this step."""

ROUTED, DEPARTS = "pkt routed", "pkt departs"
"""State of the packet: on its way to an output port, or starting its transmission."""

ROUTING_HANDLERS = HandlerTable(FIRST)  # handlers by name, in the order of their numbers


@ROUTING_HANDLERS.row(IN_AT_SOURCE, SWITCH, "a packet came in from a host", packet=ROUTED)
def at_source(env, now, port, pkt):
    """Nothing is decided at the first switch."""


@ROUTING_HANDLERS.row(IN_AT_SWITCH, SWITCH, "a packet came in from another switch", packet=ROUTED)
def at_switch(env, now, port, pkt):
    """Nothing is decided at other switches."""


@ROUTING_HANDLERS.row(
    IN_CHOOSE,
    SWITCH,
    "there are `n` > 1 candidates: returns the index of one",
    required=True,
    returns="the index of a candidate, 0 to n - 1",
    packet=ROUTED,
)
def choose(env, now, port, pkt, first, n):
    """Required."""
    raise NotImplementedError


@ROUTING_HANDLERS.row(IN_ON_ROUTE, SWITCH, "the packet will leave by port `out`", packet=ROUTED)
def on_route(env, now, port, out, pkt):
    """Nothing is noted."""


@ROUTING_HANDLERS.row(IN_ON_DEPART, SWITCH, "a packet begins to be sent by `port`", packet=DEPARTS)
def on_depart(env, now, port, pkt):
    """Nothing is noted."""


@ROUTING_HANDLERS.row(
    IN_ON_TICK, SWITCH, "`n_ticks` periods of `tick` have ended, the last one now"
)
def on_tick(env, now, n_ticks):
    """There are no periods."""


@ROUTING_HANDLERS.row(
    IN_CHOOSE_PLANE,
    ANY_HOST,
    "`plane_balancing` is `routing`: returns the index of one of `n` port pairs",
    returns="the index of a port pair, 0 to n - 1",
)
def choose_plane(env, now, side, n):
    """Required for that `plane_balancing`."""
    raise NotImplementedError
