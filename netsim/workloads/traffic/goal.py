"""A GOAL schedule of LogGOPSim or ATLAHS, as text or in binary form.

    num_ranks 2
    rank 0 {
    l1: calc 5000
    l2: send 4096b to 1 tag 7
    l2 requires l1
    }
    rank 1 {
    l1: recv 4096b from 0 tag 7
    }

A message is a flow; a `calc` occupies its CPU for the given ns. A CPU runs one operation at a time,
in the order in which they could start on idle CPUs; LogGOPSim runs whichever is ready first. A
`calc` of 0 needs no CPU. Receives match sends of their source and tag in order, as in MPI; a
wildcard receive takes the first send that no other receive needs.

Of LogGOPS, the network determines L, g and G; `overhead` is o, which each end of a message takes
from its CPU; O is not modeled. A send of at most `eager_threshold` bytes (S) ends when it begins. A
larger one starts when its receiver has posted the receive and sent a message of `control` bytes,
and ends when it has left. NIC numbers are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.flows import TrafficContext, Workload
from netsim.inputs import user_path
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.workloads.importers.goal import is_binary, read_goal_binary, read_goal_text
from netsim.workloads.traffic._goal_operations import GoalCosts, GoalOperations
from netsim.workloads.traffic._placement import PARAMS as OF_RANKS
from netsim.workloads.traffic._placement import hosts_of

PARAMS = [
    Param("file", "file", REQUIRED, "GOAL schedule, as text or in binary form"),
    Param("overhead", "time", "0us", "CPU time of each send and receive (o)", minimum="0us"),
    Param(
        "eager_threshold",
        "bytes",
        "65535B",
        "largest message that does not wait for its receive (S)",
        "LogGOPSim's default; none: whatever its size",
        optional=True,
    ),
    Param("control", "bytes", "64B", "size of the message that a receive is posted"),
    *OF_RANKS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    path = user_path(params["file"], context.directory)
    schedule = read_goal_binary(path) if is_binary(path) else read_goal_text(path)
    context.reserve(len(schedule), key="traffic.file")
    hosts = hosts_of(params, schedule.n_ranks, network.n_hosts, context.directory, rng)
    costs = GoalCosts(
        overhead_ps=params["overhead"],
        eager_bytes=params["eager_threshold"],
        control_bytes=params["control"],
        rate_bps=context.host_rate_bps,
    )
    return GoalOperations(schedule, costs).lower(hosts)
