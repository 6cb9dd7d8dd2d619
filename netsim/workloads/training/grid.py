"""Operations of all ranks of a stage at once: arrays [rows, ranks of a stage].

A row is one action of all ranks of a stage, such as a segment. With n ranks per stage, rank j of
stage s is s * n + j. `order` sorts the rows of a stage; each stream of a rank runs in that order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.machine import Link
from netsim.workloads.job.messages import Message, link_of
from netsim.workloads.job.placement import Ranks
from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.training.sample import KINDS, JobSample

Ints = NDArray[np.int64]

COMPUTE = 0
"""Stream of compute; `stream_of` gives those of messages."""


def stream_of(kind: str) -> int:
    """Return the stream of a kind of messages."""
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

    @cached_property
    def _stage(self) -> Ranks:
        return replace(self.sample.ranks, pp=1)

    def ranks(self, stage: Ints) -> Ints:
        """int64[rows, n]: ranks of each row's stage."""
        ranks: Ints = stage[:, None].astype(np.int64) * self.n + np.arange(self.n)
        return ranks

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

    def groups(self, message: Message) -> Ints:
        """int64[g, m]: ranks of a message's groups in stage 0."""
        return self._stage.groups(message.group)

    def collective(
        self, message: Message, stage: Ints, order: Ints, *, times: int = 1, size_bytes: Any = None
    ) -> tuple[Ints, Ints]:
        """Add a message for all groups of each row's stage.

        Returns the operations that start and end it, each int64[rows, n]. By formula, `times`
        repetitions are one. `size_bytes` overrides the message's: a number, or int64[rows, g, m,
        m].
        """
        local = self.groups(message)
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
        if what == "send":  # each rank to each other; one share stays
            what, size_bytes = "all_to_all", size_bytes * m
        in_order = order[:, None, None]
        if kind in self.sample.timed:
            # Propagation over the wide area does not delay the next message.
            away_ps = link.launch if message.network == "wan" else 0
            time_ps = self.sample.time_ps(times * self.sample.message_ps(message) - away_ps)
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
        # The delay to another site is that of a cable, not of software.
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
