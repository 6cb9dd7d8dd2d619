"""An AICB job from its CSV files: collectives and messages of ranks, row by row.

Each rank runs the rows in sequence, as AICB does on real GPUs. Ranks follow Megatron's order:
tensor-parallel groups are neighbors, `ep` of them form an expert-parallel group, all of a stage a
data-parallel group; then comes the next stage. The file states group sizes; if it does not (AICB's
micro-benchmarks), all hosts are one group. Bytes are those of the whole buffer.

A file with a pipeline has the rows of each stage: the k-th `send_next` of a stage matches the k-th
`recv_prev` of the next one, and groups of several stages run the k-th row of each together. A
computation takes the ns of `_elapsed_time`; one with only a shape takes no time. Measured times of
collectives are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.flows import TrafficContext, Workload
from netsim.inputs import user_path
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.workloads.importers.aicb_csv import COLLECTIVES, read_aicb_csv
from netsim.workloads.traffic._aicb_operations import AicbOperations, part_of
from netsim.workloads.traffic._megatron import PARAMS as OF_JOBS
from netsim.workloads.traffic._megatron import workload_of

PARAMS = [
    Param("file", "file", REQUIRED, "AICB workload, a .csv file"),
    Param("rows", "count", None, "rows to simulate; default: all", minimum=1),
    *OF_JOBS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    job = read_aicb_csv(user_path(params["file"], context.directory))
    part = part_of(job, params["replicas"], params["rows"], network.n_hosts)
    return workload_of(part, AicbOperations, COLLECTIVES.values(), params, network, rng, context)
