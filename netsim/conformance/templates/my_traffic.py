"""Pairs of hosts that send to each other at random times, and now and then to another host.

Hosts 2k and 2k + 1 are a pair. Change where and when `flows` sends; see netsim/traffic/README.md.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.network import Network
from netsim.params import Param, Params

PARAMS = [
    Param("size", "bytes", "16KB", "size of each flow", minimum="1B"),
    Param("load", "ratio", 0.4, "offered load, as a fraction of the hosts' link rate"),
    Param("away", "fraction", 0.1, "fraction of flows that go to any other host"),
    Param("duration", "time", "100us", "time of the last arrivals", minimum="1ps"),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    """Return the flows in order of their starts. Raises InputError for an odd number of hosts."""
    n, size = network.n_hosts, params["size"]
    if n % 2:
        raise InputError(
            f"{n} hosts cannot be paired", key="topology", hint="an even number of hosts"
        )
    end_ps = context.end_ps or params["duration"]  # [measure] sets the end
    packets = -(-size // context.payload_bytes)
    wire_bytes = size + packets * context.header_bytes
    expected = params["load"] * n * context.host_rate_bps * end_ps / (8e12 * wire_bytes)
    context.reserve(expected)  # too many are an error before they take memory
    start_ps = np.sort(rng.integers(0, end_ps, rng.poisson(expected)))
    if not start_ps.size:
        message = f"no flow starts in this time (expected {expected:.3g})"
        raise InputError(message, key="traffic.duration")
    src = rng.integers(0, n, start_ps.size)
    other = (src + rng.integers(1, n, src.size)) % n
    dst = np.where(rng.random(src.size) < params["away"], other, src ^ 1)
    return FlowTable(src, dst, size, start_ps)
