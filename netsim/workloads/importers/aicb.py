"""AICB's two files of a job: SimAI's workload, a training step of one pipeline stage row by row,

    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4
    1
    layer0 -1 1000 ALLREDUCE 4194304 1000 NONE 0 1000 ALLREDUCE 8388608 100

and a CSV file with the rows of each rank:

    [ pp_stage0: [rank0, rank1] ]
    comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,...
    CommType.all_reduce,CommGroup.tp_group,2,8192,forward_step,None,None,,None,None,None,1
    CommType.isend,CommGroup.pp_group,1,4096,forward_step,None,None,send_next,None,None,None,1

The first line of a workload is a policy and pairs of a key and a number, the second the number of
rows. A row has a name; a dependency (-1); ns, collective and bytes of the forward pass, of the
input gradient and of the weight gradient; and the ns of an update. The micro-batches of a step are
consecutive, between rows of the whole step.

In a CSV file the line of ranks and comm_group_size are optional. A file with a pipeline has such a
line, the column names, and rows for each stage.

Source: aliyun/SimAI, astra-sim-alibabacloud/astra-sim/workload/Workload.cc; aliyun/aicb,
workload_generator/SimAI_training_workload_generator.py, workload_applyer.py, log_analyzer/log.py.
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

POLICIES = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER", "MICRO")
OTHER_POLICIES = (
    *("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_DLRM"),
    *("HYBRID_DLRM_ENHANCED", "HYBRID_CUSTOMIZED", "DISTRIBUTED_INFERENCE"),
)
"""Supported and unsupported policies."""

MICRO = "MICRO"

COLLECTIVES = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "BROADCAST": "broadcast",
}
"""Names of collectives in files and in netsim. SimAI ignores BROADCAST."""

NONE, NO_GROUP = "NONE", ""
GROUPS = (NO_GROUP, "_EP", "_DP_EP")
"""Suffixes of collectives: the column's default group, or another one."""

COUNTS = {"model_parallel_NPU_group": "tp", "expert_parallel_npu_group": "ep", "ep": "ep"}
COUNTS |= {"pp": "pp", "vpp": "vpp", "ga": "ga", "all_gpus": "all_gpus", "pp_comm": "pp_bytes"}
LISTS = ("checkpoints", "checkpoint_initiates")
"""Keys of the first line: those with a number, and those with a number of values."""

WIDTH = 12
PS_PER_NS = 1000
LONGEST_NS = HORIZON_PS // PS_PER_NS

FIRST_ROW = "embedding_layer"
"""The first row of a micro-batch."""

BEHIND = re.compile(r"(cross_entropy|optimizer)[0-9]*", re.ASCII)
"""Rows after all micro-batches."""


@dataclass(frozen=True)
class Phase:
    """A pass of a row: compute for `ns`, then a collective.

    `what` is netsim's name of the collective, "" for none, `group` one of GROUPS.
    """

    ns: int
    what: str
    group: str
    size_bytes: int


@dataclass(frozen=True)
class AicbRow:
    """A row, at `line`."""

    line: int
    name: str
    forward: Phase
    input: Phase
    weight: Phase
    update_ns: int

    @property
    def phases(self) -> tuple[Phase, Phase, Phase]:
        return self.forward, self.input, self.weight


@dataclass(frozen=True)
class AicbWorkload:
    """A workload. `left_out` lists keys missing in the first line, which are 1 or 0 here.

    `before` and `behind` are rows of the whole step, `micro_batches` those of each.
    """

    path: Path
    policy: str
    header: dict[str, int]
    left_out: tuple[str, ...]
    before: Sequence[AicbRow] = field(repr=False)
    micro_batches: Sequence[Sequence[AicbRow]] = field(repr=False)
    behind: Sequence[AicbRow] = field(repr=False)

    @property
    def rows(self) -> list[AicbRow]:
        inner = [row for batch in self.micro_batches for row in batch]
        return [*self.before, *inner, *self.behind]


def read_aicb(path: Path) -> AicbWorkload:
    """Read a workload. Raises InputError with the line."""
    lines = [
        (number, line.split())
        for number, line in enumerate(read_text(path).splitlines(), 1)
        if line.strip()
    ]
    if len(lines) < 2:
        raise InputError(
            "ends before its first row", file=str(path), hint="a policy, a number of rows, rows"
        )
    (first, words), (second, count) = lines[:2]
    with reading(path, first):
        policy, header = _policy(words[0]), _header(words[1:])
    with reading(path, second):
        n_rows = bounded("the number of rows", " ".join(count), least=1)
        if n_rows != len(lines) - 2:
            hint = f"{len(lines) - 2} in this line, unless the file was cut"
            raise InputError(f"{n_rows} rows announced, {len(lines) - 2} found", hint=hint)
    rows = []
    for number, cells in lines[2:]:
        with reading(path, number):
            rows.append(_row(number, cells))
    needed = ("tp", "ep", "pp", "vpp", "ga", "all_gpus") if policy != MICRO else ()
    left_out = tuple(name for name in needed if name not in header)
    header = {**dict.fromkeys(("tp", "ep", "pp", "vpp", "ga"), 1), "pp_bytes": 0, **header}
    with reading(path, second):
        parts = _micro_batches(rows, header["ga"])
    return AicbWorkload(path, policy, header, left_out, *parts)


def _policy(word: str) -> str:
    if word in POLICIES:
        return word
    what = f"{written(word)} is not a policy"
    if word in OTHER_POLICIES:
        what = f"policy {word} is not supported"
    raise InputError(what, hint=f"one of {', '.join(POLICIES)}")


def _header(words: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the first line, by netsim's names."""
    found: dict[str, int] = {}
    rest = iter(words)
    for word in rest:
        key = word.removesuffix(":")
        if key not in COUNTS and key not in LISTS:
            known = ", ".join([*COUNTS, *LISTS])
            raise InputError(f"{written(word)} is not a key", hint=known)
        name = COUNTS.get(key, "")
        least = 0 if name in ("", "pp_bytes") else 1
        number = _number(key, next(rest, ""), least)
        if key in LISTS and number:
            what = f"{key}: {number} layers with recomputation, which is not supported"
            raise InputError(what, hint="checkpoints: 0 checkpoint_initiates: 0")
        if name and found.setdefault(name, number) != number:
            raise InputError(f"{key} is {number}", hint=f"{found[name]}, as before")
    return found


def _row(line: int, cells: Sequence[str]) -> AicbRow:
    if len(cells) != WIDTH:
        hint = "a name, -1, three times ns, collective and bytes, ns of an update"
        raise InputError(f"has {len(cells)} columns, not {WIDTH}", hint=hint)
    if cells[1] != "-1":
        raise InputError(f"depends on {written(cells[1])}, which is not supported", hint="-1")
    forward, of_input, of_weight = (_phase(*cells[k : k + 3]) for k in (2, 5, 8))
    return AicbRow(line, cells[0], forward, of_input, of_weight, _time(cells[11]))


def _phase(time: str, name: str, n_bytes: str) -> Phase:
    ns, size = _time(time), _number("bytes", n_bytes, below=SIZE_BYTES)
    group = next((one for one in reversed(GROUPS) if name.endswith(one)), NO_GROUP)
    plain = name.removesuffix(group)
    if plain != NONE and plain not in COLLECTIVES:
        hint = f"{', '.join([NONE, *COLLECTIVES])}, with {' or '.join(GROUPS[1:])} as suffix"
        raise InputError(f"{written(name)} is not a supported collective", hint=hint)
    what = COLLECTIVES.get(plain, "") if size else ""
    return Phase(ns, what, group, size if what else 0)


def _time(word: str) -> int:
    return _number("ns", word, below=LONGEST_NS)


def _number(what: str, word: str, least: int = 0, below: int = SIZE_BYTES) -> int:
    """Return a number, which Python may have written with ".0"."""
    return bounded(what, word.removesuffix(".0"), least, below)


def _micro_batches(
    rows: Sequence[AicbRow], n: int
) -> tuple[Sequence[AicbRow], Sequence[Sequence[AicbRow]], Sequence[AicbRow]]:
    """Split rows into those before all micro-batches, those of each, and those after.

    Micro-batches have equal lengths and start with the first FIRST_ROW, or else the first row.
    """
    ends = next((k for k, row in enumerate(rows) if BEHIND.fullmatch(row.name)), len(rows))
    begin = next((k for k, row in enumerate(rows[:ends]) if row.name == FIRST_ROW), 0)
    each, rest = divmod(ends - begin, n)
    bounds = range(begin, ends, each) if each and not rest else range(0)
    names = {tuple(row.name for row in rows[k : k + each]) for k in bounds}
    if len(names) != 1:
        what = f"its {ends - begin} rows from line {rows[begin].line} on are not {n} micro-batches"
        hint = f"{n} times (ga) the same rows, beginning with {FIRST_ROW}"
        raise InputError(what, hint=hint)
    return rows[:begin], [rows[k : k + each] for k in bounds], rows[ends:]


CSV_COLLECTIVES = {
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
CSV_GROUPS = (
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
            row = _csv_row(line, {name: cells[k].strip() for name, k in columns.items()})
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


def _csv_row(line: int, cell: dict[str, str]) -> CsvRow | None:
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
    if what not in (*CSV_COLLECTIVES, SEND, RECEIVE):
        hint = ", ".join([*CSV_COLLECTIVES, COMPUTE, SEND, RECEIVE, EPOCH])
        raise InputError(f"{written(what)} is not a supported comm_type", hint=hint)
    group = cell["comm_group"].removeprefix("CommGroup.")
    group = ALL if group == "all_nodes" else group
    if group not in CSV_GROUPS:
        raise InputError(f"{written(group)} is not a comm_group", hint=", ".join(CSV_GROUPS))
    given = cell.get("comm_group_size", "None")
    n = 0 if given == "None" else bounded("comm_group_size", given)
    size = bounded("msg_size", cell["msg_size"], below=SIZE_BYTES)
    if what in CSV_COLLECTIVES:
        return CsvRow(line, CSV_COLLECTIVES[what], group, n, size, label)
    way, _, to = cell["additional"].partition("_")
    if way != {SEND: "send", RECEIVE: "recv"}[what] or to not in (NEXT, PREVIOUS):
        hint = "send_next, send_prev, recv_next or recv_prev"
        raise InputError(f"{what} and {written(cell['additional'])}", hint=hint)
    return CsvRow(line, what, group, n, size, label, to)
