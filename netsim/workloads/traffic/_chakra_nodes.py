"""The nodes of all ranks' Chakra traces in one table, with their collectives and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.units import written
from netsim.workloads.importers.chakra import (
    BARRIER,
    COLLECTIVE,
    COLLECTIVES,
    PS_PER_US,
    RECV,
    SEND,
    ChakraTrace,
)
from netsim.workloads.importers.chakra_attributes import MISSING, NUMBERS
from netsim.workloads.importers.chakra_groups import ALL, Groups
from netsim.workloads.importers.matching import PostedMessages, match, posted

Ints = NDArray[np.int64]

WHATS = {
    "ALL_REDUCE": "all_reduce",
    "REDUCE": "reduce",
    "ALL_GATHER": "all_gather",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "BROADCAST": "broadcast",
    "ALL_TO_ALL": "all_to_all",
    "REDUCE_SCATTER": "reduce_scatter",
    "REDUCE_SCATTER_BLOCK": "reduce_scatter",
    "BARRIER": "barrier",
}
"""netsim's names of Chakra's collectives."""

OF_SHARDS = ("ALL_GATHER", "GATHER")
"""Collectives whose comm_size is one rank's shard."""

MAX_NAMED = 3
"""Largest number of nodes named in an error."""


@dataclass(frozen=True)
class Nodes:
    """N nodes, by rank and id; columns are int64[N] unless stated otherwise.

    Attributes:
        rank, local: rank of each node, and its index in the rank's trace.
        kind: of `netsim.workloads.importers.chakra`.
        numbers: numeric attributes, or MISSING.
        group: index into `groups` for collectives, else -1.
        groups: the ranks of each process group.
        group_names: names of groups in the traces.
        first, then: int64[m], nodes of one rank; the second waits for the first.
        order: the nodes in the order in which their ranks are likely to issue them.
    """

    traces: Sequence[ChakraTrace]
    rank: Ints
    local: Ints
    kind: Ints
    duration_ps: Ints
    numbers: Mapping[str, Ints]
    group: Ints
    groups: tuple[tuple[int, ...], ...]
    group_names: tuple[str, ...]
    first: Ints
    then: Ints
    order: Ints

    def __len__(self) -> int:
        return int(self.rank.size)

    def name(self, node: int) -> str:
        """Return the name for messages, such as 'node 7 (COMP "matmul") of rank 3'."""
        rank = int(self.rank[node])
        return f"{self.traces[rank].name(int(self.local[node]))} of rank {rank}"

    def fail(self, bad: NDArray[np.bool_], what: str, hint: str | None = None) -> None:
        """Raise one error for all `bad` nodes."""
        found = np.flatnonzero(bad)
        if found.size:
            names = ", ".join(self.name(node) for node in found[:MAX_NAMED].tolist())
            more = f" and {found.size - MAX_NAMED:,} others" if found.size > MAX_NAMED else ""
            raise InputError(f"{found.size:,} nodes {what}: {names}{more}", hint=hint)


def nodes_of(traces: Sequence[ChakraTrace], known: Groups) -> Nodes:
    """Return all nodes; `known` are the process groups by name.

    Raises InputError for unknown groups and those without the rank.
    """
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
        duration_ps=column([trace.duration_us for trace in traces]) * PS_PER_US,
        numbers={
            name: column([trace.attributes.numbers[name] for trace in traces]) for name in NUMBERS
        },
        group=np.where(kind == COLLECTIVE, group, -1),
        groups=tuple(_ranks(name, known, len(traces)) for name in names),
        group_names=names,
        first=first,
        then=then,
        order=posted(rank, first, then),
    )
    partial = column([trace.attributes.partial for trace in traces])
    _check(made, (kind == COLLECTIVE) & partial, known)
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
    return known.get(name, tuple(range(n_ranks)) if name in ALL else ())


def _check(nodes: Nodes, partial: NDArray[np.bool_], known: Groups) -> None:
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
    """Return collectives as nodes, int64[g, n]: the k-th of a group at each of its n ranks.

    Raises InputError if ranks of a group differ in their collectives or order.
    """
    issued = nodes.order[nodes.kind[nodes.order] == COLLECTIVE]
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
    what = COLLECTIVES[nodes.numbers["comm_type"][row[at]]]
    return f"{what} of {sized(nodes)[row[at]]} B ({nodes.name(int(row[at]))})"


def sized(nodes: Nodes) -> Ints:
    """int64[N]: comm_size, 0 for barriers."""
    barrier = (nodes.kind == COLLECTIVE) & (nodes.numbers["comm_type"] == BARRIER)
    return np.where(barrier, 0, nodes.numbers["comm_size"])


def messages(nodes: Nodes) -> tuple[Ints, Ints]:
    """Return the send and the receive of each message. Raises InputError for mismatches."""
    numbers = nodes.numbers
    sends, receives = nodes.kind == SEND, nodes.kind == RECV
    hint = "traces converted from PyTorch lack it"
    nodes.fail(sends & (numbers["comm_dst"] == MISSING), "send and have no comm_dst", hint)
    nodes.fail(receives & (numbers["comm_src"] == MISSING), "receive and have no comm_src", hint)
    nodes.fail((sends | receives) & (numbers["comm_tag"] == MISSING), "have no comm_tag", hint)
    for name, which in (("comm_src", sends), ("comm_dst", receives)):
        other = (numbers[name] != MISSING) & (numbers[name] != nodes.rank)
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
    other[receive] = (size[receive] != MISSING) & (size[receive] != size[send])
    nodes.fail(other, "receive sizes that differ from their sends")
    return send, receive
