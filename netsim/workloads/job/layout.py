"""Parallelism, number formats, optimizer and overlap of a job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from netsim.errors import InputError
from netsim.units import written
from netsim.workloads.job.keys import Reader, choice, count, flag, key
from netsim.workloads.job.machine import FORMATS
from netsim.workloads.job.model import MAX_LAYERS
from netsim.workloads.job.schedules import SCHEDULES

RECOMPUTE = ("none", "selective", "full")
ACCOUNTINGS = ("hierarchical", "paper")
MOMENTS = {"adam": 2, "momentum": 1, "sgd": 0}
"""Optimizer states per parameter."""


def _levels() -> Reader:
    def read(value: Any) -> tuple[int, int, int]:
        hint = "[replicas in a rack, racks, datacenters]"
        if not isinstance(value, list) or len(value) != 3:
            raise InputError(f"{written(value)} must be a list of three counts", hint=hint)
        rack, racks, sites = (count()[1](one) for one in value)
        return rack, racks, sites

    return "[replicas in a rack, racks, datacenters]", read


@dataclass(frozen=True)
class Layout:
    """Parallelism of a job: tp x cp x dp x pp ranks; `ep` divides dp into groups."""

    global_batch: int = key(count(), "sequences per step")
    tp: int = key(count(), "tensor parallelism: GPUs per matrix", 1)
    sp: bool = key(flag(), "sequence parallelism: tp ranks also split norms and dropout", False)
    regather: bool = key(
        flag(),
        "with sp, keep inputs of matrices split and gather them again for weight gradients",
        True,
    )
    scatter_gather: bool = key(
        flag(),
        "split pipeline transfers over tp ranks and gather them on arrival; always on with sp",
        True,
    )
    pp: int = key(count(1, MAX_LAYERS), "pipeline stages", 1)
    schedule: str = key(choice(SCHEDULES), "pipeline schedule", "1f1b")
    virtual_stages: int = key(count(1, MAX_LAYERS), "interleaved chunks of layers per stage", 1)
    dp: int = key(count(0), "data parallelism: replicas; 0: the product of dp_levels", 0)
    dp_levels: tuple[int, int, int] | None = key(
        _levels(), "replicas over racks and datacenters, for stages S1 to S5", None
    )
    accounting: str = key(
        choice(ACCOUNTINGS),
        "S1 to S5: reduce-scatter, exchange, all-gather (hierarchical), or full "
        "all-reduces and all-gathers (paper)",
        "hierarchical",
    )
    zero: int = key(count(0), "ZeRO stage: 1 splits the optimizer, 2 gradients, 3 weights", 0)
    ep: int = key(count(), "expert parallelism: GPUs per layer's experts", 1)
    ep_domains: int = key(
        count(0),
        "most scale-up domains per token, each sent one copy; 0: one copy per expert",
        0,
    )
    cp: int = key(count(), "context parallelism: GPUs per sequence", 1)
    micro_batch: int = key(count(), "sequences per micro-batch", 1)
    recompute: str = key(
        choice(RECOMPUTE),
        "recomputation of activations: none, scores (selective), or whole layers (full)",
        "none",
    )

    uneven: bool = key(
        flag(),
        "allow fractions where values do not divide; the first stages get more layers",
        False,
    )

    @property
    def replicas(self) -> int:
        return self.dp or (math.prod(self.dp_levels) if self.dp_levels else 1)

    @property
    def gpus(self) -> int:
        return self.tp * self.cp * self.pp * self.replicas

    @property
    def micro_batches(self) -> int:
        """Micro-batches per step and stage."""
        return self.global_batch // (self.replicas * self.micro_batch)


FORMAT = choice(FORMATS)


@dataclass(frozen=True)
class Precision:
    """Number format of each tensor."""

    weights: str = key(FORMAT, "format of weights in compute", "bf16")
    activations: str = key(FORMAT, "format of activations and their gradients", "bf16")
    gradients: str = key(FORMAT, "format in which weight gradients are accumulated", "fp32")
    reduce: str = key(FORMAT, "format in which gradients are sent", "fp32")
    dispatch: str = key(FORMAT, "format in which tokens are sent to experts", "bf16")
    master: str = key(
        choice((*FORMATS, "none")), "format of the optimizer's master weights", "fp32"
    )
    optimizer: str = key(FORMAT, "format of optimizer states", "fp32")
    compute: str = key(FORMAT, "format of matrix multiplication", "bf16")
    logits: str = key(
        choice((*FORMATS, "compute")),
        "format of the last matrix multiplication; compute: as the others",
        "compute",
    )
    vector: str = key(FORMAT, "format of other operations", "bf16")

    @property
    def head(self) -> str:
        """Format of the logits' matrix multiplication."""
        return self.compute if self.logits == "compute" else self.logits

    def bytes_of(self, tensor: str) -> float:
        """Return the bytes per element of a tensor: "weights", "master", ..."""
        return {"none": 0.0, **FORMATS}[getattr(self, tensor)]


@dataclass(frozen=True)
class Optimizer:
    """Optimizer and its work per parameter."""

    kind: str = key(choice(MOMENTS), "optimizer", "adam")
    flops: int = key(count(0), "operations per parameter", 11)

    @property
    def moments(self) -> int:
        """States per parameter."""
        return MOMENTS[self.kind]


@dataclass(frozen=True)
class Overlap:
    """Communication that overlaps compute, named as in Megatron."""

    grad_reduce: bool = key(flag(), "overlap gradients with the backward pass", False)
    param_gather: bool = key(flag(), "overlap weight gathering with the forward pass", False)
    tp_comm: bool = key(flag(), "overlap tensor-parallel collectives with matrix products", False)
    p2p_comm: bool = key(flag(), "overlap pipeline transfers with other micro-batches", False)
    ep_comm: bool = key(flag(), "overlap expert exchanges with other micro-batches", False)
