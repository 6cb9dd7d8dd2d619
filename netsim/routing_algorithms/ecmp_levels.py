"""ECMP in direct networks with PFC: a packet's level rises with each link, so nothing deadlocks.

Links between switches have four levels, which are paused separately. A packet takes the first link
at level 0, the next at level 1, and so on, and waits only for links at higher levels than its own.
Paths may have at most four links: Slim Fly has two, a Dragonfly three, HyperX one per dimension.
Without PFC this is `ecmp`.

Günther, "Prevention of Deadlocks in Packet-Switched Data Transport Systems", IEEE Transactions on
Communications 29(4), 1981.
"""

from netsim.routing import level_of, set_level
from netsim.routing_algorithms import ecmp

PARAMS = []

ONE_PATH = True
LEVELS = 4

choose = ecmp.choose


def on_route(env, now, port, out, pkt):
    if port.from_host == 0:
        set_level(env, pkt, min(level_of(env, pkt) + 1, LEVELS - 1))
