"""Operations of all ranks of some stages at once: arrays [rows, ranks of a stage].

A row is something that all ranks of one stage do, such as a segment; rank j of stage s is
s * n + j, where n is the number of ranks of a stage. `order` says in which order the rows of a
stage run: every stream of a rank has that order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.machine import Link
from netsim.workloads.job.messages import Message, link_of
from netsim.workloads.job.ranks import Ranks
from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.training.part import KINDS, JobSample

Ints = NDArray[np.int64]

RINGS = ("all_reduce", "reduce_scatter", "all_gather")
"""Collectives that a ring does."""

COMPUTE = 0
"""The stream of what is computed; `stream_of` has those of messages."""


def stream_of(kind: str) -> int:
    """The stream of a kind of messages."""
    return 1 + KINDS.index(kind)


class Grid:
    """The ranks of a part of a job; what they do is noted in `ops`."""

    def __init__(self, ops: Operations, part: JobSample) -> None:
        self.ops = ops
        self.part = part

    @property
    def n(self) -> int:
        """Ranks of a stage."""
        return len(self.part.ranks) // self.part.ranks.pp

    @cached_property
    def _stage(self) -> Ranks:
        return replace(self.part.ranks, pp=1)

    def ranks(self, stage: Ints) -> Ints:
        """int64[rows, n]: the ranks of the stage of each row."""
        ranks: Ints = stage[:, None].astype(np.int64) * self.n + np.arange(self.n)
        return ranks

    def compute(
        self, stage: Ints, duration_ps: Ints, order: Ints, kind: str, labels: list[str]
    ) -> Ints:
        """int64[rows, n]: ranks compute. Durations, orders and labels are of rows."""
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
        """int64[g, m]: the groups of a message in one stage, of ranks from 0."""
        return self._stage.groups(message.group)

    def collective(
        self,
        message: Message,
        stage: Ints,
        order: Ints,
        *,
        times: int = 1,
        size_bytes: Any = None,
    ) -> tuple[Ints, Ints]:
        """int64[rows, n], twice: with what a message begins at each rank, and with what it ends.

        Each row is all groups of a stage; `times` of them are one if they are timed by formula.
        `size_bytes` is in place of the message's own: one number, or of an exchange
        int64[rows, g, m, m].
        """
        local = self.groups(message)
        groups = stage[:, None, None].astype(np.int64) * self.n + local
        if size_bytes is None:
            size_bytes = self.part.bytes_of(message)
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
        """The same for any groups, int64[rows, g, m], in whose shape the operations are given."""
        m = groups.shape[-1]
        ranks = groups.reshape(-1, m)
        link = link_of(self.part.job, message.network)
        stream, kind, what = stream_of(message.kind), message.kind, message.what
        if what == "send":  # each to each other, beside the share that stays
            what, size_bytes = "all_to_all", size_bytes * m
        in_order = order[:, None, None]
        if kind in self.part.formula:
            # What is under way over a long distance does not keep the next one from being sent.
            away_ps = link.launch if message.network == "wan" else 0
            time_ps = self.part.time_ps(times * message.time_ps(self.part.job) - away_ps)
            made = self.ops.collective(
                what, ranks, size_bytes, stream=stream, kind=kind, duration_ps=time_ps
            ).reshape(groups.shape)
            self.ops.set_order(made, 2 * in_order)
            if not away_ps:
                return made, made
            arrived = self.ops.compute(groups, self.part.time_ps(away_ps), stream=-1, kind=kind)
            self.ops.after(made, arrived)
            return made, arrived
        if np.ndim(size_bytes) > 1:
            size_bytes = np.asarray(size_bytes).reshape(-1, m, m)
        how = self._how(message, groups, link)
        made = self.ops.collective(what, ranks, size_bytes, how, stream=stream, kind=kind)
        made = made.reshape(groups.shape)
        self.ops.set_order(made, 2 * in_order + 1)
        # The way to another site is one of the topology's cables, and no software.
        launch_ps = 0 if message.network == "wan" else self.part.time_ps(link.launch)
        if not launch_ps:
            return made, made
        begun = self.ops.compute(groups, launch_ps, stream=stream, kind=kind, label="launch")
        self.ops.set_order(begun, 2 * in_order)
        return begun, made

    def _how(self, message: Message, groups: Ints, link: Link) -> CollectiveOptions:
        """How a collective is done; nodes, if there are any, are the racks."""
        latency_ps = self.part.time_ps(link.step_latency)
        how = self.part.how.get(message.kind, CollectiveOptions())
        how = replace(how, latency_ps=latency_ps, rate_bps=link.rate)
        if how.algorithm not in ("auto", "hierarchical"):
            return how
        return replace(how, node=self.part.neighbors(groups))
