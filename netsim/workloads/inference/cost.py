"""The time of an iteration from plain numbers: of a table, or inside a simulation.

An *iteration* is one forward pass of all layers over a batch of rows: tokens of prompts, and one
for each sequence that decodes. The functions have `+`, `*`, `max` and `min` alone, so that they
give the same picoseconds on every machine, and Numba compiles them as they are.
"""

from __future__ import annotations

from typing import NamedTuple


class IterationCost(NamedTuple):
    """What an iteration costs at each GPU of a machine; times are picoseconds, over all layers."""

    layers: int
    tp: int
    prompt_row_ps: float
    """Multiplying the matrices with one row of a prompt."""
    decode_row_ps: float
    """The same of a sequence that decodes."""
    weights_ps: float
    """Reading the matrices that every row meets, once."""
    experts_ps: float
    """Reading all experts, once."""
    expert_share: float
    """The share of the experts that one row meets."""
    pair_ps: float
    """Attention of a prompt's token to one token."""
    context_ps: float
    """Attention of a sequence that decodes to one token of its context."""
    kv_ps: float
    """Reading the keys and values of one token."""
    activation_ps: float
    """Reading and writing what stands between the matrices, of one row."""
    head_read_ps: float
    """Reading the head's matrix, once."""
    head_row_ps: float
    """Multiplying it with one row."""
    layers_ps: float
    """Launching all layers."""
    iteration_ps: float
    """What software adds to an iteration."""
    sequence_ps: float
    """What it adds for each sequence."""
    prefill_floor_ps: float
    """An iteration with prompts takes no less, its all-reduces apart."""
    one_roofline: bool
    """Of all that is computed and read, instead of matrices, attention and head each."""
    async_launch: bool
    """Launches go beside computing: the longer counts, not the sum."""
    all_reduces: int
    """All-reduces of an iteration, one behind the other."""
    all_reduce_ps: float
    """One of them, without its bytes."""
    reduced_row_ps: float
    """The bytes of one row in one of them."""
    row_bytes: float
    """Of one row in the buffer of an all-reduce."""
    overlap: bool
    """All-reduces go beside everything else: the longer counts, not the sum."""


def prompt_pairs(causal: bool, start: int, tokens: int) -> int:
    """Query-key pairs of `tokens` tokens of a prompt that stand behind `start` others.

    Causal: half of those among themselves, as half of the square's area, and all to those before.
    """
    own = tokens * tokens
    return start * tokens + (own // 2 if causal else own)


class ComputeParts(NamedTuple):
    """What an iteration's computing is made of, in picoseconds, each by itself."""

    rows_ps: float
    """Multiplying the matrices with all rows."""
    weights_ps: float
    """Reading them, experts as far as the rows meet them."""
    scores_ps: float
    """Attention."""
    kv_ps: float
    """Reading keys and values."""
    head_ps: float
    """Multiplying the head's matrix."""
    head_read_ps: float
    """Reading it."""
    activations_ps: float
    """Reading and writing what stands between the matrices."""
    launches_ps: float
    """Launching all layers."""
    iteration_ps: float
    """What software adds to the iteration."""
    sequences_ps: float
    """What it adds for its sequences."""
    floor_ps: float
    """All of it takes no less."""


def compute_parts(
    cost: IterationCost, tokens: int, pairs: int, batch: int, context: int
) -> ComputeParts:
    """The parts of `compute_ps`, of one row or more; its arguments."""
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
    )


def compute_ps(cost: IterationCost, tokens: int, pairs: int, batch: int, context: int) -> int:
    """Picoseconds of an iteration without its all-reduces.

    Of `tokens` rows in all `batch` are of sequences that decode, and have `context` tokens before
    them together; the others are of prompts and have `pairs` query-key pairs. Matrices, attention
    and head are a roofline each, or one together: the longer of computing and reading counts.
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
    return int(max(both + part.iteration_ps + part.sequences_ps, part.floor_ps) + 0.5)


def network_ps(cost: IterationCost, tokens: int) -> int:
    """Picoseconds of all all-reduces of an iteration, each alone on an idle network."""
    if tokens == 0:
        return 0
    return int(cost.all_reduces * (cost.all_reduce_ps + cost.reduced_row_ps * tokens) + 0.5)


def iteration_ps(cost: IterationCost, tokens: int, pairs: int, batch: int, context: int) -> int:
    """Picoseconds of an iteration; its arguments are those of `compute_ps`."""
    computing = compute_ps(cost, tokens, pairs, batch, context)
    sending = network_ps(cost, tokens)
    return max(computing, sending) if cost.overlap else computing + sending


def all_reduce_bytes(cost: IterationCost, tokens: int) -> int:
    """Bytes of the buffer of one all-reduce; what does not fill a byte takes one."""
    size = int(cost.row_bytes * tokens)
    return size if size >= cost.row_bytes * tokens else size + 1
