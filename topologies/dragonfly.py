"""Dragonfly: groups of fully meshed switches, and cables between all groups.

A group has `switches_per_group` (a) switches, each with `hosts_per_switch` (p) hosts and
`global_links` (h) cables to other groups. The largest network has a h + 1 groups, with one cable
between any two; `groups` makes it smaller, if the a h cables of a group can be divided evenly among
the others. A balanced network has a = 2 p = 2 h.

Cable k of a group is at its switch k // h. `arrangement`: it leads to group k, not counting itself
("absolute"), or to the group k + 1 groups ahead ("relative").

Packets take minimal routes: a cable within the group, one to the destination's group, and one
within that group. Other routes, with two cables between groups, may be as short; packets take them
only if links are down.

Hosts and switches are numbered group by group; g3_s1 is a switch.

Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Ints
from netsim.network import Network, NetworkBuilder
from netsim.params import REQUIRED, Param, Params
from netsim.topologies._direct import LINKS, Cables, build_direct

ABSOLUTE, RELATIVE = "absolute", "relative"

GLOBAL_WEIGHT = 3  # two cables between groups weigh more than one and one in either group

PARAMS = [
    Param("switches_per_group", "count", REQUIRED, "switches of a group (a)", minimum=1),
    Param("hosts_per_switch", "count", None, "hosts per switch (p); default: a / 2", minimum=1),
    Param("global_links", "count", None, "cables to other groups (h); default: a / 2", minimum=1),
    Param("groups", "count", None, "groups; default: a h + 1", minimum=2),
    Param(
        "arrangement", "choice", ABSOLUTE, "which group a cable leads to",
        choices=(ABSOLUTE, RELATIVE),
    ),
    *LINKS,
    Param("global_rate", "rate", None, "rate between groups; default: fabric_rate"),
    Param("global_latency", "time", None, "propagation between groups; default: link_latency"),
]  # fmt: skip


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError if the cables of a group
    cannot be divided evenly among the others."""
    a = params["switches_per_group"]
    half = max(1, a // 2)
    p, h = params["hosts_per_switch"] or half, params["global_links"] or half
    groups = params["groups"] or a * h + 1
    n, ports = groups * a, a - 1 + h + p
    n_cables = n * (a - 1 + h) // 2 + n * p
    NetworkBuilder().reserve(hosts=n * p, switches=n, cables=n_cables, edges=n, ports=ports)
    first = np.arange(groups)[:, None, None] * a
    within = np.array(list(combinations(range(a), 2)), np.int64).reshape(1, -1, 2)
    cables = [
        Cables((first + within).reshape(-1, 2)),
        Cables(
            cables_between(groups, a, h, params["arrangement"]),
            params["global_rate"],
            params["global_latency"],
            weight=GLOBAL_WEIGHT,
        ),
    ]
    names = [f"g{group}_s{k}" for group in range(groups) for k in range(a)]
    name = f"dragonfly_{len(names) * p}"
    return build_direct(name, params, [names], p, cables, (groups, a))


def cables_between(groups: int, a: int, h: int, arrangement: str = ABSOLUTE) -> Ints:
    """Return int64[n, 2], the switches that cables between groups connect. Raises InputError if a
    group's cables cannot be divided evenly among the others."""
    if (a * h) % (groups - 1):
        raise InputError(
            f"{a * h} cables of a group cannot be divided evenly among {groups - 1} others",
            key="topology.groups",
            hint=f"{a * h + 1}, or a divisor of {a * h} plus 1",
        )
    group, k = np.divmod(np.arange(groups * a * h), a * h)
    copy, k = np.divmod(k, groups - 1)
    if arrangement == ABSOLUTE:
        to = k + (k >= group)
        back = group - (group > to)
    else:
        to = (group + k + 1) % groups
        back = groups - 2 - k
    here = group * a + (copy * (groups - 1) + k) // h
    there = to * a + (copy * (groups - 1) + back) // h
    return np.stack([here, there], axis=1)[group < to]
