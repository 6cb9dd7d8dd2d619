"""Dimension order in a torus with PFC: level 1 from a ring's dateline on, so nothing deadlocks.

For a `torus` with `paths = "dimension_order"`: packets are routed one dimension at a time, the
shorter way around each ring. Links between switches have two levels, which are paused separately. A
packet enters each dimension at level 0, and continues at level 1 from the link that closes the
ring. No packet goes all the way around, so none waits for itself. If both ways are equally long, a
flow takes one, as with `ecmp`. Without PFC this is `ecmp`.

Dally and Seitz, "Deadlock-Free Message Routing in Multiprocessor Interconnection Networks", IEEE
Transactions on Computers C-36(5), 1987.
"""

from netsim.routing import dimension_of, far_group, level_of, set_level
from netsim.routing_algorithms import ecmp

PARAMS = []

ONE_PATH = True
LEVELS = 2

choose = ecmp.choose


def on_route(env, now, port, out, pkt):
    if out.from_host == 1:
        return
    leaves = int(out.number) - env.switch.first_port
    came = int(port.number) - env.switch.first_port
    dimension = dimension_of(env, leaves)
    level = 0
    if closes_ring(env, leaves, dimension):
        level = 1
    elif port.from_host == 0 and dimension_of(env, came) == dimension:
        level = level_of(env, pkt)
    set_level(env, pkt, level)


def closes_ring(env, leaves, dimension):
    """Return whether the link leads from one end of a row of switches to the other: another link in
    its dimension leads to a switch with a closer number."""
    here = env.switch.group
    far = abs(far_group(env, leaves) - here)
    for p in range(env.switch.n_ports):
        if p != leaves and dimension_of(env, p) == dimension:
            to = far_group(env, p)
            if to >= 0 and abs(to - here) < far:
                return True
    return False
