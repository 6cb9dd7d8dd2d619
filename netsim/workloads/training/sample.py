"""The simulated sample of a job, and how it represents the whole; routing of tokens to experts.

"Part of a large job" and "Expert routing" in `netsim/workloads/training/README.md` describe both.
Experts are placed on ranks in blocks, the first block on the first rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from netsim.errors import InputError, errors_at
from netsim.frozen import frozen
from netsim.model.columns import Floats, Ints
from netsim.workloads.job.job import Job
from netsim.workloads.job.messages import Message, Ranks, group_sizes, messages
from netsim.workloads.job.schedules import PipelineSchedule, check_schedule, make_schedule
from netsim.workloads.job.step import matrix_flops
from netsim.workloads.job.work import head_kernels, layer_kernels, sizes_of
from netsim.workloads.operations import CollectiveOptions


@frozen(eq=False)
class Routing:
    """Routing of a job's tokens."""

    # float64[layers, sources, ranks], share of a source's tokens to each rank of its group. Higher
    # layers and sources wrap around.
    shares: Floats
    tokens: int  # tokens drawn per source and micro-batch, k experts for each; 0: send exact shares
    seed: int  # seed of the draws

    def bytes_of(self, layer: Ints, micro_batch: Ints, groups: int, size_bytes: int) -> Ints:
        """int64[rows, groups, ranks, ranks]: bytes from each rank of a group to each other rank.
        Each row is a layer and a micro-batch; `size_bytes` is the total sent by one rank."""
        n_layers, n_sources, n = self.shares.shape
        shares = self.shares[layer % n_layers][:, np.arange(n) % n_sources]
        if not self.tokens:
            sent = np.broadcast_to(shares[:, None], (layer.size, groups, n, n))
            fixed: Ints = np.rint(sent * size_bytes).astype(np.int64)
            return fixed
        found = np.empty((layer.size, groups, n, n), np.int64)
        for row, (one, batch) in enumerate(zip(layer.tolist(), micro_batch.tolist(), strict=True)):
            rng = np.random.Generator(np.random.Philox([self.seed, one * 2**32 + batch]))
            found[row] = rng.multinomial(self.tokens, shares[row], size=(groups, n))
        drawn: Ints = np.rint(found * (size_bytes / self.tokens)).astype(np.int64)
        return drawn


def zipf(job: Job, exponent: float, seed: int) -> Routing:
    """Return a job's routing with Zipf-distributed popularity of experts."""
    experts, ep = job.model.experts, job.layout.ep
    popularity = np.arange(1, experts + 1) ** -float(exponent)
    rng = np.random.Generator(np.random.Philox([seed, 0x65700000]))
    order = np.array([rng.permutation(experts) for _ in range(job.model.layers)])
    shares = (popularity / popularity.sum())[order]
    by_rank = shares.reshape(job.model.layers, 1, ep, experts // ep).sum(-1)
    sizes = sizes_of(job)
    return Routing(by_rank, round(sizes.own_tokens * job.model.active_experts), seed)


def recorded(job: Job, counts: Floats) -> Routing:
    """Return routing by recorded tokens, float64[layers, sources, experts]."""
    shares = counts / counts.sum(-1, keepdims=True)
    ep = job.layout.ep
    by_rank = shares.reshape(*counts.shape[:2], ep, job.model.experts // ep).sum(-1)
    return Routing(by_rank, 0, 0)


KINDS = (
    *("tp", "cp", "ep", "pp", "dp", "expert_dp", "embedding"),
    *("dp_s1", "dp_s2", "dp_s3", "dp_s4", "dp_s5"),
)
"""Kinds of messages."""

ALWAYS_PACKETS = "pp"  # transfers between stages are always sent in packets


SIZES = ("stages", "replicas", "rack_replicas", "racks", "sites", "tensor_ranks", "micro_batches")
"""Sizes of a sample: the first stages of the pipeline; replicas, or with data-parallel levels those
per rack, racks per stage and site, and sites; the first ranks of each tensor-parallel group;
micro-batches per step."""


@frozen(eq=False)
class JobSample:
    """The simulated sample of a job."""

    job: Job  # the whole job
    ranks: Ranks  # simulated ranks
    micro_batches: int  # simulated micro-batches per step
    scale: float = 1.0  # factor for the bytes of all messages and all host times
    # kinds of messages that are timed by formula
    formula: frozenset[str] = field(default_factory=frozenset)
    # options of collectives by kind; the machine sets `latency_ps`
    how: Mapping[str, CollectiveOptions] = field(default_factory=dict)
    buckets: int = 1  # buckets of each layer's gradient
    routing: Routing | None = None  # routing of tokens to experts; None: uniform
    # int64[ranks], the scale-up network of each rank; None: there is none
    rack: Ints | None = None

    @cached_property
    def schedule(self) -> PipelineSchedule:
        layout = self.job.layout
        chunks = layout.virtual_stages
        return make_schedule(layout.schedule, self.ranks.pp, self.micro_batches, chunks)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The job's virtual stage of each position of the schedule."""
        pp = self.job.layout.pp
        chunks = range(self.job.layout.virtual_stages)
        return tuple(chunk * pp + stage for chunk in chunks for stage in range(self.ranks.pp))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The job's messages; for messages that are sent, `n` is the sample's group size."""
        found = []
        for message in messages(self.job):
            if message.kind in self.formula:
                found.append(message)
            elif self.group_size(message) > 1:
                found.append(replace(message, n=self.group_size(message)))
        return tuple(found)

    def group_size(self, message: Message) -> int:
        if message.kind == "embedding":
            return 2 if self.ranks.pp == self.job.layout.pp else 1
        return int(self.groups(message).shape[1])

    def groups(self, message: Message) -> Ints:
        """int64[g, m]: ranks of a message's groups, of the first stage unless they span stages."""
        ranks = self.ranks
        if message.kind == "embedding":
            of_stage = len(ranks) // ranks.pp
            pairs: Ints = np.arange(of_stage)[:, None] + np.array([0, of_stage * (ranks.pp - 1)])
            return pairs
        return (ranks if message.group == "pp" else replace(ranks, pp=1)).groups(message.group)

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Layers that the sample computes, by position."""
        return tuple(n for k in self.positions for n in self.job.virtual_stages[k])

    @property
    def n_messages(self) -> int:
        """Approximate number of messages and compute operations per step."""
        found = 2 * self.micro_batches * (len(self.layers) + len(self.positions))
        for message, times in self.occurrences():
            sends = 1 if message.kind in self.timed or message.what == "send" else message.n - 1
            channels = self.how[message.kind].channels if message.kind in self.how else 1
            found += times * (2 * sends * channels + 1)
        return found * len(self.ranks) // self.ranks.pp

    def occurrences(self) -> Iterator[tuple[Message, int]]:
        """Yield messages, and how often per step they occur at one rank of every stage."""
        layers = self.layers
        moe = sum(self.job.model.has_experts(layer) for layer in layers)
        count = {"layer": len(layers), "moe_layer": moe, "dense_layer": len(layers) - moe}
        count["virtual_stage"] = len(self.positions)
        for message in self.messages:
            times = self.buckets if message.when == "step" else message.times * self.micro_batches
            yield message, count.get(message.per, 1) * times

    @property
    def model_flops(self) -> float:
        job = self.job
        kernels = [
            kernel
            for layer in self.layers
            for kernel in layer_kernels(job, job.model.has_experts(layer))
        ]
        if self.positions[-1] == len(job.virtual_stages) - 1:
            kernels += head_kernels(job)
        return 3 * matrix_flops(kernels) * self.micro_batches * len(self.ranks) / self.ranks.pp

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole job: all ranks and micro-batches at full size."""
        layout = self.job.layout
        same = (len(self.ranks), self.micro_batches) == (layout.gpus, layout.micro_batches)
        return same and self.scale == 1

    def neighbors(self, groups: Ints) -> int:
        """Return the number of adjacent members of each group, int64[g, m], that share a rack."""
        m = groups.shape[-1]
        if self.rack is None:
            return 1
        racks = self.rack[groups].reshape(-1, m)
        for size in range(m, 1, -1):
            blocks = racks.reshape(-1, size) if m % size == 0 else None
            if blocks is not None and (blocks == blocks[:, :1]).all():
                return size
        return 1

    @property
    def timed(self) -> frozenset[str]:
        """Kinds of messages that send no packets and take `message_ps`."""
        return self.formula

    def message_ps(self, message: Message, ranks: Ints) -> Floats:
        """Return the time of a message that sends no packets at ranks, in ps, before scaling."""
        return np.full(ranks.shape, message.time_ps(self.job))

    def queue_of(self, kind: str) -> str:
        """Return the kind of messages with the same stream: the kind itself."""
        return kind

    def bytes_of(self, message: Message) -> int:
        """Return a message's scaled size, at least one byte."""
        return max(1, round(message.size_bytes * self.scale))

    def time_ps(self, time_ps: float) -> int:
        """Return a scaled host time."""
        return round(time_ps * self.scale)


def sample_job(job: Job, sizes: Mapping[str, int | None], **how: Any) -> JobSample:
    """Return the sample of a job: `sizes` by name of `SIZES`, the whole if missing or None.

    `how` are the other attributes of `JobSample`. Raises InputError, with the key below `traffic`,
    if the job is smaller or cannot be sampled so.
    """
    layout, levels = job.layout, job.layout.dp_levels
    largest = {
        "stages": (layout.pp, "stages"),
        "tensor_ranks": (layout.tp, "tensor-parallel ranks"),
        "micro_batches": (layout.micro_batches, "micro-batches"),
    }
    if levels is None:
        largest["replicas"] = layout.replicas, "replicas"
        conflict = "flat data parallelism", "use replicas, or set dp_levels in [layout]"
    else:
        names = {"rack_replicas": "replicas per rack", "racks": "racks per stage and site"}
        names["sites"] = "sites"
        largest |= {name: (n, names[name]) for name, n in zip(names, levels, strict=True)}
        conflict = f"dp_levels, {list(levels)}", "use rack_replicas, racks and sites"
    n = {name: most for name, (most, _) in largest.items()}
    for name, asked in sizes.items():
        if asked is None:
            continue
        if name not in n:
            raise InputError(f"conflicts with the job's {conflict[0]}", key=name, hint=conflict[1])
        if not 1 <= asked <= n[name]:
            message = f"the job has {n[name]:,} {largest[name][1]}"
            raise InputError(message, key=name, hint=f"1 to {n[name]:,}")
        n[name] = asked
    if levels is not None:
        levels = n["rack_replicas"], n["racks"], n["sites"]
    dp = math.prod(levels) if levels else n["replicas"]
    if dp % layout.ep:
        message = f"{dp} replicas are not divisible by ep = {layout.ep}"
        key = "racks" if levels else "replicas"
        raise InputError(message, key=key, hint=f"a multiple of {layout.ep}")
    if n["tensor_ranks"] < layout.tp and "tp" not in how.get("formula", ()):
        part = f"{n['tensor_ranks']} of {layout.tp} tensor-parallel ranks"
        message = f"a sample of {part} cannot send to the others"
        raise InputError(message, key="tensor_ranks", hint='fidelity = {tp = "formula"}')
    with errors_at(key="micro_batches"):
        check_schedule(layout.schedule, n["stages"], n["micro_batches"], layout.virtual_stages)
    ranks = Ranks(n["tensor_ranks"], layout.cp, dp, n["stages"], levels, layout.ep)
    return JobSample(job, ranks, n["micro_batches"], **how)


def sample_notes(sample: JobSample, steps: int) -> tuple[str, ...]:
    """Describe the sample and what it omits."""
    job, ranks, layout = sample.job, sample.ranks, sample.job.layout
    whole = Ranks(layout.tp, layout.cp, layout.replicas, layout.pp, layout.dp_levels, layout.ep)
    notes = [
        f"{steps} step{'s' * (steps != 1)} of {job.name}: {_shape(whole)}, "
        f"{_batches(layout.micro_batches)}, schedule {layout.schedule}."
    ]
    if len(ranks) < len(whole) or sample.micro_batches < layout.micro_batches:
        notes.append(f"Simulated sample: {_shape(ranks)}, {_batches(sample.micro_batches)}.")
    if ranks.pp < layout.pp:
        notes.append(
            f"The first {ranks.pp:,} stages represent {layout.pp:,}: the bubble is "
            f"{ranks.pp - 1:,} stages long instead of {layout.pp - 1:,}, and the other stages and "
            "the head take no time."
        )
    notes += _group_notes(sample)
    if sample.micro_batches < layout.micro_batches:
        notes.append(
            f"{_batches(sample.micro_batches)} for {layout.micro_batches:,}: in the sample's "
            f"shares, bubble and work done once per step weigh "
            f"{layout.micro_batches / sample.micro_batches:,.3g} times as much; the forecast "
            "undoes this."
        )
    if sample.scale != 1:
        notes.append(
            f"Message sizes, compute times and software latencies are multiplied by "
            f"{sample.scale:g}; delays of links and switches are not, so in the sample's shares "
            f"they weigh {1 / sample.scale:,.4g} times as much; the forecast undoes this."
        )
    timed = [
        kind
        for kind in KINDS
        if kind in sample.formula & {message.kind for message in messages(job)}
    ]
    if timed:
        notes.append(
            f"Timed by formula on idle links: {', '.join(timed)}. They send no packets, and their "
            "ranks do not wait for each other."
        )
    return tuple(notes)


def _batches(n: int) -> str:
    return f"{n:,} micro-batch{'es' * (n != 1)}"


def _shape(ranks: Ranks) -> str:
    sizes = [f"{name} {getattr(ranks, name)}" for name in ("tp", "cp", "pp", "dp", "ep")]
    used = [text for text in sizes if not text.endswith(" 1")]
    return f"{len(ranks):,} GPUs" + (f" ({', '.join(used)})" if used else "")


def _group_notes(sample: JobSample) -> list[str]:
    notes = []
    tp, of = sample.ranks.tp, sample.job.layout.tp
    if tp < of:
        notes.append(
            f"{tp} of {of} ranks of each tensor-parallel group represent all: each has a rail of "
            "its own with the same traffic; traffic between rails is omitted."
        )
    levels = sample.job.layout.dp_levels
    if levels is not None and sample.ranks.dp_levels[0] < levels[0]:
        n = sample.ranks.dp_levels[0]
        notes.append(f"{n} of {levels[0]} replicas in each rack represent{'s' * (n == 1)} all.")
    sizes = group_sizes(sample.job)
    done = set()
    for message in messages(sample.job):
        n, there = sample.group_size(message), sizes.get(message.group, 0)
        if (
            message.kind in done
            or message.kind in sample.formula
            or message.group in ("pp", "tp")
            or n == there
        ):
            continue
        done.add(message.kind)
        if n == 1:
            notes.append(
                f"{message.kind} is omitted: one rank of each group of {there:,} is simulated."
            )
        else:
            share = (n - 1) / n / ((there - 1) / there)
            notes.append(
                f"{message.kind} is among {n:,} ranks instead of {there:,}: it sends {share:.1%} "
                f"of the bytes, in {n - 1:,} ring steps instead of {there - 1:,}."
            )
    return notes
