"""What a transport may not do, because the engine's memory depends on it.

A handler that breaks a rule marks its host, whose step ends there, before the packet or the
timer is used, and the run with it. What is checked is what is at hand anyway, once for each
packet at its source; whatever else a handler may write past, `checked` engines find.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import HostRecord

(
    TOO_MANY_CONTROL,
    TOO_MANY_BYTES,
    NO_CLASS,
    NO_TIMER,
    NO_BIT,
    NOT_CONTROL,
    NOT_DATA,
    NO_PACKET,
    ENDLESS,
    NO_SIZE,
) = range(1, 11)

TEXTS = {
    TOO_MANY_CONTROL: "sent more control packets in one call than its host's FIFO has room for",
    TOO_MANY_BYTES: "delivered more bytes than the flow has: {value}",
    NO_CLASS: "used traffic class {value}; the fabric has {n_classes}, counted from 0",
    NO_TIMER: "used timer {value}, which is not declared or not of this host",
    NO_BIT: "used bit {value} of a bitmap: there is no such packet, or no such bitmap is declared",
    NOT_CONTROL: "sent a control packet of kind {value}; send() is for kinds 2 to 14",
    NOT_DATA: "made a data packet of kind {value}; fill may choose DATA and kinds 2 to 7",
    NO_PACKET: "made data packet {value}, which the flow does not have",
    ENDLESS: "was called {value} times at one instant, for timers that are set to now for ever",
    NO_SIZE: "sent a control packet of {value} bytes: smaller than any other packet, or larger",
}

MOST_FIRINGS, MOST_FIRINGS_OF_A_TIMER = 10_000, 100
"""Timers of a host fire no more often at one instant than this, plus this for each of them."""


def broken(host: HostRecord, rule: int, value: int) -> None:
    """Note that the handler that runs on ``host`` broke a rule; the first one counts."""
    if host.fault == 0:
        host.fault = rule
        host.fault_value = value
