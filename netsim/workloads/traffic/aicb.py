"""An AICB job from its CSV files: collectives and messages of ranks, row by row.

Each rank runs the rows in sequence, as AICB does on real GPUs. Ranks follow Megatron's order:
tensor-parallel groups are neighbors, `ep` of them form an expert-parallel group, all of a stage a
data-parallel group; then comes the next stage. The file states group sizes; if it does not (AICB's
micro-benchmarks), all hosts are one group. Bytes are those of the whole buffer.

A file with a pipeline has the rows of each stage: the k-th `send_next` of a stage matches the k-th
`recv_prev` of the next one, and groups of several stages run the k-th row of each together. A
computation takes the ns of `_elapsed_time`; one with only a shape takes no time. Measured times of
collectives are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import at_line, user_path
from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.aicb import (
    ALL,
    COMPUTE,
    CSV_COLLECTIVES,
    EMBEDDING,
    NEXT,
    PP,
    RECEIVE,
    SEND,
    AicbJob,
    CsvRow,
    read_aicb_csv,
)
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic._megatron import PARAMS as OF_JOBS
from netsim.workloads.traffic._megatron import (
    PS_PER_NS,
    JobOperations,
    JobPart,
    replicas_of,
    workload_of,
)

Ints = NDArray[np.int64]

STREAM = 0
"""The stream of all rows: a rank runs them in sequence."""

OVER_STAGES = (PP, EMBEDDING, ALL)
"""Kinds of groups that span pipeline stages; the file has such a row once per stage."""


@dataclass(frozen=True)
class AicbPart(JobPart):
    """The simulated part of a job: the first `n_rows` of each stage."""

    job: AicbJob
    n_rows: int

    def groups_of(self, group: str, stage: int) -> Ints:
        """int64[g, n]: the ranks of all groups of a kind, within a stage unless they span
        stages."""
        if group not in OVER_STAGES:
            return self.groups(stage)[group.removesuffix("_group")]
        if group == ALL:
            return self.ranks.reshape(1, -1)
        of_stages = self.ranks.reshape(self.pp, -1).T
        ends = [0, -1] if self.pp > 1 else [0]
        return of_stages if group == PP else of_stages[:, ends]

    def rows_of_rank(self) -> int:
        return self.n_rows

    def rows(self) -> Iterator[tuple[int, int, CsvRow]]:
        """Yield the rows with their stage and their place there."""
        for stage, rows in enumerate(self.job.stages):
            for place, row in enumerate(rows[: self.n_rows]):
                yield stage, place, row

    def smaller(self) -> Iterator[tuple[str, AicbPart]]:
        part = self
        for dp in self.fewer_replicas():
            part = replace(self, dp=dp)
            yield f"replicas = {dp}", part
        while part.pp == 1 and part.n_rows > 1:
            part = replace(part, n_rows=part.n_rows // 2)
            yield f"replicas = {part.dp}, rows = {part.n_rows}", part


def part_of(job: AicbJob, replicas: int | None, rows: int | None, n_hosts: int) -> AicbPart:
    """Return the simulated part of a job. Raises InputError if it is inconsistent."""
    tp, ep, pp = job.size_of("tp_group") or 1, job.size_of("ep_group") or 1, len(job.stages)
    dp = job.size_of("dp_group")
    n_ranks = job.n_ranks or (dp or max(n_hosts // (tp * pp), 1)) * tp * pp
    dp, all_dp = replicas_of((tp, ep, pp), n_ranks, dp, replicas, str(job.path))
    longest = max(map(len, job.stages))
    if rows is not None and pp > 1 and rows < longest:
        what = "conflicts with pp above 1: first rows of stages do not match"
        raise InputError(what, key="traffic.rows", hint=f"all {longest}")
    return AicbPart(tp, ep, pp, dp, all_dp, job, min(rows or longest, longest))


class AicbOperations(JobOperations):
    """A job's rows as `Operations`."""

    def __init__(self, part: AicbPart, hows: Mapping[str, CollectiveOptions]) -> None:
        super().__init__(part, hows)
        self.part, self.job = part, part.job
        self._messages()
        for stage, place, row in part.rows():
            if row.group not in OVER_STAGES:
                self._row(stage, place, row)
        for rows_of in self._shared():
            self._across(rows_of)

    def _row(self, stage: int, place: int, row: CsvRow) -> None:
        if row.what == COMPUTE:
            ranks = self.part.ranks[stage].reshape(-1)
            if row.size:
                made = self.ops.compute(ranks, row.size * PS_PER_NS, STREAM, row.label)
                self.ops.set_order(made, place)
            return
        groups = self.part.groups_of(row.group, stage)
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
        count: dict[tuple[str, int], int] = defaultdict(int)
        for stage, place, row in self.part.rows():
            if row.group in OVER_STAGES and row.what not in (SEND, RECEIVE):
                found[row.group, count[row.group, stage]].append((stage, place, row))
                count[row.group, stage] += 1
        return list(found.values())

    def _across(self, rows: Sequence[tuple[int, int, CsvRow]]) -> None:
        """Add a collective across stages."""
        group, first = rows[0][2].group, rows[0][2]
        last = self.part.pp - 1
        wanted = {0, last} if group == EMBEDDING else set(range(self.part.pp))
        same = {(row.what, row.size) for _, _, row in rows}
        if {stage for stage, _, _ in rows} != wanted or len(same) > 1:
            what = f"{first.what} of {group} differs between its stages"
            raise at_line(self.job.path, first.line, what)
        groups = self.part.groups_of(group, 0)
        place = np.zeros(self.part.pp, np.int64)
        for stage, at, _ in rows:
            place[stage] = at
        self._collective(first, groups, place[groups // (self.part.tp * self.part.dp)])

    def _messages(self) -> None:
        """Add messages between stages, matching the k-th send with the k-th receive."""
        ends: dict[tuple[int, int, str], list[tuple[int, CsvRow]]] = defaultdict(list)
        for stage, place, row in self.part.rows():
            if row.what not in (SEND, RECEIVE):
                continue
            other = stage + (1 if row.to == NEXT else -1)
            if 0 <= other < self.part.pp:
                src, dst = (stage, other) if row.what == SEND else (other, stage)
                ends[src, dst, row.what].append((place, row))
            elif self.part.pp == 1:
                what = f"{row.what} in a file with one stage"
                hint = "use a file with the rows of all stages: [ pp_stage0: ... ]"
                raise at_line(self.job.path, row.line, what, hint)
        for src, dst in sorted({key[:2] for key in ends}):
            sends, receives = ends[src, dst, SEND], ends[src, dst, RECEIVE]
            if [row.size for _, row in sends] != [row.size for _, row in receives]:
                what = f"stage {src} sends {len(sends)} messages to stage {dst}"
                what += f", which expects {len(receives)} or other sizes"
                raise InputError(what, file=str(self.job.path))
            here, there = (self.part.ranks[stage].reshape(-1) for stage in (src, dst))
            for (at, row), (to, _) in zip(sends, receives, strict=True):
                sent, received = self.ops.send(
                    here, there, max(row.size, 1), STREAM, STREAM, PP, label=row.label
                )
                self.ops.set_order(sent, at)
                self.ops.set_order(received, to)

    def notes(self) -> Iterator[str]:
        name, part, job = written(self.job.path.name), self.part, self.job
        if not job.n_ranks:
            n = part.tp * part.all_dp * part.pp
            yield f"{name}: has no number of ranks; {n:,} assumed"
        if job.shapes:
            yield f"{name}: {job.shapes:,} computations have shapes but no times, and take no time"
        if part.dp < part.all_dp:
            yield f"{name}: {part.dp:,} of {part.all_dp:,} replicas simulated"
        longest = max(map(len, job.stages))
        if part.n_rows < longest:
            yield f"{name}: {part.n_rows:,} of {longest:,} rows simulated"


PARAMS = [
    Param("file", "file", REQUIRED, "AICB workload, a .csv file"),
    Param("rows", "count", None, "rows to simulate; default: all", minimum=1),
    *OF_JOBS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    job = read_aicb_csv(user_path(params["file"], context.directory))
    part = part_of(job, params["replicas"], params["rows"], network.n_hosts)
    return workload_of(
        part, AicbOperations, CSV_COLLECTIVES.values(), params, network, rng, context
    )
