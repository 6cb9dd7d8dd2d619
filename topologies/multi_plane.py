"""Planes: a NIC with a port in each of several networks of one kind, which have nothing in common.

[topology.plane] is a topology of any kind, and each plane is one of them: host i is host i in all
of them, and its port p leads to plane p. The rates are those of the plane: with 4 planes of
`host_rate = "200Gbps"` a host has 800 Gbps. The names of switches begin with their plane's, as in
`plane2.leaf0`.

`fabric.plane_balancing` says how packets go by the planes: a flow stays on one (`hash`), its
packets take them all in turn (`round_robin`, `permutation`) or the one whose port is free first
(`free`), or its transport chooses (`entropy`).

With `last_plane_rate_fraction` the last plane is slower: all of its links have that share of their
rates. With 0 it is broken and known to be: hosts use the others. For a plane that breaks during the
run there are faults, of `node = "plane3.*"`, and `[routing] carrier_delay` says when hosts notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.errors import InputError
from netsim.network import Network, NetworkBuilder, build_subtopology
from netsim.params import REQUIRED, Param

PARAMS = [
    Param("planes", "count", REQUIRED, "number of separate networks", minimum=1),
    Param("plane", "topology", REQUIRED, "the topology of each"),
    Param(
        "last_plane_rate_fraction",
        "fraction",
        1.0,
        "rate of the last plane relative to the others; 1: healthy, 0: broken",
    ),
]


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS).

    Raises:
        InputError: no plane is left, or as the topology of the planes does.
    """
    planes = params["planes"] - (params["last_plane_rate_fraction"] == 0)
    if not planes:
        raise InputError(
            "the only plane is broken",
            key="topology.last_plane_rate_fraction",
            hint="more planes, or more than 0",
        )
    plane = build_subtopology(params, "plane")
    builder = NetworkBuilder()
    builder.reserve(
        hosts=plane.n_hosts,
        switches=planes * plane.n_switches,
        cables=planes * plane.n_ports // 2,
        edges=plane.n_groups,
        ports=planes * -(-plane.n_host_ports // plane.n_hosts),
    )
    hosts = builder.add_hosts(plane.n_hosts)
    for number in range(planes):
        is_degraded = number == params["planes"] - 1
        builder.add_network(
            plane,
            hosts,
            prefix=f"plane{number}.",
            rate=params["last_plane_rate_fraction"] if is_degraded else 1.0,
        )
    return builder.build(f"{planes}_planes_of_{plane.name}")
