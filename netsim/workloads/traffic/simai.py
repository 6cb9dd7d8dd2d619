"""A SimAI workload, as written by AICB, with a simulated pipeline.

Ranks are ordered as in SimAI: tensor-parallel groups are neighbors, `ep` of them form an
expert-parallel group, all ranks of a stage form a data-parallel group; then comes the next stage. A
collective runs in the tensor-parallel group in the columns of the forward pass and the input
gradient, in the data-parallel group in the column of the weight gradient, or in the group that the
suffix of its name gives.

A micro-batch's forward pass runs its rows downward: compute, then the collective. The backward pass
runs upward: input gradient, its collective, weight gradient. The collectives of weight gradients
block nothing; they run in order, each followed by its update. A forward collective has at least
4096 bytes. With policy MICRO all hosts run the last collective of each row.

With `pp` above 1, the file has the rows of one stage, and each stage runs them in the order of
`schedule`. Each rank sends `pp_comm` bytes to its counterpart in the next stage after each forward
pass, and in the previous stage after each backward pass; SimAI adds a formula instead. With `pp` 1
all forward passes precede all backward passes, as in SimAI. Rows after the micro-batches
(cross_entropy, optimizer) run between these; in a pipeline, after them.

A file has the rows of one stage:

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

import numpy as np

from netsim.common.inputs import bounded, read_text, user_path
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, SIZE_BYTES
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import written
from netsim.workloads.job.schedules import FORWARD, make_schedule
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic._megatron import PARAMS as OF_JOBS
from netsim.workloads.traffic._megatron import (
    PS_PER_NS,
    JobOperations,
    JobPart,
    replicas_of,
    workload_of,
)

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
GROUPS = (NO_GROUP, "_EP", "_DP_EP")  # suffixes: the column's default group, or another one

COUNTS = {"model_parallel_NPU_group": "tp", "expert_parallel_npu_group": "ep", "ep": "ep"}
COUNTS |= {"pp": "pp", "vpp": "vpp", "ga": "ga", "all_gpus": "all_gpus", "pp_comm": "pp_bytes"}
LISTS = ("checkpoints", "checkpoint_initiates")
"""Keys of the first line: keys with a number, and keys with a number of values."""

WIDTH = 12
LONGEST_NS = HORIZON_PS // PS_PER_NS

FIRST_ROW = "embedding_layer"  # the first row of a micro-batch
BEHIND = re.compile(r"(cross_entropy|optimizer)[0-9]*", re.ASCII)  # rows after all micro-batches


@frozen
class Phase:
    """A pass of a row: compute for `ns`, then a collective. `what` is netsim's name of the
    collective, "" for none, `group` one of GROUPS."""

    ns: int
    what: str
    group: str
    size_bytes: int


@frozen
class SimaiRow:
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


@frozen
class SimaiWorkload:
    """A workload. `left_out` lists keys missing in the first line, which are 1 or 0 here. `before`
    and `behind` are rows of the whole step, `micro_batches` the rows of each micro-batch."""

    path: Path
    policy: str
    header: dict[str, int]
    left_out: tuple[str, ...]
    before: Sequence[SimaiRow] = field(repr=False)
    micro_batches: Sequence[Sequence[SimaiRow]] = field(repr=False)
    behind: Sequence[SimaiRow] = field(repr=False)

    @property
    def rows(self) -> list[SimaiRow]:
        inner = [row for batch in self.micro_batches for row in batch]
        return [*self.before, *inner, *self.behind]


def read_simai(path: Path) -> SimaiWorkload:
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
    with errors_at(file=f"{path}:{first}"):
        policy, header = _policy(words[0]), _header(words[1:])
    with errors_at(file=f"{path}:{second}"):
        n_rows = bounded("the number of rows", " ".join(count), least=1)
        if n_rows != len(lines) - 2:
            hint = f"{len(lines) - 2} in this line, unless the file was cut"
            raise InputError(f"{n_rows} rows announced, {len(lines) - 2} found", hint=hint)
    rows = []
    for number, cells in lines[2:]:
        with errors_at(file=f"{path}:{number}"):
            rows.append(_row(number, cells))
    needed = ("tp", "ep", "pp", "vpp", "ga", "all_gpus") if policy != MICRO else ()
    left_out = tuple(name for name in needed if name not in header)
    header = {**dict.fromkeys(("tp", "ep", "pp", "vpp", "ga"), 1), "pp_bytes": 0, **header}
    with errors_at(file=f"{path}:{second}"):
        parts = _micro_batches(rows, header["ga"])
    return SimaiWorkload(path, policy, header, left_out, *parts)


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


def _row(line: int, cells: Sequence[str]) -> SimaiRow:
    if len(cells) != WIDTH:
        hint = "a name, -1, three times ns, collective and bytes, ns of an update"
        raise InputError(f"has {len(cells)} columns, not {WIDTH}", hint=hint)
    if cells[1] != "-1":
        raise InputError(f"depends on {written(cells[1])}, which is not supported", hint="-1")
    forward, of_input, of_weight = (_phase(*cells[k : k + 3]) for k in (2, 5, 8))
    return SimaiRow(line, cells[0], forward, of_input, of_weight, _time(cells[11]))


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
    rows: Sequence[SimaiRow], n: int
) -> tuple[Sequence[SimaiRow], Sequence[Sequence[SimaiRow]], Sequence[SimaiRow]]:
    """Split rows into rows before all micro-batches, rows of each, and rows after. Micro-batches
    have equal lengths and start with the first FIRST_ROW, or else the first row."""
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


COMPUTE, WEIGHTS = range(2)  # streams: sequential work, and collectives of weight gradients
MIN_BYTES = 4096  # smallest forward collective, as in SimAI

TP, DP, PP = "tp", "dp", "pp"


@frozen
class SimaiPart(JobPart):
    """The simulated part of a workload: its first `micro_batches`."""

    work: SimaiWorkload
    micro_batches: int
    schedule: str

    def rows_of_rank(self) -> int:
        work = self.work
        return len(work.before) + self.micro_batches * len(work.micro_batches[0]) + len(work.behind)

    def smaller(self) -> Iterator[tuple[str, SimaiPart]]:
        n = self.micro_batches
        for micro in sorted({n, min(n, self.pp), 1})[::-1]:
            for dp in self.fewer_replicas():
                text = f"replicas = {dp}, micro_batches = {micro}"
                yield text, replace(self, dp=dp, micro_batches=micro)


def part_of(work: SimaiWorkload, params: Params, n_hosts: int) -> SimaiPart:
    """Return the part that the parameters select. Raises InputError if they are inconsistent."""
    of, file = work.header, f"{work.path}:1"
    tp, ep, pp = of["tp"], of["ep"], of["pp"]
    n_ranks = of.get("all_gpus", max(n_hosts // (tp * pp), 1) * tp * pp)
    dp, all_dp = replicas_of((tp, ep, pp), n_ranks, None, params["replicas"], file)
    if pp > 1 and not of["pp_bytes"]:
        what = f"has {pp} stages but no bytes between them"
        raise InputError(what, file=file, hint="pp_comm: 4194304")
    all_micro = len(work.micro_batches)
    micro = params["micro_batches"] or all_micro
    if micro > all_micro:
        hint = f"at most {all_micro}"
        raise InputError(f"{micro} micro-batches", key="traffic.micro_batches", hint=hint)
    return SimaiPart(tp, ep, pp, dp, all_dp, work, micro, params["schedule"])


def _kind(phase: Phase, default: str) -> str:
    """Return the kind of the groups of a collective."""
    return phase.group.removeprefix("_").lower() or default


class SimaiOperations(JobOperations):
    """A step as `Operations`."""

    def __init__(self, part: SimaiPart, hows: Mapping[str, CollectiveOptions]) -> None:
        super().__init__(part, hows)
        self.part, self.work, self.ranks = part, part.work, part.ranks
        self.groups = [part.groups(stage) for stage in range(part.pp)]
        self.last = np.full(part.n_ranks, -1, np.int64)  # last operation of each rank in COMPUTE
        if self.work.policy == MICRO:
            for row, name in self._rows_of_all():  # one collective of all ranks at a time
                self._phase(0, row.weight, DP, name)
        elif part.pp == 1:
            self._forward(0, self._rows_of_all())
            self._backward(0, self._rows_of_all())
        else:
            self._pipeline()

    def _rows_of_all(self) -> list[tuple[SimaiRow, str]]:
        """Return the rows of a step with their labels."""
        batches = self.work.micro_batches[: self.part.micro_batches]
        inner = [one for k, batch in enumerate(batches) for one in _named(batch, k)]
        return [*_named(self.work.before), *inner, *_named(self.work.behind)]

    def _pipeline(self) -> None:
        """Add the work of each stage, then the messages between stages."""
        part, work = self.part, self.work
        schedule = make_schedule(part.schedule, part.pp, part.micro_batches)
        begins: dict[tuple[int, int, bool], Ints] = {}
        ends: dict[tuple[int, int, bool], Ints] = {}
        for stage in range(part.pp):
            ranks = self.ranks[stage].reshape(-1)
            self._forward(stage, _named(work.before))
            own = schedule.stage == stage
            order = zip(
                schedule.kind[own].tolist(), schedule.micro_batch[own].tolist(), strict=True
            )
            for kind, batch in order:
                forward = kind == FORWARD
                begin = self.ops.join(ranks, COMPUTE)
                self.last[ranks] = begin
                rows = _named(work.micro_batches[batch], batch)
                (self._forward if forward else self._backward)(stage, rows)
                begins[stage, batch, forward] = begin
                ends[stage, batch, forward] = self.last[ranks]
            self._forward(stage, _named(work.behind))
            self._backward(stage, _named(work.behind))
            self._backward(stage, _named(work.before))
        for (stage, batch, forward), end in ends.items():
            to = stage + 1 if forward else stage - 1
            if 0 <= to < part.pp:
                src, dst = (self.ranks[one].reshape(-1) for one in (stage, to))
                label = f"{'forward' if forward else 'backward'} {batch}"
                size = work.header["pp_bytes"]
                sent, received = self.ops.send(src, dst, size, kind=PP, label=label)
                self.ops.after(end, sent)
                self.ops.after(received, begins[to, batch, forward])

    def _forward(self, stage: int, rows: Iterable[tuple[SimaiRow, str]]) -> None:
        for row, name in rows:
            size = max(row.forward.size_bytes, MIN_BYTES)
            self._phase(stage, replace(row.forward, size_bytes=size), TP, f"{name} forward")

    def _backward(self, stage: int, rows: Sequence[tuple[SimaiRow, str]]) -> None:
        ranks = self.ranks[stage].reshape(-1)
        for row, name in reversed(rows):
            self._phase(stage, row.input, TP, f"{name} input gradient")
            label = f"{name} weight gradient"
            self._compute(stage, row.weight.ns, label)
            group = self._group(stage, row.weight, DP)
            if group is None:
                continue
            made = self._collective(row.weight, *group, WEIGHTS, label)[ranks]
            behind = self.last[ranks] >= 0
            self.ops.after(self.last[ranks][behind], made[behind])
            if row.update_ns:
                time_ps = row.update_ns * PS_PER_NS
                self.ops.after(made, self.ops.compute(ranks, time_ps, -1, f"{name} update"))

    def _phase(self, stage: int, phase: Phase, default: str, label: str) -> None:
        """Add a computation and a blocking collective."""
        self._compute(stage, phase.ns, label)
        group = self._group(stage, phase, default)
        if group is not None:
            made = self._collective(phase, *group, COMPUTE, label)
            self.last = np.where(made >= 0, made, self.last)

    def _compute(self, stage: int, ns: int, label: str) -> None:
        if ns:
            ranks = self.ranks[stage].reshape(-1)
            self.last[ranks] = self.ops.compute(ranks, ns * PS_PER_NS, COMPUTE, label)

    def _group(self, stage: int, phase: Phase, default: str) -> tuple[str, Ints] | None:
        """Return the kind and groups of a collective, None if there is none."""
        kind = _kind(phase, default)
        groups = self.groups[stage][kind]
        return (kind, groups) if phase.what and groups.shape[1] > 1 else None

    def _collective(self, phase: Phase, kind: str, groups: Ints, stream: int, label: str) -> Ints:
        """int64[ranks]: the operation of each participating rank, else -1."""
        how = self.hows[phase.what]
        made = np.full(self.part.n_ranks, -1, np.int64)
        made[groups] = self.ops.collective(
            phase.what, groups, phase.size_bytes, how, stream, kind, label=label
        )
        return made

    def notes(self) -> Iterator[str]:
        part, name = self.part, written(self.work.path.name)
        if self.work.left_out:
            missing = ", ".join(self.work.left_out)
            yield f"{name}: its first line has no {missing}: all hosts, or 1, assumed"
        if part.pp > 1:
            yield f"{name}: each of {part.pp} stages runs all rows of the file, by {part.schedule}"
        if any(phase.what == "broadcast" for row in self.work.rows for phase in row.phases):
            yield f"{name}: BROADCAST is from each group's first rank; SimAI ignores it"
        if part.dp < part.all_dp:
            yield f"{name}: {part.dp:,} of {part.all_dp:,} replicas simulated"
        all_micro = len(self.work.micro_batches)
        if part.micro_batches < all_micro:
            yield f"{name}: {part.micro_batches:,} of {all_micro:,} micro-batches simulated"


def _named(rows: Iterable[SimaiRow], batch: int | None = None) -> list[tuple[SimaiRow, str]]:
    suffix = "" if batch is None else f" {batch}"
    return [(row, row.name + suffix) for row in rows]


PARAMS = [
    Param("file", "file", REQUIRED, "AICB workload, a .txt file"),
    Param("schedule", "choice", "1f1b", "pipeline schedule", choices=("1f1b", "gpipe")),
    Param("micro_batches", "count", None, "micro-batches to simulate; default: all", minimum=1),
    *OF_JOBS,
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    work = read_simai(user_path(params["file"], context.directory))
    part = part_of(work, params, network.n_hosts)
    return workload_of(part, SimaiOperations, COLLECTIVES.values(), params, network, rng, context)
