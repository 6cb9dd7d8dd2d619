"""Dragonfly+ (Megafly): groups that are leaf-spine networks, and cables between their spines.

With switches of `radix` ports, a group has radix/2 leaves with radix/2 hosts each and radix/2
spines, each with a cable to every leaf of the group and radix/2 cables to other groups. The largest
network has radix^2/4 + 1 groups, with one cable between any two; `groups` makes it smaller, if the
radix^2/4 cables of a group can be divided evenly among the others.

Packets take all shortest paths: up to a spine, one cable between groups, and down. Leaves are
numbered before spines, both group by group: g3_leaf1, g3_spine0.

Shpiner et al., "Dragonfly+: Low Cost Topology for Scaling Datacenters", HiPINEB 2017.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.topologies._direct import LINKS, Cables, build_direct
from netsim.topologies.dragonfly import cables_between

PARAMS = [
    Param("radix", "count", REQUIRED, "ports of every switch, an even number", minimum=2),
    Param("groups", "count", None, "groups; default: radix^2 / 4 + 1", minimum=2),
    *LINKS,
    Param("global_rate", "rate", None, "rate between groups; default: fabric_rate"),
    Param("global_latency", "time", None, "propagation between groups; default: link_latency"),
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError for an odd radix, or if the
    cables of a group cannot be divided evenly among the others."""
    half, odd = divmod(params["radix"], 2)
    if odd:
        message = f"{params['radix']} ports cannot be halved"
        raise InputError(message, key="topology.radix", hint="an even number")
    groups = params["groups"] or half * half + 1
    n = groups * half
    leaf, spine = np.divmod(np.arange(n * half), half)
    spine += leaf // half * half
    cables = [
        Cables(np.stack([leaf, n + spine], axis=1)),
        Cables(
            n + cables_between(groups, half, half), params["global_rate"], params["global_latency"]
        ),
    ]
    names = [
        [f"g{group}_{kind}{k}" for group in range(groups) for k in range(half)]
        for kind in ("leaf", "spine")
    ]
    name = f"dragonfly_plus_{n * half}"
    return build_direct(name, params, names, half, cables, (groups, half))
