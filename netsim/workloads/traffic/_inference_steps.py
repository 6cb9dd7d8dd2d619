"""Operations of inference steps: iterations of instances, and messages between instances.

An instance is a group of ranks that share a model by tensor parallelism. An iteration is a forward
pass over a batch: each rank computes two blocks per layer (attention, MLP), and an all-reduce
follows each. All instances of a phase do the same, so operations are arrays [iterations, blocks,
instances, ranks].
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.serving.kv_partition import partition

Ints = NDArray[np.int64]

COMPUTE, ALL_REDUCE = 0, 1
"""Streams of a rank; all-reduces of part k of a batch use stream ALL_REDUCE + k. Point-to-point
messages use none."""

BLOCKS = 2
"""Blocks per layer: attention and MLP, each with an all-reduce."""

REQUEST_BYTES = 64
"""Size of a request for pooled memory."""

TP, KV, POOL, CONTROL = KINDS = ("tp", "kv", "pool", "control")
"""Kinds of messages: all-reduces, KV caches, pool reads, and their requests."""


@dataclass(eq=False)
class InferencePhase:
    """The work of all instances of one phase.

    Attributes:
        name: "prefill" or "decode"; the kind of its compute operations.
        ranks: int64[instances, tp].
        step: int64[n], the step of each of the n iterations.
        compute_ps: int64[parts, n, blocks], compute time of a rank. A part is a share of the batch;
            one part computes during the all-reduce of another.
        chunked: whether parts are chunks of each block instead. A block then starts when the
            all-reduces of all chunks of the previous block end.
        all_reduce_bytes: int64[parts], size of each all-reduce.
        how: algorithm and options of all-reduces.
        all_reduce_ps: int64[parts], duration of each all-reduce; None: simulated in packets.
        computed, reduced: int64[parts, n, blocks, instances, tp], the operations, once added;
            all-reduces of instances of one rank are their computations.
    """

    name: str
    ranks: Ints
    step: Ints
    compute_ps: Ints
    all_reduce_bytes: Ints
    how: CollectiveOptions
    all_reduce_ps: Ints | None = None
    chunked: bool = False
    computed: Ints = field(init=False)
    reduced: Ints = field(init=False)

    @property
    def tp(self) -> int:
        return int(self.ranks.shape[1])

    @property
    def layers(self) -> int:
        """Number of simulated layers."""
        return int(self.compute_ps.shape[2]) // BLOCKS


class InferenceSteps:
    """Collects operations and the step of each."""

    def __init__(self, n_ranks: int) -> None:
        self.ops = Operations(n_ranks)
        self.kinds: set[str] = set()
        """Kinds of the messages."""
        self._recorded: list[tuple[Ints, Ints]] = []

    def add(self, phase: InferencePhase) -> None:
        """Add all iterations of a phase, back to back at each rank."""
        parts, n, blocks = phase.compute_ps.shape
        shape = (n, blocks, *phase.ranks.shape)
        computed, reduced = np.empty((2, parts, *shape), np.int64)
        phase.computed, phase.reduced = computed, reduced
        if not n:
            return
        ranks = np.broadcast_to(phase.ranks, shape)
        turn = parts * np.arange(n * blocks).reshape(n, blocks, 1, 1)
        for part in range(parts):
            made = self.ops.compute(
                ranks,
                phase.compute_ps[part][..., None, None],
                stream=COMPUTE,
                kind=phase.name,
                label=_labels(shape),
            )
            self._record(made, phase.step)
            self.ops.set_order(made, turn + part)
            computed[part] = reduced[part] = made
            if phase.tp > 1:
                reduced[part] = self._all_reduce(phase, part, shape, turn)
                self.ops.after(made, reduced[part])
            then = computed[0 if phase.chunked else part]
            self.ops.after(reduced[part][:, :-1], then[:, 1:])
        for part in range(parts):
            # The next iteration needs the tokens of all parts of the batch.
            self.ops.after(reduced[:, :-1, -1], computed[part][None, 1:, 0])

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
        self._record(made, phase.step)
        self.ops.set_order(made, turn + part)
        return made

    def send_caches(
        self,
        phase: InferencePhase,
        to: InferencePhase,
        n_bytes: Ints,
        *,
        per_layer: bool,
    ) -> None:
        """Send the KV caches of each prefill instance to the decode instance of the same index.

        They are sent after the iteration, or layer by layer after attention. The decode instance's
        first iteration of the next step waits for them. `n_bytes`: int64[parts], per iteration.
        """
        self.kinds.add(KV)
        share = partition(phase.tp, to.tp)
        src, dst = share.source, share.sink
        for part in range(len(phase.compute_ps)):
            messages = phase.layers if per_layer else 1
            # [n, messages, instances, len(share)]
            before = phase.computed[part][:, ::BLOCKS] if per_layer else phase.reduced[part][:, -1:]
            size = share.sizes(n_bytes[part : part + 1], messages)[:, :, None]
            shape = (len(phase.step), messages, len(phase.ranks), len(share))
            sent, received = self.ops.send(
                np.broadcast_to(phase.ranks[:, src], shape),
                np.broadcast_to(to.ranks[:, dst], shape),
                np.broadcast_to(size, shape),
                kind=KV,
            )
            self._record(sent, phase.step)
            self._record(received, phase.step)
            self.ops.after(before[..., src], sent)
            first = np.searchsorted(to.step, phase.step, "right")
            has_next = np.flatnonzero(first < len(to.step))
            for k in has_next.tolist():
                starts = to.computed[:, first[k], 0][:, None, :, dst]
                self.ops.after(received[k][None], starts)

    def read_pool(
        self, phase: InferencePhase, pool: Ints, layer_bytes: Ints, *, prefetch: bool
    ) -> None:
        """Have every rank read from the ranks `pool` before each layer.

        `layer_bytes`: int64[n * layers], read by one instance before each layer. With `prefetch`,
        the request is sent when the previous layer starts, otherwise when it ends.
        """
        self.kinds |= {CONTROL, POOL}
        share = partition(pool.size, phase.tp)
        dst, m = share.sink, len(share)
        n, layers, k = len(phase.step), phase.layers, len(phase.ranks)
        shape = (n, layers, k, m)
        reader = np.broadcast_to(phase.ranks[:, dst], shape)
        # Instances start with different pool hosts.
        holder = pool[(share.source + np.arange(k)[:, None] * m) % pool.size]
        holder = np.broadcast_to(holder, shape)
        requests, requested = self.ops.send(reader, holder, REQUEST_BYTES, kind=CONTROL)
        size = share.sizes(layer_bytes, 1).reshape(n, layers, 1, m)
        sent, received = self.ops.send(holder, reader, np.broadcast_to(size, shape), kind=POOL)
        for made in (requests, requested, sent, received):
            self._record(made, phase.step)
        self.ops.after(requested, sent)
        starts = phase.computed[0][:, ::BLOCKS].reshape(n * layers, k, phase.tp)[..., dst]
        self.ops.after(received.reshape(starts.shape), starts)
        request = requests.reshape(starts.shape)[1:]
        if prefetch:
            self.ops.after_start(starts[:-1], request)
            return
        for part in phase.reduced:
            over = part[:, BLOCKS - 1 :: BLOCKS].reshape(n * layers, k, phase.tp)[..., dst]
            self.ops.after(over[:-1], request)

    def job_steps(self) -> JobSteps:
        """Return the step of each operation."""
        number = np.concatenate([made for made, _ in self._recorded])
        step = np.concatenate([step for _, step in self._recorded])
        # In-network reduction adds operations in between, which the table omits.
        step = step[np.argsort(number)].astype(np.int32)
        return JobSteps(step, formula_networks={TP: "scale-up"})

    def _record(self, made: Ints, step: Ints) -> None:
        """Record the steps of operations; their first axis is the iteration."""
        of = np.broadcast_to(step.reshape(-1, *[1] * (made.ndim - 1)), made.shape)
        self._recorded.append((made.reshape(-1), of.reshape(-1)))


def _labels(shape: tuple[int, ...]) -> list[str]:
    """Return the label of each compute operation."""
    n, blocks, *others = shape
    names = [f"layer {b // BLOCKS} {('attention', 'mlp')[b % BLOCKS]}" for b in range(blocks)]
    found: list[str] = np.tile(np.repeat(np.array(names, object), np.prod(others)), n).tolist()
    return found
