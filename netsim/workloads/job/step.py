"""Time of a training step by formula: compute, exposed communication, bubble; layouts compared.

Each stage computes its micro-batches with exposed communication; the slowest stage sets the pace,
and the others add the schedule's bubble (`netsim.workloads.job.schedules`). Remaining gradient
messages and the optimizer come last.

Gradients become ready layer by layer in the last micro-batch's backward pass. With `grad_reduce`
each is sent when ready, in order; what remains when the stage ends is exposed. Weights gathered by
ZeRO mirror this: with `param_gather` each must arrive before the next step's first micro-batch
reaches its layer. In an interleaved schedule, p micro-batches pass a chunk before the next one.

    found = search_layouts(load_job("llama3_70b", fits=False), gpus=[512])
    print(found.rows[0].job.layout, found.refused)

compares layouts by step time, MFU and cost. A layout is a choice of the keys in `AXES`; dp uses the
remaining GPUs. Only the least recomputation that fits is timed, since more takes longer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from itertools import product
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.frozen import frozen
from netsim.units import written
from netsim.workloads.job.job import RECOMPUTE, Job, Layout, Overlap
from netsim.workloads.job.load import job_errors
from netsim.workloads.job.machine import PS_PER_S
from netsim.workloads.job.messages import Message, messages
from netsim.workloads.job.schedules import bubble_ps
from netsim.workloads.job.work import (
    Kernel,
    LayerTimes,
    head_kernels,
    layer_kernels,
    stage_memory,
    stage_times,
)

SPLIT = ("zb_h1", "zb_h2")  # schedules that defer weight gradients and end with them


@frozen
class StageStep:
    """Times of a stage at one GPU per micro-batch, all chunks, in ps.

    The first three include `exposed` communication, by kind. `fill_ps` is the time of transfers
    that only the first micro-batch exposes.
    """

    forward_ps: float
    input_ps: float
    weight_ps: float
    compute_ps: float
    recompute_ps: float
    exposed: dict[str, float]
    fill_ps: float
    tail: dict[str, float]  # exposed gradient and weight messages at the end of the step, by kind
    optimizer_ps: float

    @property
    def busy_ps(self) -> float:
        """Time of a micro-batch."""
        return self.forward_ps + self.input_ps + self.weight_ps

    @property
    def end_ps(self) -> float:
        """Time after the last micro-batch."""
        return sum(self.tail.values()) + self.optimizer_ps


@frozen
class StepTime:
    """Parts of a step at the slowest stage, in ps, which add up to `total_ps`. `mfu` is the model's
    FLOP, without recomputation, over the peak of all GPUs."""

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
    exposed = defaultdict(float, {kind: m * time for kind, time in pace.exposed.items()})
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
    """Return the exposed messages and the optimizer time after stage 0's last micro-batch. Later
    stages finish earlier, by a micro-batch's backward time to stage 0; the last one counts."""
    early, latest = 0.0, (stages[0].tail, stages[0].optimizer_ps)
    for step in stages:
        left = step.end_ps - early
        if left > sum(latest[0].values()) + latest[1]:
            travel = sum(step.tail.values())
            share = max(0.0, left - step.optimizer_ps) / travel if travel else 0.0
            exposed = {kind: share * time for kind, time in step.tail.items()}
            latest = exposed, left - sum(exposed.values())
        early += (step.input_ps + step.weight_ps) / chunks
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
    return sum(kernel.count * kernel.forward.flops for kernel in kernels if kernel.unit != "vector")


def _stage(job: Job, stage: int) -> StageStep:
    times = stage_times(job)
    numbers = range(stage, len(times.virtual_stages), job.layout.pp)
    compute, fill = LayerTimes(), 0.0
    exposed: dict[str, float] = defaultdict(float)
    passes: dict[str, float] = defaultdict(float)
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
    """Return how often each `per` of a message occurs in a virtual stage."""
    layers, last = job.virtual_stages[number], len(job.virtual_stages) - 1
    moe = sum(job.model.has_experts(layer) for layer in layers)
    return {
        "layer": len(layers),
        "moe_layer": moe,
        "dense_layer": len(layers) - moe,
        "embedding": int(number == 0),
        "head": int(number == last),
        "forward": int(number < last),  # sends to the next and to the previous virtual stage
        "backward_input": int(number > 0),
    }


Exposures = list[tuple[str, str, float, bool]]


def _exposed(job: Job, counts: dict[str, int], compute: LayerTimes) -> Exposures:
    """Return kind, pass, exposed time, and whether only the first micro-batch exposes it.
    Overlapped messages are hidden by the compute of their pass; the excess is exposed."""
    overlap = job.overlap
    found: Exposures = []
    room = {name.removesuffix("_ps"): float(time) for name, time in asdict(compute).items()}
    for message in messages(job):
        n = counts[message.when if message.per == "virtual_stage" else message.per]
        if n == 0 or message.when == "step":
            continue
        time = n * message.times * message.time_ps(job)
        if message.kind == "pp" and overlap.p2p_comm:
            found.append((message.kind, message.when, time, True))
            continue
        if overlaps(overlap, message):
            hidden = min(time, room[message.when])
            room[message.when] -= hidden
            time -= hidden
        found.append((message.kind, message.when, time, False))
    return found


def overlaps(overlap: Overlap, one: Message) -> bool:
    """Return whether a message overlaps the compute of its pass."""
    if one.kind in ("tp", "cp"):
        return overlap.tp_comm and not one.waits
    if one.kind == "ep":
        return overlap.ep_comm
    if one.kind in ("dp", "expert_dp"):  # ZeRO 3
        return overlap.grad_reduce if one.what == "reduce_scatter" else overlap.param_gather
    return False


Queues = dict[str, list[tuple[str, float, float]]]
"""By network, in forward order: kind, distance of the layer from the end (or start) of the stage's
work, and duration of its message, both in ps."""


def _tail_ps(job: Job, stage: int, forward_ps: float, backward_ps: float) -> dict[str, float]:
    """Return a stage's exposed messages at the end of a step, by kind. Times are per micro-batch
    and chunk: forward, and backward to the weight gradients."""
    found: dict[str, float] = defaultdict(float)
    sides = (
        (True, backward_ps, job.overlap.grad_reduce),
        (False, forward_ps, job.overlap.param_gather),
    )
    for reduces, chunk_ps, overlaps in sides:
        queues: Queues = defaultdict(list)
        for per, offset in _offsets(job, stage, chunk_ps if overlaps else 0.0):
            for message in _step_messages(job, per, reduces):
                queues[message.network].append(
                    (message.kind, offset, message.times * message.time_ps(job))
                )
        for kind, time in _slowest_network(queues).items():
            found[kind] += time
    if stage in (0, job.layout.pp - 1):
        for message in messages(job):
            if message.kind == "embedding":
                found[message.kind] += message.time_ps(job)
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
    """Yield the messages of a part once per step, of gradients or of weights. S4 and S5 gather
    gradients; the paper's accounting includes them in S1 and S2."""
    for message in messages(job):
        if message.when != "step" or message.per != per or message.kind == "embedding":
            continue
        is_gather = message.kind in ("dp_s4", "dp_s5")
        if is_gather and job.layout.accounting == "paper":
            continue
        if reduces == (is_gather or message.what != "all_gather"):
            yield message


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


AXES = ("tp", "pp", "cp", "ep", "schedule", "virtual_stages", "micro_batch", "zero", "recompute")
"""Keys of [layout] that a search varies; sp follows tp, and dp uses the remaining GPUs."""

MAX_LAYOUTS = 100_000

PS_PER_HOUR = 3.6e15


@frozen
class LayoutRow:
    """A layout that fits: the job with it, the peak memory of its fullest stage, and its step."""

    job: Job
    memory_bytes: float
    step: StepTime

    @property
    def gpu_hours_per_token(self) -> float:
        """GPU-hours of a step over its tokens."""
        layout = self.job.layout
        tokens = layout.global_batch * self.job.model.sequence
        return layout.gpus * self.step.total_ps / PS_PER_HOUR / tokens


@frozen
class LayoutSearch:
    """The result of a search."""

    rows: tuple[LayoutRow, ...]  # layouts that fit, by step time
    # number of other layouts by key and reason; only each key's first reason is kept
    refused: Mapping[tuple[str, str], int]


def search_layouts(
    job: Job,
    gpus: Sequence[int] = (),
    vary: Mapping[str, Sequence[Any]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LayoutSearch:
    """Return the layouts of a job on numbers of GPUs; default: as many as it has.

    `vary` gives values of `AXES` instead of the default ones; `progress` is called with the number
    of layouts done, and of all. Raises InputError for unknown keys and too many layouts.
    """
    given = dict(vary or {})
    for name in given:
        if name not in AXES:
            hint = did_you_mean(name, AXES) or f"one of {', '.join(AXES)}"
            raise InputError(f"unknown axis {written(name)}", key="--vary", hint=hint)
    layouts = [one for n in gpus or [job.layout.gpus] for one in _layouts(job, n, given)]
    if len(layouts) > MAX_LAYOUTS:
        message = f"{len(layouts):,} layouts exceed {MAX_LAYOUTS:,}"
        raise InputError(message, key="--vary", hint="fewer values")
    rows: list[LayoutRow] = []
    counts: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for number, choices in enumerate(layouts):
        found, error = _first_that_fits(job, choices)
        if found is not None:
            rows.append(found)
        if error is not None:
            key = error.key or ""
            counts[key] += 1
            reasons.setdefault(key, error.message)
        if progress is not None:
            progress(number + 1, len(layouts))
    rows.sort(key=lambda one: one.step.total_ps)
    return LayoutSearch(tuple(rows), {(key, reasons[key]): n for key, n in counts.most_common()})


def _layouts(job: Job, gpus: int, given: Mapping[str, Sequence[Any]]) -> Iterator[list[Layout]]:
    """Yield each choice of the axes on some GPUs: its recomputation options, the least first."""
    axes = {name: [*given.get(name, _values(job, name, gpus))] for name in AXES}
    recompute = sorted(axes.pop("recompute"), key=lambda one: [*RECOMPUTE, one].index(one))
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        shared = chosen["tp"] * chosen["pp"] * chosen["cp"]
        chunks = chosen["virtual_stages"] > 1
        if gpus % shared or chunks != (chosen["schedule"] == "interleaved"):
            continue
        if chosen["pp"] == 1 and chosen["schedule"] != axes["schedule"][0]:
            continue  # all schedules are then the same
        chosen |= {"dp": gpus // shared, "dp_levels": None, "sp": chosen["tp"] > 1}
        yield [replace(job.layout, **chosen, recompute=how) for how in recompute]


def _values(job: Job, name: str, gpus: int) -> Sequence[Any]:
    """Return the default values of an axis."""
    model, powers = job.model, [2**k for k in range(13) if 2**k <= gpus]
    own = getattr(job.layout, name)
    values: dict[str, Sequence[Any]] = {
        "tp": [n for n in powers if n <= job.machine.domain_gpus and model.heads % n == 0],
        "pp": [n for n in range(1, model.layers + 1) if model.layers % n == 0],
        "ep": [n for n in powers if n <= model.experts] or [1],
        "schedule": ("1f1b", "interleaved", "zb_h1"),
        "virtual_stages": (1, 2, 4),
        "micro_batch": (1, 2, 4),
        "zero": (0, 1, 2, 3),
        "recompute": RECOMPUTE,
    }
    return list(dict.fromkeys([*values.get(name, ()), own]))


def _first_that_fits(
    job: Job, choices: Sequence[Layout]
) -> tuple[LayoutRow | None, InputError | None]:
    error = None
    for layout in choices:
        tried = replace(job, layout=layout)
        errors = job_errors(tried, fits=False)
        if errors and errors[0].key == "layout.recompute":
            continue  # unknown to the model
        if errors:
            return None, errors[0]
        memory = max(stage_memory(tried, stage).total for stage in range(layout.pp))
        if memory <= job.machine.memory:
            return LayoutRow(tried, memory, step_time(tried)), None
        error = InputError("a GPU's memory is too small", key="machine.memory")
    return None, error


def layout_keys(layout: Layout) -> dict[str, Any]:
    found = {one.name: getattr(layout, one.name) for one in fields(layout)}
    return {name: found[name] for name in ("tp", "sp", *AXES[1:3], "dp", *AXES[3:])}
