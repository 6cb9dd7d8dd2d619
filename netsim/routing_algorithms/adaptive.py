"""Adaptive: each packet, or each flowlet, takes a port of the best quality.

A port's quality comes from its queue and its utilization, as in the switches of AI clusters
(adaptive routing, dynamic load balancing). The queue has 4 levels, which change at `queue_level`,
twice and four times as many packets; each is divided into 4 levels of utilization
(_utilization.py). Ties are broken at random. With `flowlet_gap` = 0 each packet chooses, and
receivers must reorder; otherwise a flowlet keeps its port.

`queue_level` and its multiples have the ratios of htsim's switch (5, 10 and 20 % of the queue),
which also compares utilization in quarters; vendors do not publish their levels. The utilization
estimate is CONGA's.
"""

from netsim.params import Param
from netsim.routing import below, candidate, flow_row, held, mix
from netsim.routing_algorithms import _utilization as utilization
from netsim.routing_algorithms import letflow, spray_random

HTSIM = "htsim, fat_tree_switch.cpp and queue.cpp"

PARAMS = [
    Param("queue_level", "count", 5, "full packets held at the first level", HTSIM, minimum=1),
    Param("flowlet_gap", "time", "0ns", "longest gap within a flowlet; 0: choose per packet"),
    *utilization.PARAMS,
]

PRESETS = {"flowlet": {"flowlet_gap": "10us"}}  # a gap of 10 us, as htsim's flowlets

COUPLED = True
LEVELS_OF_PORT = 4
PORT_SALTS = spray_random.PORT_SALTS
PORT_STATE = utilization.PORT_STATE
FLOW_TABLE = letflow.FLOW_TABLE

on_depart = utilization.on_depart


def choose(env, now, port, pkt, first, n):
    if env.par.flowlet_gap == 0:
        return best(env, now, port, first, n)
    row = flow_row(env, port, pkt)
    k = letflow.index_of(env, row, first, n)
    if k < 0 or now - row.last_ps > env.par.flowlet_gap:
        k = best(env, now, port, first, n)
    letflow.remember(env, now, row, first, k)
    return k


def best(env, now, port, first, n):
    """Return a random one of the best candidates."""
    draw = mix(port.salt ^ (port.draws & 0xFFFFFFFF))
    port.draws += 1
    taken = 0
    least = cost(env, now, first, 0)
    equal = 1
    for k in range(1, n):
        other = cost(env, now, first, k)
        if other < least:
            least = other
            taken = k
            equal = 1
        elif other == least:
            equal += 1
            if below(mix(draw ^ k), equal) == 0:
                taken = k
    return taken


def cost(env, now, first, k):
    """Return 4 times the level of a candidate's queue, plus the level of its utilization."""
    p = candidate(env, first, k)
    n_bytes = held(env, p)
    queue = 0
    threshold = env.par.queue_level * (env.par.payload_bytes + env.par.header_bytes)
    while queue < LEVELS_OF_PORT - 1 and n_bytes >= threshold:
        queue += 1
        threshold *= 2
    return LEVELS_OF_PORT * queue + utilization.level(env, now, p, LEVELS_OF_PORT)
