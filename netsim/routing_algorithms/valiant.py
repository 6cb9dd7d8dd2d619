"""Valiant: packets go to a random group first, then to their destination, by minimal paths.

A group is the hosts of one switch. Any traffic then spreads like uniform traffic, but uses twice
the links. `valiant_unit` draws a group for each packet, or one for each flow (and direction, and
entropy). `intermediate` draws it from all groups, including both ends, or only from the others.
Packets to the same switch take no detour.

With PFC, links between switches have 6 levels, which are paused separately. A packet is at level 0
on its first link and one level higher on each further link, so it never waits for itself if both
paths together have at most 6 links (Dragonfly; Slim Fly and full meshes have 4 and 2). Other
networks are refused.

Valiant, "A Scheme for Fast Parallel Communication", SIAM J. Comput. 11(2), 1982; Dally and Towles,
"Principles and Practices of Interconnection Networks", section 9.2.
"""

import numpy as np

from netsim.params import Param
from netsim.routing import (
    FIRST_CONTROL,
    below,
    group_of,
    level_of,
    mix,
    n_groups,
    rand32,
    set_level,
    set_via,
)
from netsim.routing_algorithms import ecmp, spray_random

PURPOSE_FLOW = 128

PARAMS = [
    Param(
        "valiant_unit", "choice", "packet", "what has its own intermediate group",
        choices=("packet", "flow"),
    ),
    Param(
        "intermediate", "choice", "any", "drawn from: any group, or other than both ends",
        choices=("any", "other"),
    ),
]  # fmt: skip

PRESETS = {"other": {"intermediate": "other"}}

PACKET, FLOW = 0, 1
ANY, OTHER = 0, 1

VIA = True
LEVELS = 6
PORT_SALTS = spray_random.PORT_SALTS


def legs(params, demand):
    """Return the traffic between groups, with legs via other groups, for an end-to-end `demand`."""
    n = len(demand)
    away = demand * (1 - np.eye(n))
    first, second = away.sum(axis=1, keepdims=True), away.sum(axis=0, keepdims=True)
    if params["intermediate"] == "any":
        return (first + second) / n
    return (first + second - 2 * away) / (n - 2) if n > 2 else away


def at_source(env, now, port, pkt):
    away = group_of(env, pkt)
    here = env.switch.group
    n = n_groups(env)
    if env.par.intermediate == OTHER:
        n -= 2
    if away == here or n <= 0:
        return
    if env.par.valiant_unit == PACKET:
        via = spray_random.choose(env, now, port, pkt, 0, n)
    else:
        control = 1 if int(pkt.kind) >= FIRST_CONTROL else 0
        key = mix(int(pkt.flow) * 2 + control) ^ int(pkt.entropy)
        via = below(rand32(env.par.seed, PURPOSE_FLOW, key, 0), n)
    if env.par.intermediate == OTHER:
        via = other_than(via, here, away)
    set_via(env, pkt, via)


def on_route(env, now, port, out, pkt):
    if port.from_host == 0:
        set_level(env, pkt, min(level_of(env, pkt) + 1, LEVELS - 1))


def other_than(k, a, b):
    """Return the k-th of the groups other than `a` (-1: none) and `b`."""
    if k >= min(a, b) and a >= 0:
        k += 1
    if k >= max(a, b):
        k += 1
    return k


def choose(env, now, port, pkt, first, n):
    if env.par.valiant_unit == PACKET:
        return spray_random.choose(env, now, port, pkt, first, n)
    return ecmp.choose(env, now, port, pkt, first, n)
