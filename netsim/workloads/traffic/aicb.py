"""An AICB job from its CSV files: collectives and messages of ranks, row by row.

Each rank runs the rows in sequence, as AICB does on real GPUs. Ranks follow Megatron's order:
tensor-parallel groups are neighbors, `ep` of them form an expert-parallel group, all ranks of a
stage form a data-parallel group; then comes the next stage. If the file states no group sizes
(AICB's micro-benchmarks), all hosts are one group. Bytes count the whole buffer.

A file with a pipeline has the rows of each stage: the k-th `send_next` of a stage matches the k-th
`recv_prev` of the next one, and groups of several stages run the k-th row of each together. A
computation takes the ns of `_elapsed_time`; one with only a shape takes no time. Measured times of
collectives are ignored.

    [ pp_stage0: [rank0, rank1] ]
    comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,...
    CommType.all_reduce,CommGroup.tp_group,2,8192,forward_step,None,None,,None,None,None,1
    CommType.isend,CommGroup.pp_group,1,4096,forward_step,None,None,send_next,None,None,None,1

The line of ranks and comm_group_size are optional. A file with a pipeline has such a line, the
column names, and rows for each stage.

Source: aliyun/aicb, workload_applyer.py, log_analyzer/log.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

import numpy as np

from netsim.common.inputs import at_line, bounded, read_text, user_path
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, SIZE_BYTES
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import written
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic._megatron import PARAMS as OF_JOBS
from netsim.workloads.traffic._megatron import (
    PS_PER_NS,
    JobOperations,
    JobPart,
    replicas_of,
    workload_of,
)

COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "barrier": "barrier",
}
"""Names of collectives in files and in netsim."""

COMPUTE, SEND, RECEIVE, EPOCH = "computation", "isend", "irecv", "epoch_end"
PP, EMBEDDING, ALL = "pp_group", "embedding_group", "all"
GROUPS = (
    *("tp_group", "dp_group", "ep_group", "ep_dp_group", "ep_tp_group"),
    *(PP, EMBEDDING, ALL),
)
"""Groups of ranks; "all_nodes" is an alias of the last."""

NEXT, PREVIOUS = "next", "prev"
NEEDED = ("comm_type", "comm_group", "msg_size", "additional")
MAX_NS = HORIZON_PS // PS_PER_NS

_RANKS = re.compile(r"\[\s*rank(\d{1,9})\s*~\s*rank(\d{1,9})\s*\]", re.ASCII)
_STAGE = re.compile(r"\[\s*pp_stage(\d{1,9})\s*:\s*\[(.*)\]\s*\]", re.ASCII)


@frozen
class AicbRow:
    """A row, at `line`: a collective (or COMPUTE, SEND, RECEIVE) of a group.

    `n` is the stated size of the group, 0 if missing; `size` is in bytes, or ns for computations;
    `to` is NEXT or PREVIOUS stage, for messages.
    """

    line: int
    what: str
    group: str
    n: int
    size: int
    label: str
    to: str = ""


@frozen
class AicbJob:
    """A job: the rows of each pipeline stage, and the number of ranks if known. `shapes` counts
    computations with a shape but no time."""

    path: Path
    stages: Sequence[Sequence[AicbRow]] = field(repr=False)
    n_ranks: int
    shapes: int

    def size_of(self, group: str) -> int:
        """Return the size of a group, on which all of its rows must agree; 0 if missing."""
        found = 0
        for row in (row for stage in self.stages for row in stage if row.group == group and row.n):
            if row.to:
                continue  # always 1 for messages
            if found not in (0, row.n):
                what = f"{group} has {row.n} ranks here and {found} above"
                raise at_line(self.path, row.line, what)
            found = row.n
        return found


def read_aicb(path: Path) -> AicbJob:
    """Read a job. Raises InputError with the line."""
    stages: list[list[AicbRow]] = []
    columns: dict[str, int] = {}
    n_ranks = shapes = 0
    for line, text in enumerate(read_text(path).splitlines(), 1):
        if not text.strip():
            continue
        with errors_at(file=f"{path}:{line}"):
            if text.lstrip().startswith("["):
                n_ranks += _ranks(text.strip(), len(stages))
                columns = {}
                continue
            cells = text.split(",")
            if not columns:
                columns = _columns(cells)
                stages.append([])
                continue
            if len(cells) != len(columns):
                raise InputError(f"has {len(cells)} cells for {len(columns)} columns")
            row = _row(line, {name: cells[k].strip() for name, k in columns.items()})
        if row is not None:
            shapes += row.what == COMPUTE and not row.size
            stages[-1].append(row)
    if not any(stages):
        raise InputError("has no rows", file=str(path), hint=f"columns {', '.join(NEEDED)}, ...")
    return AicbJob(path, stages, n_ranks, shapes)


def _ranks(text: str, n_stages: int) -> int:
    """Return the number of ranks in a line before column names."""
    if match := _RANKS.fullmatch(text):
        first, last = int(match[1]), int(match[2])
        if first == 0 and not n_stages:
            return last + 1
    elif (match := _STAGE.fullmatch(text)) and int(match[1]) == n_stages:
        return match[2].count("rank")
    hint = "[rank0 ~ rank127], or [ pp_stage0: [rank0, rank1] ] for each stage in order"
    raise InputError(f"{written(text)} does not list ranks", hint=hint)


def _columns(cells: Sequence[str]) -> dict[str, int]:
    found = {name.strip(): k for k, name in enumerate(cells)}
    missing = [name for name in NEEDED if name not in found]
    if missing or len(found) < len(cells):
        what = f"has no column {missing[0]}" if missing else "names a column twice"
        raise InputError(what, hint="comm_type,comm_group,comm_group_size,msg_size,...")
    return found


def _row(line: int, cell: dict[str, str]) -> AicbRow | None:
    """Return one row; None for rows without effect."""
    what = cell["comm_type"].removeprefix("CommType.")
    label = f"{what} {cell.get('stage', '')}".strip()
    if what == EPOCH:
        return None
    if what == COMPUTE:
        time = cell.get("_elapsed_time", "None")
        ns = (
            0
            if time in ("None", "")
            else bounded("_elapsed_time", time.partition(".")[0], below=MAX_NS)
        )
        return AicbRow(line, what, "", 0, ns, label)
    if what not in (*COLLECTIVES, SEND, RECEIVE):
        hint = ", ".join([*COLLECTIVES, COMPUTE, SEND, RECEIVE, EPOCH])
        raise InputError(f"{written(what)} is not a supported comm_type", hint=hint)
    group = cell["comm_group"].removeprefix("CommGroup.")
    group = ALL if group == "all_nodes" else group
    if group not in GROUPS:
        raise InputError(f"{written(group)} is not a comm_group", hint=", ".join(GROUPS))
    given = cell.get("comm_group_size", "None")
    n = 0 if given == "None" else bounded("comm_group_size", given)
    size = bounded("msg_size", cell["msg_size"], below=SIZE_BYTES)
    if what in COLLECTIVES:
        return AicbRow(line, COLLECTIVES[what], group, n, size, label)
    way, _, to = cell["additional"].partition("_")
    if way != {SEND: "send", RECEIVE: "recv"}[what] or to not in (NEXT, PREVIOUS):
        hint = "send_next, send_prev, recv_next or recv_prev"
        raise InputError(f"{what} and {written(cell['additional'])}", hint=hint)
    return AicbRow(line, what, group, n, size, label, to)


STREAM = 0  # the stream of all rows: a rank runs them in sequence

OVER_STAGES = (PP, EMBEDDING, ALL)
"""Kinds of groups that span pipeline stages; the file has such a row once per stage."""


@frozen
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

    def rows(self) -> Iterator[tuple[int, int, AicbRow]]:
        """Yield the rows with their stage and their index in it."""
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

    def _row(self, stage: int, place: int, row: AicbRow) -> None:
        if row.what == COMPUTE:
            ranks = self.part.ranks[stage].reshape(-1)
            if row.size:
                made = self.ops.compute(ranks, row.size * PS_PER_NS, STREAM, row.label)
                self.ops.set_order(made, place)
            return
        groups = self.part.groups_of(row.group, stage)
        self._collective(row, groups, np.full(groups.shape, place))

    def _collective(self, row: AicbRow, groups: Ints, place: Ints) -> None:
        if groups.shape[1] > 1 and (row.size or row.what == "barrier"):
            made = self.ops.collective(
                row.what, groups, row.size, self.hows[row.what], STREAM, row.group, label=row.label
            )
            self.ops.set_order(made, place)

    def _shared(self) -> list[list[tuple[int, int, AicbRow]]]:
        """Return rows shared by stages, the k-th of each together: lists of (stage, index, row)."""
        found: dict[tuple[str, int], list[tuple[int, int, AicbRow]]] = defaultdict(list)
        count: dict[tuple[str, int], int] = defaultdict(int)
        for stage, place, row in self.part.rows():
            if row.group in OVER_STAGES and row.what not in (SEND, RECEIVE):
                found[row.group, count[row.group, stage]].append((stage, place, row))
                count[row.group, stage] += 1
        return list(found.values())

    def _across(self, rows: Sequence[tuple[int, int, AicbRow]]) -> None:
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
        ends: dict[tuple[int, int, str], list[tuple[int, AicbRow]]] = defaultdict(list)
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


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    job = read_aicb(user_path(params["file"], context.directory))
    part = part_of(job, params["replicas"], params["rows"], network.n_hosts)
    return workload_of(part, AicbOperations, COLLECTIVES.values(), params, network, rng, context)
