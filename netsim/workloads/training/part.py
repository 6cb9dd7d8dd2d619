"""Which part of a job is simulated, how, and what it stands for.

A step of a large job is alike for many of its GPUs. So a part of it stands for the whole: the first
stages of the pipeline, some of the replicas, some ranks of each tensor-parallel group, a shorter
batch. Messages and compute times of all ranks may be scaled by one factor, and a kind of messages
may be timed by its formula in place of being sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.job.job import Job
from netsim.workloads.job.messages import Message, group_sizes, messages
from netsim.workloads.job.ranks import Ranks
from netsim.workloads.job.schedules import PipelineSchedule, check_schedule, make_schedule
from netsim.workloads.job.step import matrix_flops
from netsim.workloads.job.work import head_kernels, layer_kernels
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.training.routing import Routing

KINDS = (
    *("tp", "cp", "ep", "pp", "dp", "expert_dp", "embedding"),
    *("dp_s1", "dp_s2", "dp_s3", "dp_s4", "dp_s5"),
)
"""Kinds of messages."""

ALWAYS_PACKETS = "pp"
"""What one stage waits for of another comes by packets, whatever they cost."""


@dataclass(frozen=True)
class Cut:
    """What of a job is simulated; None is all there is.

    Attributes:
        stages: the first ones of the pipeline.
        replicas: of a job whose data parallelism is flat.
        rack_replicas, racks, sites: of one that has levels: replicas in a rack, racks of a stage
            and site, and sites.
        tensor_ranks: the first ones of each tensor-parallel group.
        micro_batches: of a step.
    """

    stages: int | None = None
    replicas: int | None = None
    rack_replicas: int | None = None
    racks: int | None = None
    sites: int | None = None
    tensor_ranks: int | None = None
    micro_batches: int | None = None


@dataclass(frozen=True, eq=False)
class JobSample:
    """A part of a job that is simulated.

    Attributes:
        job: the whole job.
        ranks: of the part.
        micro_batches: of a step of the part.
        scale: by which the bytes of all messages and all times of hosts are multiplied.
        formula: kinds of messages that are timed by their formula.
        how: by kind of messages, how collectives are done; `latency_ps` is the machine's.
        buckets: in which each layer's gradient travels.
        routing: where tokens go that experts are exchanged for; None: as many to each.
        rack: int64[ranks], whose scale-up network each rank is in; None: there is none.
    """

    job: Job
    ranks: Ranks
    micro_batches: int
    scale: float = 1.0
    formula: frozenset[str] = field(default_factory=frozenset)
    how: Mapping[str, CollectiveOptions] = field(default_factory=dict)
    buckets: int = 1
    routing: Routing | None = None
    rack: NDArray[np.int64] | None = None

    @cached_property
    def schedule(self) -> PipelineSchedule:
        """The order in which its stages work."""
        layout = self.job.layout
        chunks = layout.virtual_stages
        return make_schedule(layout.schedule, self.ranks.pp, self.micro_batches, chunks)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The job's virtual stage of each place of the schedule."""
        pp = self.job.layout.pp
        chunks = range(self.job.layout.virtual_stages)
        return tuple(chunk * pp + stage for chunk in chunks for stage in range(self.ranks.pp))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The job's messages; `n` of those that are sent is that of the part's groups."""
        found = []
        for one in messages(self.job):
            if one.kind in self.formula:
                found.append(one)
            elif self.group_size(one) > 1:
                found.append(replace(one, n=self.group_size(one)))
        return tuple(found)

    def group_size(self, message: Message) -> int:
        """Ranks of the part in a group of a message."""
        if message.kind == "embedding":
            return 2 if self.ranks.pp == self.job.layout.pp else 1
        if message.group == "pp":
            return self.ranks.pp
        return int(self.ranks.groups(message.group).shape[1])

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the job's layers that it computes, in the order of its places."""
        return tuple(n for place in self.places for n in self.job.virtual_stages[place])

    @property
    def n_messages(self) -> int:
        """About how many messages its ranks send in a step, and pieces of work they compute."""
        layers = self.layers
        moe = sum(self.job.model.has_experts(layer) for layer in layers)
        count = {"layer": len(layers), "moe_layer": moe, "dense_layer": len(layers) - moe}
        count["virtual_stage"] = len(self.places)
        pieces = 2 * self.micro_batches * (len(layers) + len(self.places))
        for one in self.messages:
            sends = 1 if one.kind in self.formula or one.what == "send" else one.n - 1
            channels = self.how[one.kind].channels if one.kind in self.how else 1
            often = self.buckets if one.when == "step" else one.times * self.micro_batches
            pieces += count.get(one.per, 1) * often * (2 * sends * channels + 1)
        return pieces * len(self.ranks) // self.ranks.pp

    @property
    def model_flops(self) -> float:
        """Operations of one step of the part that the model needs, as in
        `netsim.workloads.job.step`."""
        job = self.job
        kernels = [
            one for layer in self.layers for one in layer_kernels(job, job.model.has_experts(layer))
        ]
        if self.places[-1] == len(job.virtual_stages) - 1:
            kernels += head_kernels(job)
        return 3 * matrix_flops(kernels) * self.micro_batches * len(self.ranks) / self.ranks.pp

    def neighbors(self, groups: NDArray[np.int64]) -> int:
        """How many neighboring members of each of `groups`, int64[g, m], are in one rack."""
        m = groups.shape[-1]
        if self.rack is None:
            return 1
        racks = self.rack[groups].reshape(-1, m)
        for size in range(m, 1, -1):
            blocks = racks.reshape(-1, size) if m % size == 0 else None
            if blocks is not None and (blocks == blocks[:, :1]).all():
                return size
        return 1

    def bytes_of(self, message: Message) -> int:
        """Its bytes, scaled: at least one."""
        return max(1, round(message.size_bytes * self.scale))

    def time_ps(self, time_ps: float) -> int:
        """A time of hosts, scaled."""
        return round(time_ps * self.scale)


def part_of(job: Job, cut: Cut, **how: Any) -> JobSample:
    """The part of a job that a cut leaves; `how` are the other attributes of `JobSample`.

    Raises:
        InputError: with the key below `traffic`, where the job has less than is asked for, or
            where it cannot be cut in this way.
    """
    layout = job.layout
    levels = layout.dp_levels
    if levels is None:
        for key in ("rack_replicas", "racks", "sites"):
            if getattr(cut, key) is not None:
                message = "the job's replicas have no levels"
                raise InputError(message, key=key, hint="replicas, or dp_levels in its [layout]")
        dp = _some(cut.replicas, layout.replicas, "replicas", "replicas")
    else:
        if cut.replicas is not None:
            message = f"the job's replicas have levels, {list(levels)}"
            raise InputError(message, key="replicas", hint="rack_replicas, racks and sites")
        within = _some(cut.rack_replicas, levels[0], "rack_replicas", "replicas in a rack")
        racks = _some(cut.racks, levels[1], "racks", "racks of a stage in a site")
        sites = _some(cut.sites, levels[2], "sites", "sites")
        levels = (within, racks, sites)
        dp = within * racks * sites
    if dp % layout.ep:
        message = f"{dp} replicas cannot be divided into groups of {layout.ep} that share experts"
        key = "replicas" if levels is None else "racks"
        raise InputError(message, key=key, hint=f"a multiple of {layout.ep}")
    tp = _some(cut.tensor_ranks, layout.tp, "tensor_ranks", "ranks of tensor parallelism")
    if tp < layout.tp and "tp" not in how.get("formula", ()):
        raise InputError(
            f"{tp} of {layout.tp} tensor-parallel ranks send nothing to the others",
            key="tensor_ranks",
            hint='fidelity = {tp = "formula"}',
        )
    pp = _some(cut.stages, layout.pp, "stages", "stages")
    n = _some(cut.micro_batches, layout.micro_batches, "micro_batches", "micro-batches")
    try:
        check_schedule(layout.schedule, pp, n, layout.virtual_stages)
    except InputError as error:
        raise error.at(key="micro_batches") from None
    ranks = Ranks(tp=tp, cp=layout.cp, dp=dp, pp=pp, levels=levels, ep=layout.ep)
    return JobSample(job, ranks, n, **how)


def _some(asked: int | None, there_are: int, key: str, what: str) -> int:
    if asked is None:
        return there_are
    if not 1 <= asked <= there_are:
        raise InputError(f"the job has {there_are:,} {what}", key=key, hint=f"1 to {there_are:,}")
    return asked


def notes_of(part: JobSample, steps: int) -> tuple[str, ...]:
    """What the part stands for and what is thereby not modeled, in sentences."""
    job, ranks, layout = part.job, part.ranks, part.job.layout
    whole = Ranks(layout.tp, layout.cp, layout.replicas, layout.pp, layout.dp_levels, layout.ep)
    notes = [
        f"{steps} step{'s' * (steps != 1)} of {job.name}: {_shape(whole)}, "
        f"{_batches(layout.micro_batches)}, schedule {layout.schedule}."
    ]
    if len(ranks) < len(whole) or part.micro_batches < layout.micro_batches:
        notes.append(f"Simulated is a part, {_shape(ranks)}, {_batches(part.micro_batches)}.")
    notes += _of_stages(part)
    notes += _of_groups(part)
    if part.micro_batches < layout.micro_batches:
        notes.append(
            f"{_batches(part.micro_batches)} for {layout.micro_batches:,}: what is "
            "done once in a step, and the pipeline's bubble, are a larger share of it."
        )
    if part.scale != 1:
        notes.append(
            f"Bytes of all messages, compute times and latencies of software are multiplied by "
            f"{part.scale:g}; delays of links and switches are not, and weigh "
            f"{1 / part.scale:,.4g} times as much. Times of the job are those here over "
            f"{part.scale:g}."
        )
    timed = [kind for kind in KINDS if kind in part.formula & _kinds(job)]
    if timed:
        notes.append(
            f"Timed by formula, on links of their own: {', '.join(timed)}. They send no packets, "
            "disturb nobody, and ranks do not wait in them for one another."
        )
    return tuple(notes)


def _batches(n: int) -> str:
    return f"{n:,} micro-batch{'es' * (n != 1)}"


def _kinds(job: Job) -> set[str]:
    return {one.kind for one in messages(job)}


def _shape(ranks: Ranks) -> str:
    sizes = [f"{name} {getattr(ranks, name)}" for name in ("tp", "cp", "pp", "dp", "ep")]
    used = [text for text in sizes if not text.endswith(" 1")]
    return f"{len(ranks):,} GPUs" + (f" ({', '.join(used)})" if used else "")


def _of_stages(part: JobSample) -> list[str]:
    here, there = part.ranks.pp, part.job.layout.pp
    if here == there:
        return []
    return [
        f"The first {here:,} stages stand for {there:,}: the bubble is {here - 1:,} stages long in "
        f"place of {there - 1:,}, and what is behind them, the head included, takes no time."
    ]


def _of_groups(part: JobSample) -> list[str]:
    """What groups that have lost members send less."""
    notes = []
    tp, of = part.ranks.tp, part.job.layout.tp
    if tp < of:
        notes.append(
            f"{tp} of {of} ranks of each tensor-parallel group stand for all: their traffic is "
            "alike, on rails of its own; what leaves its rail is left out."
        )
    levels = part.job.layout.dp_levels
    if levels is not None and part.ranks.dp_levels[0] < levels[0]:
        here = part.ranks.dp_levels[0]
        notes.append(
            f"{here} of {levels[0]} replicas in each rack stand{'s' * (here == 1)} for all."
        )
    sizes = group_sizes(part.job)
    told = set()
    for one in messages(part.job):
        n, there = part.group_size(one), sizes.get(one.group, 0)
        if one.kind in told or one.kind in part.formula or one.group in ("pp", "tp") or n == there:
            continue
        told.add(one.kind)
        if n == 1:
            notes.append(f"{one.kind} is left out: of groups of {there:,} one rank is simulated.")
        else:
            share = (n - 1) / n / ((there - 1) / there)
            notes.append(
                f"{one.kind} is among {n:,} ranks in place of {there:,}: it sends {share:.1%} of "
                f"the bytes, in {n - 1:,} steps of a ring in place of {there - 1:,}."
            )
    return notes
