"""A ring of switches with hosts; packets take the shorter way, or either of two equal ones.

Host h is at switch h // hosts_per_switch. Change what `build` makes; see topologies/README.md.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.network import Network, NetworkBuilder
from netsim.params import Param, Params

PARAMS = [
    Param("switches", "count", 8, "switches in the ring", minimum=3),
    Param("hosts_per_switch", "count", 4, "hosts per switch", minimum=1),
    Param("host_rate", "rate", "100Gbps", "link rate of a host"),
    Param("ring_rate", "rate", "400Gbps", "link rate between neighbors in the ring"),
    Param("link_latency", "time", "1us", "propagation delay of every cable", minimum="1ps"),
    Param("switch_latency", "time", "0ns", "from a packet's last bit in to its output queue"),
    Param("broken", "count", None, "switch whose cable to the next one is missing", optional=True),
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS): times in ps, rates in bit/s.

    Raises InputError if the broken cable does not exist.
    """
    n, each, latency_ps = params["switches"], params["hosts_per_switch"], params["link_latency"]
    if params["broken"] is not None and params["broken"] >= n:
        raise InputError(
            f"there is no switch {params['broken']}", key="topology.broken", hint=f"0 to {n - 1}"
        )
    builder = NetworkBuilder()
    builder.reserve(hosts=n * each, switches=n, cables=n * each + n, edges=n, ports=each + 2)
    hosts = np.array(builder.add_hosts(n * each))
    names = [f"ring{k}" for k in range(n)]
    ring = np.array(builder.add_switches(names, 0, params["switch_latency"]))
    builder.cables(hosts, ring[hosts // each], params["host_rate"], latency_ps)
    begins = np.array([k for k in range(n) if k != params["broken"]])
    builder.cables(ring[begins], ring[(begins + 1) % n], params["ring_rate"], latency_ps)
    return builder.build(f"my_topology_{n}x{each}")
