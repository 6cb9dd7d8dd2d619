"""UGAL-L: each packet goes the minimal way, or via a random group if the queue there is shorter.

The switch that a packet enters by draws a group other than both ends and compares the bytes held at
its own ports: the packet goes via the group if those towards its destination are more than
`ugal_weight` times those towards the group, plus `ugal_threshold` packets. The weight stands for
the ratio of the lengths of both ways. Of several ports, the least loaded one counts and is taken.

With `decisions = 2`, the preset "progressive", the next switch decides again for packets that go
the minimal way. In a Dragonfly it often has the link to the other group. The first switch knows of
that link's queue only if links push back (PFC); without, use this preset.

Singh, "Load-Balanced Routing in Interconnection Networks", PhD thesis, Stanford, 2005; with local
queues in Kim et al., "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008; two
decisions as in the progressive adaptive routing (PAR) of Jiang et al., "Indirect Adaptive Routing
on Large Scale Interconnection Networks", ISCA 2009, which decides again in all of the first group.
"""

from netsim.params import Param
from netsim.routing import candidate, candidates, group_of, held, n_groups, set_via, via_of
from netsim.routing_algorithms import least_loaded, spray_random, valiant

BOOKSIM = "BookSim2, dragonfly.cpp: minimal if q_min <= 2 q_val + 30 flits"

PARAMS = [
    Param("ugal_weight", "count", 2, "weight of the queue on the way via a group", BOOKSIM),
    Param("ugal_threshold", "count", 3, "advantage of the minimal way, in full packets", BOOKSIM),
    Param("decisions", "count", 1, "switches that decide: 1 or 2", minimum=1, maximum=2),
]

PRESETS = {"progressive": {"decisions": 2}}

COUPLED = True
VIA = True
PORT_SALTS = least_loaded.PORT_SALTS

choose = least_loaded.choose


def at_source(env, now, port, pkt):
    away = group_of(env, pkt)
    if away == env.switch.group:
        return
    n = n_groups(env)
    if env.switch.group >= 0:
        n -= 2
    else:
        n -= 1
    if n <= 0:
        return
    via = spray_random.choose(env, now, port, pkt, 0, n)
    if env.switch.group >= 0:
        via = valiant.other_than(via, env.switch.group, away)
    elif via >= away:
        via += 1
    other = least_held(env, now, via)
    if other < 0:
        return
    packet_bytes = env.par.payload_bytes + env.par.header_bytes
    limit = env.par.ugal_weight * other + env.par.ugal_threshold * packet_bytes
    if least_held(env, now, away) > limit:
        set_via(env, pkt, via)


def at_switch(env, now, port, pkt):
    if int(pkt.hops) <= env.par.decisions and via_of(pkt) < 0:
        at_source(env, now, port, pkt)


def least_held(env, now, group):
    """Return the fewest bytes held at a port towards a group; -1 if there is no route."""
    first, n = candidates(env, now, group)
    least = -1
    for k in range(n):
        n_bytes = held(env, candidate(env, first, k))
        if least < 0 or n_bytes < least:
            least = n_bytes
    return least
