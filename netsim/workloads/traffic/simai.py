"""A SimAI workload, as written by AICB, with a simulated pipeline.

Ranks are ordered as in SimAI: tensor-parallel groups are neighbors, `ep` of them form an
expert-parallel group, all of a stage a data-parallel group; then comes the next stage. A
collective is of the tensor-parallel group in the columns of the forward pass and the input
gradient, of the data-parallel group in that of the weight gradient, or of the group in the suffix
of its name.

A micro-batch's forward pass runs its rows downward: compute, then the collective. The backward pass
runs upward: input gradient, its collective, weight gradient. The collectives of weight gradients
block nothing; they run in order, each followed by its update. A forward collective has at least
4096 bytes. With policy MICRO all hosts run the last collective of each row.

With `pp` above 1 each stage runs all rows of the file, which are those of one stage, in the order
of `schedule`. Each rank sends `pp_comm` bytes to its counterpart in the next stage after each
forward pass, and in the previous stage after each backward pass; SimAI adds a formula instead. With
`pp` 1 all forward passes precede all backward passes, as in SimAI. Rows after the micro-batches
(cross_entropy, optimizer) run between these; in a pipeline, after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.flows import TrafficContext, Workload
from netsim.inputs import user_path
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.workloads.importers.aicb import COLLECTIVES, read_aicb
from netsim.workloads.traffic._megatron import PARAMS as OF_JOBS
from netsim.workloads.traffic._megatron import workload_of
from netsim.workloads.traffic._simai_operations import SimaiOperations, part_of

PARAMS = [
    Param("file", "file", REQUIRED, "AICB workload, a .txt file"),
    Param("schedule", "choice", "1f1b", "pipeline schedule", choices=("1f1b", "gpipe")),
    Param("micro_batches", "count", None, "micro-batches to simulate; default: all", minimum=1),
    *OF_JOBS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    work = read_aicb(user_path(params["file"], context.directory))
    part = part_of(work, params, network.n_hosts)
    return workload_of(part, SimaiOperations, COLLECTIVES.values(), params, network, rng, context)
