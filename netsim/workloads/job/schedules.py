"""Pipeline schedules as data: in which order the stages of a pipeline compute what.

A pipeline has p stages, a batch m micro-batches. Each stage holds v chunks of the model, so that
the model is cut into p v places that a micro-batch goes through forward and then backward. A
backward is one piece of work, or two: the gradient of the input, which the place before waits for,
and that of the weights, which nobody waits for (zero bubble). With F, B and W the times that a
stage takes for one micro-batch, all its chunks together, forward, backward for the input and
backward for the weights, and transfers that take no time:

| schedule | bubble of a step | in flight, of stage s | source |
|---|---|---|---|
| gpipe | (p-1) (F+B+W) | m | Huang et al., GPipe (2019), section 2.3 |
| 1f1b | (p-1) (F+B+W) | p - s | Narayanan et al., SC 2021, section 2.2 |
| interleaved | (p-1) (F+B+W) / v | (2(p-s-1) + (v-1)p + 1) / v | the same |
| zb_h1 | (p-1) max(F+B-W, F, B) | p | Qi et al., Zero Bubble (2024), section 2.2 |
| zb_h2 | (p-1) max(F+B-2W, F) | 2p - 1 | the same |

The bubble is how much longer a step takes than the work of one stage, from the first operation of
the first stage to the last one of any. The formulas of zero bubble have a maximum because the
sources take W for the smallest of the three; they hold with at least p, and 2p - 1, micro-batches.
With zb_h2 no stage of that many is idle between its own first and last operation if F = B = W:
stages end as much later than one another as they began, and the next step follows without a gap.
In flight are the micro-batches, as shares of a stage's activations, whose forward a stage has done
and whose backward, the weights' included, it has not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, did_you_mean

FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT = range(4)
"""Kinds of work of a stage for a micro-batch and a chunk; BACKWARD is the last two in one."""

Turns = tuple[tuple[int, int], ...]
"""The order of a stage: in each turn it does one piece of each kind named, in the order of the
names; a kind's first piece is done in the turn that stands with it, which may be before turn 0."""


@dataclass(frozen=True, eq=False)
class PipelineSchedule:
    """What the stages of a pipeline compute, in order: n operations, stage by stage.

    Attributes:
        stages, micro_batches, chunks: p, m and v.
        stage: int32[n], ascending.
        kind: int8[n], FORWARD, BACKWARD, BACKWARD_INPUT or BACKWARD_WEIGHT.
        micro_batch: int32[n].
        chunk: int16[n], of the stage's.
        place: int32[p, v], the place of a stage's chunk in the model, from 0.
    """

    stages: int
    micro_batches: int
    chunks: int
    stage: NDArray[np.int32]
    kind: NDArray[np.int8]
    micro_batch: NDArray[np.int32]
    chunk: NDArray[np.int16]
    place: NDArray[np.int32]

    def __len__(self) -> int:
        return int(self.stage.size)

    def operations_at(self, kinds: tuple[int, ...]) -> NDArray[np.int64]:
        """int64[p v, m]: the operation of a place and micro-batch that is one of `kinds`; or -1."""
        found = np.full((self.stages * self.chunks, self.micro_batches), -1, np.int64)
        rows = np.flatnonzero(np.isin(self.kind, kinds))
        found[self.place[self.stage[rows], self.chunk[rows]], self.micro_batch[rows]] = rows
        return found

    def waits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of operations of which the second needs what the first has computed.

        A forward needs the one of the place before, a backward the one of the place behind or, at
        the last place, its forward. What follows from the order of a stage is left out.
        """
        forward = self.operations_at((FORWARD,))
        backward = self.operations_at((BACKWARD, BACKWARD_INPUT))
        first = (forward[:-1], backward[1:], forward[-1])
        then = (forward[1:], backward[:-1], backward[-1])
        return tuple(np.concatenate([one.reshape(-1) for one in side]) for side in (first, then))  # type: ignore[return-value]


SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1", "zb_h2")
"""Every schedule by its name."""


def check_schedule(name: str, stages: int, micro_batches: int, chunks: int = 1) -> None:
    """Refuse what there is no schedule for.

    Raises:
        InputError: an unknown name, or numbers that the schedule cannot have.
    """
    if name not in SCHEDULES:
        raise InputError(
            f'there is no pipeline schedule "{name}"', hint=did_you_mean(name, SCHEDULES)
        )
    if min(stages, micro_batches, chunks) < 1:
        raise InputError(f"{stages} stages, {micro_batches} micro-batches and {chunks} chunks")
    if name != "interleaved" and chunks != 1:
        raise InputError(
            f"{chunks} chunks of a stage, which {name} does not have", hint="interleaved"
        )
    if name == "interleaved" and micro_batches % stages:
        raise InputError(
            f"{micro_batches} micro-batches cannot be interleaved over {stages} stages",
            hint=f"a multiple of {stages}",
        )


def make_schedule(name: str, stages: int, micro_batches: int, chunks: int = 1) -> PipelineSchedule:
    """The schedule of a name in SCHEDULES. Raises InputError as `check_schedule`."""
    check_schedule(name, stages, micro_batches, chunks)
    pieces = micro_batches * chunks
    turns = [_turns(name, stages, stage, micro_batches, chunks) for stage in range(stages)]
    each = [_in_order(one, pieces) for one in turns]
    kind, piece = (np.concatenate(one) for one in zip(*each, strict=True))
    # Pieces of work go in groups of p micro-batches through all chunks, backward in the opposite
    # order of chunks; with one chunk they are the micro-batches.
    group, rest = np.divmod(piece, stages * chunks)
    chunk, within = np.divmod(rest, stages)
    return PipelineSchedule(
        stages,
        micro_batches,
        chunks,
        stage=np.repeat(np.arange(stages, dtype=np.int32), len(turns[0]) * pieces),
        kind=kind.astype(np.int8),
        micro_batch=(group * stages + within).astype(np.int32),
        chunk=np.where(kind == FORWARD, chunk, chunks - 1 - chunk).astype(np.int16),
        place=np.arange(stages * chunks, dtype=np.int32).reshape(chunks, stages).T.copy(),
    )


def _turns(name: str, stages: int, stage: int, micro_batches: int, chunks: int) -> Turns:
    """The order of a stage. How many forwards `interleaved` does first is as in Megatron."""
    behind = stages - 1 - stage
    return {
        "gpipe": ((FORWARD, 0), (BACKWARD, micro_batches)),
        "1f1b": ((FORWARD, -behind), (BACKWARD, 0)),
        "interleaved": ((FORWARD, -2 * behind - (chunks - 1) * stages), (BACKWARD, 0)),
        "zb_h1": ((FORWARD, -behind), (BACKWARD_INPUT, 0), (BACKWARD_WEIGHT, stage)),
        "zb_h2": ((FORWARD, -2 * behind), (BACKWARD_INPUT, 0), (BACKWARD_WEIGHT, 2 * stage)),
    }[name]


def _in_order(turns: Turns, pieces: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Kind and number of every piece of a stage's work, as it does them."""
    rank = np.repeat(np.arange(len(turns)), pieces)
    piece = np.tile(np.arange(pieces), len(turns))
    order = np.lexsort((rank, piece + np.array([first for _, first in turns])[rank]))
    return np.array([kind for kind, _ in turns])[rank[order]], piece[order]


def bubble_ps(
    name: str, stages: int, forward_ps: int, input_ps: int, weight_ps: int, chunks: int = 1
) -> float:
    """How much longer a step takes than the work of one stage, in ps: the table at the head.

    The times are those of one micro-batch in one stage with all its chunks: forward, backward for
    the input and backward for the weights. Raises KeyError for a name that is not in SCHEDULES.
    """
    longest = {
        "gpipe": forward_ps + input_ps + weight_ps,
        "1f1b": forward_ps + input_ps + weight_ps,
        "interleaved": (forward_ps + input_ps + weight_ps) / chunks,
        "zb_h1": max(forward_ps + input_ps - weight_ps, forward_ps, input_ps),
        "zb_h2": max(forward_ps + input_ps - 2 * weight_ps, forward_ps),
    }[name]
    return (stages - 1) * longest


def in_flight(name: str, stages: int, stage: int, micro_batches: int, chunks: int = 1) -> float:
    """The most micro-batches whose activations a stage holds at once: the table at the head.

    A chunk counts as its share of the stage. Raises KeyError as `bubble_ps`.
    """
    most = {
        "gpipe": micro_batches,
        "1f1b": stages - stage,
        "interleaved": (2 * (stages - stage - 1) + (chunks - 1) * stages + 1) / chunks,
        "zb_h1": stages,
        "zb_h2": 2 * stages - 1,
    }[name]
    return min(most, micro_batches)
