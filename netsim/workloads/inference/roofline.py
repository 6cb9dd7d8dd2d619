"""Iteration cost of a deployment, and the KV cache that fits in memory.

Counted per layer, for prompts of S tokens: 2 P_l FLOP per row for matrices, 4 h per token pair for
attention (half of S x S if causal), one read of weights per iteration and of the KV cache per row,
and two all-reduces of all rows. Everything is divided by `tp`, the KV cache and its projections by
`Deployment.kv_share`. Norms, biases, positions and routing are omitted.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from netsim.workloads.inference.cost import IterationCost, iteration_ps, prompt_pairs
from netsim.workloads.inference.deployment import Deployment, on_gpus
from netsim.workloads.job.machine import PS_PER_S
from netsim.workloads.job.model import Model

ALL_REDUCES_PER_LAYER = 2


def gpu_parameters(deployment: Deployment) -> tuple[float, float]:
    """Return the parameters at one GPU: without experts, and of experts."""
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
    """Return the attention FLOP of a layer per context token in decode.

    Latent attention then works on compressed keys and values (DeepSeek-V2, section 2.1.2).
    """
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
    """Return the KV cache tokens that fit on `gpus` of `tp` GPUs; infinite if none is local.

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


def reduce_steps(deployment: Deployment) -> int:
    """Return the steps of an all-reduce in sequence."""
    if deployment.tp == 1:
        return 0
    return 2 if deployment.options.all_reduce == "direct" else 2 * (deployment.tp - 1)


@lru_cache(maxsize=1024)
def iteration_cost(deployment: Deployment) -> IterationCost:
    """Return what an iteration of a deployment costs.

    Raises InputError if the machine lacks memory bandwidth, or a peak for the format.
    """
    model, options, overheads = deployment.model, deployment.options, deployment.overheads
    machine, tp = deployment.machine, deployment.tp
    flop = PS_PER_S / machine.matrix.rate(deployment.formats.compute)
    prompt, decode = flop / overheads.prefill_efficiency, flop / overheads.decode_efficiency
    byte = PS_PER_S / (machine.reading_rate * overheads.memory_efficiency)
    sent = 8 * PS_PER_S / (machine.scale_up.rate * overheads.network_efficiency)
    met, experts = gpu_parameters(deployment)
    share = active_share(model)
    row_flops = 2 * (met + share * experts)
    weight, activation = (deployment.formats.bytes_of(one) for one in ("weights", "activations"))
    head = model.vocabulary * model.hidden / tp if options.embeddings else 0.0
    row_bytes = model.hidden * activation
    n_reduces = ALL_REDUCES_PER_LAYER * model.layers if tp > 1 else 0
    return IterationCost(
        layers=model.layers,
        tp=tp,
        prompt_row_ps=row_flops * prompt,
        decode_row_ps=row_flops * decode,
        weights_ps=met * weight * byte,
        experts_ps=experts * weight * byte,
        expert_share=share,
        pair_ps=model.layers * pair_flops(model) / tp * prompt,
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
        all_reduce_ps=float(reduce_steps(deployment) * overheads.step_latency),
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
