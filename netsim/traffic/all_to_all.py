"""Every host of a group sends to every other host of the group.

Groups are blocks of `group_size` consecutive hosts. Host i of a group of g sends to i + 1, i + 2,
..., i + g - 1 (modulo the group), so all hosts begin with different receivers. All flows start at
once; with `one_by_one`, a host's next flow starts when its previous one completes.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.network import Network
from netsim.params import Param, Params

PARAMS = [
    Param("size", "bytes", "1MB", "size of each flow", minimum="1B"),
    Param("group_size", "count", None, "hosts per group (default: all hosts)", minimum=2),
    Param("one_by_one", "bool", False, "each host sends its flows one after the other"),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    """Return all flows of the first step (to i + 1), then of the second, and so on."""
    n_hosts = network.n_hosts
    group = params["group_size"] or n_hosts
    if n_hosts % group or n_hosts < 2:
        raise InputError(
            f"{group} does not divide {n_hosts} hosts",
            key="traffic.group_size",
            hint=f"a divisor of {n_hosts}",
        )
    context.reserve(n_hosts * (group - 1), key="traffic.group_size")
    host = np.arange(n_hosts)
    member = host % group
    steps = np.arange(1, group)[:, None]
    dst = (host - member + (member + steps) % group).reshape(-1)
    table = FlowTable(np.tile(host, group - 1), dst, params["size"])
    if params["one_by_one"]:
        # Flow f belongs to host f % n_hosts; its previous flow is n_hosts earlier.
        waiting = np.arange(n_hosts, len(table))
        table.wait_for_pairs(waiting - n_hosts, waiting)
    return table
