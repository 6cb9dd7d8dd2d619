"""The handlers of a transport: names, arguments, and when they are called.

Each function below is a handler; its body is the default for transports without it. To add one,
write it here with its own number, declare it in `specialization_constants.py`, call that in a
kernel (on a host after ``host.handler = IN_...``, so errors name it), and describe it on the pages
that `tests/engine/test_handlers.py` checks.
"""

from __future__ import annotations

from netsim.engine.kernels.handler_table import HandlerTable

(
    NOTHING,
    IN_SETUP,
    IN_ON_START,
    IN_READY,
    IN_BUILD_PACKET,
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
"""Values of ``host.handler``: the current or last handler of this step."""

BEFORE, SOURCE, DESTINATION = "before the run", "source", "destination"
ANY_HOST, SWITCH = "any host", "switch"  # where handlers run

BUILT, SENT, ARRIVED, FORWARDED = "pkt built", "pkt sent", "pkt arrived", "pkt forwarded"
"""State of the packet: built by `build_packet`, returned by `send`, received, or forwarded."""

HANDLERS = HandlerTable(IN_SETUP)  # handlers by name, in the order of their numbers


@HANDLERS.row(IN_SETUP, BEFORE, "once per flow; the only handler that sees both sides")
def setup(env, tx, rx):
    """No state to initialize."""


@HANDLERS.row(IN_ON_START, SOURCE, "the flow starts")
def on_start(env, now, tx):
    """The flow only joins the ready list."""


@HANDLERS.row(
    IN_READY,
    SOURCE,
    "the NIC is free: returns `now`, a later time or `BLOCKED`",
    required=True,
    returns="a time in ps, or BLOCKED",
)
def ready(env, now, tx):
    """Required."""
    raise NotImplementedError


@HANDLERS.row(
    IN_BUILD_PACKET,
    SOURCE,
    "a packet is built: sets `pkt.seq`, optionally other fields",
    required=True,
    packet=BUILT,
)
def build_packet(env, now, tx, pkt):
    """Required."""
    raise NotImplementedError


@HANDLERS.row(IN_ON_DATA, DESTINATION, "a data packet arrives", packet=ARRIVED)
def on_data(env, now, rx, pkt):
    """Data is ignored."""


@HANDLERS.row(IN_ON_TRIMMED, DESTINATION, "a trimmed data packet arrives", packet=ARRIVED)
def on_trimmed(env, now, rx, pkt):
    """A trimmed packet counts as lost."""


@HANDLERS.row(
    IN_ON_REQUEST,
    DESTINATION,
    "another packet for the receiver arrives (kinds 2 to 7)",
    packet=ARRIVED,
)
def on_request(env, now, rx, pkt):
    """The packet is ignored."""


@HANDLERS.row(
    IN_ON_CONTROL, SOURCE, "a control packet for the sender arrives (kinds 8 to 14)", packet=ARRIVED
)
def on_control(env, now, tx, pkt):
    """The packet is ignored."""


@HANDLERS.row(IN_ON_TIMER, SOURCE, "the sender's timer `k` fires")
def on_timer(env, now, tx, k):
    """No timers."""


@HANDLERS.row(IN_ON_RX_TIMER, DESTINATION, "the receiver's timer `k` fires")
def on_rx_timer(env, now, rx, k):
    """No timers."""


@HANDLERS.row(IN_ON_HOST_TIMER, ANY_HOST, "the host's timer `k` fires")
def on_host_timer(env, now, k):
    """No timers."""


@HANDLERS.row(
    IN_RANK,
    SOURCE,
    "the flow joins the send list: the smallest rank goes first",
    returns="a whole number",
)
def rank(env, tx):
    """All flows have the same rank."""
    return 0


@HANDLERS.row(
    IN_ON_FORWARD,
    SWITCH,
    "a data packet's transmission starts (telemetry)",
    packet=FORWARDED,
)
def on_forward(now, pkt, port, queue):
    """No telemetry."""
