"""AICB workloads as CSV files: the rows of each rank of a job.

    [ pp_stage0: [rank0, rank1] ]
    comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,...
    CommType.all_reduce,CommGroup.tp_group,2,8192,forward_step,None,None,,None,None,None,1
    CommType.isend,CommGroup.pp_group,1,4096,forward_step,None,None,send_next,None,None,None,1

The line of ranks and comm_group_size are optional. A file with a pipeline has such a line, the
column names, and rows for each stage.

Source: aliyun/aicb, workload_applyer.py, log_analyzer/log.py and workload/physical.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netsim.common.inputs import at_line, bounded, read_text, reading
from netsim.errors import InputError
from netsim.limits import HORIZON_PS, SIZE_BYTES
from netsim.units import written

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
"""Groups of ranks; "all_nodes" is an alias of the last one."""

NEXT, PREVIOUS = "next", "prev"
NEEDED = ("comm_type", "comm_group", "msg_size", "additional")
MAX_NS = HORIZON_PS // 1000

_RANKS = re.compile(r"\[\s*rank(\d{1,9})\s*~\s*rank(\d{1,9})\s*\]", re.ASCII)
_STAGE = re.compile(r"\[\s*pp_stage(\d{1,9})\s*:\s*\[(.*)\]\s*\]", re.ASCII)


@dataclass(frozen=True)
class CsvRow:
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


@dataclass(frozen=True)
class AicbJob:
    """A job: the rows of each pipeline stage, and the number of ranks if known.

    `shapes` counts computations with a shape but no time.
    """

    path: Path
    stages: Sequence[Sequence[CsvRow]] = field(repr=False)
    n_ranks: int
    shapes: int

    def size_of(self, group: str) -> int:
        """Return the size of a group, which all of its rows must agree on; 0 if missing."""
        found = 0
        for row in (row for stage in self.stages for row in stage if row.group == group and row.n):
            if row.to:
                continue  # always 1 for messages
            if found not in (0, row.n):
                what = f"{group} has {row.n} ranks here and {found} above"
                raise at_line(self.path, row.line, what)
            found = row.n
        return found


def read_aicb_csv(path: Path) -> AicbJob:
    """Read a job. Raises InputError with the line."""
    stages: list[list[CsvRow]] = []
    columns: dict[str, int] = {}
    n_ranks = shapes = 0
    for line, text in enumerate(read_text(path).splitlines(), 1):
        if not text.strip():
            continue
        with reading(path, line):
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


def _row(line: int, cell: dict[str, str]) -> CsvRow | None:
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
        return CsvRow(line, what, "", 0, ns, label)
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
        return CsvRow(line, COLLECTIVES[what], group, n, size, label)
    way, _, to = cell["additional"].partition("_")
    if way != {SEND: "send", RECEIVE: "recv"}[what] or to not in (NEXT, PREVIOUS):
        hint = "send_next, send_prev, recv_next or recv_prev"
        raise InputError(f"{what} and {written(cell['additional'])}", hint=hint)
    return CsvRow(line, what, group, n, size, label, to)
