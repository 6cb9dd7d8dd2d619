"""PAR: like ugal_l, but the second switch decides again for packets on the minimal path.

In a Dragonfly one of the two has the link to the other group, so that link's queue counts. The
original algorithm decides again at every switch of the first group. With PFC a packet could take
more links than `ugal_l` has levels, so PFC is refused.

Jiang, Kim and Dally, "Indirect Adaptive Routing on Large Scale Interconnection Networks", ISCA
2009 (progressive adaptive routing).
"""

from netsim.routing import via_of
from netsim.routing_algorithms import ugal_l

PARAMS = ugal_l.PARAMS

COUPLED = True
VIA = True
PORT_SALTS = ugal_l.PORT_SALTS

SECOND = 2  # links that a packet has crossed when it reaches the second switch

at_source = ugal_l.at_source
choose = ugal_l.choose


def at_switch(env, now, port, pkt):
    if int(pkt.hops) == SECOND and via_of(pkt) < 0:
        ugal_l.at_source(env, now, port, pkt)
