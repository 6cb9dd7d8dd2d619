"""From a deployment to what its iterations cost, and to what fits beside its weights.

Counted per layer, for B requests with prompts of S tokens and contexts of C: matrices 2 P_l
operations a row, attention 4 h for a query and a key (half of a prompt's S x S pairs if causal),
weights read once an iteration, keys and values once a row, and two all-reduces of all rows. What
divides by `tp` does; keys and values, and the matrices that make them, as `Deployment.kv_share`
says. Norms, biases, positions and the router's choice are left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from netsim.workloads.inference.cost import IterationCost, prompt_pairs
from netsim.workloads.inference.deployment import (
    Deployment,
    dense_parameters,
    expert_parameters,
    kv_parameters,
    kv_width,
    moe_parameters,
    on_gpus,
)
from netsim.workloads.job.machine import PS_PER_S
from netsim.workloads.job.model import Model

REDUCES_A_LAYER = 2


def gpu_parameters(deployment: Deployment) -> tuple[float, float]:
    """Parameters of all layers at one GPU: those that every row meets, and the experts."""
    model, tp = deployment.model, deployment.tp
    met = (model.layers - model.moe_layers) * dense_parameters(model)
    met += model.moe_layers * moe_parameters(model)
    narrow = model.layers * kv_parameters(model)
    experts = model.moe_layers * model.experts * expert_parameters(model)
    return (met - narrow) / tp + narrow * deployment.kv_share, experts / tp


def pair_flops(model: Model) -> int:
    """Operations of a layer for one query and one key of a prompt: the score, and its value."""
    return 2 * model.heads * (model.head_width + model.value_width)


def context_flops(model: Model) -> int:
    """The same of a sequence that decodes.

    Latent attention then works on what is compressed (DeepSeek-V2, section 2.1.2).
    """
    if model.attention == "latent":
        return 2 * model.heads * (2 * model.kv_rank + model.rotary_size)
    return pair_flops(model)


def kv_bytes_of_token(deployment: Deployment) -> float:
    """Bytes of keys and values of one token, of the whole model, each head once."""
    model = deployment.model
    return model.layers * kv_width(model) * deployment.formats.bytes_of("kv")


class LayerCounts(NamedTuple):
    """Operations and bytes of a layer in the mean, of all GPUs together."""

    parameters: float
    """Of its matrices, all experts among them."""
    prompt_flops: float
    """Of one prompt."""
    decode_flops: float
    """Of one token of a sequence that decodes."""
    kv_bytes: float
    """Keys and values of one token."""
    all_reduce_bytes: float
    """Buffer of each of its two all-reduces, of one prompt."""


def layer_counts(deployment: Deployment, prompt: int, context: int) -> LayerCounts:
    """What is counted for a prompt of `prompt` tokens, or one token behind `context` others."""
    one, model = on_gpus(deployment, 1), deployment.model
    met, experts = (part / model.layers for part in gpu_parameters(one))
    row = 2 * (met + active_share(model) * experts)
    pairs = prompt_pairs(deployment.options.attention == "causal", 0, prompt)
    return LayerCounts(
        parameters=met + experts,
        prompt_flops=row * prompt + pair_flops(model) * pairs,
        decode_flops=row + context_flops(model) * context,
        kv_bytes=kv_bytes_of_token(deployment) / model.layers,
        all_reduce_bytes=prompt * model.hidden * deployment.formats.bytes_of("activations"),
    )


def active_share(model: Model) -> float:
    """The share of a layer's experts that one token goes to; 0 without experts."""
    return model.active_experts / model.experts if model.experts else 0.0


def weight_bytes(deployment: Deployment) -> float:
    """Bytes of weights that one GPU holds."""
    model, options = deployment.model, deployment.options
    held = sum(gpu_parameters(deployment))
    if options.embeddings:
        tables = 1 if model.tied_embeddings else 2
        held += tables * model.vocabulary * model.hidden / deployment.tp
    return held * deployment.formats.bytes_of("weights")


def kv_capacity_tokens(deployment: Deployment) -> int:
    """How many tokens' keys and values fit beside the weights; 0 if the weights do not fit."""
    return int(kv_room_tokens(deployment, deployment.tp))


def kv_room_tokens(
    deployment: Deployment, gpus: int, pooled_weights: float = 0.0, pooled_token: float = 0.0
) -> float:
    """The same on `gpus` GPUs that hold all that is to be on `tp`: infinite if no token is there.

    `pooled_weights` and `pooled_token` are bytes that are elsewhere: of a GPU's weights, and of its
    part of each token.
    """
    usable = deployment.machine.memory * deployment.options.memory_share * (gpus / deployment.tp)
    free = usable - (weight_bytes(deployment) - pooled_weights)
    own = kv_bytes_of_token(deployment) * deployment.kv_share - pooled_token
    if free <= 0:
        return 0.0
    return free / own if own else math.inf


def reduce_share(tp: int) -> float:
    """Of an all-reduce's buffer, what each GPU sends: all but its own part, twice."""
    return 2 * (tp - 1) / tp


def reduce_steps(deployment: Deployment) -> int:
    """Steps of an all-reduce, one behind the other."""
    if deployment.tp == 1:
        return 0
    return 2 if deployment.options.all_reduce == "direct" else 2 * (deployment.tp - 1)


def iteration_cost(deployment: Deployment) -> IterationCost:
    """Return what an iteration of a deployment costs.

    Raises InputError if the machine has no rate of its memory, or no peak for the format.
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
    n_reduces = REDUCES_A_LAYER * model.layers if tp > 1 else 0
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
        one_roofline=options.roofline == "layer",
        async_launch=overheads.async_launch,
        all_reduces=n_reduces,
        all_reduce_ps=float(reduce_steps(deployment) * overheads.step_latency),
        reduced_row_ps=reduce_share(tp) * row_bytes * sent,
        row_bytes=row_bytes,
        overlap=options.overlap,
    )
