"""Data parallelism: gradient reduction over replicas, and gathering of updated weights.

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

from netsim.workloads.job.messages import Message
from netsim.workloads.training.grid import Grid
from netsim.workloads.training.segments import DATA, NO_EVENT, Segments

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
