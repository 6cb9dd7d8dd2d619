"""Rail-only: racks of GPUs with a scale-up network each, and one switch for the GPUs of equal rank.

Host h is in rack h // gpus_per_rack, as its rank h % gpus_per_rack. NIC 0 reaches the other hosts
of the rack, NIC 1 the hosts of its rank in all racks, by the switch of that rail. No switch joins
rails. This is `multi_rail` with one switch for a rail; if a switch has fewer ports than there are
racks, use that, with a tree as its `rail`.

Hosts of different racks and ranks communicate by relays: a peer in one of the two racks forwards
the message, as in `multi_rail` (`relay_at`, `relay_chunk`; docs/networks.md, "Rails").

Wang, Ghobadi, Shakeri, Zhang and Hasani, "Rail-only: A Low-Cost High-Performance Network for
Training LLMs with Trillion Parameters", Hot Interconnects 2024.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.network import Network, NetworkBuilder
from netsim.params import REQUIRED, Param, Params
from netsim.topologies import multi_rail

PARAMS = [
    Param(
        "racks", "count", REQUIRED, "racks (scale-up domains); ports of a rail's switch", minimum=1
    ),
    Param("rail_rate", "rate", "400Gbps", "line rate of a host to its rail"),
    Param("rail_latency", "time", "1us", "propagation, host to rail switch", minimum="1ps"),
    Param("rail_switch_latency", "time", "0ns", "switch_latency of the rail switches"),
    *(
        param
        for param in multi_rail.PARAMS
        if param.name not in ("rail", "gpus_per_rail", "racks_per_leaf", "pxn")
    ),
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises the same InputErrors as `multi_rail`."""
    racks, gpus = params["racks"], params["gpus_per_rack"]
    builder = NetworkBuilder()
    builder.reserve(hosts=racks, switches=1, cables=racks, edges=1, ports=racks)
    hosts = builder.add_hosts(racks)
    switch = builder.add_switch("switch", 0, params["rail_switch_latency"])
    builder.cables(np.array(hosts), switch, params["rail_rate"], params["rail_latency"])
    rail = builder.build("rail")
    network = multi_rail.with_rails({**params, "gpus_per_rail": 1}, rail)
    return replace(network, name=f"rail_only_{racks}x{gpus}")
