"""Pipeline schedules as data: the order of work at each stage.

A pipeline has p stages and a batch m micro-batches. Each stage holds v chunks of the model, so
there are p v positions, which a micro-batch passes forward and then backward. A backward pass is
one operation, or two: the input gradient, which the previous position waits for, and the weight
gradient (zero bubble). F, B and W are the times of a stage for one micro-batch and all its chunks:
forward, input gradient and weight gradient. Transfers take no time:

| schedule | bubble per step | in flight at stage s | source |
|---|---|---|---|
| gpipe | (p-1) (F+B+W) | m | Huang et al., GPipe (2019), section 2.3 |
| 1f1b | (p-1) (F+B+W) | p - s | Narayanan et al., SC 2021, section 2.2 |
| interleaved | (p-1) (F+B+W) / v | (2(p-s-1) + (v-1)p + 1) / v | the same |
| zb_h1 | (p-1) max(F+B-W, B) | p | Qi et al., Zero Bubble (2024), section 2.2 |
| zb_h2 | (p-1) max(F+B-2W, B-F, 0) | 2p - 1 | the same |

The bubble is the time from a step to the next, minus the work of one stage. Stages wait for each
other between steps, to clip gradients; with zero bubble they do not, since they validate a step
afterwards (section 4). The last stage then starts each step later than the first; from a step's
first operation to the last of any stage, the maxima are max(F+B-W, F, B) (zb_h1) and max(F+B-2W, F)
(zb_h2). The source assumes that W is the smallest and has no maximum; formulas hold for at least p
(zb_h1) or 2p - 1 (zb_h2) micro-batches. A micro-batch is in flight at a stage from its forward to
the end of its backward, weight gradient included, weighted by its share of the stage's activations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, did_you_mean
from netsim.frozen import frozen
from netsim.model.columns import Ints

FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT = range(4)
"""Kinds of work for a micro-batch and chunk; BACKWARD combines the last two."""

Rounds = tuple[tuple[int, int], ...]
"""Order of a stage: (kind, round of its first item). Each round does one item of each kind, in this
order; rounds may be negative."""


@frozen(eq=False)
class PipelineSchedule:
    """The n operations of a pipeline, in order, by stage."""

    # stages, micro_batches, chunks: p, m and v
    stages: int
    micro_batches: int
    chunks: int
    stage: NDArray[np.int32]  # int32[n], ascending
    kind: NDArray[np.int8]  # int8[n], FORWARD, BACKWARD, BACKWARD_INPUT or BACKWARD_WEIGHT
    micro_batch: NDArray[np.int32]  # int32[n]
    chunk: NDArray[np.int16]  # int16[n], chunk of the stage
    position: NDArray[np.int32]  # int32[p, v], position of a stage's chunk in the model

    def __len__(self) -> int:
        return int(self.stage.size)

    def operations_at(self, kinds: tuple[int, ...]) -> Ints:
        """int64[p v, m]: the operation of `kinds` by position and micro-batch, or -1."""
        found = np.full((self.stages * self.chunks, self.micro_batches), -1, np.int64)
        rows = np.flatnonzero(np.isin(self.kind, kinds))
        found[self.position[self.stage[rows], self.chunk[rows]], self.micro_batch[rows]] = rows
        return found

    def waits(self) -> tuple[Ints, Ints]:
        """Return pairs of operations; the second needs the result of the first.

        A forward needs the previous position's forward; a backward needs the next position's
        backward or, at the last position, its forward. Dependencies implied by a stage's order are
        omitted.
        """
        forward = self.operations_at((FORWARD,))
        backward = self.operations_at((BACKWARD, BACKWARD_INPUT))
        first = (forward[:-1], backward[1:], forward[-1])
        then = (forward[1:], backward[:-1], backward[-1])
        return tuple(np.concatenate([one.reshape(-1) for one in side]) for side in (first, then))  # type: ignore[return-value]


SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1", "zb_h2")


def check_schedule(name: str, stages: int, micro_batches: int, chunks: int = 1) -> None:
    """Raise InputError for an unknown schedule, or sizes that it does not support."""
    if name not in SCHEDULES:
        message, hint = f'unknown pipeline schedule "{name}"', did_you_mean(name, SCHEDULES)
        raise InputError(message, hint=hint, code="unknown_value")
    if min(stages, micro_batches, chunks) < 1:
        raise InputError(
            f"{stages} stages, {micro_batches} micro-batches, {chunks} chunks: below 1"
        )
    if name != "interleaved" and chunks != 1:
        raise InputError(f"{chunks} chunks conflict with {name}", hint="use interleaved")
    if name == "interleaved" and micro_batches % stages:
        raise InputError(
            f"{micro_batches} micro-batches are not divisible by {stages} stages",
            hint=f"a multiple of {stages}",
        )


def make_schedule(name: str, stages: int, micro_batches: int, chunks: int = 1) -> PipelineSchedule:
    """Return a schedule in SCHEDULES. Raises the same InputErrors as `check_schedule`."""
    check_schedule(name, stages, micro_batches, chunks)
    n_items = micro_batches * chunks
    rounds = [_rounds(name, stages, stage, micro_batches, chunks) for stage in range(stages)]
    each = [_in_order(order, n_items) for order in rounds]
    kind, item = (np.concatenate(one) for one in zip(*each, strict=True))
    # Items are groups of p micro-batches through all chunks; backward reverses the chunks.
    group, rest = np.divmod(item, stages * chunks)
    chunk, within = np.divmod(rest, stages)
    return PipelineSchedule(
        stages,
        micro_batches,
        chunks,
        stage=np.repeat(np.arange(stages, dtype=np.int32), len(rounds[0]) * n_items),
        kind=kind.astype(np.int8),
        micro_batch=(group * stages + within).astype(np.int32),
        chunk=np.where(kind == FORWARD, chunk, chunks - 1 - chunk).astype(np.int16),
        position=np.arange(stages * chunks, dtype=np.int32).reshape(chunks, stages).T.copy(),
    )


def _rounds(name: str, stages: int, stage: int, micro_batches: int, chunks: int) -> Rounds:
    """Return the order of a stage; `interleaved` warms up as in Megatron."""
    later = stages - 1 - stage
    return {
        "gpipe": ((FORWARD, 0), (BACKWARD, micro_batches)),
        "1f1b": ((FORWARD, -later), (BACKWARD, 0)),
        "interleaved": ((FORWARD, -2 * later - (chunks - 1) * stages), (BACKWARD, 0)),
        "zb_h1": ((FORWARD, -later), (BACKWARD_INPUT, 0), (BACKWARD_WEIGHT, stage)),
        "zb_h2": ((FORWARD, -2 * later), (BACKWARD_INPUT, 0), (BACKWARD_WEIGHT, 2 * stage)),
    }[name]


def _in_order(rounds: Rounds, n_items: int) -> tuple[Ints, Ints]:
    """Return kind and index of a stage's items, in order."""
    rank = np.repeat(np.arange(len(rounds)), n_items)
    item = np.tile(np.arange(n_items), len(rounds))
    order = np.lexsort((rank, item + np.array([first for _, first in rounds])[rank]))
    return np.array([kind for kind, _ in rounds])[rank[order]], item[order]


def bubble_ps(
    name: str, stages: int, forward_ps: int, input_ps: int, weight_ps: int, chunks: int = 1
) -> float:
    """Return the bubble of a step in ps, by the table above. Times are per micro-batch and stage,
    all chunks. Raises KeyError for an unknown schedule."""
    longest = {
        "gpipe": forward_ps + input_ps + weight_ps,
        "1f1b": forward_ps + input_ps + weight_ps,
        "interleaved": (forward_ps + input_ps + weight_ps) / chunks,
        "zb_h1": max(forward_ps + input_ps - weight_ps, input_ps),
        "zb_h2": max(forward_ps + input_ps - 2 * weight_ps, input_ps - forward_ps, 0),
    }[name]
    return (stages - 1) * longest


def in_flight(name: str, stages: int, stage: int, micro_batches: int, chunks: int = 1) -> float:
    """Return the most micro-batches in flight at a stage, by the table above."""
    largest = {
        "gpipe": micro_batches,
        "1f1b": stages - stage,
        "interleaved": (2 * (stages - stage - 1) + (chunks - 1) * stages + 1) / chunks,
        "zb_h1": stages,
        "zb_h2": 2 * stages - 1,
    }[name]
    return min(largest, micro_batches)
