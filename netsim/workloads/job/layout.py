"""How a job is spread over GPUs, in which number formats, and what overlaps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netsim.errors import InputError
from netsim.units import written
from netsim.workloads.job.keys import choice, count, flag, key
from netsim.workloads.job.machine import FORMATS
from netsim.workloads.job.model import MAX_LAYERS
from netsim.workloads.job.schedules import SCHEDULES

RECOMPUTE = ("none", "selective", "full")
ACCOUNTINGS = ("hierarchical", "paper")
MOMENTS = {"adam": 2, "momentum": 1, "sgd": 0}
"""Optimizers, and the numbers that they keep for each parameter."""


def _levels() -> tuple[str, Callable[[Any], Any]]:
    """How the levels of hierarchical data parallelism are written: three counts."""

    def read(value: Any) -> tuple[int, int, int]:
        hint = "[replicas in a rack, racks, datacenters]"
        if not isinstance(value, list) or len(value) != 3:
            raise InputError(f"{written(value)} is no list of three counts", hint=hint)
        rack, racks, sites = (count()[1](one) for one in value)
        return rack, racks, sites

    return "[replicas in a rack, racks, datacenters]", read


@dataclass(frozen=True)
class Layout:
    """What a job's parallelism is made of. Names are the field's: tp, sp, pp, dp, ep, cp.

    Ranks are tp x cp x dp x pp; `ep` divides the dp ranks into groups that share the experts.
    """

    global_batch: int = key(count(), "sequences of a step")
    tp: int = key(count(), "tensor parallelism: GPUs that share each matrix", 1)
    sp: bool = key(flag(), "sequence parallelism: tp ranks share norms and dropout, too", False)
    regather: bool = key(
        flag(),
        "with sp, inputs of matrices are kept in parts and gathered once more for the gradient of "
        "the weights",
        True,
    )
    scatter_gather: bool = key(
        flag(),
        "pipeline transfers carry a tp-th each, gathered where they arrive; with sp they do anyway",
        True,
    )
    pp: int = key(count(1, MAX_LAYERS), "stages of the pipeline", 1)
    schedule: str = key(choice(SCHEDULES), "the order of a stage's work", "1f1b")
    virtual_stages: int = key(count(1, MAX_LAYERS), "chunks of layers of a stage, interleaved", 1)
    dp: int = key(count(0), "replicas of the model; 0: the product of dp_levels", 0)
    dp_levels: tuple[int, int, int] | None = key(
        _levels(), "replicas over racks and datacenters, for the five stages S1 to S5", None
    )
    accounting: str = key(
        choice(ACCOUNTINGS),
        "of S1 to S5: reduce-scatter, exchange, all-gather (hierarchical), or full all-reduces "
        "and the all-gathers again (paper)",
        "hierarchical",
    )
    zero: int = key(count(0), "ZeRO stage: 1 shares optimizer, 2 gradients, 3 weights", 0)
    ep: int = key(count(), "expert parallelism: GPUs that share the experts of a layer", 1)
    ep_domains: int = key(
        count(0),
        "scale-up domains that a token's experts are in at the most, each of which gets it once; "
        "0: each expert gets it by itself",
        0,
    )
    cp: int = key(count(), "context parallelism: GPUs that share a sequence", 1)
    micro_batch: int = key(count(), "sequences that a stage computes at a time", 1)
    recompute: str = key(
        choice(RECOMPUTE),
        "of activations: none, that of scores (selective), or of whole layers (full)",
        "none",
    )

    uneven: bool = key(
        flag(),
        "what does not divide is shared by fractions, and the first stages have more layers",
        False,
    )

    @property
    def replicas(self) -> int:
        """Replicas of the model."""
        return self.dp or (math.prod(self.dp_levels) if self.dp_levels else 1)

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.tp * self.cp * self.pp * self.replicas

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a step that each stage computes."""
        return self.global_batch // (self.replicas * self.micro_batch)


def _format() -> tuple[str, Callable[[Any], Any]]:
    return choice(FORMATS)


@dataclass(frozen=True)
class Precision:
    """The number format of each tensor."""

    weights: str = key(_format(), "of weights that are computed with", "bf16")
    activations: str = key(_format(), "of activations and their gradients", "bf16")
    gradients: str = key(_format(), "in which gradients of weights are added up and kept", "fp32")
    reduce: str = key(_format(), "in which gradients travel", "fp32")
    dispatch: str = key(_format(), "in which tokens go to their experts", "bf16")
    master: str = key(choice((*FORMATS, "none")), "of the copy that the optimizer changes", "fp32")
    optimiser: str = key(_format(), "of each number that the optimizer keeps", "fp32")
    compute: str = key(_format(), "in which matrices are multiplied", "bf16")
    vector: str = key(_format(), "in which everything else is computed", "bf16")

    def bytes_of(self, tensor: str) -> float:
        """Bytes of one number of a tensor: "weights", "master", ..."""
        return {"none": 0.0, **FORMATS}[getattr(self, tensor)]


@dataclass(frozen=True)
class Optimizer:
    """What a step does to each parameter."""

    kind: str = key(choice(MOMENTS), "which optimizer", "adam")
    flops: int = key(count(0), "operations for a parameter", 11)

    @property
    def moments(self) -> int:
        """Numbers kept for each parameter."""
        return MOMENTS[self.kind]


@dataclass(frozen=True)
class Overlap:
    """What is done while GPUs compute. Names are those of Megatron's switches."""

    grad_reduce: bool = key(flag(), "gradients travel during the backward pass", False)
    param_gather: bool = key(flag(), "weights are gathered during the forward pass", False)
    tp_comm: bool = key(flag(), "tensor-parallel collectives run beside the matrices", False)
    p2p_comm: bool = key(flag(), "pipeline transfers run beside other micro-batches", False)
    ep_comm: bool = key(flag(), "exchanges of experts run beside other micro-batches", False)
