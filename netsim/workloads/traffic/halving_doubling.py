"""All-reduce by recursive halving and doubling.

Groups are blocks of `group_size` (a power of two) consecutive hosts. In the first step each host
exchanges half of its `size` bytes with the host half a group away, which adds it to its own half;
in the next, half of that with the host a quarter of a group away, and so on down to its neighbor,
when each has the sum of a share. Then the steps run in reverse, doubling the exchanged bytes.
Reduce-scatter by recursive halving, all-gather by recursive doubling: R. Thakur, R. Rabenseifner
and W. Gropp, International Journal of High Performance Computing Applications 19(1), 49-66, 2005.

A host's next flow starts `compute`, the time of reduction and software, after it has received its
partner's data of the last step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.network import Network
from netsim.params import Param, Params
from netsim.workloads.collectives import schedule
from netsim.workloads.collectives.steps import CollectiveOptions
from netsim.workloads.traffic._options import group_size_of

PARAMS = [
    Param("size", "bytes", "8MB", "bytes that each host has", minimum="1B"),
    Param("group_size", "count", None, "hosts per group; default: all", minimum=2),
    Param("compute", "time", "0us", "time between receiving data and the next step"),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    """Return one flow per step and host, in this order."""
    n_hosts, size = network.n_hosts, params["size"]
    n = group_size_of(params, network)
    if n & (n - 1):
        what = f"groups of {n} hosts must be a power of two"
        raise InputError(what, key="traffic.group_size", hint=f"one that divides {n_hosts}")
    if size < n:
        raise InputError(
            f"{size} bytes cannot be cut into {n} shares",
            key="traffic.size",
            hint=f"at least {n} B",
        )
    n_steps = 2 * (n.bit_length() - 1)
    context.reserve(n_steps * n_hosts, key="traffic.group_size")
    steps = schedule("all_reduce", n, size, CollectiveOptions("halving_doubling"))
    group = np.arange(0, n_hosts, n)[:, None]

    def of_all(column: NDArray[Any]) -> NDArray[Any]:
        """Return a column for all flows of each step, group by group."""
        return np.broadcast_to(column.reshape(n_steps, 1, n), (n_steps, n_hosts // n, n))

    table = FlowTable(
        (of_all(steps.src) + group).reshape(-1),
        (of_all(steps.dst) + group).reshape(-1),
        of_all(steps.size_bytes).reshape(-1),
        np.repeat(np.where(np.arange(n_steps) > 0, params["compute"], 0), n_hosts),
    )
    # A host's next flow waits for its partner's flow of the previous step.
    before = np.arange(n_steps - 1)[:, None, None] * n_hosts
    awaited = (before + group + steps.after.reshape(-1, 1, n) % n).reshape(-1)
    table.wait_for_pairs(awaited, np.arange(n_hosts, len(table)))
    return table
