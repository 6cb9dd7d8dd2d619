"""Chakra execution traces (MLCommons): one file `PREFIX.RANK.et` per rank.

A node starts when its data and control dependencies are done. COMP takes the time in the trace or,
with `tflops`, the time of its operations or of its bytes at `memory`; nodes without a duration take
no time. COMM_SEND and COMM_RECV are messages, matched by source, destination and tag; COMM_COLL are
collectives, simulated in packets and matched by their order within a process group. Groups come
from `groups` or METADATA nodes; "", "0" and none mean all ranks. As in ASTRA-sim, comm_size is one
rank's shard of an all-gather or gather, otherwise the whole.

With `concurrency = "one_each"` a rank's CPU, GPU and network each run one node at a time, as in
ASTRA-sim, except receives. They run in the order of their earliest start without contention;
ASTRA-sim takes whichever is ready first. With "all", nodes run as soon as they are ready.

Ranks that differ in the order of their collectives, sends without receives, and missing nodes are
errors before the run.

With `system`, ASTRA-sim's JSON, collectives use its algorithms, have as many `channels` as it has
chunks (preferred-dataset-splits), and delay each message by its endpoint-delay; with a roofline,
peak-perf and local-mem-bw are `tflops` and `memory`. The experiment's own values take precedence.
Source: astra-sim/astra-sim, examples/system, CollectiveImplLookup.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_json, user_path
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, PS_BITS
from netsim.model.columns import Flags, Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import listed, written
from netsim.workloads.operations import CollectiveOptions, Operations, Wires
from netsim.workloads.traffic import _chakra_trace as et
from netsim.workloads.traffic._chakra_trace import ChakraTrace, Groups
from netsim.workloads.traffic._matching import PostedMessages, match, order_by_start, posted
from netsim.workloads.traffic._options import (
    COLLECTIVE_PARAMS,
    PLACEMENT_PARAMS,
    hosts_of,
    how_of,
    wires_of,
)

BITS_PER_GB = 8 * 2**30

SYSTEM_COLLECTIVES = {
    name: name.replace("-", "_")
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
}
SYSTEM_ALGORITHMS = {
    "ring": "ring",
    "oneRing": "ring",
    "direct": "direct",
    "oneDirect": "direct",
    "halvingDoubling": "halving_doubling",
    "oneHalvingDoubling": "halving_doubling",
    "doubleBinaryTree": "double_binary_tree",
}
"""ASTRA-sim's names and netsim's."""

BEHIND = ("-implementation", "-implementation-custom")
SPLITS, ACTIVE, DELAY = "preferred-dataset-splits", "active-chunks-per-dimension", "endpoint-delay"
ROOFLINE, PEAK, MEMORY = "roofline-enabled", "peak-perf", "local-mem-bw"
UNREAD = (
    *("scheduling-policy", "collective-optimization", "boost-mode", "trace-enabled"),
    *("replay-only", "local-mem-trace-filename", "track-local-mem"),
)
"""Ignored keys: netsim or the trace determines these."""


@frozen
class System:
    """The collectives and compute rates of a system."""

    algorithms: Mapping[str, str]  # netsim's names of collectives and algorithms
    channels: int  # number of chunks of a collective
    latency_ps: int  # of each message
    # tflops, memory_bps: of a rank; None: computations take the time in the trace
    tflops: float | None
    memory_bps: int | None
    unread: tuple[str, ...]  # ignored keys in the file


def read_system(path: Path) -> System:
    """Read a system. Raises InputError with the key."""
    body = read_json(path)
    with errors_at(file=path):
        return _system(body)


def _system(body: Any) -> System:
    if not isinstance(body, dict):
        raise InputError("is not an object", hint='such as {"all-reduce-implementation": ["ring"]}')
    algorithms = {}
    known = {SPLITS, ACTIVE, DELAY, ROOFLINE, PEAK, MEMORY, *UNREAD}
    for name, what in SYSTEM_COLLECTIVES.items():
        known |= {name + end for end in BEHIND}
        if name + BEHIND[1] in body:
            hint = "use that file as traffic of kind chakra, or msccl for its XML source"
            raise InputError(
                "custom algorithms are not supported here", key=name + BEHIND[1], hint=hint
            )
        if name + BEHIND[0] in body:
            algorithms[what] = _algorithm(name + BEHIND[0], body[name + BEHIND[0]])
    for key in body:
        if key not in known:
            raise InputError("is not a supported key", key=str(key), hint=", ".join(sorted(known)))
    roofline = bool(_number(body, ROOFLINE, 0))
    memory = _number(body, MEMORY, 0)
    return System(
        algorithms=algorithms,
        channels=max(1, int(_number(body, SPLITS, 1))),
        latency_ps=round(_number(body, DELAY, 0) * 1000),
        tflops=_number(body, PEAK, 0) or None if roofline else None,
        memory_bps=round(memory * BITS_PER_GB) or None if roofline else None,
        unread=tuple(key for key in (*UNREAD, ACTIVE) if key in body),
    )


def _algorithm(key: str, given: Any) -> str:
    if not isinstance(given, list) or len(given) != 1:
        hint = 'one; for several dimensions traffic.algorithm = "hierarchical" and traffic.node'
        raise InputError(f"{written(given)} is not a list of one algorithm", key=key, hint=hint)
    name = re.sub(r"(?<=irect)[0-9]+$", "", given[0]) if isinstance(given[0], str) else ""
    if name not in SYSTEM_ALGORITHMS:
        raise InputError(
            f"{written(given[0])} is not an algorithm", key=key, hint=", ".join(SYSTEM_ALGORITHMS)
        )
    return SYSTEM_ALGORITHMS[name]


def _number(body: Mapping[str, Any], key: str, default: float) -> float:
    value = body.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1e9:
        raise InputError(f"{written(value)} is not a number", key=key, hint="0 or more, below 10^9")
    return float(value)


ONE_EACH, _ = AT_ONCE = ("one_each", "all")

PARAMS = [
    Param("file", "file", REQUIRED, "prefix of the traces, the part before .0.et"),
    Param("groups", "file", None, "JSON file of process groups, if traces lack them"),
    Param("concurrency", "choice", ONE_EACH, "concurrent nodes of a rank", choices=AT_ONCE),
    Param("tflops", "ratio", None, "10^12 operations/s of a rank, for nodes with num_ops"),
    Param("memory", "rate", None, "memory bandwidth of a rank, for memory-bound nodes"),
    Param("system", "file", None, "ASTRA-sim system file, with defaults"),
    *COLLECTIVE_PARAMS,
    *PLACEMENT_PARAMS,
]


def reads(params: Params, directory: Path) -> list[Path]:
    """Return the trace files, which no parameter names."""
    return et.trace_files(_prefix(params, directory))


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    prefix = _prefix(params, context.directory)
    traces = [et.read_trace(path) for path in et.trace_files(prefix)]
    context.reserve(sum(map(len, traces)), key="traffic.file")
    hosts = hosts_of(params, len(traces), network.n_hosts, context.directory, rng)
    system = None
    if params["system"] is not None:
        system = read_system(user_path(params["system"], context.directory))
    rates = _compute_rates(params, system, context)
    with errors_at(file=prefix):
        known = et.groups_of((one for trace in traces for one in trace.tables), len(traces))
        if params["groups"] is not None:
            path = user_path(params["groups"], context.directory)
            known |= et.read_groups(path, len(traces))
        nodes = nodes_of(traces, known)
        hows = {one: _how(params, one, system) for one in WHATS.values()}
        load = ChakraOperations(nodes, rates, hows).lower(hosts, wires_of(network, context))
    return load if system is None else replace(load, notes=(*load.notes, *_notes(params, system)))


def _how(params: Params, what: str, system: System | None) -> CollectiveOptions:
    """Return collective options: the experiment's, or else the system's."""
    how = how_of(params, what)
    if system is None:
        return how
    own = how.algorithm != "auto"
    return replace(
        how,
        algorithm=how.algorithm if own else system.algorithms.get(what, "auto"),
        channels=system.channels if how.channels == 1 else how.channels,
        latency_ps=how.latency_ps or system.latency_ps,
    )


def _notes(params: Params, system: System) -> Iterator[str]:
    name = written(Path(params["system"]).name)
    if system.unread:
        yield f"{name}: {', '.join(system.unread)} are read past"
    if system.channels > 1:
        yield f"{name}: a collective is cut into {system.channels} chunks that all go at once"


def _compute_rates(params: Params, system: System | None, context: TrafficContext) -> ComputeRates:
    if params["tflops"] is None and system is not None and system.tflops is not None:
        params = {**params, "tflops": system.tflops, "memory": system.memory_bps}
    if params["memory"] is not None and params["tflops"] is None:
        hint = "how many operations a rank does in a second"
        raise InputError("needs traffic.tflops", key="traffic.memory", hint=hint)
    if params["tflops"] is not None and params["tflops"] <= 0:
        raise InputError("must be positive", key="traffic.tflops", code="out_of_range")
    return ComputeRates(
        one_at_a_time=params["concurrency"] == ONE_EACH,
        flops=None if params["tflops"] is None else params["tflops"] * 1e12,
        memory_bps=params["memory"],
        rate_bps=context.host_rate_bps,
    )


def _prefix(params: Params, directory: Path) -> Path:
    return user_path(params["file"].removesuffix(et.SUFFIX), directory)


WHATS = {name: name.lower().removesuffix("_block") for name in et.COLLECTIVES}
"""netsim's names of Chakra's collectives."""

OF_SHARDS = ("ALL_GATHER", "GATHER")  # collectives whose comm_size is one rank's shard
MAX_NAMED = 3  # largest number of nodes named in an error


@frozen
class Nodes:
    """N nodes, by rank and id; columns are int64[N] unless stated otherwise."""

    traces: Sequence[ChakraTrace]
    # rank, local: rank of each node, and its index in the rank's trace
    rank: Ints
    local: Ints
    kind: Ints  # of `netsim.workloads.traffic._chakra_trace`
    duration_ps: Ints
    numbers: Mapping[str, Ints]  # numeric attributes, or MISSING
    group: Ints  # index into `groups` for collectives, else -1
    groups: tuple[tuple[int, ...], ...]  # the ranks of each process group
    group_names: tuple[str, ...]  # names of groups in the traces
    # first, then: int64[m], nodes of one rank; the second waits for the first
    first: Ints
    then: Ints
    order: Ints  # the nodes in the order in which their ranks are likely to issue them

    def __len__(self) -> int:
        return int(self.rank.size)

    def name(self, node: int) -> str:
        """Return the name for messages, such as 'node 7 (COMP "matmul") of rank 3'."""
        rank = int(self.rank[node])
        return f"{self.traces[rank].name(int(self.local[node]))} of rank {rank}"

    def fail(self, bad: Flags, what: str, hint: str | None = None) -> None:
        """Raise one error for all `bad` nodes."""
        found = np.flatnonzero(bad)
        if found.size:
            names = listed(found.tolist(), MAX_NAMED, self.name)
            raise InputError(f"{found.size:,} nodes {what}: {names}", hint=hint)


def nodes_of(traces: Sequence[ChakraTrace], known: Groups) -> Nodes:
    """Return all nodes; `known` are the process groups by name. Raises InputError for unknown
    groups and groups without the rank."""
    sizes = [len(trace) for trace in traces]
    begin = np.cumsum([0, *sizes]).tolist()
    orders = [np.argsort(trace.id, kind="stable") for trace in traces]
    group, names = _groups(traces, orders)
    edges = []
    for trace, order, at in zip(traces, orders, begin, strict=False):
        place = np.empty(len(trace), np.int64)
        place[order] = np.arange(at, at + len(trace))
        edges.append((place[trace.first], place[trace.then]))

    def column(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        parts = [one[order] for one, order in zip(values, orders, strict=True)]
        return np.concatenate(parts)

    rank = np.repeat(np.arange(len(traces)), sizes)
    first, then = (np.concatenate(side) for side in zip(*edges, strict=True))
    kind = column([trace.kind for trace in traces])
    made = Nodes(
        traces=traces,
        rank=rank,
        local=np.concatenate(orders),
        kind=kind,
        duration_ps=column([trace.duration_us for trace in traces]) * et.PS_PER_US,
        numbers={
            name: column([trace.attributes.numbers[name] for trace in traces])
            for name in et.NUMBERS
        },
        group=np.where(kind == et.COLLECTIVE, group, -1),
        groups=tuple(_ranks(name, known, len(traces)) for name in names),
        group_names=names,
        first=first,
        then=then,
        order=posted(rank, first, then),
    )
    partial = column([trace.attributes.partial for trace in traces])
    _check(made, (kind == et.COLLECTIVE) & partial, known)
    return made


def _groups(traces: Sequence[ChakraTrace], orders: Sequence[Ints]) -> tuple[Ints, tuple[str, ...]]:
    """Return each node's process group, an index into names; "" for none."""
    places: dict[str, int] = {"": 0}
    parts = []
    for trace, order in zip(traces, orders, strict=True):
        of_trace = [places.setdefault(name, len(places)) for name in trace.attributes.groups]
        parts.append(np.array([*of_trace, 0], np.int64)[trace.attributes.group[order]])
    return np.concatenate(parts), tuple(places)


def _ranks(name: str, known: Groups, n_ranks: int) -> tuple[int, ...]:
    return known.get(name, tuple(range(n_ranks)) if name in et.ALL else ())


def _check(nodes: Nodes, partial: Flags, known: Groups) -> None:
    size = np.array([len(ranks) for ranks in nodes.groups], np.int64)
    unknown = (nodes.group >= 0) & (size[nodes.group] == 0)
    names = sorted({nodes.group_names[k] for k in nodes.group[unknown].tolist()})
    some = ", ".join(map(written, names[:MAX_NAMED])) + ", ..." * (len(names) > MAX_NAMED)
    listed = f"{len(known):,} groups are known" if known else "no groups are known"
    nodes.fail(unknown, f"name unknown process groups ({some})", f"{listed}; see groups")
    member = np.zeros((len(nodes.groups), len(nodes.traces)), np.bool_)
    for k, ranks in enumerate(nodes.groups):
        member[k, list(ranks)] = True
    outside = (nodes.group >= 0) & ~member[nodes.group, nodes.rank]
    nodes.fail(outside, "are collectives of process groups without their rank")
    hint = "use a process group instead"
    nodes.fail(partial, "involve only some dimensions of a network (involved_dim)", hint)


def instances(nodes: Nodes) -> list[Ints]:
    """Return collectives as nodes, int64[g, n]: the k-th of a group at each of its n ranks. Raises
    InputError if ranks of a group differ in their collectives or order."""
    issued = nodes.order[nodes.kind[nodes.order] == et.COLLECTIVE]
    issued = issued[np.argsort(nodes.group[issued], kind="stable")]
    found = []
    bounds = np.searchsorted(nodes.group[issued], np.arange(len(nodes.groups) + 1))
    for k, ranks in enumerate(nodes.groups):
        of_group = issued[bounds[k] : bounds[k + 1]]
        if of_group.size:
            found.append(_agreed(nodes, k, ranks, of_group))
    return found


def _agreed(nodes: Nodes, group: int, ranks: tuple[int, ...], issued: Ints) -> Ints:
    """Return the collectives of one group from its nodes in issue order."""
    rank = nodes.rank[issued]
    rows = [issued[rank == one] for one in ranks]
    what, size = nodes.numbers["comm_type"], sized(nodes)
    least = min(map(len, rows))
    for one, row in zip(ranks, rows, strict=True):
        same = (what[row[:least]] == what[rows[0][:least]]) & (
            size[row[:least]] == size[rows[0][:least]]
        )
        bad = np.flatnonzero(~same)
        if not bad.size and len(row) == len(rows[0]):
            continue
        at = int(bad[0]) if bad.size else min(len(row), len(rows[0]))
        texts = [_collective_name(nodes, r, at) for r in (rows[0], row)]
        raise InputError(
            f"process group {written(nodes.group_names[group])}: collective {at} is "
            f"{texts[0]} at rank {ranks[0]}, {texts[1]} at rank {one}",
            hint="ranks of a group must run the same collectives in the same order",
        )
    return np.stack(rows, axis=1)


def _collective_name(nodes: Nodes, row: Ints, at: int) -> str:
    if at >= row.size:
        return "none"
    what = et.COLLECTIVES[nodes.numbers["comm_type"][row[at]]]
    return f"{what} of {sized(nodes)[row[at]]} B ({nodes.name(int(row[at]))})"


def sized(nodes: Nodes) -> Ints:
    """int64[N]: comm_size, 0 for barriers."""
    barrier = (nodes.kind == et.COLLECTIVE) & (nodes.numbers["comm_type"] == et.BARRIER)
    return np.where(barrier, 0, nodes.numbers["comm_size"])


def messages(nodes: Nodes) -> tuple[Ints, Ints]:
    """Return the send and the receive of each message. Raises InputError for mismatches."""
    numbers = nodes.numbers
    sends, receives = nodes.kind == et.SEND, nodes.kind == et.RECV
    hint = "traces converted from PyTorch lack it"
    nodes.fail(sends & (numbers["comm_dst"] == et.MISSING), "send and have no comm_dst", hint)
    nodes.fail(receives & (numbers["comm_src"] == et.MISSING), "receive and have no comm_src", hint)
    nodes.fail((sends | receives) & (numbers["comm_tag"] == et.MISSING), "have no comm_tag", hint)
    for name, which in (("comm_src", sends), ("comm_dst", receives)):
        other = (numbers[name] != et.MISSING) & (numbers[name] != nodes.rank)
        nodes.fail(which & other, f"have a {name} that is not their own rank")
    n = len(nodes.traces)
    for name, which in (("comm_dst", sends), ("comm_src", receives)):
        beyond = (numbers[name] < 0) | (numbers[name] >= n)
        nodes.fail(which & beyond, f"have a {name} that is not a rank", f"ranks are 0..{n - 1}")
    send, receive = (nodes.order[which[nodes.order]] for which in (sends, receives))
    # A message's tag is never a wildcard.
    tag = numbers["comm_tag"] + np.where(numbers["comm_tag"] < 0, -1, 0)
    ends = [
        PostedMessages(nodes.rank[which], numbers[name][which], tag[which])
        for which, name in ((send, "comm_dst"), (receive, "comm_src"))
    ]
    send = send[match(*ends)]
    size = numbers["comm_size"]
    other = np.zeros(len(nodes), np.bool_)
    other[receive] = (size[receive] != et.MISSING) & (size[receive] != size[send])
    nodes.fail(other, "receive sizes that differ from their sends")
    return send, receive


CPU, GPU, COMMUNICATION = range(3)  # streams: a rank's resources, each for one node at a time
ROOTED = ("REDUCE", "GATHER", "SCATTER", "BROADCAST")  # traces do not name their roots
LABELED = 100_000  # largest number of operations that get their nodes' names as labels
P2P = "p2p"  # kind of point-to-point messages


@frozen
class ComputeRates:
    """Compute rates of a rank."""

    one_at_a_time: bool  # whether CPU, GPU and COMMUNICATION each run one node at a time
    flops: float | None  # operations per second; None: nodes take the time in the trace
    memory_bps: int | None  # memory bandwidth in bit/s; with `flops`
    rate_bps: int  # rate of hosts, to estimate the order in streams


class ChakraOperations:
    """Nodes as `Operations`; `made` is the operation of each, int64[N]."""

    def __init__(
        self, nodes: Nodes, rates: ComputeRates, hows: Mapping[str, CollectiveOptions]
    ) -> None:
        self.nodes, self.rates, self.hows = nodes, rates, hows
        self.name = written(nodes.traces[0].path.name.removesuffix(et.SUFFIX))
        self.ops = Operations(len(nodes.traces))
        self.made = np.full(len(nodes), -1, np.int64)
        self.collectives = instances(nodes)
        self.send, self.receive = messages(nodes)
        self.size = sized(nodes)
        self.duration_ps, self.by_roofline = self._durations()
        self.labels = self._labels()
        self._compute()
        self._exchange()
        for rows in self.collectives:
            self._communicate(rows)
        self.ops.after(self.made[nodes.first], self.made[nodes.then])
        if rates.one_at_a_time:
            self._share()

    def lower(self, hosts: Ints, wires: Wires) -> Workload:
        """Lower to tasks and flows. Raises InputError, with the nodes, for cycles."""
        load = self.ops.lower(hosts, reduction=wires.network.reduction, wires=wires)
        return replace(load, notes=tuple(self._notes()))

    def _durations(self) -> tuple[Ints, Flags]:
        """int64[N], compute times, and which of them come from the roofline."""
        of, rates = self.nodes, self.rates
        compute = of.kind == et.COMP
        lasts = np.where(compute, of.duration_ps, 0)
        by_roofline = compute & (of.numbers["num_ops"] > 0)
        if rates.flops is None:
            return lasts, by_roofline & False
        seconds = of.numbers["num_ops"] / rates.flops
        if rates.memory_bps is not None:
            moved = np.maximum(of.numbers["tensor_size"], 0) * 8 / rates.memory_bps
            seconds = np.maximum(seconds, moved)
        took = np.where(by_roofline, seconds, 0) * 1e12
        of.fail(took >= HORIZON_PS, "take 20 h or more by traffic.tflops")
        return np.where(by_roofline, np.rint(took).astype(np.int64), lasts), by_roofline

    def _stream(self, which: Ints) -> Any:
        if not self.rates.one_at_a_time:
            return -1
        of = self.nodes
        on_cpu = of.numbers["is_cpu_op"][which] > 0
        return np.where(on_cpu, CPU, np.where(of.kind[which] == et.COMP, GPU, COMMUNICATION))

    def _compute(self) -> None:
        of = self.nodes
        alone = ~np.isin(of.kind, (et.SEND, et.RECV, et.COLLECTIVE))
        lasts = np.flatnonzero(alone & (self.duration_ps > 0))
        self.made[lasts] = self.ops.compute(
            of.rank[lasts], self.duration_ps[lasts], self._stream(lasts), self._label(lasts)
        )
        joins = np.flatnonzero(alone & (self.duration_ps == 0))
        self.made[joins] = self.ops.join(of.rank[joins], label=self._label(joins))

    def _exchange(self) -> None:
        of = self.nodes
        far = of.rank[self.send] != of.rank[self.receive]
        send, receive = self.send[far], self.receive[far]
        self.made[send], self.made[receive] = self.ops.send(
            of.rank[send],
            of.rank[receive],
            np.maximum(self.size[send], 1),
            stream=self._stream(send),
            kind=P2P,
            label=self._label(send),
        )
        for which in (self.send[~far], self.receive[~far]):
            self.made[which] = self.ops.join(of.rank[which], label=self._label(which))
        self.ops.after(self.made[self.send[~far]], self.made[self.receive[~far]])

    def _communicate(self, rows: Ints) -> None:
        """Add the collectives of a process group: int64[g, n], each rank's node."""
        of, names = self.nodes, np.array(et.COLLECTIVES)
        kinds = names[of.numbers["comm_type"][rows[:, 0]]]
        for kind in dict.fromkeys(kinds.tolist()):
            these = rows[kinds == kind]
            what = WHATS[kind]
            shards = rows.shape[1] if kind in OF_SHARDS else 1
            self.made[these] = self.ops.collective(
                what,
                of.rank[these],
                self.size[these[:, 0]] * shards,
                self.hows[what],
                self._stream(these),
                what,
                label=self._label(these.reshape(-1)),
            )

    def _share(self) -> None:
        """Order nodes of streams by their earliest start without contention. The collectives of a
        group have the same order at all ranks, so that none deadlocks."""
        of, n = self.nodes, len(self.nodes)
        instance = np.arange(n)
        lag = self.duration_ps.copy()
        flight = np.maximum(self.size, 0) * (PS_BITS / self.rates.rate_bps)
        lag[self.send] = flight[self.send]
        begins = []
        for rows in self.collectives:
            own = n + np.arange(len(rows))
            n += len(rows)
            instance[rows] = own[:, None]
            begins.append((rows.reshape(-1), np.repeat(own, rows.shape[1])))
            lag = np.concatenate([lag, flight[rows[:, 0]].astype(np.int64)])
        first = instance[of.first]
        edges = [(first, of.then, lag[first]), (self.send, self.receive, lag[self.send])]
        edges += [(one, then, np.zeros(one.size, np.int64)) for one, then in begins]
        self.ops.set_order(self.made, order_by_start(n, edges)[instance])

    def _labels(self) -> list[str] | None:
        if len(self.nodes) > LABELED:
            return None
        of = self.nodes
        names = [trace.labels() for trace in of.traces]
        places = zip(of.rank.tolist(), of.local.tolist(), strict=True)
        return [names[rank][local] for rank, local in places]

    def _label(self, which: Ints) -> str | list[str]:
        return "" if self.labels is None else [self.labels[node] for node in which.tolist()]

    def _notes(self) -> Iterator[str]:
        of, total = self.nodes, len(self.nodes)
        computes, with_root = of.kind == et.COMP, [et.COLLECTIVES.index(name) for name in ROOTED]
        rooted = (of.kind == et.COLLECTIVE) & np.isin(of.numbers["comm_type"], with_root)
        counts = {
            "access memory, which takes no time": np.isin(of.kind, (et.MEM_LOAD, et.MEM_STORE)),
            "compute on the GPU in no time (see traffic.tflops)": computes
            & (self.duration_ps == 0)
            & (of.numbers["is_cpu_op"] <= 0),
            "send 0 bytes, simulated as 1 byte": (of.kind == et.SEND) & (self.size == 0),
            "are collectives with a root, assumed to be the group's first": rooted,
        }
        if self.rates.flops is not None:
            has_none = of.numbers["num_ops"] == et.MISSING
            timed = computes & has_none & (of.duration_ps > 0)
            counts["have no num_ops and take the time in the trace"] = timed
        for what, which in counts.items():
            if which.any():
                yield f"{self.name}: {int(which.sum()):,} of {total:,} nodes {what}"
