"""A served model on its GPUs: its file, the cost of an iteration, and the KV cache that fits.

An iteration is one forward pass of all layers over a batch of rows: the tokens of prompts, and one
token per decoding sequence. The functions of `IterationCost` use only `+`, `*`, `max` and `min` of
plain numbers, so results are equal on every machine and Numba compiles them into simulations.

`README.md` in this folder has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from netsim.errors import InputError, raise_all
from netsim.frozen import frozen
from netsim.limits import INT64
from netsim.params import NONBLANK, NUMBER, key
from netsim.units import format_bytes
from netsim.workloads.job.job import Model
from netsim.workloads.job.load import Tree, extended, load, read_parts
from netsim.workloads.job.machine import FORMAT_NAMES, FORMATS, PS_PER_S, Machine


@frozen(kw_only=True)
class Formats:
    """Number format of each tensor."""

    weights: str = key("choice", "fp8", "format of stored weights", choices=FORMAT_NAMES)
    kv: str = key("choice", "fp8", "format of the KV cache", choices=FORMAT_NAMES)
    activations: str = key("choice", "fp8", "activations and all-reduces", choices=FORMAT_NAMES)
    compute: str = key("choice", "fp8", "format of matrix multiplication", choices=FORMAT_NAMES)

    def bytes_of(self, tensor: str) -> float:
        """Return the bytes per element of "weights", "kv" or "activations"."""
        return FORMATS[getattr(self, tensor)]


@frozen(kw_only=True)
class Options:
    """Parallelism and accounting of a served model."""

    tp: int = key("count", 0, "tensor-parallel GPUs; 0: the best, if searched")
    all_reduce: str = key(
        "choice",
        "ring",
        "ring: 2 (tp - 1) steps; direct: 2 steps, all to all",
        choices=("ring", "direct"),
    )
    overlap: bool = key("bool", False, "all-reduces overlap everything else")
    kv_replicated: bool = key(
        "bool",
        True,
        "with more GPUs than KV heads, each GPU holds and reads a whole head; otherwise "
        "GPUs share it",
    )
    attention: str = key(
        "choice",
        "causal",
        "attention of a prompt: half of all pairs, or all (full)",
        choices=("causal", "full"),
    )
    roofline: str = key(
        "choice",
        "parts",
        "parts: matrices, attention and head have a roofline each, in sequence; layer: one for all",
        choices=("parts", "layer"),
    )
    embeddings: bool = key("bool", False, "embedding and head take memory, the head time")
    memory_share: float = key(NUMBER, 1, "memory share of weights and KV cache", above=0, maximum=1)


@frozen(kw_only=True)
class Overheads:
    """Efficiencies and added times of a machine and its software."""

    prefill_efficiency: float = key(
        NUMBER, 1, "share of the peak FLOP/s in prefill", above=0, maximum=1
    )
    decode_efficiency: float = key(
        NUMBER, 1, "share of the peak FLOP/s in decode", above=0, maximum=1
    )
    attention_efficiency: float = key(
        NUMBER, 0, "of attention in prefill; 0: prefill_efficiency", maximum=1
    )
    memory_efficiency: float = key(NUMBER, 1, "share of the memory bandwidth", above=0, maximum=1)
    network_efficiency: float = key(NUMBER, 1, "share of the scale-up rate", above=0, maximum=1)
    step_latency: int = key("time", "0ps", "latency of a step of an all-reduce")
    layer_overhead: int = key("time", "0ps", "launch time per layer of an iteration")
    iteration_overhead: int = key("time", "0ps", "time per iteration")
    sequence_overhead: int = key("time", "0ps", "time per sequence; prompts count as one")
    prefill_floor: int = key("time", "0ps", "shortest compute of an iteration with prompts")
    empirical_long_prompt: int = key(
        "time",
        "0ps",
        "time per prompt token and doubling of GPUs beyond two, in iterations of more than 2,048 "
        "prompt tokens: fitted, its cause is not confirmed",
    )
    async_launch: bool = key("bool", False, "launches overlap compute: the longer counts")
    activation_passes: int = key("count", 0, "more reads and writes of activations per layer")
    source: str = key(NONBLANK, "the roofline alone", "source of the values")


@frozen(kw_only=True)
class LatencyLimits:
    """Request lengths and SLO."""

    prompt: int = key("count", 1500, "tokens per prompt", minimum=1)
    context: int = key("count", 0, "tokens before a decoded one; 0: the prompt's")
    ttft: int = key("time", "1s", "longest time to first token: a batch of prompts")
    tbt: int = key("time", "50ms", "longest time between tokens: a decode iteration")

    def tokens(self, phase: str) -> int:
        """Return the KV cache tokens of a request."""
        return self.prompt if phase == "prefill" else self.context or self.prompt

    def longest_ps(self, phase: str) -> int:
        return self.ttft if phase == "prefill" else self.tbt


@frozen
class Deployment:
    """A model on `options.tp` GPUs of a machine."""

    name: str
    model: Model
    machine: Machine
    formats: Formats = Formats()
    options: Options = Options()
    overheads: Overheads = Overheads()
    limits: LatencyLimits = LatencyLimits()

    @property
    def tp(self) -> int:
        """Tensor-parallel GPUs. Raises InputError if it is 0, to be chosen by a search."""
        if self.options.tp == 0:
            raise InputError("missing", key="options.tp", hint="1 or more GPUs", code="missing")
        return self.options.tp

    @property
    def causal(self) -> bool:
        """Whether a prompt token attends only to earlier tokens."""
        return self.options.attention == "causal"

    @property
    def kv_share(self) -> float:
        """Share of the KV cache, and of its projections, at each GPU."""
        if not self.options.kv_replicated:
            return 1.0 / self.tp
        return 1.0 / min(self.tp, kv_parts(self.model))


def on_gpus(deployment: Deployment, tp: int) -> Deployment:
    """Return the deployment on `tp` GPUs, unchecked."""
    return replace(deployment, options=replace(deployment.options, tp=tp))


def kv_parts(model: Model) -> int:
    """Return the KV heads; latent attention has one."""
    return 1 if model.latent else model.kv_head_count


LONG_PROMPT = 2048  # prompt tokens above which `IterationCost.long_prompt_row_ps` applies


class IterationCost(NamedTuple):
    """Parameters of iteration times at each GPU; times in ps, over all layers."""

    layers: int
    tp: int
    prompt_row_ps: float  # matrix compute per row of a prompt
    decode_row_ps: float  # matrix compute per decoding sequence
    weights_ps: float  # reading all weights except experts
    experts_ps: float  # reading all experts
    expert_share: float  # share of the experts used by one row
    pair_ps: float  # attention per token pair of a prompt
    context_ps: float  # attention of decode per context token
    kv_ps: float  # reading the KV cache, per token
    activation_ps: float  # activation reads and writes per row
    head_read_ps: float  # reading the head's matrix
    head_row_ps: float  # head compute per row
    layers_ps: float  # kernel launches of all layers
    iteration_ps: float  # software overhead per iteration
    sequence_ps: float  # software overhead per sequence
    prefill_floor_ps: float  # minimum time of an iteration with prompts, without all-reduces
    long_prompt_row_ps: float
    """Measured extra time per prompt row, in iterations with more than `LONG_PROMPT` rows."""
    one_roofline: bool
    """One roofline for all compute and reads, not one each for matrices, attention and head."""
    async_launch: bool  # launches overlap compute: the longer time counts, not the sum
    all_reduces: int  # all-reduces per iteration, in sequence
    all_reduce_ps: float  # latency of an all-reduce
    reduced_row_ps: float  # transfer time per row of an all-reduce
    row_bytes: float  # all-reduce bytes per row
    overlap: bool  # all-reduces overlap everything else: the longer time counts, not the sum


def prompt_pairs(causal: bool, start: int, tokens: int) -> int:
    """Return the token pairs of `tokens` prompt tokens after `start` others. Causal attention
    counts half of the pairs among themselves, and all pairs with earlier tokens."""
    own = tokens * tokens
    return start * tokens + (own // 2 if causal else own)


class ComputeParts(NamedTuple):
    """Parts of an iteration's compute time, in ps, named as in `IterationCost`."""

    rows_ps: float
    weights_ps: float
    scores_ps: float
    kv_ps: float
    head_ps: float
    head_read_ps: float
    activations_ps: float
    launches_ps: float
    iteration_ps: float
    sequences_ps: float
    floor_ps: float
    long_prompt_ps: float


def compute_parts(
    cost: IterationCost, tokens: int, pairs: int, batch: int, context: int
) -> ComputeParts:
    """Return the parts of `compute_ps`, for at least one row."""
    prompt_rows = tokens - batch
    sequences = batch + min(1, prompt_rows)
    return ComputeParts(
        cost.prompt_row_ps * prompt_rows + cost.decode_row_ps * batch,
        cost.weights_ps + cost.experts_ps * min(1.0, cost.expert_share * tokens),
        cost.pair_ps * pairs + cost.context_ps * context,
        cost.kv_ps * context,
        cost.head_row_ps * sequences,
        cost.head_read_ps,
        cost.activation_ps * tokens,
        cost.layers_ps,
        cost.iteration_ps,
        cost.sequence_ps * sequences,
        cost.prefill_floor_ps if prompt_rows > 0 else 0.0,
        cost.long_prompt_row_ps * prompt_rows if prompt_rows > LONG_PROMPT else 0.0,
    )


def compute_ps(cost: IterationCost, tokens: int, pairs: int, batch: int, context: int) -> int:
    """Return the time of an iteration without all-reduces, in ps.

    `batch` of the `tokens` rows belong to decoding sequences with `context` earlier tokens in
    total; the others belong to prompts with `pairs` token pairs. Matrices, attention and head each
    have a roofline, or share one: the longer of compute and read time counts.
    """
    if tokens == 0:
        return 0
    part = compute_parts(cost, tokens, pairs, batch, context)
    rows, scores, head = part.rows_ps, part.scores_ps, part.head_ps
    if cost.one_roofline:
        device = max(rows + scores + head, part.weights_ps + part.kv_ps + part.head_read_ps)
    else:
        device = max(rows, part.weights_ps) + max(scores, part.kv_ps) + max(head, part.head_read_ps)
    device += part.activations_ps
    launches = part.launches_ps
    both = max(device, launches) if cost.async_launch else device + launches
    longer = both + part.iteration_ps + part.sequences_ps + part.long_prompt_ps
    return int(max(longer, part.floor_ps) + 0.5)


def network_ps(cost: IterationCost, tokens: int) -> int:
    """Return the time of an iteration's all-reduces on an idle network, in ps."""
    if tokens == 0:
        return 0
    return int(cost.all_reduces * (cost.all_reduce_ps + cost.reduced_row_ps * tokens) + 0.5)


def iteration_ps(cost: IterationCost, tokens: int, pairs: int, batch: int, context: int) -> int:
    """Return the time of an iteration, in ps, with the arguments of `compute_ps`."""
    computing = compute_ps(cost, tokens, pairs, batch, context)
    sending = network_ps(cost, tokens)
    return max(computing, sending) if cost.overlap else computing + sending


def all_reduce_bytes(cost: IterationCost, tokens: int) -> int:
    """Return the buffer of one all-reduce in bytes, rounded up."""
    size = int(cost.row_bytes * tokens)
    return size if size >= cost.row_bytes * tokens else size + 1


# --- of a deployment ------------------------------------------------------------------------------


def gpu_parameters(deployment: Deployment) -> tuple[float, float]:
    """Return the parameters at one GPU: all except experts', and experts'."""
    model, tp = deployment.model, deployment.tp
    expert, routers = model.expert_parameters, model.hidden * model.experts
    met = model.layers * model.attention_parameters
    met += (model.layers - model.moe_layers) * model.mlp_parameters
    met += model.moe_layers * (model.shared_experts * expert + routers)
    narrow = model.layers * model.hidden * (model.query_rank + model.kv_width_of())
    experts = model.moe_layers * model.experts * expert
    return (met - narrow) / tp + narrow * deployment.kv_share, experts / tp


def pair_flops(model: Model) -> int:
    """Return the attention FLOP of a layer per token pair of a prompt."""
    return 2 * model.heads * (model.head_width + model.value_width)


def context_flops(model: Model) -> int:
    """Return the attention FLOP of a layer per context token in decode. Latent attention then works
    on compressed keys and values (DeepSeek-V2, section 2.1.2)."""
    if model.latent:
        return 2 * model.heads * (2 * model.kv_rank + model.rotary_size)
    return pair_flops(model)


def kv_bytes_of_token(deployment: Deployment) -> float:
    """Return the KV cache bytes per token, without replicas."""
    model = deployment.model
    return model.layers * model.kv_width_of() * deployment.formats.bytes_of("kv")


class LayerCounts(NamedTuple):
    """Mean FLOP and bytes per layer, summed over GPUs."""

    parameters: float  # matrix parameters, with all experts
    prompt_flops: float  # FLOP per prompt
    decode_flops: float  # FLOP per decoded token
    kv_bytes: float  # KV cache bytes per token
    all_reduce_bytes: float  # buffer of each all-reduce of a prompt


def layer_counts(deployment: Deployment) -> LayerCounts:
    """Return the counts for a request of the deployment's limits."""
    one, model, limits = on_gpus(deployment, 1), deployment.model, deployment.limits
    prompt, context = limits.prompt, limits.tokens("decode")
    met, experts = (part / model.layers for part in gpu_parameters(one))
    row = 2 * (met + active_share(model) * experts)
    pairs = prompt_pairs(deployment.causal, 0, prompt)
    return LayerCounts(
        parameters=met + experts,
        prompt_flops=row * prompt + pair_flops(model) * pairs,
        decode_flops=row + context_flops(model) * context,
        kv_bytes=kv_bytes_of_token(deployment) / model.layers,
        all_reduce_bytes=prompt * model.hidden * deployment.formats.bytes_of("activations"),
    )


def active_share(model: Model) -> float:
    """Return the share of a layer's experts used by a token."""
    return model.active_experts / model.experts if model.experts else 0.0


def weight_bytes(deployment: Deployment) -> float:
    """Return the weight bytes per GPU."""
    model, options = deployment.model, deployment.options
    held = sum(gpu_parameters(deployment))
    if options.embeddings:
        tables = 1 if model.tied_embeddings else 2
        held += tables * model.vocabulary * model.hidden / deployment.tp
    return held * deployment.formats.bytes_of("weights")


def kv_capacity_tokens(deployment: Deployment) -> int:
    """Return the tokens whose KV cache fits in memory; 0 if the weights do not fit."""
    return int(kv_room_tokens(deployment, deployment.tp))


def kv_room_tokens(
    deployment: Deployment, gpus: int, pooled_weights: float = 0.0, pooled_token: float = 0.0
) -> float:
    """Return the KV cache tokens that fit on `gpus` of `tp` GPUs; infinite if no KV cache is local.

    `pooled_weights` and `pooled_token` are bytes in a memory pool: of a GPU's weights, and of its
    shard of each token.
    """
    usable = deployment.machine.memory * deployment.options.memory_share * (gpus / deployment.tp)
    free = usable - (weight_bytes(deployment) - pooled_weights)
    own = kv_bytes_of_token(deployment) * deployment.kv_share - pooled_token
    if free <= 0:
        return 0.0
    return free / own if own else math.inf


def reduce_share(tp: int) -> float:
    """Return the share of an all-reduce's buffer that each GPU sends."""
    return 2 * (tp - 1) / tp


@lru_cache(maxsize=1024)
def iteration_cost(deployment: Deployment) -> IterationCost:
    """Return the cost of an iteration of a deployment. Raises InputError if the machine lacks
    memory bandwidth, or a peak for the format."""
    model, options, overheads = deployment.model, deployment.options, deployment.overheads
    machine, tp = deployment.machine, deployment.tp
    flop = PS_PER_S / machine.matrix.rate(deployment.formats.compute)
    prompt, decode = flop / overheads.prefill_efficiency, flop / overheads.decode_efficiency
    pair = flop / (overheads.attention_efficiency or overheads.prefill_efficiency)
    byte = PS_PER_S / (machine.reading_rate * overheads.memory_efficiency)
    sent = 8 * PS_PER_S / (machine.scale_up.rate * overheads.network_efficiency)
    met, experts = gpu_parameters(deployment)
    share = active_share(model)
    row_flops = 2 * (met + share * experts)
    weight, activation = (deployment.formats.bytes_of(one) for one in ("weights", "activations"))
    head = model.vocabulary * model.hidden / tp if options.embeddings else 0.0
    row_bytes = model.hidden * activation
    n_reduces = model.blocks * model.layers if tp > 1 else 0
    reduce_steps = 2 * (min(tp, 2) if options.all_reduce == "direct" else tp) - 2
    return IterationCost(
        layers=model.layers,
        tp=tp,
        prompt_row_ps=row_flops * prompt,
        decode_row_ps=row_flops * decode,
        weights_ps=met * weight * byte,
        experts_ps=experts * weight * byte,
        expert_share=share,
        pair_ps=model.layers * pair_flops(model) / tp * pair,
        context_ps=model.layers * context_flops(model) / tp * decode,
        kv_ps=kv_bytes_of_token(deployment) * deployment.kv_share * byte,
        activation_ps=model.layers * overheads.activation_passes * row_bytes * byte,
        head_read_ps=head * weight * byte,
        head_row_ps=2 * head * decode,
        layers_ps=float(model.layers * overheads.layer_overhead),
        iteration_ps=float(overheads.iteration_overhead),
        sequence_ps=float(overheads.sequence_overhead),
        prefill_floor_ps=float(overheads.prefill_floor),
        long_prompt_row_ps=overheads.empirical_long_prompt * math.log2(max(1.0, tp / 2)),
        one_roofline=options.roofline == "layer",
        async_launch=overheads.async_launch,
        all_reduces=n_reduces,
        all_reduce_ps=float(reduce_steps * overheads.step_latency),
        reduced_row_ps=reduce_share(tp) * row_bytes * sent,
        row_bytes=row_bytes,
        overlap=options.overlap,
    )


def prefill_ps(deployment: Deployment, tokens: int, prompts: int = 1) -> int:
    """Return the time of an iteration of prompts with `tokens` each, in ps."""
    pairs = prompts * prompt_pairs(deployment.causal, 0, tokens)
    return iteration_ps(iteration_cost(deployment), prompts * tokens, pairs, 0, 0)


def decode_ps(deployment: Deployment, batch: int, context: int) -> int:
    """Return the time of an iteration of decoding sequences with `context` tokens each, in ps."""
    return iteration_ps(iteration_cost(deployment), batch, 0, batch, batch * context)


PARTS: dict[str, type[Any]] = {
    "model": Model,
    "machine": Machine,
    "formats": Formats,
    "options": Options,
    "overheads": Overheads,
    "limits": LatencyLimits,
}
"""Tables of a deployment's file."""


def load_deployment(deployment: str | Path | Tree, directory: Path | None = None) -> Deployment:
    """Return a deployment from a file, a preset's name, or a table; paths are below `directory`.
    Raises InputError with all errors."""
    return load(deployment, "deployment", deployment_from, directory)


def deployment_from(tree: Tree, name: str, directory: Path) -> Deployment:
    """Return the deployment of a table."""
    tree = extended(tree, "deployment", directory)
    parts = read_parts(tree, PARTS, directory)
    found = Deployment(name=tree.get("name", name) or "deployment", **parts)
    raise_all(deployment_errors(found))
    return found


def deployment_errors(deployment: Deployment) -> list[InputError]:
    """Return all errors of a deployment whose keys are individually valid."""
    found = [*_machine_errors(deployment)]
    for check in (_divides, _fits, _countable) if deployment.options.tp else ():
        found = found or [*check(deployment)]
    return found


def _machine_errors(deployment: Deployment) -> Iterator[InputError]:
    machine = deployment.machine
    try:
        machine.matrix.rate(deployment.formats.compute)
    except InputError as error:
        yield error.at(key="formats.compute")
    if machine.memory_rate is None:
        hint = 'write it like "3350GB/s"'
        yield InputError("missing", key="machine.memory_rate", hint=hint, code="missing")


def _divides(deployment: Deployment) -> Iterator[InputError]:
    tp, model = deployment.tp, deployment.model
    largest = deployment.machine.domain_gpus
    if tp > largest:
        message = f"{tp} GPUs exceed machine.domain_gpus"
        yield InputError(message, key="options.tp", hint=f"at most {largest}")
    if model.heads % tp:
        hint = f"a divisor of {model.heads}"
        message = f"{tp} does not divide {model.heads} heads"
        yield InputError(message, key="options.tp", hint=hint)
    parts = kv_parts(model)
    if deployment.options.kv_replicated and tp % parts and parts % tp:
        message = f"{tp} is neither a divisor nor a multiple of {parts} KV heads"
        hint = "or set kv_replicated = false"
        yield InputError(message, key="options.tp", hint=hint)


def _fits(deployment: Deployment) -> Iterator[InputError]:
    if kv_capacity_tokens(deployment):
        return
    need = format_bytes(round(weight_bytes(deployment)), 4)
    have = format_bytes(round(deployment.machine.memory * deployment.options.memory_share), 4)
    message = f"{need} of weights and the KV cache of a token exceed a GPU's {have}"
    yield InputError(message, key="options.tp", hint="use more GPUs, or smaller formats")


def _countable(deployment: Deployment) -> Iterator[InputError]:
    """Check that the longest iteration fits an int64 of picoseconds."""
    largest = kv_capacity_tokens(deployment)
    if max(prefill_ps(deployment, largest), decode_ps(deployment, largest, 1)) < INT64:
        return
    message = f"an iteration of the {largest:,} tokens that fit in memory exceeds 53 days"
    hint = "use larger efficiencies, a faster machine, or less memory"
    yield InputError(message, key="overheads", hint=hint)


def with_tp(deployment: Deployment, tp: int) -> Deployment | None:
    """Return the deployment on `tp` GPUs, or None if the model does not divide or fit."""
    changed = on_gpus(deployment, tp)
    return None if deployment_errors(changed) else changed
