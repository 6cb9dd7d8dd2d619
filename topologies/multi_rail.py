"""Rails: racks of GPUs with a scale-up network each, and scale-out networks for GPUs of equal rank.

Host h is in rack h // gpus_per_rack, as its rank h % gpus_per_rack. NIC 0 reaches the other hosts
of the rack through one switch, or `scale_up_planes` switches that share `scale_up_rate`. NIC 1
reaches other racks: `gpus_per_rail` neighboring ranks share a scale-out network, [topology.rail], a
topology of any kind (for planes, a `multi_plane`). Its hosts are the rail's, rack by rack, which
defines the number of racks.

`racks_per_leaf`: rails share spines, as in most H100 clusters. The hosts of a scale-out network are
then numbered rank by rank in each pod of this many racks, so that a leaf has one rank of a pod's
racks. With `gpus_per_rail = gpus_per_rack` there is one network with spines for all rails:

    gpus_per_rack = 8, gpus_per_rail = 8, racks_per_leaf = 32
    [topology.rail]    kind = "fat_tree", hosts_per_leaf = 32, leaves = 16    two pods, 512 GPUs

A message between hosts of different racks and rails is relayed by a peer, in two flows. `relay_at =
"source"`: over scale-up to the peer in its own rack with the destination's rank, then by that
peer's rail. "destination": by its own rail to the peer of its rank in the other rack, then over
scale-up. "none": such messages are errors. Nothing is relayed within a scale-out network unless
`pxn` is set: peers then also relay between its ranks, as NCCL's PXN does. A relay forwards each
chunk of `relay_chunk` as soon as it has arrived (`netsim/model/relays.py`). flows.parquet has the
whole message, relay_segments.parquet its segments.

`reduction_delay`: rack switches reduce, like NVLink SHARP. Each rack has a reduction unit at this
delay from its switches, for the collective algorithm in_network (`netsim/model/builder.py`).

Switches are called rack0.up0, ... and rail0.leaf0, ... with the names of the rail's topology; with
shared spines, scale_out0.leaf0, ...
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.network import Network, NetworkBuilder, RelayRule, build_subtopology, with_reduction
from netsim.params import REQUIRED, Param, Params
from netsim.units import format_rate

PARAMS = [
    Param("gpus_per_rack", "count", REQUIRED, "hosts per rack", minimum=1),
    Param("gpus_per_rail", "count", 1, "hosts of a rack that share a scale-out network"),
    Param("racks_per_leaf", "count", None,
          "racks of a pod, each rail of which has its own leaf; default: no shared spines",
          minimum=1),
    Param("pxn", "bool", False, "relay also messages that a shared network could carry"),
    Param("rail", "topology", REQUIRED, "topology of a rail's scale-out network"),
    Param("scale_up_rate", "rate", "14.4Tbps", "line rate of a host to its rack's switches",
          source="\"I've Got 99 Problems But FLOPS Ain't One\", HotNets 2024"),
    Param("scale_up_planes", "count", 1, "switches per rack, ports per host", minimum=1),
    Param("scale_up_latency", "time", "100ns", "propagation delay of a cable in the rack"),
    Param("scale_up_switch_latency", "time", "0ns", "switch_latency of the rack's switches"),
    Param("reduction_delay", "time", None, "rack switch to reduction unit, each way; default: none",
          minimum="1ps"),
    Param("relay_at", "choice", "source", "rack of the peer that relays messages to another rail",
          choices=("source", "destination", "none")),
    Param("relay_chunk", "bytes", "512KiB", "unit that a relay forwards; none: the whole message",
          minimum="1B", optional=True),
]  # fmt: skip


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError if counts do not divide
    evenly, and for errors of the rail's topology."""
    return with_rails(params, build_subtopology(params, "rail"))


def with_rails(params: Params, rail: Network) -> Network:
    """Return racks of hosts with scale-out networks like `rail`. Raises InputError for numbers that
    do not divide each other."""
    gpus, group = params["gpus_per_rack"], params["gpus_per_rail"]
    rate, planes = params["scale_up_rate"], params["scale_up_planes"]
    if not group or gpus % group:
        message = f"{gpus} GPUs of a rack cannot be divided into rails of {group}"
        raise InputError(message, key="topology.gpus_per_rail", hint=f"a divisor of {gpus}")
    if rate % planes:
        message = f"{format_rate(rate)} cannot be divided evenly among {planes} planes"
        hint = f"a scale_up_rate that is a multiple of {planes} bps"
        raise InputError(message, key="topology.scale_up_planes", hint=hint)
    if rail.n_hosts % group:
        message = f"{rail.n_hosts} hosts of a rail are not divisible by {group} per rack"
        hint = "the number of racks times gpus_per_rail"
        raise InputError(message, key="topology.rail", hint=hint)
    racks, rails = rail.n_hosts // group, gpus // group
    pod = params.get("racks_per_leaf")
    order = _rank_by_rank(rail, racks, group, pod) if pod else np.arange(rail.n_hosts)
    builder = NetworkBuilder()
    builder.reserve(
        hosts=racks * gpus,
        switches=racks * planes + rails * rail.n_switches,
        cables=racks * gpus * planes + rails * rail.n_ports // 2,
        ports=max(gpus, planes),
    )
    hosts = np.array(builder.add_hosts(racks * gpus)).reshape(racks, gpus)
    names = [f"rack{rack}.up{plane}" for rack in range(racks) for plane in range(planes)]
    switches = builder.add_switches(names, 0, params["scale_up_switch_latency"])
    ups = np.array(switches).reshape(racks, planes)
    for plane in range(planes):
        builder.cables(hosts, ups[:, [plane]], rate // planes, params["scale_up_latency"])
    for number in range(rails):
        own = hosts[:, number * group : (number + 1) * group].reshape(-1)[order]
        prefix = f"scale_out{number}." if pod else f"rail{number}."
        builder.add_network(rail, own, prefix=prefix, nic=1)
    network = replace(builder.build(f"{rails}_rails_of_{rail.name}"), shape=(racks, gpus))
    if params["relay_at"] != "none":
        together = 1 if params.get("pxn") else group
        rule = RelayRule(gpus, together, params["relay_at"], params["relay_chunk"])
        network = replace(network, relays=rule)
    if params["reduction_delay"] is None:
        return network
    return with_reduction(network, params["reduction_delay"])


def _rank_by_rank(rail: Network, racks: int, group: int, pod: int) -> NDArray[np.int64]:
    """Return int64[racks * group], the hosts of a network, rack by rack, in the network's order:
    pods of `pod` racks, in each rank by rank. Raises InputError if a leaf has two ranks."""
    if racks % pod:
        message = f"{racks} racks cannot be divided into pods of {pod}"
        hint = "a divisor of the number of racks"
        raise InputError(message, key="topology.racks_per_leaf", hint=hint)
    order = np.arange(racks * group).reshape(racks // pod, pod, group).swapaxes(1, 2).reshape(-1)
    rank = order[rail.port_node[: rail.n_host_ports]] % group
    first = np.zeros(rail.n_groups, np.int64)
    first[rail.port_group] = rank
    if (first[rail.port_group] != rank).any():
        message = f"a leaf of the rail's topology has more hosts than {pod}, or not a divisor of it"
        raise InputError(message, key="topology.racks_per_leaf", hint="its hosts_per_leaf")
    return order
