"""How long a training step takes, by formula: compute, what communication shows, the bubble.

Every stage computes its micro-batches with what communication it cannot hide; the slowest stage
sets the pace, the others add what the schedule leaves idle (`netsim.workloads.job.schedules`). At
the end
gradients travel that have not yet, and the optimizer changes the parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from netsim.workloads.job.job import Job
from netsim.workloads.job.layout import Overlap
from netsim.workloads.job.messages import Message, messages
from netsim.workloads.job.schedules import bubble_ps
from netsim.workloads.job.tail import shown_ps
from netsim.workloads.job.times import LayerTimes, stage_times
from netsim.workloads.job.work import Kernel, head_kernels, layer_kernels

PS_PER_S = 10**12

SPLIT = ("zb_h1", "zb_h2")
"""Schedules that put off the gradients of weights, and end with them."""


@dataclass(frozen=True)
class StageStep:
    """One stage of one GPU: picoseconds for a micro-batch, all its chunks together.

    `exposed` is by kind of message, of both passes; it is part of the three times. `fill_ps` are
    transfers that are hidden but for the first micro-batch, on its way through the pipeline.
    """

    forward_ps: float
    input_ps: float
    weight_ps: float
    compute_ps: float
    recompute_ps: float
    exposed: dict[str, float]
    fill_ps: float
    tail: dict[str, float]
    """Once at the end of the step: what shows of gradients and weights that travel, by kind."""
    optimizer_ps: float

    @property
    def busy_ps(self) -> float:
        """A micro-batch, forward and backward."""
        return self.forward_ps + self.input_ps + self.weight_ps

    @property
    def end_ps(self) -> float:
        """What comes once, after the last micro-batch."""
        return sum(self.tail.values()) + self.optimizer_ps


@dataclass(frozen=True)
class StepTime:
    """A step, in picoseconds: the parts add up to `total_ps`. Parts are those of the slowest stage.

    `mfu` is the model's operations, without those of recomputation, to what all GPUs could do.
    """

    total_ps: float
    compute_ps: float
    recompute_ps: float
    exposed: dict[str, float]
    bubble_ps: float
    optimizer_ps: float
    slowest_stage: int
    model_flops: float
    mfu: float


@lru_cache(maxsize=1024)
def step_time(job: Job) -> StepTime:
    """The step of a job."""
    layout = job.layout
    stages = [_stage(job, stage) for stage in range(layout.pp)]
    slowest = max(range(layout.pp), key=lambda one: stages[one].busy_ps)
    pace, m = stages[slowest], layout.micro_batches
    bubble = sum(
        bubble_ps(
            layout.schedule,
            2,
            round(one.forward_ps + one.fill_ps),
            round(one.input_ps),
            round(one.weight_ps),
            layout.virtual_stages,
        )
        for number, one in enumerate(stages)
        if number != slowest
    )
    exposed = _sums({kind: m * time for kind, time in pace.exposed.items()})
    tail, optimizer = _end(stages, layout.virtual_stages)
    for kind, time in tail.items():
        exposed[kind] += time
    total = m * pace.busy_ps + bubble + sum(tail.values()) + optimizer
    flops = model_flops(job)
    peak = job.machine.matrix.rate(job.precision.compute) * layout.gpus
    return StepTime(
        total_ps=total,
        compute_ps=m * pace.compute_ps,
        recompute_ps=m * pace.recompute_ps,
        exposed={kind: time for kind, time in exposed.items() if time > 0},
        bubble_ps=bubble,
        optimizer_ps=optimizer,
        slowest_stage=slowest,
        model_flops=flops,
        mfu=flops / (peak * total / PS_PER_S),
    )


def _end(stages: list[StageStep], chunks: int) -> tuple[dict[str, float], float]:
    """What comes behind the first stage's last micro-batch: messages by kind, and the optimizer.

    Stages behind the first are done earlier, by the time that a micro-batch takes from them back to
    it. The latest of all is told.
    """
    early, latest = 0.0, (stages[0].tail, stages[0].optimizer_ps)
    for one in stages:
        left = one.end_ps - early
        if left > sum(latest[0].values()) + latest[1]:
            travel = sum(one.tail.values())
            share = max(0.0, left - one.optimizer_ps) / travel if travel else 0.0
            shown = {kind: share * time for kind, time in one.tail.items()}
            latest = shown, left - sum(shown.values())
        early += (one.input_ps + one.weight_ps) / chunks
    return latest


def model_flops(job: Job) -> float:
    """Operations of a step that the model needs: matrices alone, each three times.

    72 B s L h^2 (1 + s / 6h + V / 12Lh) for a model like GPT-3 (Narayanan et al. 2021, 5.1).
    """
    model, layout = job.model, job.layout
    once = matrix_flops(head_kernels(job))
    for experts, n in ((False, model.layers - model.moe_layers), (True, model.moe_layers)):
        once += n * matrix_flops(layer_kernels(job, experts)) if n else 0.0
    shares = layout.tp * layout.cp
    return 3 * once * shares * layout.global_batch / layout.micro_batch


def matrix_flops(kernels: Iterable[Kernel]) -> float:
    """Operations of kernels on matrix units, forward."""
    return sum(one.count * one.forward.flops for one in kernels if one.unit == "matrix")


def _stage(job: Job, stage: int) -> StageStep:
    """One stage: its chunks one after the other."""
    times = stage_times(job)
    numbers = range(stage, len(times.virtual_stages), job.layout.pp)
    compute, fill = LayerTimes(), 0.0
    exposed, passes = _sums(), _sums()
    for number in numbers:
        one = times.virtual_stages[number]
        compute += one
        counts = _places(job, number)
        for kind, when, time, hidden in _exposed(job, counts, one):
            if hidden:
                fill += time
            else:
                exposed[kind] += time
                passes[when] += time
    forward = compute.forward_ps + passes["forward"]
    weight = compute.backward_weight_ps + passes["backward_weight"]
    before = compute.recompute_ps + passes["recompute"]
    backward = compute.backward_input_ps + before + passes["backward_input"]
    v = job.layout.virtual_stages
    ends = weight if job.layout.schedule in SPLIT else backward + weight
    tail = shown_ps(job, stage, forward / v, ends / v)
    return StageStep(
        forward_ps=forward,
        input_ps=backward,
        weight_ps=weight,
        compute_ps=compute.forward_ps + compute.backward_input_ps + compute.backward_weight_ps,
        recompute_ps=compute.recompute_ps,
        exposed=dict(exposed),
        fill_ps=fill,
        tail=tail,
        optimizer_ps=times.optimizer_ps[stage],
    )


def _places(job: Job, number: int) -> dict[str, int]:
    """How often each place of messages comes in a virtual stage."""
    layers, last = job.virtual_stages[number], len(job.virtual_stages) - 1
    moe = sum(job.model.has_experts(layer) for layer in layers)
    return {
        "layer": len(layers),
        "moe_layer": moe,
        "dense_layer": len(layers) - moe,
        "embedding": int(number == 0),
        "head": int(number == last),
        "sends_forward": int(number < last),
        "sends_backward": int(number > 0),
    }


def _count(one: Message, counts: dict[str, int]) -> int:
    if one.per != "virtual_stage":
        return one.times * counts[one.per]
    return one.times * counts["sends_forward" if one.when == "forward" else "sends_backward"]


Shown = list[tuple[str, str, float, bool]]


def _exposed(job: Job, counts: dict[str, int], compute: LayerTimes) -> Shown:
    """Kind, pass, picoseconds and whether only the first micro-batch shows it, by message.

    What an overlap hides is hidden by the compute of its pass: what is longer than that shows.
    """
    overlap = job.overlap
    found: Shown = []
    room = {
        "forward": float(compute.forward_ps),
        "recompute": float(compute.recompute_ps),
        "backward_input": float(compute.backward_input_ps),
        "backward_weight": float(compute.backward_weight_ps),
    }
    for one in messages(job):
        n = 0 if one.when == "step" else _count(one, counts)
        if n == 0:
            continue
        time = n * one.time_ps(job)
        if one.kind == "pp" and overlap.p2p_comm:
            found.append((one.kind, one.when, time, True))
            continue
        if overlaps(overlap, one):
            hidden = min(time, room[one.when])
            room[one.when] -= hidden
            time -= hidden
        found.append((one.kind, one.when, time, False))
    return found


def overlaps(overlap: Overlap, one: Message) -> bool:
    """Whether a message of a pass runs beside its compute."""
    if one.kind in ("tp", "cp"):
        return overlap.tp_comm
    if one.kind == "ep":
        return overlap.ep_comm
    if one.kind in ("dp", "expert_dp"):  # of ZeRO 3, in each micro-batch
        return overlap.grad_reduce if one.what == "reduce_scatter" else overlap.param_gather
    return False


def _sums(begin: dict[str, float] | None = None) -> dict[str, float]:
    """Sums by name, which begin at 0."""
    return defaultdict(float, begin or {})
