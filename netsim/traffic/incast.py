"""Many hosts send to one host at once, in one or several separate groups.

No host is in two groups, and no host both sends and receives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params

PARAMS = [
    Param("fan_in", "count", REQUIRED, "senders per receiver", minimum=1),
    Param("size", "bytes", "1MB", "size of each flow", minimum="1B"),
    Param("receiver", "count", None, "the receiving host, if there is one group (default: random)"),
    Param("groups", "count", 1, "number of receivers, each with its own senders", minimum=1),
    Param(
        "senders",
        "choice",
        "random",
        "random, or numbered after the receiver",
        choices=("random", "linear"),
    ),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    """Return the flows of one group after another."""
    n_hosts, fan_in, groups = network.n_hosts, params["fan_in"], params["groups"]
    needed = groups * (fan_in + 1)
    if needed > n_hosts:
        raise InputError(
            f"{groups} x ({fan_in} senders + 1 receiver) exceeds the network's {n_hosts} hosts",
            key="traffic.fan_in",
        )
    receiver = params["receiver"]
    if receiver is not None and groups > 1:
        raise InputError(f"conflicts with groups = {groups}", key="traffic.receiver")
    if receiver is not None and receiver >= n_hosts:
        raise InputError(
            f"host {receiver} does not exist", key="traffic.receiver", hint=f"0..{n_hosts - 1}"
        )
    members = _members(params, n_hosts, rng)[:needed].reshape(groups, fan_in + 1)
    return FlowTable(members[:, 1:].reshape(-1), np.repeat(members[:, 0], fan_in), params["size"])


def _members(params: Params, n_hosts: int, rng: Rng) -> NDArray[np.int64]:
    """Return all hosts, group by group: each receiver, then its senders."""
    receiver = params["receiver"]
    if params["senders"] == "linear":
        first = int(rng.integers(n_hosts)) if receiver is None else receiver
        return (first + np.arange(n_hosts)) % n_hosts
    hosts = rng.permutation(n_hosts)
    if receiver is None:
        return hosts
    return np.concatenate([[receiver], hosts[hosts != receiver]])
