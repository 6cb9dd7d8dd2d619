"""Segments of each stage: compute, and the collectives between.

An operation of a pipeline schedule, such as the forward pass of a micro-batch, passes through the
layers of a chunk. Each layer becomes segments: compute, and one event, a collective after it or
overlapping it. A layer's compute time is spread evenly over its segments; the sum is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.messages import Message
from netsim.workloads.job.schedules import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    PipelineSchedule,
)
from netsim.workloads.job.step import overlaps
from netsim.workloads.job.times import LayerTimes, stage_times
from netsim.workloads.training.sample import JobSample

PASSES = {
    FORWARD: ("forward",),
    BACKWARD: ("recompute", "backward_input", "backward_weight"),
    BACKWARD_INPUT: ("recompute", "backward_input"),
    BACKWARD_WEIGHT: ("backward_weight",),
}
"""Passes of each kind of work, in order."""

GRADIENTS = (BACKWARD, BACKWARD_WEIGHT)
"""Kinds of work that produce weight gradients."""

DATA = ("dp", "expert_dp")
"""Kinds of messages between replicas, which ZeRO sends in every micro-batch."""

NO_EVENT = -1

Columns = tuple[list[int], list[int], list[int], list[int]]
"""Duration, event, part and `awaits` of segments."""


@dataclass(frozen=True)
class Event:
    """A collective of a stage.

    Attributes:
        message: the message.
        times: number of repetitions in sequence.
        at_start: starts with its segment's compute, not after it.
        blocks: the next segment waits for it.
    """

    message: Message
    times: int = 1
    at_start: bool = False
    blocks: bool = True


@dataclass(frozen=True)
class Block:
    """Segments of a layer, embedding or head in one operation; `gathers` must complete before."""

    gathers: tuple[Message, ...]
    duration_ps: tuple[int, ...]
    events: tuple[Event | None, ...]


@dataclass(frozen=True, eq=False)
class Segments:
    """n segments in schedule order: by stage, then by operation.

    Attributes:
        schedule: the schedule.
        operation: int64[n], row of the schedule.
        stage: int64[n], ascending.
        duration_ps: int64[n].
        event: int64[n], index into `events`, or NO_EVENT.
        part: int64[n], the layer; `layers` is the embedding, `layers` + 1 the head.
        awaits: int64[n], distance to an earlier segment whose event this one also waits for, or 0.
        events: distinct events.
    """

    schedule: PipelineSchedule
    operation: NDArray[np.int64]
    stage: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    event: NDArray[np.int64]
    part: NDArray[np.int64]
    awaits: NDArray[np.int64]
    events: tuple[Event, ...]

    def __len__(self) -> int:
        return int(self.operation.size)

    def first_of_operation(self) -> NDArray[np.int64]:
        """Return the first segment of each operation."""
        return np.flatnonzero(np.diff(self.operation, prepend=-1))

    def last_of_operation(self) -> NDArray[np.int64]:
        """Return the last segment of each operation."""
        return np.append(self.first_of_operation()[1:], len(self)) - 1

    def last_of_stage(self) -> NDArray[np.int64]:
        """Return the last segment of each stage."""
        ends = np.searchsorted(self.stage, np.arange(self.schedule.stages), side="right")
        return ends.astype(np.int64) - 1

    def kind(self) -> NDArray[np.int8]:
        """Return the kind of work of each segment."""
        return self.schedule.kind[self.operation]

    def first_forward(self, n_parts: int) -> NDArray[np.int64]:
        """int64[parts]: the first forward segment of each part, or -1."""
        rows = np.flatnonzero(self.kind() == FORWARD)[::-1]
        found = np.full(n_parts, -1, np.int64)
        found[self.part[rows]] = rows
        return found

    def gradients(self, n_parts: int, buckets: int) -> NDArray[np.int64]:
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
    """Return the segments of one step."""
    schedule = sample.schedule
    templates = _Templates(sample)
    virtual = schedule.position[schedule.stage, schedule.chunk]
    of, inverse = np.unique(np.stack([virtual, schedule.kind]), axis=1, return_inverse=True)
    made = [templates.operation(int(index), int(kind)) for index, kind in of.T]
    length = np.array([len(columns[0]) for columns in made])
    start = np.cumsum(length) - length
    duration_ps, event, of_part, awaits = (
        np.array([value for columns in made for value in columns[k]], np.int64) for k in range(4)
    )
    count = length[inverse]
    operation = np.repeat(np.arange(len(schedule)), count)
    first = np.cumsum(count) - count
    row = start[inverse][operation] + np.arange(operation.size) - first[operation]
    return Segments(
        schedule,
        operation,
        schedule.stage[operation].astype(np.int64),
        duration_ps[row],
        event[row],
        of_part[row],
        awaits[row],
        tuple(templates.events),
    )


class _Templates:
    """Builds the segments of each position of the schedule and kind of work."""

    def __init__(self, sample: JobSample) -> None:
        self.events: dict[Event, int] = {}
        self._sample = sample
        self._job = sample.job
        self._times = stage_times(sample.job)
        self._blocks: dict[tuple[str, int], Block] = {}

    def operation(self, position: int, kind: int) -> Columns:
        """Return the segments of a position for one kind of work."""
        n = self._job.model.layers
        index = self._sample.positions[position]
        last = len(self._job.virtual_stages) - 1
        parts = [(self._name(number), number) for number in self._job.virtual_stages[index]]
        parts = [("embedding", n)] * (index == 0) + parts + [("head", n + 1)] * (index == last)
        if kind != FORWARD:
            parts.reverse()
        columns: Columns = ([], [], [], [])
        for event in self._arrivals(position, kind):
            self._add(columns, 0, event, parts[0][1])
        blocks = [(self._block(name, kind), part) for name, part in parts]
        ahead = self._job.overlap.param_gather
        gathering: list[int] = []
        for number, (block, part) in enumerate(blocks):
            if number == 0 or not ahead:
                gathering = self._start_gathers(columns, block, part)
            for row in gathering:
                self._add(columns, 0, None, part, awaits=len(columns[0]) - row)
            if ahead and number + 1 < len(blocks):
                gathering = self._start_gathers(columns, blocks[number + 1][0], part)
            for duration, event_of in zip(block.duration_ps, block.events, strict=True):
                self._add(columns, duration, event_of, part)
        return columns

    def _start_gathers(self, columns: Columns, block: Block, part: int) -> list[int]:
        """Add the gathers of a block's weights during `part`; return their segments."""
        first = len(columns[0])
        for message in block.gathers:
            self._add(columns, 0, Event(message, blocks=False), part)
        return list(range(first, len(columns[0])))

    def _add(
        self, columns: Columns, duration_ps: int, event: Event | None, part: int, awaits: int = 0
    ) -> None:
        number = NO_EVENT if event is None else self.events.setdefault(event, len(self.events))
        for column, value in zip(columns, (duration_ps, number, part, awaits), strict=True):
            column.append(value)

    def _name(self, layer: int) -> str:
        return "moe_layer" if self._job.model.has_experts(layer) else "dense_layer"

    def _arrivals(self, position: int, kind: int) -> Iterator[Event]:
        """Yield tensor-parallel events on activations or gradients from another stage."""
        last = len(self._sample.positions) - 1
        when, end = ("forward", 0) if kind == FORWARD else ("backward_input", last)
        if when not in PASSES[kind] or position == end:
            return
        for one in self._sample.messages:
            if one.kind == "tp" and one.per == "virtual_stage" and one.when == when:
                yield Event(one)

    def _block(self, name: str, kind: int) -> Block:
        if (name, kind) not in self._blocks:
            self._blocks[name, kind] = self._build_block(name, kind)
        return self._blocks[name, kind]

    def _build_block(self, name: str, kind: int) -> Block:
        """Build the block of an embedding, a head or a type of layer."""
        times: LayerTimes = {
            "embedding": self._times.embedding,
            "head": self._times.head,
            "moe_layer": self._times.moe_layer,
            "dense_layer": self._times.layer,
        }[name]
        total = self._sample.time_ps(sum(getattr(times, f"{one}_ps") for one in PASSES[kind]))
        pers = (name, "layer") if name.endswith("layer") else (name,)
        found = [
            one for one in self._sample.messages if one.per in pers and one.when in PASSES[kind]
        ]
        gathers = [one for one in found if one.kind in DATA and one.what == "all_gather"]
        after = [
            self._reduced(one) for one in found if one.kind in DATA and one.what != "all_gather"
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

    def _reduced(self, message: Message) -> Event:
        return Event(message, blocks=not self._job.overlap.grad_reduce)

    def _sequence(self, found: list[Message]) -> list[Event]:
        """Return the events of a pass through a layer: messages in order, then those by formula.

        Tensor-parallel ranks gather before attention and MLP and reduce after them.
        Context-parallel ranks exchange during attention, expert-parallel ranks during the MLP.
        """
        timed = [self._event(one, one.times) for one in found if one.kind in self._sample.formula]
        sent = [one for one in found if one.kind not in self._sample.formula]
        tensor = [one for one in sent if one.kind == "tp"]
        rounds = max([1, *(one.times for one in tensor)])
        events = []
        for number in range(rounds):
            of_round = [one for one in tensor if number < one.times]
            inside = [one for one in sent if one.kind == "cp"] if number == 0 else []
            if number == rounds - 1:
                inside += [one for one in sent if one.kind == "ep" for _ in range(one.times)]
            events += [
                *(self._event(one) for one in of_round if one.what == "all_gather"),
                *(self._event(one) for one in inside),
                *(self._event(one) for one in of_round if one.what != "all_gather"),
            ]
        return events + timed

    def _event(self, message: Message, times: int = 1) -> Event:
        return Event(message, times, at_start=overlaps(self._job.overlap, message))
