"""Minimal adaptive with PFC: the least loaded shortest path, and a level that rises with each link.

Like `least_loaded`, for direct networks such as a `torus` with `paths = "minimal"`. Links between
switches have 8 levels, which are paused separately. A packet takes its first link at level 0 and
each further link one level higher, so nothing deadlocks on paths of at most 8 links. Without PFC
this is `least_loaded`.

Real networks have fewer levels and an escape level (Duato, "A New Theory of Deadlock-Free Adaptive
Routing in Wormhole Networks", IEEE TPDS 4(12), 1993). That requires packets that may still change
their port while they wait; here a switch chooses the port when they arrive.

Günther, "Prevention of Deadlocks in Packet-Switched Data Transport Systems", IEEE Transactions on
Communications 29(4), 1981 (rising levels).
"""

from netsim.routing import level_of, set_level
from netsim.routing_algorithms import least_loaded

PARAMS = []

COUPLED = True
LEVELS = 8
PORT_SALTS = least_loaded.PORT_SALTS

choose = least_loaded.choose


def on_route(env, now, port, out, pkt):
    if port.from_host == 0:
        set_level(env, pkt, min(level_of(env, pkt) + 1, LEVELS - 1))
