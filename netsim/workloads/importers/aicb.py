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

from netsim.common.inputs import bounded, read_text, reading
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
