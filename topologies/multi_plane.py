"""Planes: a NIC with one port in each of several separate networks of one kind.

Each plane is a [topology.plane], of any kind. Host i is host i in all of them, and its port p leads
to plane p. Rates are per plane: with 4 planes of `host_rate = "200Gbps"` a host has 800
Gbps. Names of switches begin with the plane's, as in `plane2.leaf0`.

`fabric.plane_balancing` distributes packets over planes: a flow stays on one (`hash`), its packets
alternate (`round_robin`, `permutation`) or take the port that is free first (`least_loaded`), or
the transport chooses (`entropy`).

`last_plane_rate_fraction` multiplies all link rates of the last plane. If it is 0, the plane is
broken and hosts do not use it. A plane that fails during the run is a fault of `node = "plane3.*"`;
`[routing] carrier_delay` is the delay until hosts notice.
"""

from __future__ import annotations

from dataclasses import replace

from netsim.errors import InputError
from netsim.network import Network, NetworkBuilder, build_subtopology
from netsim.params import REQUIRED, Param, Params

PARAMS = [
    Param("planes", "count", REQUIRED, "number of separate networks", minimum=1),
    Param("plane", "topology", REQUIRED, "the topology of each"),
    Param("last_plane_rate_fraction", "fraction", 1.0, "rate factor of the last plane; 0: broken"),
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError if no plane is left, and the
    same InputErrors as the planes' topology."""
    planes = params["planes"] - (params["last_plane_rate_fraction"] == 0)
    if not planes:
        message = "the only plane is broken"
        hint = "more planes, or more than 0"
        raise InputError(message, key="topology.last_plane_rate_fraction", hint=hint)
    plane = build_subtopology(params, "plane")
    builder = NetworkBuilder()
    builder.reserve(
        hosts=plane.n_hosts,
        switches=planes * plane.n_switches,
        cables=planes * plane.n_ports // 2,
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
    network = builder.build(f"{planes}_planes_of_{plane.name}")
    return replace(network, shape=plane.shape)
