"""Time of a training step by formula: compute, exposed communication, bubble.

Each stage computes its micro-batches with exposed communication; the slowest stage sets the pace,
and the others add the schedule's bubble (`netsim.workloads.job.schedules`). Remaining gradient
messages and the optimizer come last.

Gradients become ready layer by layer in the last micro-batch's backward pass. With `grad_reduce`
each is sent when ready, in order; what remains when the stage ends is exposed. Weights gathered by
ZeRO mirror this: with `param_gather` each must arrive before the next step's first micro-batch
reaches its layer. In an interleaved schedule p micro-batches pass a chunk before the next chunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache

from netsim.workloads.job.job import Job
from netsim.workloads.job.layout import Overlap
from netsim.workloads.job.messages import Message, messages
from netsim.workloads.job.schedules import bubble_ps
from netsim.workloads.job.work import Kernel, LayerTimes, head_kernels, layer_kernels, stage_times

PS_PER_S = 10**12

SPLIT = ("zb_h1", "zb_h2")
"""Schedules that defer weight gradients and end with them."""


@dataclass(frozen=True)
class StageStep:
    """Times of a stage at one GPU per micro-batch, all chunks, in ps.

    The first three include `exposed` communication, by kind. `fill_ps` are transfers that only the
    first micro-batch exposes.
    """

    forward_ps: float
    input_ps: float
    weight_ps: float
    compute_ps: float
    recompute_ps: float
    exposed: dict[str, float]
    fill_ps: float
    tail: dict[str, float]
    """Exposed gradient and weight messages at the end of the step, by kind."""
    optimizer_ps: float

    @property
    def busy_ps(self) -> float:
        """Time of a micro-batch."""
        return self.forward_ps + self.input_ps + self.weight_ps

    @property
    def end_ps(self) -> float:
        """Time after the last micro-batch."""
        return sum(self.tail.values()) + self.optimizer_ps


@dataclass(frozen=True)
class StepTime:
    """Parts of a step at the slowest stage, in ps, which add up to `total_ps`.

    `mfu` is the model's FLOP, without recomputation, over the peak of all GPUs.
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
    """Return the exposed messages and the optimizer time after stage 0's last micro-batch.

    Later stages finish earlier, by a micro-batch's backward time to stage 0; the last one counts.
    """
    early, latest = 0.0, (stages[0].tail, stages[0].optimizer_ps)
    for one in stages:
        left = one.end_ps - early
        if left > sum(latest[0].values()) + latest[1]:
            travel = sum(one.tail.values())
            share = max(0.0, left - one.optimizer_ps) / travel if travel else 0.0
            exposed = {kind: share * time for kind, time in one.tail.items()}
            latest = exposed, left - sum(exposed.values())
        early += (one.input_ps + one.weight_ps) / chunks
    return latest


def model_flops(job: Job) -> float:
    """Return the model FLOP of a step: matrix products, forward and twice backward.

    72 B s L h^2 (1 + s / 6h + V / 12Lh) for a model like GPT-3 (Narayanan et al. 2021, 5.1).
    """
    model, layout = job.model, job.layout
    once = matrix_flops(head_kernels(job))
    for experts, n in ((False, model.layers - model.moe_layers), (True, model.moe_layers)):
        once += n * matrix_flops(layer_kernels(job, experts)) if n else 0.0
    shares = layout.tp * layout.cp
    return 3 * once * shares * layout.global_batch / layout.micro_batch


def matrix_flops(kernels: Iterable[Kernel]) -> float:
    """Return the forward FLOP of kernels on matrix units."""
    return sum(one.count * one.forward.flops for one in kernels if one.unit != "vector")


def _stage(job: Job, stage: int) -> StageStep:
    times = stage_times(job)
    numbers = range(stage, len(times.virtual_stages), job.layout.pp)
    compute, fill = LayerTimes(), 0.0
    exposed, passes = _sums(), _sums()
    for number in numbers:
        one = times.virtual_stages[number]
        compute += one
        counts = _message_counts(job, number)
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
    tail = _tail_ps(job, stage, forward / v, ends / v)
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


def _message_counts(job: Job, number: int) -> dict[str, int]:
    """Return how often each `per` of messages occurs in a virtual stage."""
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


Exposures = list[tuple[str, str, float, bool]]


def _exposed(job: Job, counts: dict[str, int], compute: LayerTimes) -> Exposures:
    """Return kind, pass, exposed time, and whether only the first micro-batch exposes it.

    Overlapped messages are hidden by the compute of their pass; the excess is exposed.
    """
    overlap = job.overlap
    found: Exposures = []
    room = {name.removesuffix("_ps"): float(time) for name, time in asdict(compute).items()}
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
    """Return whether a message overlaps the compute of its pass."""
    if one.kind in ("tp", "cp"):
        return overlap.tp_comm
    if one.kind == "ep":
        return overlap.ep_comm
    if one.kind in ("dp", "expert_dp"):  # ZeRO 3
        return overlap.grad_reduce if one.what == "reduce_scatter" else overlap.param_gather
    return False


def _sums(start: dict[str, float] | None = None) -> dict[str, float]:
    return defaultdict(float, start or {})


Queues = dict[str, list[tuple[str, float, float]]]
"""By network, in forward order: kind, distance of the layer from the end (or start) of the stage's
work, and duration of its message, both in ps."""


def _tail_ps(job: Job, stage: int, forward_ps: float, backward_ps: float) -> dict[str, float]:
    """Return a stage's exposed messages at the end of a step, by kind.

    Times are per micro-batch and chunk: forward, and backward to the weight gradients.
    """
    found: dict[str, float] = defaultdict(float)
    sides = (
        (True, backward_ps, job.overlap.grad_reduce),
        (False, forward_ps, job.overlap.param_gather),
    )
    for reduces, chunk_ps, overlaps in sides:
        queues: Queues = defaultdict(list)
        for per, offset in _offsets(job, stage, chunk_ps if overlaps else 0.0):
            for one in _step_messages(job, per, reduces):
                queues[one.network].append((one.kind, offset, one.times * one.time_ps(job)))
        for kind, time in _slowest_network(queues).items():
            found[kind] += time
    if stage in (0, job.layout.pp - 1):
        for one in messages(job):
            if one.kind == "embedding":
                found[one.kind] += one.time_ps(job)
    return found


def _offsets(job: Job, stage: int, chunk_ps: float) -> Iterable[tuple[str, float]]:
    """Yield the parts of a stage in forward order, with their distance from its first layer."""
    layout, last = job.layout, len(job.virtual_stages) - 1
    together = min(layout.pp, layout.micro_batches)
    for chunk, number in enumerate(range(stage, last + 1, layout.pp)):
        layers = job.virtual_stages[number]
        start = chunk * together * chunk_ps
        if number == 0:
            yield "embedding", start
        for index, layer in enumerate(layers):
            kind = "moe_layer" if job.model.has_experts(layer) else "dense_layer"
            yield kind, start + index * chunk_ps / len(layers)
        if number == last:
            yield "head", start + chunk_ps


def _step_messages(job: Job, per: str, reduces: bool) -> Iterable[Message]:
    """Yield the messages of a part once per step, of gradients or of weights.

    S4 and S5 gather gradients; the paper's accounting includes them in S1 and S2.
    """
    for one in messages(job):
        if one.when != "step" or one.per != per or one.kind == "embedding":
            continue
        is_gather = one.kind in ("dp_s4", "dp_s5")
        if is_gather and job.layout.accounting == "paper":
            continue
        if reduces == (is_gather or one.what != "all_gather"):
            yield one


def _slowest_network(queues: Queues) -> dict[str, float]:
    """Return the exposed time of the network that finishes last, by kind."""
    slowest, by_kind = 0.0, {}
    for queue in queues.values():
        sent = exposed = 0.0
        kinds: dict[str, float] = defaultdict(float)
        for kind, offset, time in queue:
            sent += time
            kinds[kind] += time
            exposed = max(exposed, sent - offset)
        if exposed > slowest:
            slowest = exposed
            by_kind = {kind: exposed * time / sent for kind, time in kinds.items()}
    return by_kind
