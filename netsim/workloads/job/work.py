"""Kernels of a layer per micro-batch at one GPU, with their FLOP and bytes.

One list gives times (`netsim.workloads.job.times`), memory (`netsim.workloads.job.memory`) and
FLOP. Accounting follows Isaev et al., "Calculon" (SC 2023): matrix products on matrix units,
everything else on vector units; every kernel reads its inputs and writes its output. Kept
activations follow Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
Models" (2022), section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from netsim.workloads.job.job import Job
from netsim.workloads.job.model import Model

NORM = (9, 14, 7)
"""FLOP per element: forward, input gradient, weight gradient."""

SOFTMAX, DROPOUT, RESIDUAL = (5, 8), (1, 1), (1, 2)
GELU, GATED = (8, 13), (10, 17)
ROTARY = (3, 3)


@dataclass(frozen=True)
class Work:
    """FLOP of a kernel, and bytes that it reads and writes."""

    flops: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Kernel:
    """A forward kernel and its backward kernels, run `count` times.

    `kept_bytes` stay until the backward pass. Selective recomputation repeats `core` kernels:
    scores, softmax and its dropout.
    """

    name: str
    unit: str
    forward: Work
    backward_input: Work
    backward_weight: Work = Work()
    kept_bytes: float = 0.0
    core: bool = False
    count: float = 1.0


@dataclass(frozen=True)
class LayerSizes:
    """Sizes at one GPU."""

    tokens: float
    """Tokens per micro-batch, of all tp ranks."""
    own_tokens: float
    """Tokens whose norms and residuals this GPU computes."""
    tp: int
    activation: float
    """Bytes per element."""
    weight: float
    shared_inputs: bool
    """Matrix inputs are kept sharded and gathered again (sequence parallelism)."""
    gathers: bool
    """tp ranks gather inputs and scatter outputs instead of all-reducing."""


def sizes_of(job: Job) -> LayerSizes:
    """Return the sizes of a job."""
    layout, tokens = job.layout, job.layout.micro_batch * job.model.sequence / job.layout.cp
    return LayerSizes(
        tokens=tokens,
        own_tokens=tokens / layout.tp if layout.sp else tokens,
        tp=layout.tp,
        activation=job.precision.bytes_of("activations"),
        weight=job.precision.bytes_of("weights"),
        gathers=layout.sp,
        shared_inputs=layout.sp and layout.regather,
    )


@lru_cache(maxsize=1024)
def layer_kernels(job: Job, experts: bool) -> tuple[Kernel, ...]:
    """Return the kernels of a layer in forward order."""
    sizes = sizes_of(job)
    first = (_norm(job.model, sizes, "attention norm"), *_gather(job.model, sizes, "attention"))
    made = (
        _latent_projections(job.model, sizes)
        if job.model.latent
        else _projections(job.model, sizes)
    )
    attention = (*first, *made, *_attention(job), *_after_block(job, sizes, "attention"))
    second = (
        _norm(job.model, sizes, "feed-forward norm"),
        *_gather(job.model, sizes, "feed-forward"),
    )
    if experts:
        inner = _experts(job, sizes)
    else:
        inner = _wide(job.model, sizes, "feed-forward", job.model.width)
    return attention + second + inner + _after_block(job, sizes, "feed-forward")


@lru_cache(maxsize=1024)
def head_kernels(job: Job) -> tuple[Kernel, ...]:
    """Return the kernels of the head: norm, logits, and loss in 32 bits."""
    sizes, model = sizes_of(job), job.model
    logits = _linear("logits", sizes, model.hidden, model.vocabulary / sizes.tp, shared=True)
    n = sizes.tokens * model.vocabulary / sizes.tp
    loss, back = (Work(per * n, 8 * n) for per in SOFTMAX)
    return (
        _norm(model, sizes, "last norm"),
        replace(logits, unit="head"),
        Kernel("loss", "vector", loss, back, kept_bytes=4 * n),
    )


@lru_cache(maxsize=1024)
def embedding_kernels(job: Job) -> tuple[Kernel, ...]:
    """Return the kernels of the embedding."""
    sizes, model = sizes_of(job), job.model
    moved = 2 * sizes.activation * sizes.tokens * model.hidden
    dropout = _dropout(sizes, sizes.own_tokens * model.hidden, "dropout of the embedding")
    lookup = Kernel("embedding", "vector", Work(0.0, moved), Work(), Work(0.0, moved))
    return (lookup, dropout) if model.dropout else (lookup,)


def _linear(
    name: str, sizes: LayerSizes, inputs: float, outputs: float, *, shared: bool = False
) -> Kernel:
    """Return the product of a matrix and all tokens; all tp ranks keep a `shared` input."""
    tokens, a = sizes.tokens, sizes.activation
    flops = 2 * tokens * inputs * outputs
    moved = a * tokens * (inputs + outputs) + sizes.weight * inputs * outputs
    kept = a * tokens * inputs / (sizes.tp if shared and sizes.shared_inputs else 1)
    work = Work(flops, moved)
    return Kernel(name, "matrix", work, work, work, kept)


def _elements(name: str, per: tuple[int, int], n: float, moved: float, kept: float = 0.0) -> Kernel:
    """Return an element-wise kernel on `n` elements."""
    return Kernel(name, "vector", Work(per[0] * n, moved), Work(per[1] * n, moved), Work(), kept)


def _norm(model: Model, sizes: LayerSizes, name: str) -> Kernel:
    n = sizes.own_tokens * model.hidden
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
    """Return the QKV projection."""
    heads = model.heads / sizes.tp + 2 * model.kv_heads_of(sizes.tp)
    width = heads * model.head_width
    return (_linear("queries, keys, values", sizes, model.hidden, width, shared=True),)


def _latent_projections(model: Model, sizes: LayerSizes) -> tuple[Kernel, ...]:
    """Return latent projections: compression, replicated over tp, and sharded expansion."""
    plain = model.head_width - model.rotary_size
    queries = model.heads * model.head_width / sizes.tp
    keys_values = model.heads * (plain + model.value_width) / sizes.tp
    down = model.kv_rank + model.rotary_size
    if model.query_rank:
        to_queries: tuple[Kernel, ...] = (
            _linear("queries compressed", sizes, model.hidden, model.query_rank, shared=True),
            _linear("queries expanded", sizes, model.query_rank, queries),
        )
    else:
        to_queries = (_linear("queries", sizes, model.hidden, queries, shared=True),)
    return (
        *to_queries,
        _linear("keys, values compressed", sizes, model.hidden, down, shared=True),
        _linear("keys, values expanded", sizes, model.kv_rank, keys_values),
    )


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
    if model.positions == "rotary":
        turned = queries + key_numbers
        found.append(_elements("rotary positions", ROTARY, turned, 2 * a * turned))
    score_flops = 2 * pairs * model.head_width * share
    sum_flops = 2 * pairs * model.value_width * share
    if model.fused_attention:
        moved = a * (queries + key_numbers + values + output)
        flops = score_flops + sum_flops
        backward = Work(back * flops, 2 * moved)
        kept = a * (queries + key_numbers + values)
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
            # Its mask and output.
            kept = (a + 1) * pairs
            found.append(Kernel("score dropout", "vector", per, per, kept_bytes=kept, core=True))
        moved = a * (pairs + values + output)
        work, backward = Work(sum_flops, moved), Work(back * sum_flops, moved)
        found.append(Kernel("sum of values", "matrix", work, backward, kept_bytes=a * values))
    found.append(_linear("attention output", sizes, heads * model.value_width, model.hidden))
    return tuple(found)


def _wide(model: Model, sizes: LayerSizes, name: str, width: float) -> tuple[Kernel, ...]:
    """Return an MLP of two matrices, or three with a gate."""
    gates = model.feed_forward_matrices - 1
    n = sizes.tokens * width / sizes.tp
    inside = GATED if gates > 1 else GELU
    a = sizes.activation
    return (
        _linear(f"{name}: up", sizes, model.hidden, gates * width / sizes.tp, shared=True),
        _elements(f"{name}: activation", inside, n, (gates + 1) * a * n, gates * a * n),
        _linear(f"{name}: down", sizes, width / sizes.tp, model.hidden),
    )


def _experts(job: Job, sizes: LayerSizes) -> tuple[Kernel, ...]:
    """Return the kernels of router, permutation, this GPU's experts, and shared experts."""
    model, ep = job.model, job.layout.ep
    n_experts = model.experts / ep
    routed = sizes.own_tokens * model.active_experts * model.hidden
    moved = 2 * sizes.activation * routed
    kernels = [
        _linear("router", replace(sizes, tokens=sizes.own_tokens), model.hidden, model.experts),
        _elements("tokens sorted", (0, 0), routed, moved),
    ]
    one = replace(sizes, tokens=sizes.tokens * model.active_experts / n_experts)
    inside = _wide(model, one, "expert", model.expert_width)
    kernels += [replace(kernel, count=n_experts) for kernel in inside]
    kernels.append(_elements("tokens put back", (model.active_experts, 1), routed, moved))
    if model.shared_experts:
        width = model.shared_experts * model.expert_width
        kernels += _wide(model, sizes, "shared experts", width)
    return tuple(kernels)
