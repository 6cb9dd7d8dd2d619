"""A forecast of the whole job's step from a sample, and the sample that distorts a step least.

`docs/forecast.md` describes the method. The time of each message is measured by kind, collective
and size, from its last rank's start to its last end. The schedules run in `Replay`.

By formula, before a run, a sample's step is the step of a job with its replicas and micro-batches,
in which each step of a collective also takes the delay of the network's links over the scale, since
delays are not scaled. Its distortion is the larger of two differences from the job: of model FLOPs
utilization (relative), and of the share of exposed communication.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.engine.state_views import TaskStates
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.columns import Floats, Ints
from netsim.model.ideal import task_times
from netsim.model.workload import SEND
from netsim.workloads.collectives import closed_form_ps, hops_of
from netsim.workloads.collectives.steps import ONE_WAY, HopRow, Hops, Wire
from netsim.workloads.job.job import Job
from netsim.workloads.job.messages import Message, Ranks, link_of, messages
from netsim.workloads.job.step import StepTime, step_time
from netsim.workloads.operations import Operations, Wires
from netsim.workloads.operations.table import (
    SCALE_OUT,
    SCALE_UP,
    OperationTable,
    collective_instances,
    operation_table,
    step_entry,
    step_times,
)
from netsim.workloads.training.sample import ALWAYS_PACKETS, KINDS, JobSample, sample_job
from netsim.workloads.training.step import Grid, operations_of

if TYPE_CHECKING:
    from netsim.model.fabric import PacketFormat
    from netsim.model.network import Network
    from netsim.results.run_result import Table

SAME = 0.01
"""Largest relative difference ignored between the rates of the machine and the network, or the
times of groups: packets take whole picoseconds."""

PARTS = ("compute_ps", "bubble_ps", "skew_ps", "other_ps")  # besides exposed communication
ROUNDS = 20  # of fitting a factor per size and group
MAX_REPLAYED = 2_000_000  # most operations of a replayed job


@frozen(eq=False)
class Replay(JobSample):
    """A schedule at one rank per stage, where each message takes a given time."""

    # returns a message's time at each stage in ps, before scaling
    took: Callable[[Message], Floats] = field(kw_only=True)
    sent: tuple[Message, ...] = field(kw_only=True)
    measured: frozenset[str] = field(kw_only=True)  # kinds of messages that the sample sent

    @property
    def timed(self) -> frozenset[str]:
        return frozenset(KINDS) - {ALWAYS_PACKETS}

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.sent

    def message_ps(self, message: Message, ranks: Ints) -> Floats:
        return self.took(message)[ranks]

    def queue_of(self, kind: str) -> str:
        """Return the stream of a kind: expert gradients not measured in parallel with other
        gradients follow them, since both share the ports."""
        apart = kind != "expert_dp" or kind in self.measured
        return kind if apart else "dp"


def at_network_rates(
    sample: JobSample,
    hosts: Ints,
    wires: Wires,
    networks: Collection[str] = ("scale_up", "scale_out"),
) -> Job:
    """Return a sample's job on a machine with the rates of the networks that its messages use;
    `hosts` are the hosts of the sample's ranks."""
    job = sample.job
    for network in {"scale_up", "scale_out"}.intersection(networks):
        link = link_of(job, network)
        for message in sample.messages:
            if message.network == network and message.kind not in sample.formula:
                # Neighbors may share a server; the ends of a group that spans several do not.
                rate = _one_way(sample, message, hosts, wires, to=-1).rate_bps
                if abs(rate / link.rate - 1) > SAME:
                    changes: dict[str, Any] = {network: replace(link, rate=rate)}
                    job = replace(job, machine=replace(job.machine, **changes))
                break
    return job


def _one_way(sample: JobSample, message: Message, hosts: Ints, wires: Wires, to: int = 1) -> Wire:
    """Return the wire from the first position of a group to another one, alone."""
    hops = Hops((HopRow(np.zeros(1, np.int64), np.full(1, to)),), message.size_bytes)
    return wires.wire(hops, hosts[sample.groups(message)[:1]])


class Measured:
    """Message times of a sample and of the whole job. `table` is the sample's table of operations.

    Replicas that wait for each other in every micro-batch form a unit; times are of one unit."""

    unit = 0

    def __init__(self, sample: JobSample, table: Table, wires: Wires) -> None:
        self._sample, self._wires = sample, wires
        self._closed_form_ps = cache(self._at_stage_ps)
        self._grid = Grid(Operations(len(sample.ranks)), sample)
        self._hosts = np.zeros(len(sample.ranks), np.int64)
        self._hosts[table["rank"]] = table["host"]
        found = collective_instances(table)
        timed = (found.length_ps > 0) & ~table["is_analytic"][found.first]
        rows, length_ps = found.first[timed], found.length_ps[timed]
        what = table["operation_type"][rows]
        keys = np.array([table["kind"][rows], np.where(what == "receive", "send", what)])
        names, which = np.unique(keys, axis=1, return_inverse=True)
        self._lengths: dict[tuple[str, str], tuple[Ints, Floats]] = {}
        self._slower: dict[tuple[str, str], Floats] = {}
        is_joined = sample.job.layout.zero == 3
        self._n_units = 1 if is_joined else sample.ranks.dp // sample.ranks.ep
        for k, (kind, one) in enumerate(names.T.tolist()):
            these = np.flatnonzero(which.reshape(-1) == k)
            sizes, of = np.unique(np.rint(found.size_bytes[timed][these]), return_inverse=True)
            took, slower = self._means(kind, table["rank"][rows[these]], length_ps[these], of)
            self._lengths[kind, one] = sizes, took
            self._slower[kind, one] = slower
        sends = np.flatnonzero((table["operation_type"] == "send") & (table["kind"] == "pp"))
        busy = table["end_ps"][sends] - table["start_ps"][sends]
        self._left_ps = float(busy.mean()) if sends.size else 0.0
        self.job = at_network_rates(sample, self._hosts, wires)

    def units(self, n: int) -> Ints:
        """Return one of each set of equal units, at most `n`, slowest first."""
        if not self._slower:
            return np.zeros(1, np.int64)
        factors = np.concatenate(list(self._slower.values()), axis=1)
        _, first = np.unique(factors, axis=0, return_index=True)
        longest: Ints = first[np.argsort(-factors[first].sum(axis=1))]
        return longest[:n]

    def _means(self, kind: str, first: Ints, length_ps: Ints, of: Ints) -> tuple[Floats, Floats]:
        """Return the mean message time of a kind for each size, and the factor by which the slowest
        group of each unit and stage is slower, float64[units, stages].

        Each message has the first rank of its group, its time, and the index of its size. A group
        is slow if it exceeds the median by more than the largest of n random deviations, for n
        groups. The mean leaves slow groups out."""
        group, member, count = np.unique(first, return_inverse=True, return_counts=True)
        mean = took = np.bincount(of, length_ps) / np.bincount(of)
        found = np.ones((self._n_units, self._sample.job.layout.pp))
        free = of.size - group.size - mean.size + 1
        if group.size == 1 or free < 1:
            return mean, found
        for _ in range(ROUNDS):  # a time is a size's times a group's
            factor = np.bincount(member, length_ps) / np.bincount(member, took[of])
            took = np.bincount(of, length_ps) / np.bincount(of, factor[member])
        apart = length_ps / (took[of] * factor[member]) - 1
        noise = ((apart**2).sum() / free / count) ** 0.5
        largest = noise * (2 * np.log(group.size)) ** 0.5
        slow = factor > np.median(factor) * (1 + np.maximum(SAME, largest))
        if not slow.any():
            return mean, found
        rest = ~slow[member]
        found[:] = length_ps[rest].sum() / took[of[rest]].sum()
        stage, within = np.divmod(group[slow], self._grid.n)
        unit = within * self._n_units // self._grid.n
        np.maximum.at(found, (unit, stage), factor[slow])
        if kind not in ("tp", "cp", "ep", "pp"):
            found[:] = found.max(axis=0)
        return took * found.min(), found / found.min()

    def _nearest(self, message: Message) -> tuple[float, Floats, str, float] | None:
        """Return the size of the measured message most like this one, its time at each stage, then
        this one's operation and size."""
        what, size = message.what, float(message.size_bytes)
        if what == "send" and message.group != "pp":
            what, size = "all_to_all", size * message.n
        if message.kind in self._sample.formula or (message.kind, what) not in self._lengths:
            return None
        sizes, took = self._lengths[message.kind, what]
        k = int(np.abs(np.log(sizes / (size * self._sample.scale))).argmin())
        return float(sizes[k]), took[k] * self._slower[message.kind, what][self.unit], what, size

    def sampled_ps(self, message: Message) -> Floats:
        """Return the time of a message of the sample at each stage, in ps, divided by the scale."""
        near = self._nearest(message)
        if near is None:
            return self._by_formula_ps(message)
        return near[1] / self._sample.scale + self._launch_ps(message)

    def whole_ps(self, message: Message) -> Floats:
        """Return the time of a message of the whole job at each stage, in ps."""
        near = self._nearest(message)
        if near is None:
            return self._by_formula_ps(message)
        near_bytes, took, what, size = near
        scale, n = self._sample.scale, self._sample.group_size(message)
        least, most = (
            self._ideal_ps(message, what, n, near_bytes, scale, chain=chain)
            for chain in (True, False)
        )
        most = np.where(self._slower[message.kind, what][self.unit] > 1, most, least)
        ideal = np.clip(took, least, np.maximum(least, most))
        ratio = size * scale / near_bytes * (1 - 1 / message.n) / (1 - 1 / n)
        excess = ideal - least + (took - ideal) / scale * ratio
        of_job = self._ideal_ps(message, what, message.n, size, 1.0)
        return np.maximum(0.0, of_job + excess) + self._launch_ps(message)

    def _by_formula_ps(self, message: Message) -> Floats:
        chosen = message.kind in self._sample.formula
        time_ps = message.time_ps(self._sample.job if chosen else self.job)
        return np.full(self._sample.job.layout.pp, time_ps)

    def _launch_ps(self, message: Message) -> int:
        return 0 if message.network == "wan" else link_of(self._sample.job, message.network).launch

    def _ideal_ps(self, message: Message, what: str, *how: float, chain: bool = True) -> Floats:
        """Return the closed form of a collective at each stage. `how` has the number of ranks, the
        bytes and the scale. It is the same at all stages without a slow group."""
        slow = self._slower[message.kind, what] > 1
        rest = int(slow.any(axis=0).argmin()) % self._sample.ranks.pp
        found = np.zeros(self._sample.job.layout.pp)
        for stage in (rest, *np.flatnonzero(slow[self.unit]).tolist()):
            found[stage] = self._closed_form_ps(message, what, stage, chain, *how)
        return np.where(slow[self.unit], found, found[rest])

    def _at_stage_ps(
        self,
        message: Message,
        what: str,
        stage: int,
        chain: bool,  # False: all links of a ring are as slow as its slowest
        n: int,
        size_bytes: float,
        scale: float,
    ) -> int:
        """Return the closed form of a collective on the idle network; 0 without one."""
        ranks, link = self._sample.groups(message), link_of(self._sample.job, message.network)
        groups = ranks if message.group == "embedding" else ranks + stage * self._grid.n
        how, hosts = self._grid.options(message, groups, link), self._hosts[groups]
        size = max(1, round(size_bytes))
        try:
            # More ranks use the sample's algorithm and wires, too.
            how = self._wires.settled(what, hosts, self._sample.bytes_of(message), how)
            hops = hops_of(what, hosts.shape[1], size, how)
            wire = self._wires.wire(replace(hops, chain=hops.chain and chain), hosts)
            how = replace(how, latency_ps=round(scale * link.step_latency))
            return closed_form_ps(what, n, size, wire, how)
        except InputError:
            return 0

    def transfer_ps(self, *, whole: bool) -> tuple[Ints, Ints]:
        """Return the times until a pipeline transfer from each stage is delivered, and until its
        last byte is sent."""
        n = self._sample.job.layout.pp
        message = next(
            (message for message in messages(self._sample.job) if message.kind == "pp"), None
        )
        if message is None:
            return np.zeros(n, np.int64), np.zeros(n, np.int64)
        scale, near = self._sample.scale, self._nearest(message)
        link = link_of(self._sample.job, message.network)
        software_ps = link.launch + link.step_latency
        if near is None:
            alone = np.full(n, round(message.time_ps(self.job)) - software_ps)
            return alone, alone
        near_bytes, took, _, size = near
        left = (self._left_ps - scale * software_ps) * self._slower["pp", "send"][self.unit]
        if whole:
            wire = _one_way(self._sample, message, self._hosts, self._wires)
            sends = [wire.send_ps(round(one)) for one in (near_bytes, size)]
            left = sends[1] + (left - sends[0]) / scale
            took = sends[1] + wire.delay_ps + (took - sends[0] - wire.delay_ps) / scale
        times = [np.rint(np.maximum(0, one)).astype(np.int64) for one in (took, left)]
        return times[0], times[1]


def forecast(
    sample: JobSample,
    steps: int,
    table: Table,
    network: Network,
    packets: PacketFormat,
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the forecast of a step of the whole job, from a sample's table of operations and its
    metrics (`job_metrics`).

    The step's parts are means over the stages of the slowest replica. "formula" has the same parts
    for the formula's slowest stage. "difference" is the forecast over the formula's step, minus
    one; "difference_by" divides it by kind of message, and "pipeline" for compute and bubble. Empty
    for a job of more than `MAX_REPLAYED` operations at one GPU per stage.
    """
    layout, wires = sample.job.layout, Wires(network, packets.payload_bytes, packets.header_bytes)
    measured = Measured(sample, table, wires)
    own = _replay(sample, sample.ranks.pp, sample.messages, measured.sampled_ps)
    full = replace(sample, micro_batches=layout.micro_batches, scale=1.0)
    whole = _replay(full, layout.pp, messages(sample.job), measured.whole_ps)
    if steps * whole.n_messages > MAX_REPLAYED:
        return {}
    owns, wholes = [], []
    for unit in measured.units(MAX_REPLAYED // (steps * whole.n_messages)).tolist():
        measured.unit = unit
        owns.append(_played(own, steps, measured.transfer_ps(whole=False))[0])
        wholes.append(_played(whole, steps, measured.transfer_ps(whole=True)))
    own_ps = max(owns)
    whole_ps, step = max(wholes, key=lambda one: one[0])
    residual = metrics["step_ps"] / own_ps - 1
    total = whole_ps * (1 + residual)
    longer = total / step["time_ps"]
    names = _named(sample, metrics)
    formula = step_time(measured.job)
    pipeline_ps = formula.total_ps - sum(formula.exposed.values())
    parts = {name: longer * step[name] for name in PARTS}
    exposed = {names[kind]: longer * time for kind, time in step["exposed_ps"].items()}
    by_formula = {names[kind]: time for kind, time in formula.exposed.items()}
    apart = {"pipeline": sum(parts.values()) - pipeline_ps} | {
        name: exposed.get(name, 0.0) - by_formula.get(name, 0.0) for name in exposed | by_formula
    }
    return {
        "step_ps": total,
        "mfu": formula.mfu * formula.total_ps / total,
        "exposed": sum(exposed.values()) / total,
        "bubble": parts["bubble_ps"] / total,
        **parts,
        "exposed_ps": exposed,
        "residual": residual,
        "formula": {
            "step_ps": formula.total_ps,
            "mfu": formula.mfu,
            "exposed": sum(formula.exposed.values()) / formula.total_ps,
            "bubble": formula.bubble_ps / formula.total_ps,
            "compute_ps": pipeline_ps - formula.bubble_ps,
            "bubble_ps": formula.bubble_ps,
            "exposed_ps": by_formula,
        },
        "difference": total / formula.total_ps - 1,
        "difference_by": {name: time / formula.total_ps for name, time in apart.items()},
    }


def _named(sample: JobSample, metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of kinds with their network: as in the sample, else as by formula."""
    found = {
        message.kind: f"{SCALE_UP if message.network == 'scale_up' else SCALE_OUT} {message.kind}"
        for message in messages(sample.job)
    }
    shown = (name for step in metrics["steps"] for name in step["exposed_ps"])
    return found | {name.partition(" ")[2]: name for name in shown}


def _replay(
    sample: JobSample, pp: int, sent: tuple[Message, ...], took: Callable[[Message], Floats]
) -> Replay:
    """Return a sample's schedule at one rank per stage."""
    return Replay(
        sample.job,
        Ranks(pp=pp),
        sample.micro_batches,
        sample.scale,
        sample.formula,
        buckets=sample.buckets,
        took=took,
        sent=sent,
        measured=frozenset(message.kind for message in sample.messages),
    )


def _played(
    replay: Replay, steps: int, transfer_ps: tuple[Ints, Ints]
) -> tuple[float, dict[str, Any]]:
    """Return a replayed job's mean step, in ps, and its last step (`step_entry`)."""
    load = operations_of(replay, steps).lower(np.arange(len(replay.ranks)))
    tasks, operations = load.tasks, load.part(OperationTable)
    assert tasks is not None
    assert operations is not None
    took, left = (one[load.flows.src] for one in transfer_ps)
    start, end = task_times(tasks, load.flows, took, left)
    ready = np.zeros(len(tasks), np.int64)
    first, then = tasks.edges()
    np.maximum.at(ready, then, end[first])
    states = TaskStates(ready, start, end, np.ones_like(end), end - start)
    sends = np.flatnonzero(tasks.kind == SEND)
    flow_start = np.zeros(max(1, len(load.flows)), np.int64)
    flow_start[tasks.flow[sends]] = start[sends] + tasks.duration_ps[sends]
    step = np.repeat(np.arange(steps, dtype=np.int32), len(operations) // steps)
    found = step_times(operation_table(operations, tasks, states, flow_start, step))
    return found[-1].end_ps / len(found), step_entry(found[-1], None)


SCALES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)

SMALL = 0.03  # distortion for which no other sample is proposed


class Distortion(NamedTuple):
    """Model FLOPs utilization and exposed share of a sample, and its distortion."""

    mfu: float
    exposed: float
    most: float

    def __str__(self) -> str:
        return f"MFU {100 * self.mfu:.1f} %, exposed {100 * self.exposed:.1f} %"


def proposal(
    sample: JobSample, hosts: Ints, wires: Wires, budget_s: float, seconds: float
) -> str | None:
    """Return two sentences: the sample that distorts least within `budget_s`, and this sample's
    distortion; None if this one hardly distorts and fits, or for a job of `dp_levels` or a sample
    of some stages.

    `hosts` are the hosts of the sample's ranks; this sample takes `seconds`.
    """
    layout, payload_bytes = sample.job.layout, wires.payload_bytes
    if sample.ranks.pp < layout.pp or layout.dp_levels is not None:
        return None
    apart = sample.ranks.tp * sample.ranks.cp
    if hosts.size <= apart:
        return None
    delay_ps = wires.wire(ONE_WAY, hosts[[0, apart]]).delay_ps  # to the next replica or stage
    whole = replace(sample, micro_batches=layout.micro_batches, scale=1.0)
    target = shares(by_formula(whole, layout.replicas, delay_ps))
    own = distortion_of(sample, delay_ps, target)
    if own.most <= SMALL and seconds <= budget_s:
        return None
    per_packet = seconds / _packets(sample, payload_bytes)
    found: list[tuple[float, float, JobSample, Distortion]] = []
    for one in _smaller(sample):
        for scale in SCALES:
            scaled = replace(one, scale=scale)
            time = per_packet * _packets(scaled, payload_bytes)
            if time <= budget_s:
                distortion = distortion_of(scaled, delay_ps, target)
                found.append((distortion.most, time, scaled, distortion))
                break
    text = f"The job has {Distortion(*target, 0.0)} by formula, this sample {own}."
    if not found:
        return f"{text} No sample takes less than {budget_s:.0f} s."
    _, time, best, distortion = min(found, key=lambda one: one[:2])
    keys = {
        "replicas": best.ranks.dp,
        "micro_batches": best.micro_batches,
        "message_scale": best.scale,
    }
    named = ", ".join(f"{key} = {value:g}" for key, value in keys.items())
    least = f"{100 * distortion.most:.1f} %"
    return (
        f"{text} In {budget_s:.0f} s (--budget), {named} distorts least: {distortion}, "
        f"{least} off, about {time:.0f} s of simulation."
    )


def _smaller(sample: JobSample) -> Iterator[JobSample]:
    """Yield samples with halves of the replicas and of the micro-batches, at full scale."""
    layout = sample.job.layout
    how: dict[str, Any] = {"formula": sample.formula, "how": sample.how, "buckets": sample.buckets}
    for replicas in _halves(layout.replicas):
        for batches in _halves(layout.micro_batches):
            size = {"replicas": replicas, "tensor_ranks": sample.ranks.tp, "micro_batches": batches}
            try:
                yield sample_job(sample.job, size, **how)
            except InputError:  # not a multiple that the schedule or the experts need
                continue


def _halves(n: int) -> list[int]:
    return [n >> k for k in range(n.bit_length()) if n % (1 << k) == 0]


def by_formula(sample: JobSample, replicas: int, delay_ps: int) -> StepTime:
    job = sample.job
    batch = sample.micro_batches * replicas * job.layout.micro_batch
    link = job.machine.scale_out
    latency = link.step_latency + round(delay_ps / sample.scale)
    machine = replace(job.machine, scale_out=replace(link, step_latency=latency, measured=()))
    layout = replace(job.layout, dp=replicas, global_batch=batch)
    return step_time(replace(job, layout=layout, machine=machine))


def shares(step: StepTime) -> tuple[float, float]:
    """Return model FLOPs utilization and the share of exposed communication."""
    return step.mfu, sum(step.exposed.values()) / step.total_ps


def distortion_of(sample: JobSample, delay_ps: int, target: tuple[float, float]) -> Distortion:
    mfu, exposed = shares(by_formula(sample, sample.ranks.dp, delay_ps))
    return Distortion(mfu, exposed, max(abs(mfu / target[0] - 1), abs(exposed - target[1])))


def _packets(sample: JobSample, payload_bytes: int) -> int:
    """Estimate the number of packets that a sample's step sends, with ring collectives."""
    found = 1
    for message, times in sample.occurrences():
        if message.kind in sample.formula:
            continue
        sends, parts = (1, 1) if message.what == "send" else (message.n - 1, message.n)
        sends *= 1 + (message.what == "all_reduce")
        found += times * sends * -(-sample.bytes_of(message) // parts // payload_bytes)
    return found * len(sample.ranks) // sample.ranks.pp
