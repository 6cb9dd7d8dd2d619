"""All-reduce in rings: every host of a group ends with the sum of what all of them had.

The hosts of a group, blocks of `group_size` next to one another, form a ring. The `size` bytes of
each are cut into as many shards as the group has hosts. In each of 2 (n - 1) steps a host sends to
the next one the shard that it got in the step before, n - 1 times to add it up and n - 1 times to
hand the sums on; in the first step host i sends shard i. With `chunks`, shards are cut again, and
the pieces go round independently of one another.

A step of a piece begins as its last one is delivered: `latency` later, the time that software takes
for a step, counted once, its flow starts. What hosts do with the bytes takes no time.
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

PARAMS = [
    Param("size", "bytes", "8MB", "bytes that each host has", minimum="1B"),
    Param("group_size", "count", None, "hosts of a ring; all hosts by default", minimum=2),
    Param("chunks", "count", 1, "pieces of a shard, each of which goes round by itself", minimum=1),
    Param("latency", "time", "0us", "of software, in each step of a piece"),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """Of each group a flow for each step, host and piece, in this order."""
    n_hosts, chunks = network.n_hosts, params["chunks"]
    n = params["group_size"] or n_hosts
    if n_hosts % n or n_hosts < 2:
        raise InputError(
            f"rings of {n} hosts do not fill {n_hosts} hosts",
            key="traffic.group_size",
            hint=f"a divisor of {n_hosts}",
        )
    if params["size"] < n * chunks:
        raise InputError(
            f"{params['size']} bytes cannot be cut into {n * chunks} pieces",
            key="traffic.size",
            hint=f"at least {n * chunks} B",
        )
    context.reserve(4 * (n - 1) * n_hosts * chunks, key="traffic.group_size")
    hosts = np.arange(n_hosts)
    ops = Operations(n_hosts)
    how = CollectiveOptions("ring", channels=chunks, latency_ps=params["latency"])
    ops.collective("all_reduce", hosts.reshape(-1, n), params["size"], how)
    return ops.lower(hosts)
