"""Each taking-part host sends one flow to another, and receives one.

`load` is the fraction of hosts that take part. They are chosen at random, and who sends to
whom is a random derangement of them: every way in which nobody sends to itself is equally
likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.flows import FlowTable, TrafficContext
from netsim.network import Network
from netsim.params import Param
from netsim.traffic._draw import derangement

PARAMS = [
    Param("size", "bytes", "2MB", "size of each flow", minimum="1B"),
    Param("load", "fraction", 1.0, "fraction of hosts that take part"),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> FlowTable:
    """One flow for each host that takes part, in the order of sources."""
    taking_part = round(params["load"] * network.n_hosts)
    if taking_part < 2:
        raise InputError(
            f"{params['load']:g} of {network.n_hosts} hosts is fewer than two",
            key="traffic.load",
            hint=f"at least {2 / network.n_hosts:.4g}" if network.n_hosts > 1 else None,
        )
    hosts = np.sort(rng.choice(network.n_hosts, taking_part, replace=False))
    return FlowTable(hosts, hosts[derangement(taking_part, rng)], params["size"])
