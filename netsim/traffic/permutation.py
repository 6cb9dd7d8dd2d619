"""Each active host sends one flow to another host and receives one.

`load` is the fraction of hosts that are active. They are random, and a random derangement maps
senders to receivers: every permutation without a host that sends to itself is equally likely.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.model.patterns import derangement
from netsim.network import Network
from netsim.params import Param, Params

PARAMS = [
    Param("size", "bytes", "2MB", "size of each flow", minimum="1B"),
    Param("load", "fraction", 1.0, "fraction of active hosts"),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    """Return one flow per active host, ordered by source."""
    n_active = round(params["load"] * network.n_hosts)
    if n_active < 2:
        raise InputError(
            f"{params['load']:g} of {network.n_hosts} hosts is less than two",
            key="traffic.load",
            hint=f"at least {2 / network.n_hosts:.4g}" if network.n_hosts > 1 else None,
        )
    hosts = np.sort(rng.choice(network.n_hosts, n_active, replace=False))
    return FlowTable(hosts, hosts[derangement(n_active, rng)], params["size"])
