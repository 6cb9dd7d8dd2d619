"""Pipeline transfers: every rank sends to its counterpart in the next stage, all at once.

Hosts form blocks of `stage_hosts`, one per stage (one layer of the model). By default, 72 hosts
hold one layer, like a rack of 72 GPUs: four replicas of 18 tensor-parallel ranks, the host at `18 *
replica + rank`. The host at position p of the pipeline sends to the host at position p +
stage_hosts: the same replica and rank of the next layer.

With `wrap` the last stage sends to the first, as if the model had more stages than blocks; then
every host is the source and the destination of exactly one flow. Without `stages` all hosts form
one pipeline, and its last block may be smaller: positions then wrap around, so no host is left out.
With `stages`, hosts form several parallel pipelines.

`placement` assigns hosts to positions:

- "linear": by host number, so that a stage's flows go to one or two leaves;
- "stages": blocks stay together but in random order, like racks that a scheduler assigns;
- "random": any host at any position. The flows are a random permutation, which spreads best and
  collides most under per-flow hashing.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import Param, Params

PARAMS = [
    Param("size", "bytes", "97.39MB", "message of each rank",
          source="\"I've Got 99 Problems But FLOPS Ain't One\", HotNets 2024: activations of one "
          "MoE layer, s b h r / t bytes", minimum="1B"),
    Param("stage_hosts", "count", 72, "hosts of one stage", minimum=1),
    Param("stages", "count", None, "stages of a pipeline; default: all hosts", minimum=2),
    Param("wrap", "bool", True, "whether the last stage sends to the first"),
    Param("placement", "choice", "linear", "assignment of hosts to positions",
          choices=("linear", "stages", "random")),
]  # fmt: skip


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    """Return one flow per host with a next stage, in order of positions."""
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


def _placement(kind: str, n_hosts: int, stage: int, rng: Rng) -> Ints:
    """int64[n_hosts]: the host at each position."""
    if kind == "random":
        return rng.permutation(n_hosts)
    hosts = np.arange(n_hosts)
    if kind == "linear":
        return hosts
    # A smaller last block stays last: positions count whole blocks before it.
    blocks = hosts[: n_hosts - n_hosts % stage].reshape(-1, stage)
    return np.concatenate([rng.permutation(blocks).reshape(-1), hosts[blocks.size :]])
