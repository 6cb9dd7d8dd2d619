"""A job of AICB, as its CSV files have it: collectives and messages of ranks, row by row.

Each rank does the rows one after the other, as AICB does on real GPUs. Ranks are Megatron's:
tensor-parallel groups of neighbors, `ep` neighboring ones of these an expert-parallel group, all of
a stage a data-parallel one, stages behind one another. The file says how large groups are; if it
does not (AICB's micro-benchmarks), all hosts are one. Bytes are those of the whole buffer.

A file with a pipeline has the rows of each stage: the k-th `send_next` of one is received by the
k-th `recv_prev` of the next one, and what groups of several stages do is the k-th row of each. A
computation takes the ns of `_elapsed_time`; one that says only its shapes takes no time. Measured
times of collectives are read past.
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
from netsim.workloads.importers.aicb_csv import COLLECTIVES, read_aicb_csv
from netsim.workloads.traffic._aicb_operations import (
    AicbOperations,
    Shape,
    calls,
    shape_of,
    smaller,
)
from netsim.workloads.traffic._collectives import PARAMS as OF_COLLECTIVES
from netsim.workloads.traffic._collectives import how_of, wires_of
from netsim.workloads.traffic._fit import Counter, require_fit
from netsim.workloads.traffic._ranks import PARAMS as OF_RANKS
from netsim.workloads.traffic._ranks import hosts_of

PARAMS = [
    Param("file", "file", REQUIRED, "the workload, a .csv of AICB"),
    Param("replicas", "count", None, "data-parallel ranks, the first ones; or all", minimum=1),
    Param("rows", "count", None, "the first ones; all by default", minimum=1),
    *OF_COLLECTIVES,
    *OF_RANKS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """All rows, or the first ones."""
    job = read_aicb_csv(user_path(params["file"], context.directory))
    shape = shape_of(job, params["replicas"], params["rows"], network.n_hosts)
    fits = network.n_hosts // (shape.tp * shape.pp * shape.ep) * shape.ep
    hint = f"a larger network, or replicas = {fits}" if fits else None
    hosts = hosts_of(params, shape.n_ranks, network.n_hosts, context.directory, rng, hint)
    hows = {one: how_of(params, one) for one in COLLECTIVES.values()}
    wires = wires_of(network, context)
    count = Counter(hows, wires, hosts)

    def tasks(one: Shape) -> int:
        return count.tasks(calls(job, one)) + one.n_ranks * one.rows

    parts = ((text, partial(tasks, one)) for text, one in smaller(shape))
    require_fit(tasks(shape), parts)
    return AicbOperations(job, shape, hows).lower(hosts, wires)
