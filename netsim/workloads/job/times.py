"""Compute times of a job, for the analytic step and the simulation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import lru_cache
from operator import add

from netsim.workloads.job.job import Job
from netsim.workloads.job.memory import optimized_parameters
from netsim.workloads.job.work import Kernel, Work, embedding_kernels, head_kernels, layer_kernels


@dataclass(frozen=True)
class LayerTimes:
    """Times of a layer, embedding or head per micro-batch at one GPU, in ps.

    `backward_input` computes activation gradients, `backward_weight` weight gradients; `recompute`
    precedes both.
    """

    forward_ps: int = 0
    backward_input_ps: int = 0
    backward_weight_ps: int = 0
    recompute_ps: int = 0

    @property
    def backward_ps(self) -> int:
        """Backward pass with recomputation."""
        return self.recompute_ps + self.backward_input_ps + self.backward_weight_ps

    def __add__(self, other: LayerTimes) -> LayerTimes:
        return LayerTimes(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class StageTimes:
    """Compute times of a job.

    `layer` is dense; `head` is logits and loss. `virtual_stages[c * pp + s]` is chunk c of stage s,
    with embedding and head; `optimizer_ps[s]` is the optimizer step of stage s.
    """

    layer: LayerTimes
    moe_layer: LayerTimes
    embedding: LayerTimes
    head: LayerTimes
    virtual_stages: tuple[LayerTimes, ...]
    optimizer_ps: tuple[int, ...]
    dense_layers: int
    """Number of layers before the first one with experts."""

    def of_layer(self, layer: int) -> LayerTimes:
        """Return the times of a layer, from 0."""
        return self.layer if layer < self.dense_layers else self.moe_layer


@lru_cache(maxsize=1024)
def stage_times(job: Job) -> StageTimes:
    """Return the compute times of a job.

    Raises InputError if the machine has no peak for a format.
    """
    model, layout = job.model, job.layout
    layer = _times(job, layer_kernels(job, False), repeats=True)
    moe_layer = _times(job, layer_kernels(job, True), repeats=True) if model.experts else layer
    embedding = _times(job, embedding_kernels(job), repeats=False)
    head = _times(job, head_kernels(job), repeats=False)
    dense = model.dense_layers if model.experts else model.layers
    stages = []
    for index, layers in enumerate(job.virtual_stages):
        total = embedding if index == 0 else LayerTimes()
        for number in layers:
            total += layer if number < dense else moe_layer
        stages.append(total + head if index == len(job.virtual_stages) - 1 else total)
    optimizer = tuple(_optimizer_ps(job, stage) for stage in range(layout.pp))
    return StageTimes(layer, moe_layer, embedding, head, tuple(stages), optimizer, dense)


def kernels_ps(job: Job, kernels: Iterable[Kernel], which: str) -> float:
    """Return the time of kernels' "forward", "backward_input" or "backward_weight", in ps."""
    total = 0.0
    for kernel in kernels:
        work: Work = getattr(kernel, which)
        total += kernel.count * _kernel_ps(job, kernel.unit, work)
    return total


def _kernel_ps(job: Job, unit: str, work: Work) -> float:
    machine, precision = job.machine, job.precision
    if unit == "vector":
        engine, number_format = machine.vector, precision.vector
    elif unit == "attention" and machine.attention:
        engine, number_format = machine.attention, precision.activations
    else:
        engine = machine.matrix
        number_format = precision.head if unit == "head" else precision.compute
    return machine.kernel_ps(engine, number_format, work.flops, work.bytes)


def _times(job: Job, kernels: tuple[Kernel, ...], *, repeats: bool) -> LayerTimes:
    """Return the times of kernels, with recomputation if `repeats`."""
    again: tuple[Kernel, ...] = ()
    if repeats and job.layout.recompute == "full":
        again = kernels
    elif repeats and job.layout.recompute == "selective":
        again = tuple(kernel for kernel in kernels if kernel.core)
    return LayerTimes(
        round(kernels_ps(job, kernels, "forward")),
        round(kernels_ps(job, kernels, "backward_input")),
        round(kernels_ps(job, kernels, "backward_weight")),
        round(kernels_ps(job, again, "forward")),
    )


def _optimizer_ps(job: Job, stage: int) -> int:
    """Return a stage's optimizer time at one GPU: reads gradients, updates states and weights."""
    n = optimized_parameters(job, stage)
    precision = job.precision
    kept = precision.bytes_of("optimizer") * job.optimizer.moments
    changed = 2 * (kept + precision.bytes_of("master")) + precision.bytes_of("weights")
    work = Work(job.optimizer.flops * n, n * (precision.bytes_of("gradients") + changed))
    return round(_kernel_ps(job, "vector", work))
