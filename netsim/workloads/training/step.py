"""A training step as operations of ranks, from the first micro-batch to the updated weights.

"What a rank does" in `netsim/workloads/training/README.md` describes the streams. All ranks of a
stage do the same, so a step's operations are arrays [segments, ranks of a stage].

A bucket of gradients passes through its collectives in sequence: an all-reduce, a reduce-scatter,
or stages S1 to S5 over racks and sites. Each kind has its own stream, so one bucket is in S2 while
the next is in S1.

Segments: an operation of a pipeline schedule, such as the forward pass of a micro-batch, passes
through the layers of a chunk. Each layer becomes segments of compute and one event: a collective
after it or overlapping it. A layer's compute time is spread evenly over its segments; the sum is
exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.frozen import frozen
from netsim.model.columns import Flags, Ints
from netsim.workloads.job.machine import Link
from netsim.workloads.job.messages import Message, link_of, networks_of_kinds
from netsim.workloads.job.schedules import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    PipelineSchedule,
)
from netsim.workloads.job.step import overlaps
from netsim.workloads.job.work import LayerTimes, stage_times
from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.training.sample import KINDS, JobSample

PASSES = {
    FORWARD: ("forward",),
    BACKWARD: ("recompute", "backward_input", "backward_weight"),
    BACKWARD_INPUT: ("recompute", "backward_input"),
    BACKWARD_WEIGHT: ("backward_weight",),
}
"""Passes of each kind of work, in order."""

GRADIENTS = (BACKWARD, BACKWARD_WEIGHT)  # kinds of work that produce weight gradients
DATA = ("dp", "expert_dp")  # between replicas; ZeRO sends them in every micro-batch

NO_EVENT = -1

Rows = list[tuple[int, int, int, int]]  # duration, event, part and `awaits` of segments


@frozen
class Event:
    """A collective of a stage."""

    message: Message
    times: int = 1  # number of repetitions in sequence
    at_start: bool = False  # starts with its segment's compute, not after it
    blocks: bool = True  # the next segment waits for it


@frozen
class Block:
    """Segments of a layer, embedding or head in one operation; `gathers` must complete first."""

    gathers: tuple[Message, ...]
    duration_ps: tuple[int, ...]
    events: tuple[Event | None, ...]


@frozen(eq=False)
class Segments:
    """n segments in schedule order: by stage, then by operation."""

    schedule: PipelineSchedule
    operation: Ints  # int64[n], row of the schedule
    stage: Ints  # int64[n], ascending
    duration_ps: Ints  # int64[n]
    event: Ints  # int64[n], index into `events`, or NO_EVENT
    part: Ints  # int64[n], the layer; `layers` is the embedding, `layers` + 1 the head
    # int64[n], distance to an earlier segment whose event this one also waits for, or 0
    awaits: Ints
    events: tuple[Event, ...]

    def __len__(self) -> int:
        return int(self.operation.size)

    def first_of_operation(self) -> Ints:
        return np.flatnonzero(np.diff(self.operation, prepend=-1))

    def last_of_operation(self) -> Ints:
        return np.append(self.first_of_operation()[1:], len(self)) - 1

    def last_of_stage(self) -> Ints:
        ends = np.searchsorted(self.stage, np.arange(self.schedule.stages), side="right")
        return ends.astype(np.int64) - 1

    def kind(self) -> NDArray[np.int8]:
        return self.schedule.kind[self.operation]

    def first_forward(self, n_parts: int) -> Ints:
        """int64[parts]: the first forward segment of each part, or -1."""
        rows = np.flatnonzero(self.kind() == FORWARD)[::-1]
        found = np.full(n_parts, -1, np.int64)
        found[self.part[rows]] = rows
        return found

    def gradients(self, n_parts: int, buckets: int) -> Ints:
        """int64[parts, buckets]: the segments that complete each bucket of a part's gradient.

        The segments of the last operation that adds to the gradient complete equal shares of it.
        -1 for missing parts.
        """
        rows = np.flatnonzero(np.isin(self.kind(), GRADIENTS))
        last = np.full(n_parts, -1, np.int64)
        last[self.part[rows]] = rows  # the last one stays
        same = self.operation[rows] == self.operation[last[self.part[rows]]]
        count = np.bincount(self.part[rows[same]], minlength=n_parts)[:, None]
        share = -(-count * np.arange(1, buckets + 1) // buckets)
        return np.where(last[:, None] < 0, -1, last[:, None] - count + share)


def segments_of(sample: JobSample) -> Segments:
    schedule = sample.schedule
    templates = _Templates(sample)
    virtual = schedule.position[schedule.stage, schedule.chunk]
    of, inverse = np.unique(np.stack([virtual, schedule.kind]), axis=1, return_inverse=True)
    made = [templates.operation(int(index), int(kind)) for index, kind in of.T]
    length = np.array([len(rows) for rows in made])
    start = np.cumsum(length) - length
    table = np.array([row for rows in made for row in rows], np.int64)
    count = length[inverse]
    operation = np.repeat(np.arange(len(schedule)), count)
    first = np.cumsum(count) - count
    row = start[inverse][operation] + np.arange(operation.size) - first[operation]
    duration_ps, event, part, awaits = table[row].T
    stage, events = schedule.stage[operation].astype(np.int64), tuple(templates.events)
    return Segments(schedule, operation, stage, duration_ps, event, part, awaits, events)


class _Templates:
    """Builds the segments of each position of the schedule and kind of work."""

    def __init__(self, sample: JobSample) -> None:
        self.events: dict[Event, int] = {}
        self._sample = sample
        self._job = sample.job
        self._times = stage_times(sample.job)
        self._block = cache(self._build_block)

    def operation(self, position: int, kind: int) -> Rows:
        n = self._job.model.layers
        index = self._sample.positions[position]
        last = len(self._job.virtual_stages) - 1
        parts = [(self._name(number), number) for number in self._job.virtual_stages[index]]
        parts = [("embedding", n)] * (index == 0) + parts + [("head", n + 1)] * (index == last)
        if kind != FORWARD:
            parts.reverse()
        rows: Rows = []

        def gather(block: Block, part: int) -> list[int]:
            """Add the gathers of a block's weights during `part`; return their segments."""
            first = len(rows)
            for message in block.gathers:
                rows.append((0, self._number(Event(message, blocks=False)), part, 0))
            return list(range(first, len(rows)))

        for event in self._arrivals(position, kind):
            rows.append((0, self._number(event), parts[0][1], 0))
        blocks = [(self._block(name, kind), part) for name, part in parts]
        ahead = self._job.overlap.param_gather
        gathering: list[int] = []
        for number, (block, part) in enumerate(blocks):
            if number == 0 or not ahead:
                gathering = gather(block, part)
            for row in gathering:
                rows.append((0, NO_EVENT, part, len(rows) - row))
            if ahead and number + 1 < len(blocks):
                gathering = gather(blocks[number + 1][0], part)
            for duration_ps, of_block in zip(block.duration_ps, block.events, strict=True):
                rows.append((duration_ps, self._number(of_block), part, 0))
        return rows

    def _number(self, event: Event | None) -> int:
        return NO_EVENT if event is None else self.events.setdefault(event, len(self.events))

    def _name(self, layer: int) -> str:
        return "moe_layer" if self._job.model.has_experts(layer) else "dense_layer"

    def _arrivals(self, position: int, kind: int) -> Iterator[Event]:
        """Yield tensor-parallel events on activations or gradients from another stage."""
        last = len(self._sample.positions) - 1
        when, end = ("forward", 0) if kind == FORWARD else ("backward_input", last)
        if when not in PASSES[kind] or position == end:
            return
        for message in self._sample.messages:
            if message.kind == "tp" and message.per == "virtual_stage" and message.when == when:
                yield Event(message)

    def _build_block(self, name: str, kind: int) -> Block:
        """Build the block of an embedding, a head or a type of layer."""
        times: LayerTimes = getattr(self._times, {"dense_layer": "layer"}.get(name, name))
        total = self._sample.time_ps(sum(getattr(times, f"{part}_ps") for part in PASSES[kind]))
        pers = (name, "layer") if name.endswith("layer") else (name,)
        found = [
            message
            for message in self._sample.messages
            if message.per in pers and message.when in PASSES[kind]
        ]
        gathers = [one for one in found if one.kind in DATA and one.what == "all_gather"]
        after = [
            Event(one, blocks=not self._job.overlap.grad_reduce)
            for one in found
            if one.kind in DATA and one.what != "all_gather"
        ]
        events = [
            event
            for when in PASSES[kind]
            for event in self._sequence([m for m in found if m.when == when and m.kind not in DATA])
        ]
        buckets = self._sample.buckets if kind in GRADIENTS else 1
        n_segments = max(len(events), buckets)
        spread: list[Event | None] = [None] * n_segments
        for number, event in enumerate(events):
            spread[(number + 1) * n_segments // len(events) - 1] = event
        ends = [total * k // n_segments for k in range(n_segments + 1)]
        durations = [end - start for start, end in pairwise(ends)]
        return Block(tuple(gathers), (*durations, *(0 for _ in after)), (*spread, *after))

    def _sequence(self, found: list[Message]) -> list[Event]:
        """Return the events of a pass through a layer: messages in order, then those by formula.

        Tensor-parallel ranks gather before attention and MLP and reduce after them.
        Context-parallel ranks exchange during attention, expert-parallel ranks during the MLP.
        """
        timed = [self._event(one, one.times) for one in found if one.kind in self._sample.formula]
        sent = [one for one in found if one.kind not in self._sample.formula]
        tensor = [message for message in sent if message.kind == "tp"]
        rounds = max([1, *(message.times for message in tensor)])
        events = []
        for number in range(rounds):
            of_round = [message for message in tensor if number < message.times]
            inside = [message for message in sent if message.kind == "cp"] if number == 0 else []
            if number == rounds - 1:
                inside += [
                    message
                    for message in sent
                    if message.kind == "ep"
                    for _ in range(message.times)
                ]
            events += [
                *(self._event(message) for message in of_round if message.what == "all_gather"),
                *(self._event(message) for message in inside),
                *(self._event(message) for message in of_round if message.what != "all_gather"),
            ]
        return events + timed

    def _event(self, message: Message, times: int = 1) -> Event:
        return Event(message, times, at_start=overlaps(self._job.overlap, message))


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
        pairs = self._grid.sample.groups(message)[None]
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
                message
                for message in self._grid.sample.messages
                if message.per == per and message.when == "step" and message.kind != "embedding"
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
    reduced = [message for message in messages if not _is_gather(message)]
    stages = [message for message in reduced if message.kind not in DATA]
    return [[message] for message in reduced if message.kind in DATA] + ([stages] if stages else [])


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
    """Return the steps of operations, and their FLOP, scaled like times."""
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
    """Add the events; return the operations that start and end each, int64[segments, n], or -1."""
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


def _routed_bytes(grid: Grid, segments: Segments, rows: Ints, back: Flags) -> Ints:
    """int64[rows, groups, m, m]: bytes between expert-parallel ranks."""
    sample, event = grid.sample, segments.events[segments.event[rows[0]]]
    assert sample.routing is not None
    forth = sample.routing.bytes_of(
        segments.part[rows],
        segments.schedule.micro_batch[segments.operation[rows]].astype(np.int64),
        sample.groups(event.message).shape[0],
        sample.bytes_of(event.message),
    )
    return np.where(back[:, None, None, None], forth.swapaxes(-1, -2), forth)


def _is_return(segments: Segments) -> Flags:
    """bool[segments]: expert exchanges that return tokens, every second one in a pass."""
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


COMPUTE = 0  # compute stream; `stream_of` returns message streams


def stream_of(kind: str) -> int:
    return 1 + KINDS.index(kind)


class Grid:
    """The ranks of a sample, whose operations are added to `ops`."""

    def __init__(self, ops: Operations, sample: JobSample) -> None:
        self.ops = ops
        self.sample = sample

    @property
    def n(self) -> int:
        """Ranks per stage."""
        return len(self.sample.ranks) // self.sample.ranks.pp

    def ranks(self, stage: Ints) -> Ints:
        """int64[rows, n]: ranks of each row's stage."""
        return np.asarray(stage[:, None].astype(np.int64) * self.n + np.arange(self.n))

    def compute(
        self, stage: Ints, duration_ps: Ints, order: Ints, kind: str, labels: list[str]
    ) -> Ints:
        """Add compute operations, int64[rows, n]; durations, orders and labels are per row."""
        ranks = self.ranks(stage)
        made: Ints = self.ops.compute(
            ranks,
            duration_ps[:, None],
            stream=COMPUTE,
            label=np.repeat(np.array(labels, object), self.n).tolist(),
            kind=kind,
        )
        self.ops.set_order(made, 2 * order[:, None])
        return made

    def collective(
        self, message: Message, stage: Ints, order: Ints, *, times: int = 1, size_bytes: Any = None
    ) -> tuple[Ints, Ints]:
        """Add a message for all groups of each row's stage.

        Returns the operations that start and end it, each int64[rows, n]. By formula, `times`
        repetitions become one operation. `size_bytes` overrides the message's: a number, or
        int64[rows, g, m, m].
        """
        local = self.sample.groups(message)
        groups = stage[:, None, None].astype(np.int64) * self.n + local
        if size_bytes is None:
            size_bytes = self.sample.bytes_of(message)
        made = self.among(message, groups, order, times=times, size_bytes=size_bytes)
        found = []
        for one in made:
            by_rank = np.empty((stage.size, self.n), np.int64)
            by_rank[:, local.reshape(-1)] = one.reshape(stage.size, -1)
            found.append(by_rank)
        return found[0], found[1]

    def among(
        self, message: Message, groups: Ints, order: Ints, *, times: int = 1, size_bytes: Any
    ) -> tuple[Ints, Ints]:
        """Add a message for groups, int64[rows, g, m]; return operations of that shape."""
        m = groups.shape[-1]
        ranks = groups.reshape(-1, m)
        link = link_of(self.sample.job, message.network)
        kind, what = message.kind, message.what
        stream = stream_of(self.sample.queue_of(kind))
        if what == "send":  # each rank sends to each other; one share stays
            what, size_bytes = "all_to_all", size_bytes * m
        in_order = order[:, None, None]
        if kind in self.sample.timed:
            # Propagation over the wide area does not delay the next message.
            away_ps = link.launch if message.network == "wan" else 0
            time_ps = times * self.sample.message_ps(message, ranks) - away_ps
            time_ps = np.rint(self.sample.scale * time_ps).astype(np.int64)
            made = self.ops.collective(
                what, ranks, size_bytes, stream=stream, kind=kind, duration_ps=time_ps
            ).reshape(groups.shape)
            self.ops.set_order(made, 2 * in_order)
            if not away_ps:
                return made, made
            arrived = self.ops.compute(groups, self.sample.time_ps(away_ps), stream=-1, kind=kind)
            self.ops.after(made, arrived)
            return made, arrived
        if np.ndim(size_bytes) > 1:
            size_bytes = np.asarray(size_bytes).reshape(-1, m, m)
        how = self.options(message, groups, link)
        made = self.ops.collective(what, ranks, size_bytes, how, stream=stream, kind=kind)
        made = made.reshape(groups.shape)
        self.ops.set_order(made, 2 * in_order + 1)
        # The delay to another site is a cable's, not software latency.
        launch_ps = 0 if message.network == "wan" else self.sample.time_ps(link.launch)
        if not launch_ps:
            return made, made
        launched = self.ops.compute(groups, launch_ps, stream=stream, kind=kind, label="launch")
        self.ops.set_order(launched, 2 * in_order)
        return launched, made

    def options(self, message: Message, groups: Ints, link: Link) -> CollectiveOptions:
        """Return the options of a collective; its nodes are racks."""
        latency_ps = self.sample.time_ps(link.step_latency)
        how = self.sample.how.get(message.kind, CollectiveOptions())
        how = replace(how, latency_ps=latency_ps, rate_bps=link.rate)
        if how.algorithm not in ("auto", "hierarchical"):
            return how
        return replace(how, node=self.sample.neighbors(groups))
