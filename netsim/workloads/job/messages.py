"""Ranks of a job, their placement on hosts, and their messages, analytic and simulated.

A rack has R hosts and one scale-up network: host h is number h % R of rack h // R.

- `consecutive`: in order of rank: tensor-parallel groups on adjacent hosts, then replicas, then
  pipeline stages.
- `rail_aligned`: replica after replica, each in whole racks with adjacent stages. The ranks of a
  data-parallel group have the same number in their racks, so they share a rail.
- `paper`: a rack holds replicas of one stage, four in "I've Got 99 Problems But FLOPS Ain't One"
  (HotNets 2024), section 4. Racks of a stage are adjacent; sites follow each other. A GPU is at
  (site, stage, rack, replica in the rack, tensor rank); adjacent stages also share rails.
- `random`: as `consecutive`, but in racks in random order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.columns import Ints, Rng
from netsim.workloads.job.job import Held, Job, embedding_parameters, head_parameters
from netsim.workloads.job.machine import Estimate, Link, Shape
from netsim.workloads.job.work import CHUNKS, layer_held, sizes_of

PLACEMENTS = ("consecutive", "rail_aligned", "paper", "random")


def place(name: str, ranks: Ranks, rack_hosts: int, n_hosts: int, rng: Rng) -> Ints:
    """int64[ranks]: the host of each rank, by a placement in PLACEMENTS. Raises InputError if there
    are too few hosts, or the job does not fit racks of `rack_hosts`."""
    if name == "random":
        n = max(n_hosts, len(ranks))
        moved = np.arange(n).reshape(-1, 1 if n % rack_hosts else rack_hosts)
        hosts = rng.permutation(moved).reshape(-1)[: len(ranks)]
    elif name == "paper":
        hosts = _as_in_the_paper(ranks, rack_hosts)
    elif name == "rail_aligned":
        hosts = _rail_aligned(ranks, rack_hosts)
    elif name == "consecutive":
        hosts = np.arange(len(ranks))
    else:
        hint = ", ".join(PLACEMENTS)
        raise InputError(f'unknown placement "{name}"', hint=hint, code="unknown_value")
    if hosts.max() >= n_hosts:
        message = f"{len(ranks):,} ranks need {hosts.max() + 1:,} hosts; there are {n_hosts:,}"
        raise InputError(message, hint="use a larger network, or a sample of the job")
    return hosts


def _rail_aligned(ranks: Ranks, rack_hosts: int) -> Ints:
    replica = ranks.tp * ranks.cp * ranks.pp
    if replica % rack_hosts and ranks.dp > 1:
        message = f"replicas of {replica} ranks do not fill racks of {rack_hosts} hosts"
        raise InputError(message, hint=f"tp x cp x pp must be a multiple of {rack_hosts}")
    order = ranks.numbers.transpose(1, 0, 2, 3).reshape(-1)
    hosts = np.empty(len(ranks), np.int64)
    hosts[order] = np.arange(len(ranks))
    return hosts


def _as_in_the_paper(ranks: Ranks, rack_hosts: int) -> Ints:
    replica = ranks.tp * ranks.cp
    if ranks.levels is None:
        in_rack = math.gcd(ranks.dp, max(1, rack_hosts // replica))
        levels = (in_rack, ranks.dp // in_rack, 1)
    else:
        levels = ranks.levels
    in_rack, racks, sites = levels
    if in_rack * replica > rack_hosts:
        message = f"{in_rack} replicas of {replica} ranks exceed a rack of {rack_hosts} hosts"
        raise InputError(message, hint=f"at most {rack_hosts // replica} replicas per rack")
    shape = (ranks.pp, sites, racks, in_rack, ranks.cp, ranks.tp)
    stage, site, rack, within, cp, tp = np.unravel_index(np.arange(len(ranks)), shape)
    number = (site * ranks.pp + stage) * racks + rack
    hosts: Ints = number * rack_hosts + (within * ranks.cp + cp) * ranks.tp + tp
    return hosts


def describe(
    ranks: Ranks, hosts: Ints, rack_hosts: int, max_racks: int = 16
) -> tuple[list[tuple[str, ...]], int]:
    """Return rows of a table of racks and the coordinates of their ranks, and the racks omitted.

    The first row names the columns. Coordinates are ranges ("0..7") where a rack has all of them.
    The last rack is always shown.
    """
    coordinates = ranks.coordinates()
    order = np.argsort(hosts, kind="stable")
    racks, first = np.unique(hosts[order] // rack_hosts, return_index=True)
    last = np.append(first[1:], order.size)
    shown = list(range(racks.size))
    if len(shown) > max_racks:
        shown = [*shown[: max_racks - 1], shown[-1]]
    rows: list[tuple[str, ...]] = [("rack", "hosts", *AXES)]
    for index in shown:
        one = order[first[index] : last[index]]
        values = [_range(coordinates[axis][one]) for axis in AXES]
        rows.append((str(racks[index]), _range(hosts[one]), *values))
    return rows, racks.size - len(shown)


def _range(values: Ints) -> str:
    """Format numbers as "3", "0..7", or "12 of 0..90"."""
    found = np.unique(values)
    if found.size == 1:
        return str(found[0])
    ends = f"{found[0]}..{found[-1]}"
    return ends if found.size == found[-1] - found[0] + 1 else f"{found.size} of {ends}"


AXES = ("pp", "dp", "cp", "tp")  # coordinates of a rank, slowest first
GROUPS = ("tp", "cp", "pp", "dp", "ep", "expert_dp", "s1", "s2", "s3")  # kinds of `Ranks.groups`


@frozen
class Ranks:
    """tp x cp x dp x pp ranks, numbered as in Megatron: tp fastest, then cp, dp, pp."""

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    # factors of dp: replicas per rack, racks, sites; the first fastest
    levels: tuple[int, int, int] | None = None
    ep: int = 1  # replicas that share the experts of a layer

    def __post_init__(self) -> None:
        if math.prod(self.dp_levels) != self.dp:
            rack, racks, sites = self.dp_levels
            message = f"{rack} x {racks} x {sites} replicas conflict with dp = {self.dp}"
            raise InputError(message, key="layout.dp_levels")
        if self.dp % self.ep:
            message = f"{self.dp} replicas are not divisible by ep = {self.ep}"
            raise InputError(message, key="layout.ep")

    @property
    def dp_levels(self) -> tuple[int, int, int]:
        """Replicas per rack, racks, sites; by default one rack."""
        return self.levels or (self.dp, 1, 1)

    def __len__(self) -> int:
        return self.tp * self.cp * self.dp * self.pp

    @property
    def numbers(self) -> Ints:
        """int64[pp, dp, cp, tp]: ranks by coordinates."""
        return np.arange(len(self)).reshape(self.pp, self.dp, self.cp, self.tp)

    def coordinates(self) -> dict[str, Ints]:
        """Return int64[n] for each of AXES: the coordinates of each rank."""
        shape = self.numbers.shape
        return dict(zip(AXES, np.unravel_index(np.arange(len(self)), shape), strict=True))

    def groups(self, kind: str) -> Ints:
        """int64[groups, members]: the groups of a kind, in order of rank.

        `tp`, `cp` and `pp` vary one axis; `dp` varies dp and cp (same weights). `ep` are adjacent
        replicas, `expert_dp` the ranks with the same experts in all of them. `s1`, `s2` and `s3`
        divide `dp`: within a rack, across racks of a site, across sites. Raises KeyError for
        another kind.
        """
        rack, racks, sites = self.dp_levels
        by_level = (self.pp, sites, racks, rack, self.cp, self.tp)
        by_expert = (self.pp, self.dp // self.ep, self.ep, self.cp, self.tp)
        shape, over = {
            "tp": (self.numbers.shape, (3,)),
            "cp": (self.numbers.shape, (2,)),
            "pp": (self.numbers.shape, (0,)),
            "dp": (self.numbers.shape, (1, 2)),
            "ep": (by_expert, (2,)),
            "expert_dp": (by_expert, (1, 3)),
            "s1": (by_level, (3, 4)),
            "s2": (by_level, (2,)),
            "s3": (by_level, (1,)),
        }[kind]
        rest = [axis for axis in range(len(shape)) if axis not in over]
        members = math.prod(shape[axis] for axis in over)
        ordered: Ints = self.numbers.reshape(shape).transpose(*rest, *over)
        return ordered.reshape(-1, members)


@frozen
class Message:
    """A collective or a send of one GPU."""

    kind: str
    what: str
    size_bytes: int  # the whole buffer at one GPU (all-to-all: its whole input), or the sent bytes
    group: str
    n: int
    when: str  # its pass in each micro-batch, or "step": once at the end of a step
    per: str  # layer, dense_layer, moe_layer, virtual_stage, embedding or head
    times: int = 1  # sequential repetitions
    network: str = "scale_out"  # scale_up, scale_out or wan
    waits: bool = False  # compute waits for it, even if messages of its kind overlap

    def time_ps(self, job: Job) -> float:
        """Return the time of one message on an idle network, in ps.

        A ring over several domains uses the ports of all its members in each domain, up to the
        rate of the scale-up network. An all-to-all sends only to other domains on the scale-out
        network. Measured collectives take the measured time.
        """
        link = link_of(job, self.network)
        if curves := link.curves(self.what):
            return curves.time_ps(self._shape(job), self.size_bytes, link.rate)
        if self.network == "scale_out" and self.what == "all_to_all":
            beside = members_of_domain(job, self.group)
            return link.time_ps(self.what, self.n, self.size_bytes, beside)
        if self.network == "scale_out" and self.what != "send":
            together = link.rate * members_of_domain(job, self.group)
            link = replace(link, rate=min(together, max(job.machine.scale_up.rate, link.rate)))
        return link.time_ps(self.what, self.n, self.size_bytes)

    def estimate(self, job: Job) -> Estimate:
        """Return `time_ps` with its interval, which only measured collectives have."""
        link = link_of(job, self.network)
        if curves := link.curves(self.what):
            return curves.estimate(self._shape(job), self.size_bytes, link.rate)
        return Estimate(self.time_ps(job))

    def _shape(self, job: Job) -> Shape:
        """Return the number of domains that the group spans, and its members in each."""
        if self.network == "scale_up":
            return Shape(1, self.n)
        members = min(members_of_domain(job, self.group), self.n)
        return Shape(2, 1) if self.what == "send" else Shape(-(-self.n // members), members)


def link_of(job: Job, network: str) -> Link:
    machine = job.machine
    if network == "wan":
        return Link(rate=machine.wan_rate, launch=machine.wan_delay)
    return machine.scale_up if network == "scale_up" else machine.scale_out


class Group(NamedTuple):
    """The size of a group, the number of adjacent ranks that it spans, and the distance between
    members. Ranks are numbered tp first, then cp, dp and pp."""

    n: int
    span: int
    stride: int


@lru_cache(maxsize=1024)
def groups_of(job: Job) -> dict[str, Group]:
    """Return each kind of group, as in `Ranks.groups`; "embedding" joins first and last stage."""
    layout = job.layout
    tp, cp, ep, replicas = layout.tp, layout.cp, layout.ep, layout.replicas
    stage = tp * cp * replicas
    rack, racks, sites = layout.dp_levels or (replicas, 1, 1)
    return {
        "tp": Group(tp, tp, 1),
        "cp": Group(cp, tp * cp, tp),
        "ep": Group(ep, tp * cp * ep, tp * cp),
        "pp": Group(layout.pp, layout.gpus, stage),
        "embedding": Group(2 if layout.pp > 1 else 1, layout.gpus, stage),
        "dp": Group(replicas * cp, stage, tp),
        "expert_dp": Group(replicas * cp // ep, stage, tp * cp * ep),
        "s1": Group(rack * cp, rack * tp * cp, tp),
        "s2": Group(racks, stage // sites, rack * tp * cp),
        "s3": Group(sites, stage, stage // sites),
    }


def group_sizes(job: Job) -> dict[str, int]:
    """Return the size of each kind of group."""
    return {kind: group.n for kind, group in groups_of(job).items()}


def network_of(job: Job, kind: str) -> str:
    """Return the network of a kind of group; levels of data parallelism have their own."""
    fixed = {"s1": "scale_up", "s2": "scale_out", "s3": "wan"}
    fits = groups_of(job)[kind].span <= job.machine.domain_gpus
    return fixed.get(kind) or ("scale_up" if fits else "scale_out")


def networks_of_kinds(job: Job) -> dict[str, str]:
    """Return the network of each kind of messages: scale-up, or scale-out for any other."""
    names = {"scale_up": "scale-up"}
    return {message.kind: names.get(message.network, "scale-out") for message in messages(job)}


def members_of_domain(job: Job, kind: str) -> int:
    """Return how many members of a group share a scale-up domain; 1 for stages and levels."""
    if kind not in ("tp", "cp", "ep", "dp", "expert_dp"):
        return 1
    return max(1, job.machine.domain_gpus // groups_of(job)[kind].stride)


@lru_cache(maxsize=1024)
def messages(job: Job) -> tuple[Message, ...]:
    """Return all messages of a job, without groups of one GPU."""
    found = [*_tensor(job), *_context(job), *_experts(job), *_pipeline(job), *_data(job)]
    return tuple(one for one in found if one.n > 1 and one.size_bytes > 0)


def _message(
    job: Job,
    kind: str,
    what: str,
    size: float,
    *,
    when: str,
    per: str,
    times: int = 1,
    group: str = "",
) -> Message:
    group = group or kind
    n, network = group_sizes(job)[group], network_of(job, group)
    return Message(kind, what, round(size), group, n, when, per, times, network)


def _tensor(job: Job) -> Iterator[Message]:
    """Yield tensor-parallel messages: gathered inputs, reduced outputs of each block.

    With `overlap.tp_comm`, the last chunk of outputs has nothing to overlap with; embedding and
    head are not chunked.
    """
    sizes, layout, blocks = sizes_of(job), job.layout, job.model.blocks
    size = sizes.activation * sizes.tokens * job.model.hidden
    reduce = "reduce_scatter" if layout.sp else "all_reduce"
    of_block = ("all_gather", reduce) if layout.sp else (reduce,)
    rows = [(what, when, "layer", blocks) for when in _passes(job) for what in of_block]
    if layout.sp and layout.regather:
        rows.append(("all_gather", "backward_weight", "layer", blocks))
    rows.append((reduce, "forward", "embedding", 1))
    if layout.sp:
        rows.append(("all_gather", "backward_weight", "embedding", 1))
        rows.append(("all_gather", "forward", "head", 1))
    rows.append((reduce, "backward_input", "head", 1))
    for what, when, per, times in rows:
        last = 0.0 if per == "layer" else 1.0
        if layout.sp and per == "layer" and what == reduce and when in ("forward", "recompute"):
            last = 1 / CHUNKS
        if not job.overlap.tp_comm:
            last = 1.0
        for share, waits in ((1 - last, False), (last, True)):
            one = _message(job, "tp", what, share * size, when=when, per=per, times=times)
            yield replace(one, waits=waits)


def _passes(job: Job) -> tuple[str, ...]:
    """Return the passes of a layer that send activations or their gradients."""
    again = ("recompute",) if job.layout.recompute == "full" else ()
    return ("forward", *again, "backward_input")


def _context(job: Job) -> Iterator[Message]:
    """Yield context-parallel messages: keys and values; backward, also gradients."""
    sizes, model, layout = sizes_of(job), job.model, job.layout
    size = sizes.activation * sizes.tokens * model.kv_width_of(layout.tp) * layout.cp
    for when in _passes(job):
        yield _message(job, "cp", "all_gather", size, when=when, per="layer")
    yield _message(job, "cp", "reduce_scatter", size, when="backward_input", per="layer")


def _experts(job: Job) -> Iterator[Message]:
    """Yield expert-parallel messages: token dispatch and result combine, in each pass."""
    sizes, model, layout = sizes_of(job), job.model, job.layout
    copies = min(model.active_experts, layout.ep_domains or model.active_experts)
    numbers = sizes.own_tokens * copies * model.hidden
    dispatch, combine = (job.precision.bytes_of(name) for name in ("dispatch", "activations"))
    for when in _passes(job):
        for each in (dispatch, combine):
            yield _message(job, "ep", "all_to_all", each * numbers, when=when, per="moe_layer")


def _pipeline(job: Job) -> Iterator[Message]:
    """Yield activations to the next virtual stage and their gradients back."""
    sizes, layout = sizes_of(job), job.layout
    whole = sizes.activation * sizes.tokens * job.model.hidden
    split = layout.sp or layout.scatter_gather
    size = whole / layout.tp if split else whole
    for when in ("forward", "backward_input"):
        yield _message(job, "pp", "send", size, when=when, per="virtual_stage")
        if split and not layout.sp and layout.pp > 1:
            yield _message(job, "tp", "all_gather", whole, when=when, per="virtual_stage")


def _data(job: Job) -> Iterator[Message]:
    """Yield gradient reductions, and gathers of weights sharded by ZeRO."""
    model, layout = job.model, job.layout
    embedding = embedding_parameters(model, layout.tp)
    if model.layers > model.moe_layers:
        yield from _gradients(job, layer_held(job, False), "dense_layer")
    if model.moe_layers:
        yield from _gradients(job, layer_held(job, True), "moe_layer")
    yield from _gradients(job, embedding, "embedding")
    yield from _gradients(job, head_parameters(model, layout.tp, layout.pp), "head")
    if model.tied_embeddings and layout.pp > 1:
        size = embedding.total * job.precision.bytes_of("reduce")
        yield _message(job, "embedding", "all_reduce", size, when="step", per="embedding")


def _gradients(job: Job, held: Held, per: str) -> Iterator[Message]:
    layout, precision = job.layout, job.precision
    reduced = precision.bytes_of("reduce")
    if layout.dp_levels is not None:
        yield from _stages(job, held.total * reduced, per)
        return
    for kind, numbers in (("dp", held.dense), ("expert_dp", held.expert)):
        gradients, weights = numbers * reduced, numbers * precision.bytes_of("weights")
        if layout.zero == 0:
            yield _message(job, kind, "all_reduce", gradients, when="step", per=per)
            continue
        when = "backward_weight" if layout.zero == 3 else "step"
        yield _message(job, kind, "reduce_scatter", gradients, when=when, per=per)
        if layout.zero == 3:
            for gathered in ("forward", "backward_input"):
                yield _message(job, kind, "all_gather", weights, when=gathered, per=per)
        else:
            yield _message(job, kind, "all_gather", weights, when="step", per=per)


def _stages(job: Job, gradient: float, per: str) -> Iterator[Message]:
    """Yield stages S1 to S5 of gradients over racks and datacenters.

    Hierarchical: shards are reduced inside the rack, then across racks, exchanged between
    datacenters, and gathered in reverse. The paper counts all-reduces in S1 and S2, plus the
    gathers of S4 and S5 ("I've Got 99 Problems But FLOPS Ain't One", section 4.1).
    """
    assert job.layout.dp_levels is not None
    rack, racks, _ = job.layout.dp_levels
    reduce = "all_reduce" if job.layout.accounting == "paper" else "reduce_scatter"
    plan = (
        ("dp_s1", reduce, gradient, "s1"),
        ("dp_s2", reduce, gradient / rack, "s2"),
        ("dp_s3", "send", gradient / rack / racks, "s3"),
        ("dp_s4", "all_gather", gradient / rack, "s2"),
        ("dp_s5", "all_gather", gradient, "s1"),
    )
    for kind, what, size, group in plan:
        yield _message(job, kind, what, size, group=group, when="step", per=per)
