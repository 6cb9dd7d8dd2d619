"""SimAI workloads, as written by AICB: a training step of one pipeline stage, row by row.

    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4
    1
    layer0 -1 1000 ALLREDUCE 4194304 1000 NONE 0 1000 ALLREDUCE 8388608 100

The first line is a policy and pairs of a key and a number, the second the number of rows. A row has
a name; a dependency (-1); ns, collective and bytes of the forward pass, of the input gradient and
of the weight gradient; and the ns of an update. The micro-batches of a step are consecutive,
between rows of the whole step.

Source: aliyun/SimAI, astra-sim-alibabacloud/astra-sim/workload/Workload.cc; aliyun/aicb,
workload_generator/SimAI_training_workload_generator.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netsim.errors import InputError
from netsim.inputs import at_line, read_text, whole
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
    policy = words[0]
    if policy not in POLICIES:
        known = policy in OTHER_POLICIES
        what = (
            f"policy {policy} is not supported" if known else f"{written(policy)} is not a policy"
        )
        raise at_line(path, first, what, f"one of {', '.join(POLICIES)}")
    header = _header(path, first, words[1:])
    n_rows = _number(path, second, "the number of rows", count[0]) if len(count) == 1 else -1
    if n_rows < 1:
        raise at_line(path, second, f"{written(' '.join(count))} is not a row count")
    if n_rows != len(lines) - 2:
        hint = f"{len(lines) - 2} in this line, unless the file was cut"
        raise at_line(path, second, f"{n_rows} rows announced, {len(lines) - 2} found", hint)
    rows = [_row(path, number, cells) for number, cells in lines[2:]]
    needed = ("tp", "ep", "pp", "vpp", "ga", "all_gpus") if policy != MICRO else ()
    left_out = tuple(name for name in needed if name not in header)
    header = {**dict.fromkeys(("tp", "ep", "pp", "vpp", "ga"), 1), "pp_bytes": 0, **header}
    parts = _micro_batches(path, second, rows, header["ga"])
    return AicbWorkload(path, policy, header, left_out, *parts)


def _header(path: Path, line: int, words: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the first line, by netsim's names."""
    found: dict[str, int] = {}
    at = 0
    while at < len(words):
        key = words[at].removesuffix(":")
        if key not in COUNTS and key not in LISTS:
            known = ", ".join([*COUNTS, *LISTS])
            raise at_line(path, line, f"{written(words[at])} is not a key", known)
        if at + 1 == len(words):
            raise at_line(path, line, f"{key} has no number")
        number = _number(path, line, key, words[at + 1])
        at += 2
        if key in LISTS and number:
            what = f"{key}: {number} layers with recomputation, which is not supported"
            raise at_line(path, line, what, "checkpoints: 0 checkpoint_initiates: 0")
        if key in COUNTS:
            name = COUNTS[key]
            least = 0 if name == "pp_bytes" else 1
            if number < least or found.setdefault(name, number) != number:
                raise at_line(path, line, f"{key} is {number}", f"{least} or more, and once")
    return found


def _row(path: Path, line: int, cells: Sequence[str]) -> AicbRow:
    if len(cells) != WIDTH:
        hint = "a name, -1, three times ns, collective and bytes, ns of an update"
        raise at_line(path, line, f"has {len(cells)} columns, not {WIDTH}", hint)
    if cells[1] != "-1":
        raise at_line(path, line, f"depends on {written(cells[1])}, which is not supported", "-1")
    forward, of_input, of_weight = (_phase(path, line, cells[k : k + 3]) for k in (2, 5, 8))
    return AicbRow(line, cells[0], forward, of_input, of_weight, _time(path, line, cells[11]))


def _phase(path: Path, line: int, cells: Sequence[str]) -> Phase:
    ns, size = _time(path, line, cells[0]), _number(path, line, "bytes", cells[2])
    name = cells[1]
    group = next((one for one in reversed(GROUPS) if name.endswith(one)), NO_GROUP)
    plain = name.removesuffix(group)
    if plain != NONE and plain not in COLLECTIVES:
        hint = f"{', '.join([NONE, *COLLECTIVES])}, with {' or '.join(GROUPS[1:])} as suffix"
        raise at_line(path, line, f"{written(name)} is not a supported collective", hint)
    if size >= SIZE_BYTES:
        raise at_line(path, line, f"{size} bytes", "less than 1 PiB")
    what = COLLECTIVES.get(plain, "") if size else ""
    return Phase(ns, what, group, size if what else 0)


def _time(path: Path, line: int, word: str) -> int:
    ns = _number(path, line, "time", word)
    if ns >= LONGEST_NS:
        raise at_line(path, line, f"{ns} ns", "less than 20 h")
    return ns


def _number(path: Path, line: int, what: str, word: str) -> int:
    """Return a number, which Python may have written with ".0"."""
    try:
        number = whole(word.removesuffix(".0"))
    except ValueError:
        number = -1
    if number < 0:
        raise at_line(path, line, f"{what}: {written(word)} is not a non-negative integer")
    return number


def _micro_batches(
    path: Path, line: int, rows: Sequence[AicbRow], n: int
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
        raise at_line(path, line, what, hint)
    return rows[:begin], [rows[k : k + each] for k in bounds], rows[ends:]
