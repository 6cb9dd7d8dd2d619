"""Iteration times from plain numbers, for tables and inside simulations.

An iteration is one forward pass of all layers over a batch of rows: the tokens of prompts, and one
token per decoding sequence. The functions use only `+`, `*`, `max` and `min`, so results are equal
on every machine and Numba compiles them.
"""

from __future__ import annotations

from typing import NamedTuple

LONG_PROMPT = 2048
"""Prompt tokens of an iteration above which `IterationCost.long_prompt_row_ps` counts."""


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
    prefill_floor_ps: float  # shortest time of an iteration with prompts, without all-reduces
    long_prompt_row_ps: float
    """Empirical time per row of prompts, if there are more than `LONG_PROMPT`."""
    one_roofline: bool
    """One roofline for all compute and reads, not one each for matrices, attention and head."""
    async_launch: bool  # launches overlap compute: the longer time counts, not the sum
    all_reduces: int  # all-reduces per iteration, in sequence
    all_reduce_ps: float  # latency of an all-reduce
    reduced_row_ps: float  # transfer time per row of an all-reduce
    row_bytes: float  # all-reduce bytes per row
    overlap: bool  # all-reduces overlap everything else: the longer time counts, not the sum


def prompt_pairs(causal: bool, start: int, tokens: int) -> int:
    """Return the token pairs of `tokens` prompt tokens after `start` others.

    Causal attention counts half of the pairs among themselves, and all pairs with earlier tokens.
    """
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
    total; the others belong to prompts with `pairs` token pairs. Matrices, attention and head have
    a roofline each, or one together: the longer of compute and read counts.
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
