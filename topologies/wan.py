"""Datacenters joined by long-haul links, each a network of any kind.

[topology.datacenter] defines each of the `datacenters`, or only the first one with
[topology.other_datacenter] for the others. Hosts are numbered datacenter by datacenter. Each
datacenter has a border switch with a cable of `border_rate` to every switch of its highest tier,
and any two border switches have `links` cables of `link_rate` and `delay`. Instead of `link_rate`,
`capacity_per_host` is the rate of all these cables per host of the smaller datacenter.

If hosts have several ports, each network that their last NIC leads to (a plane, or a rail of a
`multi_rail`) has its own border switch, joined to the corresponding border switches of other
datacenters. All datacenters then have the same number of these networks and, for `multi_rail`, the
same racks and relays.

Switches are called dc0.leaf0 and dc0.border0. Bit errors of long-haul links are faults of `links =
"dc*.border* - dc*.border*"` with a `bit_error_rate`. `border_queue` gives border switches deeper
queues than `queue_bytes` of [fabric]: a long link's bandwidth-delay product exceeds a datacenter
switch's buffer.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from netsim.errors import InputError
from netsim.network import Network, NetworkBuilder, build_subtopology
from netsim.params import REQUIRED, Param, Params

PARAMS = [
    Param("datacenters", "count", 2, "number of datacenters", minimum=2),
    Param("datacenter", "topology", REQUIRED, "topology of each, or of the first one"),
    Param("other_datacenter", "topology", None, "topology of all except the first"),
    Param("links", "count", 1, "long-haul links between two border switches", minimum=1),
    Param("link_rate", "rate", None, "line rate of a long-haul link"),
    Param("capacity_per_host", "rate", None, "long-haul rate per host; replaces link_rate"),
    Param("delay", "time", "30ms", "propagation delay of a long-haul link", minimum="1ps"),
    Param("border_rate", "rate", None, "border switch to one below; default: its fastest port's"),
    Param("border_latency", "time", "1us", "propagation delay of these cables", minimum="1ps"),
    Param(
        "border_queue", "bytes", None, "queue_bytes of border switches; default: as in [fabric]",
        minimum="1B",
    ),
]  # fmt: skip


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError for datacenters that cannot be
    connected, and the same InputErrors as their topologies."""
    if (params["link_rate"] is None) == (params["capacity_per_host"] is None):
        message = "exactly one of link_rate and capacity_per_host is required"
        raise InputError(message, key="topology.link_rate", hint='such as link_rate = "400Gbps"')
    first = build_subtopology(params, "datacenter")
    same = params["other_datacenter"] is None
    other = first if same else build_subtopology(params, "other_datacenter")
    parts = [first] + [other] * (params["datacenters"] - 1)
    outside = [_outside(first)]
    outside += [outside[0] if other is first else _outside(other)] * (len(parts) - 1)
    if outside[0].size != outside[1].size or first.relays != other.relays:
        what = "networks for other datacenters" if first.relays == other.relays else "relays"
        message = f"must have the same {what} as datacenter"
        raise InputError(message, key="topology.other_datacenter")
    n_networks = outside[0].size
    builder = NetworkBuilder()
    builder.reserve(
        hosts=sum(part.n_hosts for part in parts),
        switches=sum(part.n_switches + n_networks for part in parts),
        cables=sum(part.n_ports // 2 + part.n_switches for part in parts),
        edges=sum(part.n_groups for part in parts),
    )
    places = [builder.add_hosts(part.n_hosts) for part in parts]
    borders = []
    for number, (part, hosts) in enumerate(zip(parts, places, strict=True)):
        switches = builder.add_network(part, hosts, prefix=f"dc{number}.")
        prefix = f"dc{number}.border"
        borders.append(_borders(builder, params, prefix, part, outside[number], switches))
    for a, b in combinations(range(len(parts)), 2):
        hosts_there = min(parts[a].n_hosts, parts[b].n_hosts)
        rate = params["link_rate"]
        if rate is None:
            rate = params["capacity_per_host"] * hosts_there // (n_networks * params["links"])
        here, there = (np.repeat(ends, params["links"]) for ends in (borders[a], borders[b]))
        builder.cables(here, there, rate, params["delay"])
    network = builder.build(f"{len(parts)}_datacenters_of_{first.name}")
    queues = None
    if params["border_queue"] is not None:
        queues = np.zeros(network.n_switches, np.int64)
        queues[np.concatenate(borders) - network.n_hosts] = params["border_queue"]
    return replace(network, relays=first.relays, switch_queue_bytes=queues)


def _outside(part: Network) -> np.ndarray:
    """Return the networks of a datacenter that reach others: the networks of its hosts' last
    NICs."""
    host = part.port_node[: part.n_host_ports]
    last = np.diff(part.first_nic)[host] - 1
    return np.unique(part.port_network[part.port_nic == last])


def _borders(
    builder: NetworkBuilder,
    params: Params,
    prefix: str,
    part: Network,
    outside: np.ndarray,
    switches: range,
) -> np.ndarray:
    """Add the border switches of a datacenter, one for each of its networks `outside`; return
    the ids. `switches` are its own switches."""
    borders = []
    for place, network in enumerate(outside.tolist()):
        inside = np.flatnonzero(part.switch_network == network)
        tiers = part.tier[part.n_hosts + inside]
        border = builder.add_switch(f"{prefix}{place}", int(tiers.max()) + 1)
        for switch in inside[tiers == tiers.max()].tolist():
            rates = part.port_rate_bps[part.port_node == part.n_hosts + switch]
            rate = params["border_rate"] or int(rates.max())
            builder.cable(switches[switch], border, rate, params["border_latency"])
        borders.append(border)
    return np.array(borders)
