"""Memory of a GPU by stage: weights, gradients, optimizer states, activations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from netsim.workloads.job import schedules
from netsim.workloads.job.job import Job
from netsim.workloads.job.model import (
    Held,
    embedding_parameters,
    head_parameters,
    layer_parameters,
)
from netsim.workloads.job.work import (
    Kernel,
    embedding_kernels,
    head_kernels,
    layer_kernels,
    sizes_of,
)


@dataclass(frozen=True)
class StageMemory:
    """Peak memory of a GPU of one stage, in bytes."""

    weights: float
    gradients: float
    optimizer: float
    """Master weights and optimizer states."""
    activations: float
    """Activations of layers, for the micro-batches in flight."""
    working: float
    """Activations of one recomputed layer, of the embedding and of the head."""

    @property
    def parameters(self) -> float:
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        return self.parameters + self.activations + self.working


def bytes_of_parameter(job: Job) -> float:
    """Return bytes per parameter: weights, master, gradients, optimizer states."""
    precision = job.precision
    copies = sum(precision.bytes_of(name) for name in ("weights", "master", "gradients"))
    return copies + job.optimizer.moments * precision.bytes_of("optimizer")


def layer_held(job: Job, experts: bool) -> Held:
    """Return the parameters of a layer at one GPU."""
    return layer_parameters(job.model, experts, job.layout.tp, job.layout.ep)


@lru_cache(maxsize=1024)
def stage_parameters(job: Job, stage: int) -> Held:
    """Return the parameters of a stage, from 0, at one GPU."""
    layout = job.layout
    held = Held()
    for layer in job.layers_of_stage(stage):
        held += layer_held(job, job.model.has_experts(layer))
    if stage == 0:
        held += embedding_parameters(job.model, layout.tp)
    if stage == layout.pp - 1:
        held += head_parameters(job.model, layout.tp, layout.pp)
    return held


def optimized_parameters(job: Job, stage: int) -> float:
    """Return the parameters of a stage that the optimizer of one GPU updates."""
    return _sharded(job, stage_parameters(job, stage), zero_stage=1)


def _sharded(job: Job, held: Held, zero_stage: int) -> float:
    """Return a GPU's parameters, sharded from this ZeRO stage on."""
    if job.layout.zero < zero_stage:
        return held.total
    group = job.layout.replicas * job.layout.cp
    return held.dense / group + held.expert * job.layout.ep / group


def in_flight(job: Job, stage: int) -> float:
    """Return the most micro-batches in flight at a stage; a chunk counts as its share."""
    layout = job.layout
    return schedules.in_flight(
        layout.schedule, layout.pp, stage, layout.micro_batches, layout.virtual_stages
    )


@lru_cache(maxsize=1024)
def layer_kept(job: Job, experts: bool) -> float:
    """Return the activation bytes a layer keeps per micro-batch until its backward pass."""
    kernels = layer_kernels(job, experts)
    if job.layout.recompute == "full":
        sizes = sizes_of(job)
        return sizes.activation * sizes.own_tokens * job.model.hidden
    selective = job.layout.recompute == "selective"
    return _kept(kernel for kernel in kernels if not (selective and _dropped(kernel)))


def _dropped(kernel: Kernel) -> bool:
    """Return whether selective recomputation recomputes a kernel's output."""
    return kernel.core and kernel.name != "scores"


def _kept(kernels: Iterable[Kernel]) -> float:
    return sum(kernel.count * kernel.kept_bytes for kernel in kernels)


@lru_cache(maxsize=1024)
def stage_memory(job: Job, stage: int) -> StageMemory:
    """Return the memory of a GPU of a stage, from 0."""
    precision = job.precision
    held = stage_parameters(job, stage)
    moments = job.optimizer.moments * precision.bytes_of("optimizer")
    layers = job.layers_of_stage(stage)
    kept = sum(layer_kept(job, job.model.has_experts(layer)) for layer in layers)
    return StageMemory(
        weights=_sharded(job, held, zero_stage=3) * precision.bytes_of("weights"),
        gradients=_sharded(job, held, zero_stage=2) * precision.bytes_of("gradients"),
        optimizer=optimized_parameters(job, stage) * (precision.bytes_of("master") + moments),
        activations=kept * in_flight(job, stage),
        working=_working(job, stage, layers),
    )


def _working(job: Job, stage: int, layers: list[int]) -> float:
    """Return bytes of one recomputed layer, the embedding's mask, and the head's logits."""
    found = 0.0
    if job.layout.recompute != "none":
        for experts in {job.model.has_experts(layer) for layer in layers}:
            whole = _kept(layer_kernels(job, experts))
            found = max(found, whole - layer_kept(job, experts))
    if stage == 0:
        found += in_flight(job, stage) * _kept(embedding_kernels(job))
    if stage == job.layout.pp - 1:
        found += _kept(head_kernels(job))
    return found
