"""Steps of inference as operations of ranks: iterations of machines, and what goes between them.

A machine is a group of ranks that share a model by tensor parallelism. In an iteration, a forward
pass over a batch, each computes block after block, two in a layer (attention, MLP), behind each of
which an all-reduce adds up what the ranks have. All machines of a phase do the same, so that the
operations of all iterations are arrays: [iterations, blocks, machines, ranks].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.serving.kv_partition import partition

Ints = NDArray[np.int64]

COMPUTE, ALL_REDUCE = 0, 1
"""Streams of a rank; part k of a batch has its all-reduces in stream ALL_REDUCE + k. Messages that
go from one to one are in none."""

BLOCKS = 2
"""Of a layer: attention, and the MLP, each with an all-reduce."""

REQUEST_BYTES = 64
"""What a GPU sends to have something of pooled memory."""

TP, KV, POOL, CONTROL = KINDS = ("tp", "kv", "pool", "control")
"""Kinds of messages: all-reduces, KV caches handed over, reads of a pool, and requests for them."""


@dataclass(frozen=True, eq=False)
class InferencePhase:
    """What machines of one phase do.

    Attributes:
        name: "prefill" or "decode", the kind of what is computed.
        ranks: int64[machines, tp].
        step: int64[n], of which step each of the n iterations is.
        compute_ps: int64[parts, n, blocks], of a rank; a part is a share of the batch. Several
            take turns: one computes while the all-reduce of another one is under way.
        pieces: whether parts are pieces of blocks instead, for all of the batch: a block begins
            when the all-reduces of all pieces of the one before are over.
        all_reduce_bytes: int64[parts], of each one; those of two parts may be under way at once.
        how: how all-reduces are done.
        all_reduce_ps: int64[parts], how long they take; None: they are sent.
    """

    name: str
    ranks: Ints
    step: Ints
    compute_ps: Ints
    all_reduce_bytes: Ints
    how: CollectiveOptions
    all_reduce_ps: Ints | None = None
    pieces: bool = False

    @property
    def tp(self) -> int:
        return int(self.ranks.shape[1])

    @property
    def layers(self) -> int:
        """That are simulated."""
        return int(self.compute_ps.shape[2]) // BLOCKS


@dataclass(frozen=True, eq=False)
class Done:
    """What iterations were made of.

    Attributes:
        computed: int64[parts, n, blocks, machines, tp], operations.
        reduced: the same of all-reduces; of machines of one rank what is computed.
    """

    computed: Ints
    reduced: Ints


class InferenceSteps:
    """Operations of steps, and to which step each of them belongs."""

    def __init__(self, n_ranks: int) -> None:
        self.ops = Operations(n_ranks)
        self.kinds: set[str] = set()
        """Of messages that are sent."""
        self._made: list[tuple[Ints, Ints]] = []

    def add(self, phase: InferencePhase) -> Done:
        """All iterations of a phase. At a rank each begins as the one before is over there."""
        parts, n, blocks = phase.compute_ps.shape
        if not n:
            nothing = np.zeros((parts, n, blocks, *phase.ranks.shape), np.int64)
            return Done(nothing, nothing)
        shape = (n, blocks, *phase.ranks.shape)
        ranks = np.broadcast_to(phase.ranks, shape)
        turn = parts * np.arange(n * blocks).reshape(n, blocks, 1, 1)
        computed, reduced = np.empty((2, parts, *shape), np.int64)
        for part in range(parts):
            made = self.ops.compute(
                ranks,
                phase.compute_ps[part][..., None, None],
                stream=COMPUTE,
                kind=phase.name,
                label=_labels(shape),
            )
            self._note(made, phase.step)
            self.ops.set_order(made, turn + part)
            computed[part] = reduced[part] = made
            if phase.tp > 1:
                reduced[part] = self._all_reduce(phase, part, shape, turn)
                self.ops.after(made, reduced[part])
            then = computed[0 if phase.pieces else part]
            self.ops.after(reduced[part][:, :-1], then[:, 1:])
        for part in range(parts):
            # Before the next iteration tokens are chosen, of all parts of the batch.
            self.ops.after(reduced[:, :-1, -1], computed[part][None, 1:, 0])
        return Done(computed, reduced)

    def _all_reduce(
        self, phase: InferencePhase, part: int, shape: tuple[int, ...], turn: Ints
    ) -> Ints:
        formula = None if phase.all_reduce_ps is None else int(phase.all_reduce_ps[part])
        if formula is None:
            self.kinds.add(TP)
        made: Ints = self.ops.collective(
            "all_reduce",
            np.broadcast_to(phase.ranks, shape).reshape(-1, phase.tp),
            int(phase.all_reduce_bytes[part]),
            phase.how,
            stream=ALL_REDUCE + part,
            kind=TP,
            duration_ps=formula,
        ).reshape(shape)
        self._note(made, phase.step)
        self.ops.set_order(made, turn + part)
        return made

    def hand_over(
        self,
        prefill: tuple[InferencePhase, Done],
        decode: tuple[InferencePhase, Done],
        n_bytes: Ints,
        *,
        per_layer: bool,
    ) -> None:
        """The KV caches of each prefill machine go to the decode machine of its number.

        `n_bytes` is int64[parts], of an iteration's prompts. They go behind the iteration, or layer
        by layer behind their attention. The first iteration of the next step of a decode machine,
        if it has one, waits for them.
        """
        phase, done = prefill
        to, then = decode
        self.kinds.add(KV)
        share = partition(phase.tp, to.tp)
        src, dst = share.source, share.sink
        for part in range(len(phase.compute_ps)):
            pieces = phase.layers if per_layer else 1
            # [n, pieces, machines, len(share)]
            before = done.computed[part][:, ::BLOCKS] if per_layer else done.reduced[part][:, -1:]
            size = share.sizes(n_bytes[part : part + 1], pieces)[:, :, None]
            shape = (len(phase.step), pieces, len(phase.ranks), len(share))
            sent, received = self.ops.send(
                np.broadcast_to(phase.ranks[:, src], shape),
                np.broadcast_to(to.ranks[:, dst], shape),
                np.broadcast_to(size, shape),
                kind=KV,
            )
            self._note(sent, phase.step)
            self._note(received, phase.step)
            self.ops.after(before[..., src], sent)
            first = np.searchsorted(to.step, phase.step, "right")
            has_next = np.flatnonzero(first < len(to.step))
            for k in has_next.tolist():
                starts = then.computed[:, first[k], 0][:, None, :, dst]
                self.ops.after(received[k][None], starts)

    def read_pool(
        self, of: tuple[InferencePhase, Done], pool: Ints, layer_bytes: Ints, *, beside: bool
    ) -> None:
        """Before each layer every rank reads from the ranks `pool`.

        `layer_bytes` is int64[n * layers], of a whole machine before each layer of each iteration.

        `beside`: it asks for them as the layer before begins to be computed, else as that one is
        over.
        """
        phase, done = of
        self.kinds |= {CONTROL, POOL}
        share = partition(pool.size, phase.tp)
        dst, m = share.sink, len(share)
        n, layers, k = len(phase.step), phase.layers, len(phase.ranks)
        shape = (n, layers, k, m)
        asker = np.broadcast_to(phase.ranks[:, dst], shape)
        # Machines begin with different ones of the pool.
        holder = pool[(share.source + np.arange(k)[:, None] * m) % pool.size]
        holder = np.broadcast_to(holder, shape)
        asks, asked = self.ops.send(asker, holder, REQUEST_BYTES, kind=CONTROL)
        size = share.sizes(layer_bytes, 1).reshape(n, layers, 1, m)
        sent, received = self.ops.send(holder, asker, np.broadcast_to(size, shape), kind=POOL)
        for made in (asks, asked, sent, received):
            self._note(made, phase.step)
        self.ops.after(asked, sent)
        starts = done.computed[0][:, ::BLOCKS].reshape(n * layers, k, phase.tp)[..., dst]
        self.ops.after(received.reshape(starts.shape), starts)
        ask = asks.reshape(starts.shape)[1:]
        if beside:
            self.ops.after_start(starts[:-1], ask)
            return
        for part in done.reduced:
            over = part[:, BLOCKS - 1 :: BLOCKS].reshape(n * layers, k, phase.tp)[..., dst]
            self.ops.after(over[:-1], ask)

    def known(self) -> JobSteps:
        """To which steps the operations belong."""
        number = np.concatenate([made for made, _ in self._made])
        step = np.concatenate([step for _, step in self._made])
        # Reduction units have operations between these, which do not come into the table.
        return JobSteps(step[np.argsort(number)].astype(np.int32))

    def _note(self, made: Ints, step: Ints) -> None:
        """Operations whose first axis is that of iterations belong to their steps."""
        of = np.broadcast_to(step.reshape(-1, *[1] * (made.ndim - 1)), made.shape)
        self._made.append((made.reshape(-1), of.reshape(-1)))


def _labels(shape: tuple[int, ...]) -> list[str]:
    """What each operation of a phase computes, by its block."""
    n, blocks, *others = shape
    names = [f"layer {b // BLOCKS} {('attention', 'mlp')[b % BLOCKS]}" for b in range(blocks)]
    found: list[str] = np.tile(np.repeat(np.array(names, object), np.prod(others)), n).tolist()
    return found


def cut(whole: int | Ints, parts: int) -> Ints:
    """int64[..., parts]: a number in parts as equal as they can be."""
    each = np.asarray(whole, np.int64)[..., None]
    found: Ints = each // parts + (np.arange(parts) < each % parts)
    return found
