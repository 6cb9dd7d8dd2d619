"""Ring all-reduce in groups of hosts.

Blocks of `group_size` consecutive hosts form rings. The `size` bytes of each host are cut into as
many shards as the ring has hosts. In each of 2 (n - 1) steps a host sends the next one the shard it
got in the step before, n - 1 times to add it up and n - 1 times to distribute the sums; in the
first step host i sends shard i. With `chunks`, shards are cut further, and the chunks proceed
independently.

A chunk's next flow starts `latency`, the software time of a step, after its delivery. Reduction
takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.network import Network
from netsim.params import Param
from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.traffic._collectives import group_size_of

PARAMS = [
    Param("size", "bytes", "8MB", "bytes that each host has", minimum="1B"),
    Param("group_size", "count", None, "hosts per ring; default: all", minimum=2),
    Param("chunks", "count", 1, "chunks of a shard, which proceed independently", minimum=1),
    Param("latency", "time", "0us", "software latency of each step"),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """Return one flow per group, step, host and chunk, in this order."""
    n_hosts, chunks = network.n_hosts, params["chunks"]
    n = group_size_of(params, network)
    if params["size"] < n * chunks:
        raise InputError(
            f"{params['size']} bytes cannot be cut into {n * chunks} chunks",
            key="traffic.size",
            hint=f"at least {n * chunks} B",
        )
    context.reserve(4 * (n - 1) * n_hosts * chunks, key="traffic.group_size")
    hosts = np.arange(n_hosts)
    ops = Operations(n_hosts)
    how = CollectiveOptions("ring", channels=chunks, latency_ps=params["latency"])
    ops.collective("all_reduce", hosts.reshape(-1, n), params["size"], how)
    return ops.lower(hosts)
