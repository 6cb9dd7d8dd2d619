"""A network of ASTRA-sim's analytical back end, from its YAML file.

Each dimension joins its NPUs by a switch, in a ring both ways, or each to each, by links of one
bandwidth and latency. An NPU is a host. With one dimension of a switch hosts are joined to it.
Else every NPU has a router beside its host, at which the links of all its dimensions end: what
goes through an NPU crosses its router. Packets take all shortest paths, where ASTRA-sim goes
dimension by dimension.

From an NPU to its neighbor in a ring, or to any in a dimension that joins each to each, it takes
one latency, by way of a switch two, as in ASTRA-sim. A twentieth of the least latency is that of
the cable between a host and its router, so that a way through k - 1 other NPUs takes k latencies
but for a tenth of k - 1. That cable has the rate of all links of the NPU together.

Bandwidths are in units of 2^30 bytes per second, as ASTRA-sim has them.
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

PARAMS = [Param("file", "file", REQUIRED, "the network, a .yml of ASTRA-sim")]

BESIDE = 20
"""What part of a latency is between a host and its router."""


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS).

    Raises:
        InputError: it names the file, and the line.
    """
    path = Path(params["file"])
    dimensions = read_network(path)
    shape = [one.n for one in reversed(dimensions)]  # the first dimension has neighbors
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
    beside_ps = 0
    nodes = hosts
    if not direct:
        beside_ps = max(min(one.latency_ps for one in dimensions) // BESIDE, 1)
        nodes = np.array(builder.add_switches([f"npu{k}" for k in range(n)]))
        rate = sum(one.rate_bps * _links(one) for one in dimensions)
        builder.cables(hosts, nodes, rate, beside_ps)
    for number, one in enumerate(dimensions):
        groups = np.moveaxis(nodes.reshape(shape), -1 - number, -1).reshape(-1, one.n)
        if one.shape == SWITCH:
            names = [f"dim{number}.switch{k}" for k in range(len(groups))]
            tops = np.array(builder.add_switches(names, 0 if direct else 1))
            builder.cables(groups, tops[:, None], one.rate_bps, max(one.latency_ps - beside_ps, 1))
            continue
        if one.shape == RING:
            a = np.arange(1 if one.n == 2 else one.n)
            b = (a + 1) % one.n
        else:
            a, b = np.triu_indices(one.n, 1)
        delay_ps = max(one.latency_ps - 2 * beside_ps, 1)
        builder.cables(groups[:, a], groups[:, b], one.rate_bps, delay_ps)
    return builder.build(path.stem)


def _links(one: Dimension) -> int:
    """The links that an NPU has in a dimension."""
    return {SWITCH: 1, RING: min(one.n - 1, 2), FULL: one.n - 1}[one.shape]
