"""Every rank of a training pipeline sends to the same rank of the next stage, all at once.

Hosts stand in blocks of `stage_hosts`, one block a stage (one layer of the model). With the
default, 72 hosts hold one layer like a rack of 72 GPUs does: four replicas of 18 tensor-parallel
ranks, the host at `18 * replica + rank`. The host at position p of the pipeline sends to the host
at position p + stage_hosts: the same replica and the same rank of the next layer.

With `wrap` the last stage sends to the first, as it does when one model is cut into more stages
than there are blocks; then every host is the source of exactly one flow and the destination of
exactly one. Without `stages` all hosts form one pipeline, and its last block may be smaller than
the others: positions then continue at the beginning, and still no host is left out. With `stages`,
hosts form several pipelines side by side.

`placement` says which host stands at which position:

- "linear": in the order of their numbers, so that a stage's flows stay side by side and go to one
  or two leaves;
- "stages": blocks keep together but stand in random order, as racks that a scheduler hands out;
- "random": any host at any position. The flows are then a permutation of the hosts without
  structure, the case that spreads best and collides most under per-flow hashing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import FlowTable, TrafficContext
from netsim.network import Network
from netsim.params import Param

PARAMS = [
    Param(
        "size",
        "bytes",
        "97.39MB",
        "message of each rank",
        source="\"I've Got 99 Problems But FLOPS Ain't One\", HotNets 2024: activations of one "
        "MoE layer, s b h r / t bytes",
        minimum="1B",
    ),
    Param("stage_hosts", "count", 72, "hosts of one stage", minimum=1),
    Param(
        "stages", "count", None, "stages of a pipeline; all hosts form one by default", minimum=2
    ),
    Param("wrap", "bool", True, "whether the last stage sends to the first"),
    Param(
        "placement",
        "choice",
        "linear",
        "which host stands at which position",
        choices=("linear", "stages", "random"),
    ),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> FlowTable:
    """One flow for each host that has a next stage, in the order of positions."""
    n_hosts, stage = network.n_hosts, params["stage_hosts"]
    length = n_hosts if params["stages"] is None else params["stages"] * stage
    if params["stages"] is not None and n_hosts % length:
        raise InputError(
            f"pipelines of {params['stages']} stages of {stage} hosts do not fill {n_hosts} hosts",
            key="traffic.stages",
            hint="their product must divide the number of hosts; without stages, all hosts "
            "form one pipeline",
        )
    if length <= stage:
        raise InputError(
            f"a pipeline of {length} hosts has no second stage of {stage}",
            key="traffic.stage_hosts",
            hint=f"less than {length}",
        )
    position = np.arange(n_hosts)
    start = position - position % length
    offset = position - start + stage
    following = start + offset % length
    sends = np.full(n_hosts, True) if params["wrap"] else offset < length
    host = _placement(params["placement"], n_hosts, stage, rng)
    return FlowTable(host[position[sends]], host[following[sends]], params["size"])


def _placement(kind: str, n_hosts: int, stage: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The host at each position, int64[n_hosts]."""
    if kind == "random":
        return rng.permutation(n_hosts)
    hosts = np.arange(n_hosts)
    if kind == "linear":
        return hosts
    # A last block that is smaller stays last: positions count in whole blocks before it.
    blocks = hosts[: n_hosts - n_hosts % stage].reshape(-1, stage)
    return np.concatenate([rng.permutation(blocks).reshape(-1), hosts[blocks.size :]])
