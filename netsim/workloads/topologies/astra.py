"""Network of ASTRA-sim's analytical back end, from its YAML file.

Each dimension connects its NPUs by a switch, in a bidirectional ring, or all to all, with links of
one bandwidth and latency. An NPU is a host. In a single dimension with a switch, hosts connect to
it. Otherwise every NPU has a router next to its host, which has the links of all its dimensions and
forwards traffic through the NPU. Packets take all shortest paths, where ASTRA-sim goes dimension by
dimension.

As in ASTRA-sim, a neighbor in a ring, or any NPU in an all-to-all dimension, is one latency away,
or two through a switch. The cable between host and router takes a twentieth of the smallest
latency, so a path through k - 1 other NPUs takes k latencies minus a tenth of k - 1. That cable
has the total rate of the NPU's links.

Bandwidths are in units of 2^30 bytes per second, as in ASTRA-sim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from netsim.network import Network, NetworkBuilder
from netsim.params import REQUIRED, Param
from netsim.workloads.importers.astra import FULL, RING, SWITCH, Dimension, read_network

PARAMS = [Param("file", "file", REQUIRED, "network file of ASTRA-sim (.yml)")]

HOST_CABLE_DIVISOR = 20
"""Divisor of the smallest latency for the cable between host and router."""


def build(params: Mapping[str, Any]) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError naming the file and line."""
    path = Path(params["file"])
    dimensions = read_network(path)
    shape = [one.n for one in reversed(dimensions)]  # the first dimension varies fastest
    n = math.prod(shape)
    direct = len(dimensions) == 1 and dimensions[0].shape == SWITCH
    builder = NetworkBuilder()
    builder.reserve(
        hosts=n,
        switches=(0 if direct else n) + sum(n // one.n for one in dimensions),
        cables=n + sum(n * _links(one) for one in dimensions),
        edges=1 if direct else n,
        ports=max(one.n for one in dimensions) + 1,
    )
    hosts = np.array(builder.add_hosts(n))
    host_cable_ps = 0
    nodes = hosts
    if not direct:
        host_cable_ps = max(min(one.latency_ps for one in dimensions) // HOST_CABLE_DIVISOR, 1)
        nodes = np.array(builder.add_switches([f"npu{k}" for k in range(n)]))
        rate = sum(one.rate_bps * _links(one) for one in dimensions)
        builder.cables(hosts, nodes, rate, host_cable_ps)
    for number, one in enumerate(dimensions):
        groups = np.moveaxis(nodes.reshape(shape), -1 - number, -1).reshape(-1, one.n)
        if one.shape == SWITCH:
            names = [f"dim{number}.switch{k}" for k in range(len(groups))]
            tops = np.array(builder.add_switches(names, 0 if direct else 1))
            builder.cables(
                groups, tops[:, None], one.rate_bps, max(one.latency_ps - host_cable_ps, 1)
            )
            continue
        if one.shape == RING:
            a = np.arange(1 if one.n == 2 else one.n)
            b = (a + 1) % one.n
        else:
            a, b = np.triu_indices(one.n, 1)
        delay_ps = max(one.latency_ps - 2 * host_cable_ps, 1)
        builder.cables(groups[:, a], groups[:, b], one.rate_bps, delay_ps)
    return builder.build(path.stem)


def _links(one: Dimension) -> int:
    """Return the number of links of an NPU in a dimension."""
    return {SWITCH: 1, RING: min(one.n - 1, 2), FULL: one.n - 1}[one.shape]
