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


def place_at(inbox: InboxRecord, time: Ps) -> int:
    """The place of a port at a time."""
    number = time // inbox.packet_ps
    stands = mix(inbox.turns_salt ^ ((number >> 2) & 0xFFFFFFFF)) >> (32 - CIRCLE_BITS)
    ahead = (stands - ((number & 3) << (CIRCLE_BITS - 2))) & (CIRCLE - 1)
    place: int = 1 + min(ahead, CIRCLE - ahead)
    return place
