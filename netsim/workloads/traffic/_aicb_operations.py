"""The rows of an AICB job as operations of ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import Workload
from netsim.inputs import at_line
from netsim.units import written
from netsim.workloads.importers.aicb_csv import (
    ALL,
    COMPUTE,
    DP,
    EMBEDDING,
    EP,
    EP_DP,
    EP_TP,
    NEXT,
    PP,
    RECEIVE,
    SEND,
    TP,
    AicbJob,
    CsvRow,
)
from netsim.workloads.operations import CollectiveOptions, Operations, Wires
from netsim.workloads.traffic._fit import Call

Ints = NDArray[np.int64]

STREAM = 0
"""The stream of all rows: a rank runs them in sequence."""

OVER_STAGES = (PP, EMBEDDING, ALL)
"""Kinds of groups that span pipeline stages; the file has such a row once per stage."""

PS_PER_NS = 1000


@dataclass(frozen=True)
class Shape:
    """Parallelism of the ranks: `dp` of `all_dp` replicas and `rows` of each stage are
    simulated."""

    tp: int
    ep: int
    pp: int
    dp: int
    all_dp: int
    rows: int

    @property
    def n_ranks(self) -> int:
        return self.tp * self.dp * self.pp

    @property
    def ranks(self) -> Ints:
        """int64[pp, dp, tp], in Megatron's order."""
        return np.arange(self.n_ranks).reshape(self.pp, self.dp, self.tp)

    def groups(self, group: str, stage: int) -> Ints:
        """int64[g, n]: the ranks of all groups of a kind, within a stage unless they span
        stages."""
        ranks = self.ranks
        if group in (PP, ALL):
            return ranks.reshape(self.pp, -1).T if group == PP else ranks.reshape(1, -1)
        if group == EMBEDDING:
            both: Ints = ranks.reshape(self.pp, -1).T[:, [0, -1] if self.pp > 1 else [0]]
            return both
        own = ranks[stage]
        experts = own.reshape(self.dp // self.ep, self.ep, self.tp)
        of_stage: dict[str, Ints] = {
            TP: own,
            DP: own.T,
            EP: experts.transpose(0, 2, 1).reshape(-1, self.ep),
            EP_DP: experts.transpose(1, 2, 0).reshape(-1, self.dp // self.ep),
            EP_TP: experts.reshape(-1, self.ep * self.tp),
        }
        return of_stage[group]


def shape_of(job: AicbJob, replicas: int | None, rows: int | None, n_hosts: int) -> Shape:
    """Return a job's parallelism. Raises InputError if it is inconsistent."""
    tp, ep, pp = job.size_of(TP) or 1, job.size_of(EP) or 1, len(job.stages)
    n_ranks = job.n_ranks or (job.size_of(DP) or max(n_hosts // (tp * pp), 1)) * tp * pp
    dp = job.size_of(DP) or n_ranks // (tp * pp)
    if tp * dp * pp != n_ranks or dp % ep:
        what = f"{n_ranks} ranks are not {tp} x {dp} x {pp} (tensor x data x pipeline)"
        raise InputError(what + f", experts {ep}" * (ep > 1), file=str(job.path))
    if replicas is not None and (replicas > dp or replicas % ep):
        hint = f"at most {dp}, a multiple of {ep}"
        raise InputError(f"{replicas} of {dp} replicas", key="traffic.replicas", hint=hint)
    longest = max(map(len, job.stages))
    if rows is not None and pp > 1 and rows < longest:
        what = "conflicts with pp above 1: first rows of stages do not match"
        raise InputError(what, key="traffic.rows", hint=f"all {longest}")
    return Shape(tp, ep, pp, replicas or dp, dp, min(rows or longest, longest))


def calls(job: AicbJob, shape: Shape) -> Iterator[Call]:
    """Yield the collectives of all ranks, to count their tasks."""
    for stage, rows in enumerate(job.stages):
        for row in rows[: shape.rows]:
            if row.what not in (COMPUTE, SEND, RECEIVE):
                groups = shape.groups(row.group, stage)
                stages = shape.pp if row.group in OVER_STAGES else 1
                yield row.what, row.size, groups[0], max(len(groups) // stages, 1)


def smaller(shape: Shape) -> Iterator[tuple[str, Shape]]:
    """Yield smaller parts of a job: fewer replicas, then fewer rows."""
    replicas = [shape.dp]
    while replicas[-1] > shape.ep:
        replicas.append(max(replicas[-1] // 2 // shape.ep, 1) * shape.ep)
    for dp in replicas:
        yield f"replicas = {dp}", replace(shape, dp=dp)
    while shape.pp == 1 and shape.rows > 1:
        shape = replace(shape, dp=replicas[-1], rows=shape.rows // 2)
        yield f"replicas = {shape.dp}, rows = {shape.rows}", shape


class AicbOperations:
    """A job's rows as `Operations`."""

    def __init__(self, job: AicbJob, shape: Shape, hows: Mapping[str, CollectiveOptions]) -> None:
        self.job, self.shape, self.hows = job, shape, hows
        self.ops = Operations(shape.n_ranks)
        self.joined: dict[int, int] = {}  # index of each row shared by stages
        self._order = np.zeros(shape.pp, np.int64)
        shared = self._shared()
        self._messages()
        for stage, rows in enumerate(job.stages):
            for place, row in enumerate(rows[: shape.rows]):
                if row.group not in OVER_STAGES:
                    self._row(stage, place, row)
        for rows_of in shared:
            self._across(rows_of)

    def lower(self, hosts: Ints, wires: Wires) -> Workload:
        load = self.ops.lower(hosts, reduction=wires.network.reduction, wires=wires)
        return replace(load, notes=tuple(self._notes()))

    def _row(self, stage: int, place: int, row: CsvRow) -> None:
        """Add a row of one stage."""
        if row.what == COMPUTE:
            ranks = self.shape.ranks[stage].reshape(-1)
            if row.size:
                made = self.ops.compute(ranks, row.size * PS_PER_NS, STREAM, row.label)
                self.ops.set_order(made, place)
            return
        groups = self.shape.groups(row.group, stage)
        self._collective(row, groups, np.full(groups.shape, place))

    def _collective(self, row: CsvRow, groups: Ints, place: Ints) -> None:
        if groups.shape[1] > 1 and (row.size or row.what == "barrier"):
            made = self.ops.collective(
                row.what, groups, row.size, self.hows[row.what], STREAM, row.group, label=row.label
            )
            self.ops.set_order(made, place)

    def _shared(self) -> list[list[tuple[int, int, CsvRow]]]:
        """Return rows shared by stages, the k-th of each together: lists of (stage, index, row)."""
        found: dict[tuple[str, int], list[tuple[int, int, CsvRow]]] = defaultdict(list)
        for stage, rows in enumerate(self.job.stages):
            count: dict[str, int] = defaultdict(int)
            for place, row in enumerate(rows[: self.shape.rows]):
                if row.group in OVER_STAGES and row.what not in (SEND, RECEIVE):
                    found[row.group, count[row.group]].append((stage, place, row))
                    count[row.group] += 1
        return list(found.values())

    def _across(self, rows: Sequence[tuple[int, int, CsvRow]]) -> None:
        """Add a collective across stages."""
        group, first = rows[0][2].group, rows[0][2]
        last = self.shape.pp - 1
        wanted = {0, last} if group == EMBEDDING else set(range(self.shape.pp))
        same = {(row.what, row.size) for _, _, row in rows}
        if {stage for stage, _, _ in rows} != wanted or len(same) > 1:
            what = f"{first.what} of {group} differs between its stages"
            raise at_line(self.job.path, first.line, what)
        groups = self.shape.groups(group, 0)
        place = np.zeros(self.shape.pp, np.int64)
        for stage, at, _ in rows:
            place[stage] = at
        self._collective(first, groups, place[groups // (self.shape.tp * self.shape.dp)])

    def _messages(self) -> None:
        """Add messages between stages, matching the k-th send with the k-th receive."""
        ends: dict[tuple[int, int, str], list[tuple[int, CsvRow]]] = defaultdict(list)
        for stage, rows in enumerate(self.job.stages):
            for place, row in enumerate(rows[: self.shape.rows]):
                if row.what in (SEND, RECEIVE):
                    other = stage + (1 if row.to == NEXT else -1)
                    if 0 <= other < self.shape.pp:
                        src, dst = (stage, other) if row.what == SEND else (other, stage)
                        ends[src, dst, row.what].append((place, row))
                    elif self.shape.pp == 1:
                        what = f"{row.what} in a file with one stage"
                        hint = "use a file with the rows of all stages: [ pp_stage0: ... ]"
                        raise at_line(self.job.path, row.line, what, hint)
        for src, dst in sorted({key[:2] for key in ends}):
            sends, receives = ends[src, dst, SEND], ends[src, dst, RECEIVE]
            if [row.size for _, row in sends] != [row.size for _, row in receives]:
                what = f"stage {src} sends {len(sends)} messages to stage {dst}"
                what += f", which expects {len(receives)} or other sizes"
                raise InputError(what, file=str(self.job.path))
            here, there = (self.shape.ranks[stage].reshape(-1) for stage in (src, dst))
            for (at, row), (to, _) in zip(sends, receives, strict=True):
                sent, received = self.ops.send(
                    here, there, max(row.size, 1), STREAM, STREAM, PP, label=row.label
                )
                self.ops.set_order(sent, at)
                self.ops.set_order(received, to)

    def _notes(self) -> Iterator[str]:
        """Yield notes on assumptions and omissions."""
        name, shape, job = written(self.job.path.name), self.shape, self.job
        if not job.n_ranks:
            n = shape.tp * shape.all_dp * shape.pp
            yield f"{name}: has no number of ranks; {n:,} assumed"
        if job.shapes:
            yield f"{name}: {job.shapes:,} computations have shapes but no times, and take no time"
        if shape.dp < shape.all_dp:
            yield f"{name}: {shape.dp:,} of {shape.all_dp:,} replicas simulated"
        longest = max(map(len, job.stages))
        if shape.rows < longest:
            yield f"{name}: {shape.rows:,} of {longest:,} rows simulated"
