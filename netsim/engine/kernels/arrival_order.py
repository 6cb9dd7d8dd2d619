"""The order in which a switch handles simultaneous arrivals at different ports.

An arrival's sort key has the time since the window's start from bit KEY_BITS on, the port's rank
from INDEX_BITS on, and the arrival's number below. Ranks begin with 1; smaller values are port
numbers.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import LinkReaderRecord
from netsim.engine.kernels.ids import Ps
from netsim.model.arithmetic import mix

KEY_BITS, INDEX_BITS = 36, 23
KEY_MASK = (1 << KEY_BITS) - 1
INDEX_MASK = (1 << INDEX_BITS) - 1

CIRCLE_BITS = 13
CIRCLE = 1 << CIRCLE_BITS
"""Number of positions on the circle."""

NO_GROUP = -1
"""Group before the first packet of a port."""


def next_number(time: Ps, packet_ps: int, number: int) -> int:
    """Return ``time // packet_ps``, given an earlier result.

    Packets mostly arrive back to back, and then no division is needed.
    """
    past = time - number * packet_ps
    if past < packet_ps:
        return number
    if past < 2 * packet_ps:
        return number + 1
    return time // packet_ps


def circle_position(reader: LinkReaderRecord, group: int) -> int:
    """Return a port's position on the circle for a group of four packet times."""
    position: int = mix(reader.order_salt ^ (group & 0xFFFFFFFF)) >> (32 - CIRCLE_BITS)
    return position


def order_of(position: int, number: int) -> int:
    """Return the rank of a port with that position at a packet time."""
    ahead = (position - ((number & 3) << (CIRCLE_BITS - 2))) & (CIRCLE - 1)
    rank: int = 1 + min(ahead, CIRCLE - ahead)
    return rank


def order_at(reader: LinkReaderRecord, time: Ps) -> int:
    """Return the rank of a port at a time."""
    number = time // reader.packet_ps
    return order_of(circle_position(reader, number >> 2), number)
