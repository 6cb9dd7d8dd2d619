"""The rows of a SimAI workload as operations of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import Workload
from netsim.units import written
from netsim.workloads.importers.aicb import MICRO, NO_GROUP, PS_PER_NS, AicbRow, AicbWorkload, Phase
from netsim.workloads.job.schedules import FORWARD, make_schedule
from netsim.workloads.operations import CollectiveOptions, Operations, Wires
from netsim.workloads.traffic._fit import Call

Ints = NDArray[np.int64]

COMPUTE, WEIGHTS = range(2)
"""Streams: a rank's sequential work, and collectives of weight gradients."""

MIN_BYTES = 4096
"""Smallest forward collective, as in SimAI."""

TP, DP, EP, DP_EP, PP = "tp", "dp", "ep", "dp_ep", "pp"
SUFFIXES = {"_EP": EP, "_DP_EP": DP_EP}


@dataclass(frozen=True)
class SimulatedShare:
    """The simulated share: `dp` of `all_dp` replicas, `micro_batches` of `all_micro`.

    `n_rows` is the number of rows per rank.
    """

    tp: int
    ep: int
    pp: int
    dp: int
    all_dp: int
    micro_batches: int
    all_micro: int
    n_rows: int
    schedule: str

    @property
    def n_ranks(self) -> int:
        return self.tp * self.dp * self.pp


def part_of(work: AicbWorkload, params: Mapping[str, Any], n_hosts: int) -> SimulatedShare:
    """Return the share that the parameters select. Raises InputError if they are inconsistent."""
    of = work.header
    tp, ep, pp = of["tp"], of["ep"], of["pp"]
    n_ranks = of.get("all_gpus", max(n_hosts // (tp * pp), 1) * tp * pp)
    if n_ranks % (tp * pp):
        raise _wrong(work, f"{n_ranks} GPUs are not {tp} x {pp} (tensor x pipeline) x replicas")
    all_dp = n_ranks // (tp * pp)
    if all_dp % ep:
        raise _wrong(work, f"{all_dp} replicas are not groups of {ep} (ep)")
    if pp > 1 and not of["pp_bytes"]:
        raise _wrong(work, f"has {pp} stages but no bytes between them", "pp_comm: 4194304")
    dp = params["replicas"] or all_dp
    if dp > all_dp or dp % ep:
        hint = f"at most {all_dp}, a multiple of {ep}"
        raise InputError(f"{dp} of {all_dp} replicas", key="traffic.replicas", hint=hint)
    all_micro = len(work.micro_batches)
    micro = params["micro_batches"] or all_micro
    if micro > all_micro:
        hint = f"at most {all_micro}"
        raise InputError(f"{micro} micro-batches", key="traffic.micro_batches", hint=hint)
    n_rows = len(work.before) + micro * len(work.micro_batches[0]) + len(work.behind)
    return SimulatedShare(tp, ep, pp, dp, all_dp, micro, all_micro, n_rows, params["schedule"])


def _wrong(work: AicbWorkload, what: str, hint: str | None = None) -> InputError:
    return InputError(what, file=f"{work.path}:1", hint=hint)


def calls(work: AicbWorkload, part: SimulatedShare) -> Iterator[Call]:
    """Yield the collectives of all ranks, to count their tasks."""
    groups = _groups(part, np.arange(part.dp * part.tp).reshape(part.dp, part.tp))
    inner = [(row, part.micro_batches) for row in work.micro_batches[0]]
    for row, times in [*((row, 1) for row in (*work.before, *work.behind)), *inner]:
        for phase, default in zip(row.phases, (TP, TP, DP), strict=True):
            of = groups[default if phase.group == NO_GROUP else SUFFIXES[phase.group]]
            if phase.what:
                yield phase.what, phase.size_bytes, of[0], len(of) * part.pp * times


def smaller(work: AicbWorkload, part: SimulatedShare) -> Iterator[tuple[str, SimulatedShare]]:
    """Yield smaller parts of a workload: fewer replicas, then micro-batches."""
    replicas = [part.dp]
    while replicas[-1] > part.ep:
        replicas.append(max(replicas[-1] // 2 // part.ep, 1) * part.ep)
    for micro in sorted({part.micro_batches, min(part.micro_batches, part.pp), 1})[::-1]:
        n_rows = part.n_rows - (part.micro_batches - micro) * len(work.micro_batches[0])
        for dp in replicas:
            text = f"replicas = {dp}, micro_batches = {micro}"
            yield text, replace(part, dp=dp, micro_batches=micro, n_rows=n_rows)


class SimaiOperations:
    """A step as `Operations`; `ranks` is int64[pp, dp, tp]."""

    def __init__(
        self, work: AicbWorkload, part: SimulatedShare, hows: Mapping[str, CollectiveOptions]
    ) -> None:
        self.work, self.part, self.hows = work, part, hows
        self.ops = Operations(part.n_ranks)
        self.ranks = np.arange(part.n_ranks).reshape(part.pp, part.dp, part.tp)
        self.groups = [_groups(part, ranks) for ranks in self.ranks]
        self.last = np.full(part.n_ranks, -1, np.int64)  # last operation of each rank in COMPUTE
        if work.policy == MICRO:
            self._each_alone()
        elif part.pp == 1:
            self._forward(0, self._rows_of_all())
            self._backward(0, self._rows_of_all())
        else:
            self._pipeline()

    def lower(self, hosts: Ints, wires: Wires) -> Workload:
        load = self.ops.lower(hosts, reduction=wires.network.reduction, wires=wires)
        return replace(load, notes=tuple(self._notes()))

    def _rows_of_all(self) -> list[tuple[AicbRow, str]]:
        """Return the rows of a step with their labels."""
        batches = self.work.micro_batches[: self.part.micro_batches]
        inner = [one for k, batch in enumerate(batches) for one in _named(batch, k)]
        return [*_named(self.work.before), *inner, *_named(self.work.behind)]

    def _each_alone(self) -> None:
        """Run one collective of all ranks at a time."""
        for row, name in self._rows_of_all():
            self._phase(0, row.weight, DP, name)

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

    def _forward(self, stage: int, rows: Iterable[tuple[AicbRow, str]]) -> None:
        for row, name in rows:
            size = max(row.forward.size_bytes, MIN_BYTES)
            self._phase(stage, replace(row.forward, size_bytes=size), TP, f"{name} forward")

    def _backward(self, stage: int, rows: Sequence[tuple[AicbRow, str]]) -> None:
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
        kind = default if phase.group == NO_GROUP else SUFFIXES[phase.group]
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

    def _notes(self) -> Iterator[str]:
        """Yield notes on assumptions and omissions."""
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
        if part.micro_batches < part.all_micro:
            yield f"{name}: {part.micro_batches:,} of {part.all_micro:,} micro-batches simulated"


def _named(rows: Iterable[AicbRow], batch: int | None = None) -> list[tuple[AicbRow, str]]:
    """Return rows with their labels."""
    suffix = "" if batch is None else f" {batch}"
    return [(row, row.name + suffix) for row in rows]


def _groups(part: SimulatedShare, ranks: Ints) -> dict[str, Ints]:
    """Return the groups of a stage's ranks, int64[dp, tp], by kind: int64[g, n] each."""
    experts = ranks.reshape(part.dp // part.ep, part.ep, part.tp)
    return {
        TP: ranks,
        DP: ranks.T,
        EP: experts.transpose(0, 2, 1).reshape(-1, part.ep),
        DP_EP: experts.transpose(1, 2, 0).reshape(-1, part.dp // part.ep),
    }
