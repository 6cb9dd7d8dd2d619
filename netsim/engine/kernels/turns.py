"""In which order a switch deals with packets that arrive at one instant by different ports.

It is part of the key by which arrivals are sorted, which has the time since the window began, from
KEY_BITS on, the place of the port among those that packets come by then, from INDEX_BITS on, and
the number of the arrival in the window. Places begin with 1: below are numbers of ports.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import InboxRecord
from netsim.engine.kernels.ids import Ps
from netsim.model.arithmetic import mix

KEY_BITS, INDEX_BITS = 36, 23
KEY_MASK = (1 << KEY_BITS) - 1
INDEX_MASK = (1 << INDEX_BITS) - 1

CIRCLE_BITS = 13
CIRCLE = 1 << CIRCLE_BITS
"""Places on the circle on which ports take turns."""


NO_GROUP = -1
"""Before the first packet of a port."""


def next_number(time: Ps, packet_ps: int, number: int) -> int:
    """``time // packet_ps``, where that is ``number`` or more.

    Packets mostly follow one another, so that it is one more; only else is there a division.
    """
    past = time - number * packet_ps
    if past < packet_ps:
        return number
    if past < 2 * packet_ps:
        return number + 1
    return time // packet_ps


def stands_at(inbox: InboxRecord, group: int) -> int:
    """Where a port stands on the circle for a group of four packet times."""
    stands: int = mix(inbox.turns_salt ^ (group & 0xFFFFFFFF)) >> (32 - CIRCLE_BITS)
    return stands


def place_of(stands: int, number: int) -> int:
    """The place of a port that stands there, at a packet time."""
    ahead = (stands - ((number & 3) << (CIRCLE_BITS - 2))) & (CIRCLE - 1)
    place: int = 1 + min(ahead, CIRCLE - ahead)
    return place


def place_at(inbox: InboxRecord, time: Ps) -> int:
    """The place of a port at a time."""
    number = time // inbox.packet_ps
    return place_of(stands_at(inbox, number >> 2), number)
