"""UGAL-L: each packet takes the minimal path, or one via a random group if its queue is shorter.

A packet's first switch draws a group other than both ends and compares the bytes held at its own
ports: the packet goes via the group if more bytes are held toward its destination than
`ugal_weight` times the bytes held toward the group plus `ugal_threshold` packets. The weight is the
ratio of the two path lengths. Of several ports, the least loaded one counts and is taken.

In a Dragonfly the switch often lacks the link to the other group and does not see its queue: the
paper's routers have small buffers that push back; here queues are deep, and PFC also pauses hosts.
Use `par` or `ugal_g` there. Levels are as in `valiant`.

Singh, "Load-Balanced Routing in Interconnection Networks", PhD thesis, Stanford, 2005; with local
queues in Kim et al., "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008.
"""

from netsim.params import Param
from netsim.routing import candidate, candidates, group_of, held, n_groups, set_via
from netsim.routing_algorithms import least_loaded, spray_random, valiant

BOOKSIM = "BookSim2, dragonfly.cpp: minimal if q_min <= 2 q_val + 30 flits"

PARAMS = [
    Param("ugal_weight", "count", 2, "weight of the queue on the way via a group", BOOKSIM),
    Param("ugal_threshold", "count", 3, "advantage of the minimal way, in full packets", BOOKSIM),
]

COUPLED = True
VIA = True
LEVELS = valiant.LEVELS
PORT_SALTS = least_loaded.PORT_SALTS

choose = least_loaded.choose
on_route = valiant.on_route


def at_source(env, now, port, pkt):
    away = group_of(env, pkt)
    if away == env.switch.group:
        return
    here = env.switch.group
    n = n_groups(env) - 2
    if here < 0:  # a switch without hosts
        n += 1
    if n <= 0:
        return
    k = spray_random.choose(env, now, port, pkt, 0, n)
    via = valiant.other_than(k, here, away)
    other = least_held(env, now, via)
    if other < 0:
        return
    packet_bytes = env.par.payload_bytes + env.par.header_bytes
    limit = env.par.ugal_weight * other + env.par.ugal_threshold * packet_bytes
    if least_held(env, now, away) > limit:
        set_via(env, pkt, via)


def least_held(env, now, group):
    """Return the fewest bytes held at a port toward a group; -1 if there is no route."""
    first, n = candidates(env, now, group)
    least = -1
    for k in range(n):
        n_bytes = held(env, candidate(env, first, k))
        if least < 0 or n_bytes < least:
            least = n_bytes
    return least
