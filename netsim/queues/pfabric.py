"""pFabric: the flow with the least left to send is served first and dropped last.

Packets carry how much of their flow remains (`remaining`, which the transport of that name sets;
what does not set it counts as 0). A port sends the first waiting packet of the flow that has the
packet with the least remaining, so that no flow is reordered. A packet that finds the buffer full
takes the place of the one with the most remaining, or is dropped if no other has more.

Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, section 4.1.
"""

from netsim.params import Param
from netsim.queue import DROP, class_of, peek, queue_length, remove
from netsim.queues import drop_tail

PARAMS = [
    Param(
        "queue_bytes",
        "queue",
        "24pkt",
        "per port and class; about two bandwidth-delay products are enough",
    )
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
    """What remains of the flow of a waiting packet."""
    return int(peek(env, queue, place).remaining)


def place_of_most(env, queue):
    """Where the packet waits of whose flow most remains, the last of equals; -1 if none waits."""
    most = -1
    for place in range(queue_length(queue)):
        if most < 0 or remaining_at(env, queue, place) >= remaining_at(env, queue, most):
            most = place
    return most


def place_of_least(env, queue):
    """Where the packet waits of whose flow least remains, the first of equals."""
    least = 0
    for place in range(1, queue_length(queue)):
        if remaining_at(env, queue, place) < remaining_at(env, queue, least):
            least = place
    return least
