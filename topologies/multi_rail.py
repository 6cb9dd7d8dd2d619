"""Rails: racks of GPUs with a scale-up network each, and scale-out networks for GPUs of one rank.

A rack has `gpus` hosts; host h is in rack h // gpus, as its rank h % gpus. By NIC 0 it reaches
the other hosts of its rack: a switch, or `scale_up_planes` of them, which share `scale_up_rate`.
By NIC 1 it reaches hosts of other racks: `gpus_per_rail` neighboring ranks have a scale-out
network in common, [topology.rail], a topology of any kind (several planes are a `multi_plane`). Its
hosts are those of the rail rack by rack, which says how many racks there are.

A message between hosts of different racks and rails goes by way of a peer, in two flows: `relay =
"source"` takes it over the scale-up network to the peer of its own rack that is of the rank of its
destination, and from there by that one's rail; "destination" by its own rail to the peer of its
own rank in the other rack, and there over the scale-up network; with "none" such messages are
refused. It is cut into chunks of `relay_chunk`, and the peer sends each of them on as soon as
it has it: `netsim/model/relays.py` says when exactly. What flows.parquet says of a message is from
its start until its destination has all of it; its segments are in relay_segments.parquet.

With `reduction` the switches of a rack add up, as NVLink's do: its hosts have a reduction unit,
which is as far behind each of these switches as that says, for the algorithm in_network of
collectives in the rack. `netsim/model/reduction.py` says what of that is modeled.

Switches are called rack0.up0, ... and rail0.leaf0, ... as the rail's topology has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.network import Network, NetworkBuilder, RelayRule, build_subtopology, with_reduction
from netsim.params import REQUIRED, Param
from netsim.units import format_rate

PARAMS = [
    Param("gpus_per_rack", "count", REQUIRED, "hosts per rack", minimum=1),
    Param("gpus_per_rail", "count", 1, "hosts of a rack that share a scale-out network"),
    Param("rail", "topology", REQUIRED, "topology of a rail's scale-out network"),
    Param(
        "scale_up_rate",
        "rate",
        "14.4Tbps",
        "line rate of a host to its rack's switches",
        source="\"I've Got 99 Problems But FLOPS Ain't One\", HotNets 2024",
    ),
    Param(
        "scale_up_planes",
        "count",
        1,
        "switches per rack; each host has a port to every one",
        minimum=1,
    ),
    Param("scale_up_latency", "time", "100ns", "propagation delay of a cable in the rack"),
    Param("scale_up_switch_latency", "time", "0ns", "switch_latency of the rack's switches"),
    Param(
        "reduction_delay",
        "time",
        None,
        "delay from a rack switch to its reduction unit, each way; default: no unit",
        minimum="1ps",
        optional=True,
    ),
    Param(
        "relay_at",
        "choice",
        "source",
        "rack of the peer that relays messages to another rail",
        choices=("source", "destination", "none"),
    ),
    Param(
        "relay_chunk",
        "bytes",
        "512KiB",
        "chunk that a relay forwards at a time; none: the whole message",
        minimum="1B",
        optional=True,
    ),
]


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS).

    Raises:
        InputError: numbers that do not divide one another, or as the rail's topology does.
    """
    gpus, group, planes = (
        params["gpus_per_rack"],
        params["gpus_per_rail"],
        params["scale_up_planes"],
    )
    if not group or gpus % group:
        raise InputError(
            f"{gpus} GPUs of a rack cannot be divided into rails of {group}",
            key="topology.gpus_per_rail",
            hint=f"a divisor of {gpus}",
        )
    rate = params["scale_up_rate"]
    if rate % planes:
        raise InputError(
            f"{format_rate(rate)} cannot be divided evenly among {planes} planes",
            key="topology.scale_up_planes",
            hint=f"a scale_up_rate that is a multiple of {planes} bps",
        )
    rail = build_subtopology(params, "rail")
    if rail.n_hosts % group:
        raise InputError(
            f"{rail.n_hosts} hosts of a rail are no whole number of racks with {group} in each",
            key="topology.rail",
            hint="as many hosts as there are racks, times gpus_per_rail",
        )
    racks, rails = rail.n_hosts // group, gpus // group
    builder = NetworkBuilder()
    builder.reserve(
        hosts=racks * gpus,
        switches=racks * planes + rails * rail.n_switches,
        cables=racks * gpus * planes + rails * rail.n_ports // 2,
        edges=rail.n_groups,
        ports=max(gpus, planes),
    )
    hosts = np.array(builder.add_hosts(racks * gpus)).reshape(racks, gpus)
    names = [f"rack{rack}.up{plane}" for rack in range(racks) for plane in range(planes)]
    switches = builder.add_switches(names, 0, params["scale_up_switch_latency"])
    ups = np.array(switches).reshape(racks, planes)
    for plane in range(planes):
        builder.cables(
            hosts,
            ups[:, [plane]],
            rate // planes,
            params["scale_up_latency"],
        )
    for number in range(rails):
        own = hosts[:, number * group : (number + 1) * group].reshape(-1)
        builder.add_network(rail, own, prefix=f"rail{number}.", nic=1)
    network = builder.build(f"{rails}_rails_of_{rail.name}")
    if params["relay_at"] != "none":
        rule = RelayRule(gpus, group, params["relay_at"], params["relay_chunk"])
        network = replace(network, relays=rule)
    if params["reduction_delay"] is None:
        return network
    return with_reduction(network, params["reduction_delay"])
