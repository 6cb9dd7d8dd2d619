"""UGAL-G: like ugal_l, but with the queues of both whole paths, as switches publish them.

Each switch publishes the bytes held at a port when a packet departs there, and others see them one
to two `publish_delay` later. A packet's first switch draws a group other than both ends. It adds up
the queues on the path to the destination and on the path via the group, and takes the latter if the
former has over `ugal_threshold` packets more. Of several ports, the least loaded one counts and is
taken. The sum ends at a switch without hosts, which publishes no queues. Levels are as in
`valiant`.

Kim et al., "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008, section 4.2, where
the algorithm is ideal: it knows all queues instantly.
"""

from netsim.params import Param
from netsim.routing import (
    candidate,
    candidates,
    candidates_at,
    far_group,
    far_group_at,
    group_of,
    held,
    n_groups,
    publish,
    published,
    set_via,
)
from netsim.routing_algorithms import least_loaded, spray_random, valiant

PARAMS = [
    Param("publish_delay", "time", "1us", "least age of the queues of other switches"),
    Param("ugal_threshold", "count", 3, "advantage of the minimal way, in full packets"),
]

COUPLED = True
VIA = True
LEVELS = valiant.LEVELS
PUBLISHED = 256  # by port
PORT_SALTS = least_loaded.PORT_SALTS

MAX_LINKS = 8  # on a path to a group, that count

choose = least_loaded.choose
on_route = valiant.on_route


def at_source(env, now, port, pkt):
    here, away = env.switch.group, group_of(env, pkt)
    n = n_groups(env) - 2
    if away == here or n <= 0:
        return
    draw = spray_random.choose(env, now, port, pkt, 0, n)
    via = valiant.other_than(draw, here, away)
    detour = queues(env, now, here, via) + queues(env, now, via, away)
    packet_bytes = env.par.payload_bytes + env.par.header_bytes
    if queues(env, now, here, away) > detour + env.par.ugal_threshold * packet_bytes:
        set_via(env, pkt, via)


def queues(env, now, at, to):
    """Return the bytes held on the path from one group's edge switch to another's."""
    total = 0
    for _ in range(MAX_LINKS):
        if at == to or at < 0:
            break
        own = at == env.switch.group
        if own:
            first, n = candidates(env, now, to)
        else:
            first, n = candidates_at(env, now, at, to)
        least, best = -1, 0
        for k in range(n):
            p = candidate(env, first, k)
            n_bytes = held(env, p) if own else published(env, now, at, p)
            if least < 0 or n_bytes < least:
                least, best = n_bytes, p
        if least < 0:
            break
        total += least
        at = far_group(env, best) if own else far_group_at(env, at, best)
    return total


def on_depart(env, now, port, pkt):
    p = port.number - env.switch.first_port
    publish(env, now, p, held(env, p))
