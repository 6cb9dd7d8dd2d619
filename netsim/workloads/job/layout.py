"""Parallelism, number formats, optimizer and overlap of a job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netsim.errors import InputError
from netsim.params import REQUIRED, Param, Unit, key
from netsim.units import written
from netsim.workloads.job.machine import FORMAT_NAMES, FORMATS
from netsim.workloads.job.model import MAX_LAYERS, conflict
from netsim.workloads.job.schedules import SCHEDULES

RECOMPUTE = ("none", "selective", "full")
ACCOUNTINGS = ("hierarchical", "paper")
MOMENTS = {"adam": 2, "momentum": 1, "sgd": 0}
"""Optimizer states per parameter."""


def _read_levels(value: Any) -> tuple[int, int, int]:
    hint = "[replicas in a rack, racks, datacenters]"
    if not isinstance(value, list) or len(value) != 3:
        raise InputError(f"{written(value)} must be a list of three counts", hint=hint)
    rack, racks, sites = map(COUNT.convert, value)
    return rack, racks, sites


COUNT = Param("replicas", "count", REQUIRED, "replicas of a level", minimum=1)
LEVELS = Unit("[replicas in a rack, racks, datacenters]", _read_levels, list)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Parallelism of a job: tp x cp x dp x pp ranks; `ep` divides dp into groups."""

    global_batch: int = key("count", REQUIRED, "sequences per step", minimum=1)
    tp: int = key("count", 1, "tensor parallelism: GPUs per matrix", minimum=1)
    sp: bool = key("bool", False, "sequence parallelism: tp ranks also split norms and dropout")
    regather: bool = key(
        "bool",
        True,
        "with sp, keep inputs of matrices split and gather them again for weight gradients",
    )
    scatter_gather: bool = key(
        "bool",
        True,
        "split pipeline transfers over tp ranks and gather them on arrival; always on with sp",
    )
    pp: int = key("count", 1, "pipeline stages", minimum=1, maximum=MAX_LAYERS)
    schedule: str = key("choice", "1f1b", "pipeline schedule", choices=tuple(SCHEDULES))
    virtual_stages: int = key(
        "count", 1, "interleaved chunks of layers per stage", minimum=1, maximum=MAX_LAYERS
    )
    dp: int = key("count", 0, "data parallelism: replicas; 0: the product of dp_levels")
    dp_levels: tuple[int, int, int] | None = key(
        LEVELS, None, "replicas over racks and datacenters, for stages S1 to S5"
    )
    accounting: str = key(
        "choice",
        "hierarchical",
        "S1 to S5: reduce-scatter, exchange, all-gather (hierarchical), or full "
        "all-reduces and all-gathers (paper)",
        choices=ACCOUNTINGS,
    )
    zero: int = key("count", 0, "ZeRO stage: 1 splits the optimizer, 2 gradients, 3 weights")
    ep: int = key("count", 1, "expert parallelism: GPUs per layer's experts", minimum=1)
    ep_domains: int = key(
        "count", 0, "most scale-up domains per token, each sent one copy; 0: one copy per expert"
    )
    cp: int = key("count", 1, "context parallelism: GPUs per sequence", minimum=1)
    micro_batch: int = key("count", 1, "sequences per micro-batch", minimum=1)
    recompute: str = key(
        "choice",
        "none",
        "recomputation of activations: none, scores (selective), or whole layers (full)",
        choices=RECOMPUTE,
    )

    uneven: bool = key(
        "bool",
        False,
        "allow fractions where values do not divide; the first stages get more layers",
    )

    def conflicts(self, _: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the conflicts between keys."""
        if self.dp and self.dp_levels and self.dp != math.prod(self.dp_levels):
            message = f"{self.dp} conflicts with dp_levels: {math.prod(self.dp_levels)} replicas"
            yield conflict("dp", message, "remove one of them")
        if self.accounting == "paper" and not self.dp_levels:
            yield conflict("accounting", "requires dp_levels", "it applies to S1 to S5")
        if self.dp_levels and self.zero:
            message = "conflicts with dp_levels: S1 to S5 do not shard weights"
            yield conflict("zero", message, "zero = 0, or dp instead of dp_levels")
        if self.dp_levels and self.ep > 1:
            message = "conflicts with dp_levels: S1 to S5 do not support expert parallelism"
            yield conflict("ep", message, "use dp instead of dp_levels")
        if self.virtual_stages > 1 and self.schedule != "interleaved":
            message = f'conflicts with schedule = "{self.schedule}", which has one chunk per stage'
            yield conflict("virtual_stages", message, 'schedule = "interleaved"')
        if self.schedule == "interleaved" and min(self.virtual_stages, self.pp) < 2:
            message = "interleaved requires several stages and several chunks"
            yield conflict("schedule", message, "pp and virtual_stages of at least 2")
        if self.sp and self.tp == 1:
            yield conflict("sp", "requires tensor parallelism", "tp of at least 2")
        if self.ep_domains and self.ep == 1:
            yield conflict("ep_domains", "requires expert parallelism", "ep of at least 2")

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


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Number format of each tensor."""

    weights: str = key("choice", "bf16", "format of weights in compute", choices=FORMAT_NAMES)
    activations: str = key(
        "choice", "bf16", "format of activations and their gradients", choices=FORMAT_NAMES
    )
    gradients: str = key(
        "choice", "fp32", "format in which weight gradients are accumulated", choices=FORMAT_NAMES
    )
    reduce: str = key("choice", "fp32", "format in which gradients are sent", choices=FORMAT_NAMES)
    dispatch: str = key(
        "choice", "bf16", "format in which tokens are sent to experts", choices=FORMAT_NAMES
    )
    master: str = key(
        "choice", "fp32", "format of the optimizer's master weights", choices=(*FORMATS, "none")
    )
    optimizer: str = key("choice", "fp32", "format of optimizer states", choices=FORMAT_NAMES)
    compute: str = key("choice", "bf16", "format of matrix multiplication", choices=FORMAT_NAMES)
    logits: str = key(
        "choice",
        "compute",
        "format of the last matrix multiplication; compute: as the others",
        choices=(*FORMATS, "compute"),
    )
    vector: str = key("choice", "bf16", "format of other operations", choices=FORMAT_NAMES)

    @property
    def head(self) -> str:
        """Format of the logits' matrix multiplication."""
        return self.compute if self.logits == "compute" else self.logits

    def bytes_of(self, tensor: str) -> float:
        """Return the bytes per element of a tensor: "weights", "master", ..."""
        return {"none": 0.0, **FORMATS}[getattr(self, tensor)]


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """Optimizer and its work per parameter."""

    kind: str = key("choice", "adam", "optimizer", choices=tuple(MOMENTS))
    flops: int = key("count", 11, "operations per parameter")

    @property
    def moments(self) -> int:
        """States per parameter."""
        return MOMENTS[self.kind]


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Communication that overlaps compute, named as in Megatron."""

    grad_reduce: bool = key("bool", False, "overlap gradients with the backward pass")
    param_gather: bool = key("bool", False, "overlap weight gathering with the forward pass")
    tp_comm: bool = key("bool", False, "overlap tensor-parallel collectives with matrix products")
    p2p_comm: bool = key("bool", False, "overlap pipeline transfers with other micro-batches")
    ep_comm: bool = key("bool", False, "overlap expert exchanges with other micro-batches")
