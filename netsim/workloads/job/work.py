"""Kernels of a layer per micro-batch at one GPU, with their FLOP and bytes; what follows from them:
the memory of a stage, and compute times, for the analytic step and the simulation.

Accounting follows Isaev et al., "Calculon" (SC 2023): matrix products on matrix units, everything
else on vector units; every kernel reads its inputs and writes its output. Kept activations follow
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022),
section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, replace
from functools import lru_cache
from operator import add

from netsim.frozen import frozen
from netsim.workloads.job import schedules
from netsim.workloads.job.job import (
    Held,
    Job,
    Model,
    embedding_parameters,
    head_parameters,
    layer_parameters,
)
from netsim.workloads.job.machine import FORMATS

NORM = (9, 14, 7)  # FLOP per element: forward, input gradient, weight gradient

SOFTMAX, DROPOUT, RESIDUAL = (5, 8), (1, 1), (1, 2)
GELU, GATED = (8, 13), (10, 17)
ROTARY = (3, 3)

LOSS_BYTES = (38, 14)
"""Bytes per logit that the kernels of the loss read and write: cast, maximum, difference,
exponential, sum, quotient; backward product and cast (Megatron-LM d98e8a6,
core/tensor_parallel/cross_entropy.py)."""


@frozen
class Work:
    """FLOP of a kernel, and bytes that it reads and writes."""

    flops: float = 0.0
    bytes: float = 0.0


@frozen
class Kernel:
    """A forward kernel and its backward kernels, run `count` times.

    `kept_bytes` stay until the backward pass. Selective recomputation repeats `core` kernels:
    scores, softmax and its dropout; with latent attention, also the expansions. `split` says
    whether tp ranks divide a matrix by columns and gather inputs, or by rows and reduce outputs.
    """

    name: str
    unit: str
    forward: Work
    backward_input: Work
    backward_weight: Work = Work()
    kept_bytes: float = 0.0
    core: bool = False
    count: float = 1.0
    split: str = ""


@frozen
class LayerSizes:
    """Sizes at one GPU."""

    tokens: float  # tokens per micro-batch, of all tp ranks
    own_tokens: float  # tokens whose norms and residuals this GPU computes
    tp: int
    activation: float  # bytes per element
    weight: float
    gradient: float  # of accumulated weight gradients
    operand: float  # of matrix operands: less than `activation` if cast to fp8 before
    shared_inputs: bool  # matrix inputs are kept sharded and gathered again (sequence parallelism)
    gathers: bool  # tp ranks gather inputs and scatter outputs instead of all-reducing


def sizes_of(job: Job) -> LayerSizes:
    layout, tokens = job.layout, job.layout.micro_batch * job.model.sequence / job.layout.cp
    return LayerSizes(
        tokens=tokens,
        own_tokens=tokens / layout.tp if layout.sp else tokens,
        tp=layout.tp,
        activation=job.precision.bytes_of("activations"),
        weight=job.precision.bytes_of("weights"),
        gradient=job.precision.bytes_of("gradients"),
        operand=min(job.precision.bytes_of(name) for name in ("activations", "compute")),
        gathers=layout.sp,
        shared_inputs=layout.sp and layout.regather,
    )


@lru_cache(maxsize=1024)
def layer_kernels(job: Job, experts: bool) -> tuple[Kernel, ...]:
    """Return the kernels of a layer in forward order. Parallel blocks share one norm."""
    sizes = sizes_of(job)
    first = (_norm(job.model, sizes, "attention norm"), *_gather(job.model, sizes, "attention"))
    made = (
        _latent_projections(job.model, sizes)
        if job.model.latent
        else _projections(job.model, sizes)
    )
    attention = (*first, *made, *_attention(job))
    second = (
        _norm(job.model, sizes, "feed-forward norm"),
        *_gather(job.model, sizes, "feed-forward"),
    )
    if experts:
        inner = _experts(job, sizes)
    else:
        inner = _wide(job.model, sizes, "feed-forward", job.model.width)
    last = _after_block(job, sizes, "feed-forward")
    if job.model.parallel_block:
        shared = (replace(one, kept_bytes=0.0) if one.split == "columns" else one for one in inner)
        return (*attention, *shared, *last)
    return attention + _after_block(job, sizes, "attention") + second + inner + last


@lru_cache(maxsize=1024)
def head_kernels(job: Job) -> tuple[Kernel, ...]:
    """Return the kernels of the head: norm, logits, and loss in 32 bits."""
    sizes, model = sizes_of(job), job.model
    if FORMATS[job.precision.head] >= sizes.activation:
        sizes = replace(sizes, operand=sizes.activation)
    logits = _linear("logits", sizes, model.hidden, model.vocabulary / sizes.tp, "columns")
    n = sizes.tokens * model.vocabulary / sizes.tp
    loss, back = (Work(per * n, moved * n) for per, moved in zip(SOFTMAX, LOSS_BYTES, strict=True))
    return (
        _norm(model, sizes, "last norm"),
        *(replace(one, unit="head", split="") if one.split else one for one in logits),
        Kernel("loss", "vector", loss, back, kept_bytes=4 * n),
    )


@lru_cache(maxsize=1024)
def embedding_kernels(job: Job) -> tuple[Kernel, ...]:
    sizes, model = sizes_of(job), job.model
    moved = 2 * sizes.activation * sizes.tokens * model.hidden
    dropout = _dropout(sizes, sizes.own_tokens * model.hidden, "dropout of the embedding")
    lookup = Kernel("embedding", "vector", Work(0.0, moved), Work(), Work(0.0, moved))
    return (lookup, dropout) if model.dropout else (lookup,)


def _linear(
    name: str, sizes: LayerSizes, inputs: float, outputs: float, split: str = ""
) -> tuple[Kernel, ...]:
    """Return the product of a matrix and all tokens, after a cast of its inputs if it computes in a
    narrower format; all tp ranks keep the inputs of a column-parallel matrix.

    Cast tensors are written twice, once transposed for the weight gradient, as in Transformer
    Engine (common/transpose/cast_transpose.cu). The weight gradient is added to the accumulated
    gradient.
    """
    tokens, a, b = sizes.tokens, sizes.activation, sizes.operand
    read, made, matrix = tokens * inputs, tokens * outputs, inputs * outputs
    flops = 2 * tokens * matrix
    weights = min(sizes.weight, b) * matrix
    kept = a * read / (sizes.tp if split == "columns" and sizes.shared_inputs else 1)
    product = Kernel(
        name,
        "matrix",
        Work(flops, b * read + a * made + weights),
        Work(flops, b * made + a * read + weights),
        Work(flops, b * (read + made) + 2 * sizes.gradient * matrix),
        kept,
        split=split,
    )
    if a == b:
        return (product,)
    inputs_cast, gradients_cast = (Work(0.0, (a + 2 * b) * numbers) for numbers in (read, made))
    return (Kernel(f"{name}: cast", "vector", inputs_cast, gradients_cast), product)


def _elements(name: str, per: tuple[int, int], n: float, moved: float, kept: float = 0.0) -> Kernel:
    return Kernel(name, "vector", Work(per[0] * n, moved), Work(per[1] * n, moved), Work(), kept)


def _norm(model: Model, sizes: LayerSizes, name: str, numbers: float = 0.0) -> Kernel:
    """Return the kernels of a norm of this many numbers, by default of the hidden states."""
    n = numbers or sizes.own_tokens * model.hidden
    moved = sizes.activation * 2 * n + sizes.weight * 2 * model.hidden
    forward, grad_input, grad_weight = (Work(per * n, moved) for per in NORM)
    return Kernel(name, "vector", forward, grad_input, grad_weight, sizes.activation * n)


def _dropout(sizes: LayerSizes, n: float, name: str) -> Kernel:
    return _elements(name, DROPOUT, n, (2 * sizes.activation + 1) * n, n)


def _gather(model: Model, sizes: LayerSizes, name: str) -> tuple[Kernel, ...]:
    """Return the kernels before a block: backward reduction of tp gradients."""
    if sizes.tp == 1:
        return ()
    n = sizes.tokens * model.hidden
    moved = 2 * sizes.activation * n
    added = Work(n * (sizes.tp - 1) / sizes.tp, moved)
    forward = Work(0.0, moved if sizes.gathers else 0.0)
    return (Kernel(f"{name}: inputs gathered", "vector", forward, added),)


def _after_block(job: Job, sizes: LayerSizes, name: str) -> tuple[Kernel, ...]:
    """Return the kernels after a block: tp reduction, dropout, residual, and its backward fork."""
    model, a = job.model, sizes.activation
    found = []
    if sizes.tp > 1:
        n = sizes.tokens * model.hidden
        moved = 2 * a * n
        forward = Work(n * (sizes.tp - 1) / sizes.tp, moved)
        backward = Work(0.0, moved if sizes.gathers else 0.0)
        found.append(Kernel(f"{name}: outputs reduced", "vector", forward, backward))
    n = sizes.own_tokens * model.hidden
    if model.dropout:
        found.append(_dropout(sizes, n, f"{name} dropout"))
    found.append(_elements(f"{name} residual", RESIDUAL, n, 3 * a * n))
    found.append(Kernel(f"{name} fork", "vector", Work(), Work(2 * n, 3 * a * n)))
    return tuple(found)


def _projections(model: Model, sizes: LayerSizes) -> tuple[Kernel, ...]:
    heads = model.heads / sizes.tp + 2 * model.kv_heads_of(sizes.tp)
    width = heads * model.head_width
    return _linear("queries, keys, values", sizes, model.hidden, width, "columns")


def _latent_projections(model: Model, sizes: LayerSizes) -> tuple[Kernel, ...]:
    """Return latent projections: compression, replicated over tp, and sharded expansion."""
    plain = model.head_width - model.rotary_size
    queries = model.heads * model.head_width / sizes.tp
    keys_values = model.heads * (plain + model.value_width) / sizes.tp
    down = model.kv_rank + model.rotary_size
    if model.query_rank:
        to_queries: tuple[Kernel, ...] = (
            *_linear("queries compressed", sizes, model.hidden, model.query_rank, "columns"),
            *_core(_linear("queries expanded", sizes, model.query_rank, queries)),
        )
    else:
        to_queries = _linear("queries", sizes, model.hidden, queries, "columns")
    return (
        *to_queries,
        *_linear("keys, values compressed", sizes, model.hidden, down, "columns"),
        *_core(_linear("keys, values expanded", sizes, model.kv_rank, keys_values)),
    )


def _core(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    return tuple(replace(kernel, core=True) for kernel in kernels)


def _attention(job: Job) -> tuple[Kernel, ...]:
    """Return the kernels of attention and its output projection."""
    model, sizes = job.model, sizes_of(job)
    a, heads = sizes.activation, model.heads / sizes.tp
    keys = model.kv_heads_of(sizes.tp) if not model.latent else heads
    pairs = sizes.tokens * model.sequence * heads
    share = model.attention_flops / 4
    back = model.backward_factor
    queries = sizes.tokens * heads * model.head_width
    key_numbers = sizes.tokens * keys * model.head_width
    values, output = (sizes.tokens * n * model.value_width for n in (keys, heads))
    found = []
    if model.query_key_norm:
        found.append(_norm(model, sizes, "norms of queries and keys", queries + key_numbers))
    if model.positions == "rotary":
        turned = queries + key_numbers
        found.append(_elements("rotary positions", ROTARY, turned, 2 * a * turned))
    score_flops = 2 * pairs * model.head_width * share
    sum_flops = 2 * pairs * model.value_width * share
    if model.fused_attention:
        moved = a * (queries + key_numbers + values + output)
        flops = score_flops + sum_flops
        backward = Work(back * flops, 2 * moved)
        again = model.latent and job.layout.recompute == "selective"
        kept = 0.0 if again else a * (queries + key_numbers + values)
        found.append(
            Kernel("attention", "attention", Work(flops, moved), backward, kept_bytes=kept)
        )
    else:
        moved = a * (queries + key_numbers + pairs)
        kept = a * (queries + key_numbers)
        work, backward = Work(score_flops, moved), Work(back * score_flops, moved)
        found.append(Kernel("scores", "matrix", work, backward, kept_bytes=kept, core=True))
        softmax = Work(SOFTMAX[0] * pairs, 2 * a * pairs), Work(SOFTMAX[1] * pairs, 2 * a * pairs)
        found.append(Kernel("softmax", "vector", *softmax, kept_bytes=a * pairs, core=True))
        if model.dropout:
            per = Work(DROPOUT[0] * pairs, (2 * a + 1) * pairs)
            # Dropout's mask and output.
            kept = (a + 1) * pairs
            found.append(Kernel("score dropout", "vector", per, per, kept_bytes=kept, core=True))
        moved = a * (pairs + values + output)
        work, backward = Work(sum_flops, moved), Work(back * sum_flops, moved)
        found.append(Kernel("sum of values", "matrix", work, backward, kept_bytes=a * values))
    width = heads * model.value_width
    return (*found, *_linear("attention output", sizes, width, model.hidden, "rows"))


def _wide(model: Model, sizes: LayerSizes, name: str, width: float) -> tuple[Kernel, ...]:
    """Return an MLP of two matrices, or three with a gate."""
    gates = model.feed_forward_matrices - 1
    n = sizes.tokens * width / sizes.tp
    inside = GATED if gates > 1 else GELU
    a = sizes.activation
    return (
        *_linear(f"{name}: up", sizes, model.hidden, gates * width / sizes.tp, "columns"),
        _elements(f"{name}: activation", inside, n, (gates + 1) * a * n, gates * a * n),
        *_linear(f"{name}: down", sizes, width / sizes.tp, model.hidden, "rows"),
    )


def _experts(job: Job, sizes: LayerSizes) -> tuple[Kernel, ...]:
    """Return the kernels of router, permutation, this GPU's experts, and shared experts."""
    model, ep = job.model, job.layout.ep
    n_experts = model.experts / ep
    routed = sizes.own_tokens * model.active_experts * model.hidden
    moved = 2 * sizes.activation * routed
    own = replace(sizes, tokens=sizes.own_tokens, operand=sizes.activation)
    kernels = [
        *_linear("router", own, model.hidden, model.experts),
        _elements("tokens sorted", (0, 0), routed, moved),
    ]
    one = replace(sizes, tokens=sizes.tokens * model.active_experts / n_experts)
    inside = _wide(model, one, "expert", model.expert_width)
    kernels += [replace(kernel, count=n_experts, split="") for kernel in inside]
    kernels.append(_elements("tokens put back", (model.active_experts, 1), routed, moved))
    if model.shared_experts:
        width = model.shared_experts * model.expert_width
        kernels += _wide(model, sizes, "shared experts", width)
    return tuple(kernels)


@frozen
class StageMemory:
    """Peak memory of a GPU of one stage, in bytes."""

    weights: float
    gradients: float
    optimizer: float  # master weights and optimizer states
    activations: float  # activations of layers, for the micro-batches in flight
    working: float  # activations of one recomputed layer, of the embedding and of the head

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
    # Core matrices keep their inputs.
    dropped = {one.name for one in kernels if selective and one.core and one.unit == "vector"}
    return _kept(kernel for kernel in kernels if kernel.name not in dropped)


def _kept(kernels: Iterable[Kernel]) -> float:
    return sum(kernel.count * kernel.kept_bytes for kernel in kernels)


@lru_cache(maxsize=1024)
def stage_memory(job: Job, stage: int) -> StageMemory:
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


@frozen
class LayerTimes:
    """Times of a layer, embedding or head per micro-batch at one GPU, in ps. `backward_input`
    computes activation gradients, `backward_weight` weight gradients; `recompute` precedes both."""

    forward_ps: int = 0
    backward_input_ps: int = 0
    backward_weight_ps: int = 0
    recompute_ps: int = 0

    @property
    def backward_ps(self) -> int:
        return self.recompute_ps + self.backward_input_ps + self.backward_weight_ps

    def __add__(self, other: LayerTimes) -> LayerTimes:
        return LayerTimes(*map(add, astuple(self), astuple(other)))


@frozen
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
    dense_layers: int  # number of layers before the first one with experts


@lru_cache(maxsize=1024)
def stage_times(job: Job) -> StageTimes:
    """Return the compute times of a job. Raises InputError if the machine has no peak for a
    format."""
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


CHUNKS = 4  # of a row-parallel kernel; each is reduced while the next one runs

TP_SMS = 16
"""SMs that overlapped tp messages take from kernels: the default of Transformer Engine (849ad3f,
pytorch/module/base.py, initialize_ub)."""


def kernels_ps(job: Job, kernels: Iterable[Kernel], which: str) -> float:
    """Return the time of kernels' "forward", "backward_input" or "backward_weight", in ps."""
    return sum(kernel.count * _kernel_ps(job, kernel, which) for kernel in kernels)


def _kernel_ps(job: Job, kernel: Kernel, which: str) -> float:
    work: Work = getattr(kernel, which)
    machine, precision = job.machine, job.precision
    if work == Work():
        return 0.0
    chunks, sms = 1, 0
    if kernel.unit == "vector":
        engine, number_format = machine.vector, precision.vector
    elif kernel.unit == "attention" and machine.attention:
        engine, number_format = machine.attention, precision.activations
    else:
        engine = machine.matrix
        number_format = precision.head if kernel.unit == "head" else precision.compute
    if kernel.unit != "vector":
        chunks, sms = _shared(job, kernel, which)
    flops, moved, backward = work.flops / chunks, work.bytes / chunks, which != "forward"
    took = machine.kernel_ps(engine, number_format, flops, moved, backward=backward)
    if machine.sms > sms:
        took *= machine.sms / (machine.sms - sms)
    return chunks * max(took, machine.kernel_launch)


def _shared(job: Job, kernel: Kernel, which: str) -> tuple[int, int]:
    """Return the number of chunks of a kernel under overlap, and of SMs that messages occupy.

    This follows Transformer Engine. Inputs of column matrices and gradients of row matrices are
    gathered around a ring, one chunk per rank. Outputs of row matrices are reduced in CHUNKS. In
    the backward pass, kernels of column matrices stay whole and overlap these messages.
    """
    overlap, tp = job.overlap, job.layout.tp
    if overlap.tp_comm and job.layout.sp and kernel.split:
        columns = {"forward": (tp, 0)}
        rows = {"forward": (CHUNKS, TP_SMS), "backward_input": (tp, 0), "backward_weight": (1, 0)}
        return columns.get(which, (1, TP_SMS)) if kernel.split == "columns" else rows[which]
    return 1, overlap.ep_sms if overlap.ep_comm and job.layout.ep > 1 else 0


def _times(job: Job, kernels: tuple[Kernel, ...], *, repeats: bool) -> LayerTimes:
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
    return round(_kernel_ps(job, Kernel("optimizer", "vector", work, Work()), "forward"))
