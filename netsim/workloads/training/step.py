"""A training step as operations of ranks, from the first micro-batch to the updated weights.

Each rank has one stream for compute and one per kind of communication; each stream runs in order,
and edges add the other dependencies. All ranks of a stage do the same, so a step's operations are
arrays [segments, ranks of a stage].

Data parallelism: gradient reduction over replicas, and gathering of updated weights.

A layer's gradient is reduced in buckets: each when complete if the reduction overlaps compute,
otherwise when its stage has finished. A bucket passes through its collectives in sequence: an
all-reduce, a reduce-scatter, or stages S1 to S5 over racks and sites ("I've Got 99 Problems But
FLOPS Ain't One", HotNets 2024, section 4.1). Each kind has its own stream, so one bucket is in S2
while the next is in S1. With ZeRO, ranks update their shards of the weights and gather the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.messages import Message, link_of, networks_of_kinds
from netsim.workloads.job.schedules import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
)
from netsim.workloads.job.times import stage_times
from netsim.workloads.operations import Operations
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.training.grid import Grid, stream_of
from netsim.workloads.training.sample import JobSample
from netsim.workloads.training.segments import DATA, NO_EVENT, Segments, segments_of

Ints = NDArray[np.int64]


Gathered = list[tuple[Ints, Ints, Ints]]
"""Gathers of updated weights that the next step waits for: parts of the model, stages, ends."""


class GradientReduction:
    """Adds the gradient reduction of one step."""

    def __init__(self, grid: Grid, segments: Segments, order: Ints) -> None:
        self._grid = grid
        self._segments = segments
        self._order = order
        job = grid.sample.job
        self._n_layers = job.model.layers
        self._triggers = segments.gradients(self._n_layers + 2, grid.sample.buckets)
        self._whole = segments.last_of_stage()
        # Gather weights in the order of their use in the next step.
        needed = segments.first_forward(self._n_layers + 2)
        self._rank_of_use = np.argsort(np.argsort(needed))

    def add(self, computed: Ints, event_ends: Ints) -> list[tuple[Ints, Ints]]:
        """Add the collectives; return stages, and the operations their optimizers wait for."""
        found: list[tuple[Ints, Ints]] = []
        for parts, messages in self._sorts():
            for chain in _chains(messages):
                found += self._chain(parts, chain, computed, event_ends)
        for message in self._grid.sample.messages:
            if message.kind == "embedding":
                found += self._shared(message, found, computed, event_ends)
        return found

    def _shared(
        self, message: Message, reduced: list[tuple[Ints, Ints]], computed: Ints, event_ends: Ints
    ) -> list[tuple[Ints, Ints]]:
        """Add the reduction of the embedding gradient shared by the first and the last stage."""
        ops, stages = self._grid.ops, np.array([0, self._grid.sample.ranks.pp - 1])
        pairs = self._grid.ranks(stages).T[None]
        begin, end = self._grid.among(
            message, pairs, self._order[-1:], size_bytes=self._grid.sample.bytes_of(message)
        )
        for side, stage in enumerate(stages.tolist()):
            first, last = begin[0, :, side], self._whole[stage]
            ops.after(computed[last], first)
            if self._segments.event[last] != NO_EVENT:
                ops.after(event_ends[last], first)
            for stage_of, ends in reduced:
                ops.after(ends[stage_of == stage], first)
        return [(stages, end[0].T)]

    def gather(self, optimized: Ints) -> Gathered:
        """Add the gathers of the weights that each stage's optimizer has updated."""
        gathered: Gathered = []
        for parts, messages in self._sorts():
            stage = self._segments.stage[self._triggers[parts, -1]]
            for message in messages:
                if not _is_gather(message):
                    continue
                order = self._order[-1] + 1 + self._rank_of_use[parts]
                begin, end = self._grid.collective(message, stage, order)
                self._grid.ops.after(optimized[stage], begin)
                gathered.append((parts, stage, end))
        return gathered

    def _sorts(self) -> Iterator[tuple[Ints, list[Message]]]:
        """Yield parts of the model with the same messages at the end of a step."""
        model = self._grid.sample.job.model
        layers = np.arange(self._n_layers)
        moe = np.array([model.has_experts(layer) for layer in layers.tolist()], np.bool_)
        sorts = {
            "dense_layer": layers[~moe],
            "moe_layer": layers[moe],
            "embedding": np.array([self._n_layers]),
            "head": np.array([self._n_layers + 1]),
        }
        for per, parts in sorts.items():
            present = parts[self._triggers[parts, -1] >= 0]
            found = [
                one
                for one in self._grid.sample.messages
                if one.per == per and one.when == "step" and one.kind != "embedding"
            ]
            if present.size and found:
                yield present, found

    def _chain(
        self, parts: Ints, chain: list[Message], computed: Ints, event_ends: Ints
    ) -> Iterator[tuple[Ints, Ints]]:
        """Add a chain of collectives for each bucket of the parts."""
        buckets = self._grid.sample.buckets
        for bucket in range(buckets):
            ready = self._triggers[parts, bucket]
            stage = self._segments.stage[ready]
            if not self._grid.sample.job.overlap.grad_reduce:
                ready = self._whole[stage]
            has = self._segments.event[ready] != NO_EVENT
            before = computed[ready]
            order = self._order[self._triggers[parts, bucket]]
            for index, message in enumerate(chain):
                size = max(1, self._grid.sample.bytes_of(message) // buckets)
                of_bucket = replace(message, size_bytes=max(1, message.size_bytes // buckets))
                begin, end = self._grid.collective(of_bucket, stage, order, size_bytes=size)
                self._grid.ops.after(before, begin)
                if index == 0:
                    self._grid.ops.after(event_ends[ready[has]], begin[has])
                before = end
            yield stage, before


def _is_gather(message: Message) -> bool:
    return message.kind in DATA and message.what == "all_gather"


def _chains(messages: list[Message]) -> list[list[Message]]:
    """Return the chains of collectives of a gradient: S1 to S5, or one collective."""
    reduced = [one for one in messages if not _is_gather(one)]
    stages = [one for one in reduced if one.kind not in DATA]
    return [[one] for one in reduced if one.kind in DATA] + ([stages] if stages else [])


NAMES = {
    FORWARD: "forward",
    BACKWARD: "backward",
    BACKWARD_INPUT: "backward_input",
    BACKWARD_WEIGHT: "backward_weight",
}
"""Kinds of compute operations besides "optimizer"."""


def operations_of(sample: JobSample, steps: int = 1) -> Operations:
    """Return the operations of a sample's steps in sequence."""
    ops = Operations(len(sample.ranks))
    grid = Grid(ops, sample)
    segments = segments_of(sample)
    gathered: Gathered = []
    # A step's segments are followed by its gathers, by part of the model, and its end.
    length = len(segments) + sample.job.model.layers + 4
    for step in range(steps):
        order = step * length + np.arange(len(segments))
        gathered = _add_step(grid, segments, order, gathered)
    return ops


def steps_of(sample: JobSample, steps: int, n_operations: int) -> JobSteps:
    """Return the steps of operations, and their FLOP, scaled as times are."""
    job, ranks = sample.job, sample.ranks
    base = job.precision.compute
    peak = job.machine.matrix.rate(base) * len(ranks)
    step = np.repeat(np.arange(steps, dtype=np.int32), n_operations // steps)
    networks = networks_of_kinds(job)
    return JobSteps(step, sample.scale * sample.model_flops, peak, networks, base)


def _add_step(grid: Grid, segments: Segments, order: Ints, gathered: Gathered) -> Gathered:
    """Add one step, which waits for the weights that the previous one gathered."""
    sample, ops = grid.sample, grid.ops
    computed = _computed(grid, segments, order)
    begins, ends = add_events(grid, segments, order)
    add_edges(grid, segments, computed, (begins, ends))
    add_transfers(grid, segments, order, computed, ends)
    _await_weights(grid, segments, computed, gathered)
    reduction = GradientReduction(grid, segments, order)
    reduced = reduction.add(computed, ends)
    stages = np.arange(sample.ranks.pp)
    times = stage_times(sample.job).optimizer_ps
    duration = np.array([sample.time_ps(times[stage]) for stage in stages], np.int64)
    at_end = np.full(stages.size, order[-1] + 1)
    optimized = grid.compute(stages, duration, at_end, "optimizer", [""] * stages.size)
    for stage, done in reduced:
        ops.after(done, optimized[stage])
    for number, event in enumerate(segments.events):
        # Deferred events, and the events of the last segment of a stage.
        rows = np.flatnonzero(segments.event == number)
        if event.blocks:
            rows = np.intersect1d(rows, segments.last_of_stage())
        ops.after(ends[rows], optimized[segments.stage[rows]])
    return reduction.gather(optimized)


def _computed(grid: Grid, segments: Segments, order: Ints) -> Ints:
    """Add the compute of segments, int64[segments, n]."""
    found = np.empty((len(segments), grid.n), np.int64)
    kinds = segments.kind()
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        name = NAMES[int(kind)]
        batches = segments.schedule.micro_batch[segments.operation[rows]].tolist()
        labels = [f"{name} {batch}" for batch in batches]
        stage = segments.stage[rows]
        found[rows] = grid.compute(stage, segments.duration_ps[rows], order[rows], name, labels)
    return found


def _await_weights(grid: Grid, segments: Segments, computed: Ints, gathered: Gathered) -> None:
    """Have each layer's first forward, or the stage's, wait for gathered weights."""
    first_of_part = segments.first_forward(grid.sample.job.model.layers + 2)
    first_of_stage = np.searchsorted(segments.stage, np.arange(grid.sample.ranks.pp))
    for part, stage, done in gathered:
        overlap = grid.sample.job.overlap.param_gather
        rows = first_of_part[part] if overlap else first_of_stage[stage]
        grid.ops.after(done, computed[rows])


def add_events(grid: Grid, segments: Segments, order: Ints) -> tuple[Ints, Ints]:
    """Add the events; return what starts and what ends each, int64[segments, n], or -1."""
    shape = (len(segments), grid.n)
    begin, end = (np.full(shape, -1, np.int64) for _ in range(2))
    back = None if grid.sample.routing is None else _is_return(segments)
    for number, event in enumerate(segments.events):
        rows = np.flatnonzero(segments.event == number)
        stage = segments.stage[rows]
        size_bytes = None
        if event.message.kind == "ep" and back is not None:
            size_bytes = _routed_bytes(grid, segments, rows, back[rows])
        begin[rows], end[rows] = grid.collective(
            event.message, stage, order[rows], times=event.times, size_bytes=size_bytes
        )
    return begin, end


def _routed_bytes(grid: Grid, segments: Segments, rows: Ints, back: NDArray[np.bool_]) -> Ints:
    """int64[rows, groups, m, m]: bytes between expert-parallel ranks."""
    sample, event = grid.sample, segments.events[segments.event[rows[0]]]
    assert sample.routing is not None
    forth = sample.routing.bytes_of(
        segments.part[rows],
        segments.schedule.micro_batch[segments.operation[rows]].astype(np.int64),
        grid.groups(event.message).shape[0],
        sample.bytes_of(event.message),
    )
    return np.where(back[:, None, None, None], forth.swapaxes(-1, -2), forth)


def _is_return(segments: Segments) -> NDArray[np.bool_]:
    """bool[segments]: expert exchanges that return tokens; every second one in a layer's pass."""
    whens = [event.message.when for event in segments.events]
    of_experts = np.array([event.message.kind == "ep" for event in segments.events], np.bool_)
    rows = np.flatnonzero(segments.event != NO_EVENT)
    rows = rows[of_experts[segments.event[rows]]]
    when = np.unique(whens, return_inverse=True)[1][segments.event[rows]]
    fresh = np.ones(rows.size, np.bool_)
    for same in (segments.operation[rows], segments.part[rows], when):
        fresh[1:] &= same[1:] == same[:-1]
    fresh[1:] = ~fresh[1:]
    place = np.arange(rows.size) - np.flatnonzero(fresh)[np.cumsum(fresh) - 1]
    found = np.zeros(len(segments), np.bool_)
    found[rows] = place % 2 == 1
    return found


def add_edges(grid: Grid, segments: Segments, computed: Ints, events: tuple[Ints, Ints]) -> None:
    """Add the dependencies of events and of segments on them, within a stage."""
    begin, end = events
    has = segments.event != NO_EVENT
    # NO_EVENT, -1, picks the last entry.
    at_start, blocks = (
        np.array([getattr(event, name) for event in segments.events] + [False])[segments.event]
        for name in ("at_start", "blocks")
    )
    after = np.flatnonzero(has & ~at_start)
    grid.ops.after(computed[after], begin[after])
    overlapping = np.flatnonzero(at_start)
    grid.ops.after_start(computed[overlapping], begin[overlapping])
    waiting = np.flatnonzero(has[:-1] & blocks[:-1] & (segments.stage[:-1] == segments.stage[1:]))
    grid.ops.after(end[waiting], computed[waiting + 1])
    awaiting = np.flatnonzero(segments.awaits)
    grid.ops.after(end[awaiting - segments.awaits[awaiting]], computed[awaiting])


def add_transfers(
    grid: Grid, segments: Segments, order: Ints, computed: Ints, event_ends: Ints
) -> None:
    """Add the messages between pipeline stages: activations forward, gradients backward.

    Each rank sends to the same rank of the adjacent stage when its operation is done. Unless these
    transfers overlap, it computes again only when the network has accepted the message.
    """
    sample, ops, schedule = grid.sample, grid.ops, segments.schedule
    first, then = schedule.waits()
    for when in ("forward", "backward_input"):
        forward = (schedule.kind[first] == FORWARD) & (schedule.kind[then] == FORWARD)
        chosen = forward if when == "forward" else ~forward
        chosen &= schedule.stage[first] != schedule.stage[then]
        found = [m for m in sample.messages if (m.kind, m.when) == ("pp", when)]
        if not found or not chosen.any():
            continue
        message = found[0]
        link = link_of(sample.job, message.network)
        last = segments.last_of_operation()[first[chosen]]
        start = segments.first_of_operation()[then[chosen]]
        sent, received = ops.send(
            grid.ranks(segments.stage[last]),
            grid.ranks(segments.stage[start]),
            sample.bytes_of(message),
            stream=stream_of("pp"),
            kind="pp",
            latency_ps=sample.time_ps(link.launch + link.step_latency),
        )
        ops.set_order(sent, 2 * order[last][:, None])
        ops.after(computed[last], sent)
        has = segments.event[last] != NO_EVENT
        ops.after(event_ends[last[has]], sent[has])
        ops.after(received, computed[start])
        if not sample.job.overlap.p2p_comm:
            after = np.minimum(last + 1, len(segments) - 1)
            waits = (after > last) & (segments.stage[after] == segments.stage[last])
            ops.after(sent[waits], computed[after[waits]])
