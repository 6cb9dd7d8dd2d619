"""pFabric: serves the flow with the fewest bytes left first, and drops it last.

Packets carry their flow's remaining bytes (`remaining`, set by the transport `pfabric`; 0 for
others). A port finds the packet with the fewest, and sends the first waiting packet of its flow, so
flows stay in order. A packet that arrives at a full buffer replaces the packet with the most; if
none has more than the new one, the new one is dropped.

Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, section 4.1.
"""

from netsim.params import Param
from netsim.queue import DROP, class_of, peek, queue_length, remove
from netsim.queues import drop_tail

PARAMS = [
    Param("queue_bytes", "queue", "24pkt", "per port and class; about two bandwidth-delay products")
]

PACKET_FIELDS = ("remaining",)


check = drop_tail.check


def admit(env, now, port, pkt):
    cls = int(pkt.prio)
    queue = class_of(env, port, cls)
    while queue.bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        longest = place_of_most(env, queue)
        if longest < 0 or remaining_at(env, queue, longest) <= int(pkt.remaining):
            return DROP
        remove(env, now, port, queue, longest)
    return cls


def choose_packet(env, now, port, queue):
    flow = int(peek(env, queue, place_of_least(env, queue)).flow)
    place = 0
    while int(peek(env, queue, place).flow) != flow:
        place += 1
    return place


def remaining_at(env, queue, place):
    """Return the remaining bytes of a waiting packet's flow."""
    return int(peek(env, queue, place).remaining)


def place_of_most(env, queue):
    """Return the position of the packet with the most bytes left, the last if tied; -1: none."""
    most = -1
    for place in range(queue_length(queue)):
        if most < 0 or remaining_at(env, queue, place) >= remaining_at(env, queue, most):
            most = place
    return most


def place_of_least(env, queue):
    """Return the position of the packet with the fewest bytes left, the first if tied."""
    least = 0
    for place in range(1, queue_length(queue)):
        if remaining_at(env, queue, place) < remaining_at(env, queue, least):
            least = place
    return least
