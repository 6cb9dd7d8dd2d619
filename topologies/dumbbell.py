"""Dumbbell: two switches connected by one cable, the bottleneck, with hosts on both sides.

Hosts 0 to hosts-1 are on the left, the others on the right; host i is opposite host i + hosts. A
switch's ports are its hosts, then the bottleneck. A packet from left to right crosses links of
host_rate, bottleneck_rate and host_rate, so the round trip without queues is

    2 * (2 * host_delay + bottleneck_delay) + serialization

and the bottleneck's buffer is the fabric's queue_bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.network import Network, NetworkBuilder
from netsim.params import REQUIRED, Param, Params

PARAMS = [
    Param("hosts", "count", REQUIRED, "hosts on each side", minimum=1),
    Param("host_rate", "rate", "100Gbps", "line rate of a host"),
    Param("bottleneck_rate", "rate", "10Gbps", "line rate between the switches"),
    Param("host_delay", "time", "10us", "propagation between host and switch", minimum="1ps"),
    Param("bottleneck_delay", "time", "30ms", "propagation between switches", minimum="1ps"),
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS)."""
    hosts = params["hosts"]
    builder = NetworkBuilder()
    builder.reserve(hosts=2 * hosts, switches=2, cables=2 * hosts + 1, edges=2, ports=hosts + 1)
    builder.add_hosts(2 * hosts)
    sides = np.arange(2 * hosts).reshape(2, hosts)
    left, right = builder.add_switch("left"), builder.add_switch("right")
    for switch, side in ((left, sides[0]), (right, sides[1])):
        builder.cables(side, np.full(hosts, switch), params["host_rate"], params["host_delay"])
    builder.cable(left, right, params["bottleneck_rate"], params["bottleneck_delay"])
    return replace(builder.build(f"dumbbell_{2 * hosts}"), shape=(2,))
