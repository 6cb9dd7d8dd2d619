"""A workload of SimAI, as AICB writes it, with a pipeline that is simulated.

Ranks are, as in SimAI: tensor-parallel groups of neighbors, `ep` neighboring ones of these an
expert-parallel group, all of a stage a data-parallel one; stages behind one another. A collective
is of the tensor-parallel group in the columns of the forward pass and of the input's gradient, of
the data-parallel group in that of the weights' gradient, or of the group that its name ends with.

A micro-batch's forward pass goes down its rows: each computes, then does its collective. Backward
it goes up: the gradient of the input, its collective, then the gradient of the weights, whose
collective holds nothing up; those run in order, and the update follows each. A forward collective
of less than 4096 bytes has 4096. With MICRO the last collectives of all rows are done by all hosts.

With `pp` above 1 each stage does all rows of the file, which are those of one stage, in the order
of `schedule`, and each rank sends `pp_comm` bytes to its like in the next stage behind each forward
pass, and in the one before behind each backward pass. SimAI adds a formula in its place. With `pp`
1 all forward passes come before all backward ones, as in SimAI. Rows behind the micro-batches
(cross_entropy, optimizer) stand between these; in a pipeline behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from netsim.flows import TrafficContext, Workload
from netsim.inputs import user_path
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.workloads.importers.aicb import COLLECTIVES, read_aicb
from netsim.workloads.traffic._collectives import PARAMS as OF_COLLECTIVES
from netsim.workloads.traffic._collectives import how_of, wires_of
from netsim.workloads.traffic._fit import Counter, require_fit
from netsim.workloads.traffic._ranks import PARAMS as OF_RANKS
from netsim.workloads.traffic._ranks import hosts_of
from netsim.workloads.traffic._simai_operations import (
    SimaiOperations,
    SimulatedShare,
    calls,
    part_of,
    smaller,
)

PARAMS = [
    Param("file", "file", REQUIRED, "the workload, a .txt of AICB"),
    Param(
        "schedule", "choice", "1f1b", "of a pipeline of several stages", choices=("1f1b", "gpipe")
    ),
    Param("micro_batches", "count", None, "the first ones; all by default", minimum=1),
    Param("replicas", "count", None, "data-parallel ranks, the first ones; or all", minimum=1),
    *OF_COLLECTIVES,
    *OF_RANKS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """One step."""
    work = read_aicb(user_path(params["file"], context.directory))
    part = part_of(work, params, network.n_hosts)
    fits = network.n_hosts // (part.tp * part.pp * part.ep) * part.ep
    hint = f"a larger network, or replicas = {fits}" if fits else None
    hosts = hosts_of(params, part.n_ranks, network.n_hosts, context.directory, rng, hint)
    hows = {one: how_of(params, one) for one in COLLECTIVES.values()}
    wires = wires_of(network, context)
    count = Counter(hows, wires, hosts)

    def tasks(one: SimulatedShare) -> int:
        return count.tasks(calls(work, one)) + 3 * one.n_ranks * one.n_rows

    parts = ((text, partial(tasks, one)) for text, one in smaller(work, part))
    require_fit(tasks(part), parts)
    return SimaiOperations(work, part, hows).lower(hosts, wires)
