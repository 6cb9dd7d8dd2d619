"""Memory of a GPU by stage: weights, gradients, optimizer states, activations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from netsim.workloads.job import schedules
from netsim.workloads.job.job import Job
from netsim.workloads.job.model import attention_parameters, norm_parameters
from netsim.workloads.job.work import (
    Kernel,
    embedding_kernels,
    head_kernels,
    layer_kernels,
    sizes_of,
)


@dataclass(frozen=True)
class Held:
    """Parameters at one GPU; fractions if the layout is uneven."""

    dense: float
    """Parameters replicated over data parallelism."""
    expert: float
    """Parameters of experts, sharded over `ep` GPUs."""

    @property
    def total(self) -> float:
        return self.dense + self.expert

    def __add__(self, other: Held) -> Held:
        return Held(self.dense + other.dense, self.expert + other.expert)


@dataclass(frozen=True)
class StageParameters:
    """Parameters at a GPU of a stage, and those its optimizer updates."""

    held: Held
    optimized: float


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
    model, tp = job.model, job.layout.tp
    copied = 2.0 * norm_parameters(model)
    shared = float(attention_parameters(model))
    if model.attention == "latent":
        narrow = model.hidden * (model.kv_rank + model.rotary_size + model.query_rank)
        copied += narrow + model.kv_rank + model.query_rank
        shared -= narrow
    else:
        both = 2 * model.hidden * model.head_width
        copied += both * (model.kv_heads_of(tp) - model.kv_head_count / tp)
    if experts:
        one = model.feed_forward_matrices * model.hidden * model.expert_width
        copied += model.hidden * model.experts
        dense = copied + (shared + model.shared_experts * one) / tp
        return Held(dense, model.experts / job.layout.ep * one / tp)
    shared += model.feed_forward_matrices * model.hidden * model.width
    if model.biases:  # of column-parallel matrices sharded, of row-parallel ones replicated
        heads = (model.heads + 2 * model.kv_head_count) * model.head_width
        shared += heads + (model.feed_forward_matrices - 1) * model.width
        copied += 2 * model.hidden
    return Held(copied + shared / tp, 0.0)


def embedding_held(job: Job) -> Held:
    """Return the parameters of the embedding at one GPU."""
    model = job.model
    positions = model.sequence * model.hidden if model.positions == "learned" else 0
    return Held(model.vocabulary * model.hidden / job.layout.tp + positions, 0.0)


def head_held(job: Job) -> Held:
    """Return the parameters of the head at one GPU; tied ones count once."""
    model = job.model
    again = model.tied_embeddings and job.layout.pp == 1
    matrix = 0.0 if again else model.vocabulary * model.hidden / job.layout.tp
    return Held(matrix + norm_parameters(model), 0.0)


@lru_cache(maxsize=1024)
def stage_parameters(job: Job, stage: int) -> StageParameters:
    """Return the parameters of a stage, from 0."""
    layout = job.layout
    held = Held(0.0, 0.0)
    for layer in job.layers_of_stage(stage):
        held += layer_held(job, job.model.has_experts(layer))
    if stage == 0:
        held += embedding_held(job)
    if stage == layout.pp - 1:
        held += head_held(job)
    return StageParameters(held, _sharded(job, held, zero_stage=1))


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
    numbers = stage_parameters(job, stage)
    moments = job.optimizer.moments * precision.bytes_of("optimizer")
    layers = job.layers_of_stage(stage)
    kept = sum(layer_kept(job, job.model.has_experts(layer)) for layer in layers)
    return StageMemory(
        weights=_sharded(job, numbers.held, zero_stage=3) * precision.bytes_of("weights"),
        gradients=_sharded(job, numbers.held, zero_stage=2) * precision.bytes_of("gradients"),
        optimizer=numbers.optimized * (precision.bytes_of("master") + moments),
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
