"""Lowering of operations to tasks and flows.

A compute, a join and each end of a message are one task. A collective at a rank starts with a join
that its sends wait for, and ends with a join that waits for its last sends and receives. Streams
become edges, except between consecutive computes, which are in one stream of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.model.columns import column_of, first_of
from netsim.model.network import Reduction
from netsim.model.tasks import Edges
from netsim.model.workload import Workload
from netsim.workloads.collectives import CollectiveOptions, algorithm_of
from netsim.workloads.operations.noted import UNIT, Collective, Ints, NotedOperations
from netsim.workloads.operations.table import WHATS, OperationTable
from netsim.workloads.operations.tables import OperationRows, Settled, TaskArrays, place
from netsim.workloads.operations.wires import Wires

MAX_NAMED = 6
"""Largest number of operations named in an error about a cycle."""


def lower(
    ops: NotedOperations,
    hosts: ArrayLike,
    classes: Mapping[str, int],
    reduction: Reduction | None,
    wires: Wires | None,
) -> Workload:
    columns = ops.columns()
    table = _operations(ops, columns, hosts)
    _check(ops, table, columns)
    if any(call.has_unit for call in ops.collectives):
        table = _with_units(ops, table, reduction)
    sends = np.zeros(len(table), bool)  # operations of collectives with flows
    for call in ops.collectives:
        call.of(sends)[:] = True
    lone = np.isin(table.what, [WHATS.index(what) for what in ("join", "send", "receive")])
    computes = ~sends & ~lone
    split = np.zeros(len(table), bool)  # those with a separate first task
    for one, _ in ops.starts:
        split[one] = True
    split &= ~sends
    order = _order(ops)
    by_order = None if order is None else order[computes[order]]
    rows = place(ops, split, by_order, _settled(table, wires))
    table = replace(table, begin_task=rows.begin, end_task=rows.end)
    own = rows.begin != rows.end
    edges = [_streams(table, order, computes & ~own), (rows.begin[own], rows.end[own])]
    edges += [(rows.end[one], rows.begin[then]) for one, then in ops.ends]
    edges += [(rows.begin[one], rows.begin[then]) for one, then in ops.starts]
    tables = TaskArrays(table, rows)
    tables.compute(np.flatnonzero(computes), columns["duration_ps"])
    for message, flow in zip(ops.messages, rows.message, strict=True):
        tables.messages(message.first, message.n, flow, columns["duration_ps"])
    for alike in rows.alike:
        edges += tables.collectives(alike)
    load = tables.workload(edges, classes)
    _check_hangs(load, rows)
    return load.with_part(table.without(table.rank == UNIT))


def _operations(ops: NotedOperations, columns: dict[str, Ints], hosts: ArrayLike) -> OperationTable:
    """Return the table of operations, still without tasks."""
    at = column_of(np.atleast_1d(np.asarray(hosts)), ops.n_ranks, np.int32, "hosts of ranks")
    rank = columns["rank"]
    for k in first_of((rank < 0) & ~_units(ops) | (rank >= ops.n_ranks)):
        what = WHATS[columns["what"][k]]
        raise InputError(f"{what} of rank {rank[k]}: ranks are 0..{ops.n_ranks - 1}")
    for k in first_of((columns["stream"] < -1) | (columns["stream"] >= 1 << 15)):
        raise InputError(f"stream {columns['stream'][k]} of rank {rank[k]}: streams are 0..32767")
    texts = list(ops.names)
    used, kind = np.unique(columns["kind"], return_inverse=True)
    label = None
    if columns["label"].any():
        label = np.array(texts, object)[columns["label"]].tolist()
    return OperationTable(
        rank=rank.astype(np.int32),
        host=at[rank],
        stream=columns["stream"].astype(np.int16),
        kind=kind.reshape(-1).astype(np.int16),
        kinds=tuple(texts[k] for k in used.tolist()),
        what=columns["what"].astype(np.int8),
        size_bytes=columns["size_bytes"],
        group=columns["group"],
        n=columns["n"].astype(np.int32),
        begin_task=np.zeros(len(ops), np.int64),
        end_task=np.zeros(len(ops), np.int64),
        label=label,
    )


def _units(ops: NotedOperations) -> NDArray[np.bool_]:
    """bool[n]: the operations of reduction units."""
    found = np.zeros(len(ops), bool)
    for call in ops.collectives:
        call.of(found)[:, call.n :] = True
    return found


def _with_units(
    ops: NotedOperations, table: OperationTable, reduction: Reduction | None
) -> OperationTable:
    """Return the table with the hosts of reduction units."""
    host = table.host.copy()
    for call in ops.collectives:
        if not call.has_unit:
            continue
        if reduction is None:
            raise InputError(
                f"{table.name(call.first)}: the network has no reduction units",
                hint="reduction_delay in [topology] of a fat_tree or multi_rail",
            )
        group = call.of(host)
        unit = reduction.unit[group[:, :-1]]
        for row, k in np.argwhere(unit != unit[:, :1])[:1].tolist():
            one, other = (call.of(table.rank)[row, at] for at in (0, k))
            raise InputError(
                f"{table.name(call.first + row * call.width)}: ranks {one} and {other} are on "
                "hosts of different switches, which share no reduction unit",
                hint="groups below one switch, or another algorithm",
            )
        group[:, -1] = unit[:, 0]
    return replace(table, host=host)


def _check(ops: NotedOperations, table: OperationTable, columns: dict[str, Ints]) -> None:
    """Raise InputError for the first invalid operation."""
    for k in first_of(columns["duration_ps"] < 0):
        raise InputError(f"{table.name(k)}: negative duration {columns['duration_ps'][k]} ps")
    message = np.isin(table.what, [WHATS.index("send"), WHATS.index("receive")])
    for k in first_of((message & (table.size_bytes < 1)) | (table.size_bytes < 0)):
        raise InputError(f"{table.name(k)}: invalid size {table.size_bytes[k]} bytes")
    for call in ops.collectives:
        ranks = np.sort(call.of(table.rank))
        for group, k in np.argwhere(ranks[:, 1:] == ranks[:, :-1])[:1].tolist():
            where = table.name(call.first + group * call.width)
            raise InputError(f"{where}: duplicate rank {ranks[group, k]} in its group")
    for pairs in (ops.ends, ops.starts):
        for one, then in pairs:
            for side in (one, then):
                for k in first_of((side < 0) | (side >= len(table))):
                    raise InputError(f"operation {side[k]} does not exist")
            for k in first_of(table.rank[one] != table.rank[then]):
                raise InputError(
                    f"{table.name(then[k])}: waits for {table.name(one[k])}",
                    hint="only operations of the same rank; messages and collectives connect ranks",
                )


def _settled(table: OperationTable, wires: Wires | None) -> Settled:
    """Return how to select the algorithm of each collective."""

    def settled(call: Collective, size_bytes: int) -> CollectiveOptions:
        how = call.how
        if how.algorithm != "auto":
            return how
        if size_bytes < 0:  # blocks of an all-to-all with individual sizes
            return replace(how, algorithm="direct")
        if wires is None:
            return replace(how, algorithm=algorithm_of(call.what, call.n, size_bytes, how))
        try:
            return wires.settled(call.what, call.of(table.host), size_bytes, how)
        except InputError as error:
            raise error.with_suffix(table.name(call.first)) from None

    return settled


def _order(ops: NotedOperations) -> Ints | None:
    """Return the operations in execution order; None: the order in which they were added."""
    if not ops.orders:
        return None
    order = np.zeros(len(ops), np.int64)
    for operations, given in ops.orders:
        order[operations] = given
    return np.argsort(order, kind="stable")


def _streams(table: OperationTable, order: Ints | None, alone: NDArray[np.bool_]) -> Edges:
    """Return edges between consecutive operations of a stream.

    Consecutive computes, `alone`, need none: they are in one stream of the engine.
    """
    inside = np.flatnonzero(table.stream >= 0) if order is None else order[table.stream[order] >= 0]
    key = table.rank[inside].astype(np.int64) << 16 | table.stream[inside]
    places = np.argsort(key, kind="stable")
    first, then = inside[places[:-1]], inside[places[1:]]
    same = (key[places[:-1]] == key[places[1:]]) & ~(alone[first] & alone[then])
    return table.end_task[first[same]], table.begin_task[then[same]]


def _check_hangs(load: Workload, rows: OperationRows) -> None:
    """Raise InputError, with their names, if operations wait for one another."""
    assert load.tasks is not None
    cycle = load.tasks.find_cycle(len(load.flows))
    if not cycle:
        return
    table, of = load.part(OperationTable), rows.operation_of()
    assert table is not None
    found = [int(of[task]) for task in reversed(cycle)]
    named = dict.fromkeys(k for k in found if k >= 0 and table.rank[k] != UNIT)
    names = [table.name(k) for k in named]
    if len(names) > MAX_NAMED:
        names[MAX_NAMED - 1 : -1] = [f"{len(names) - MAX_NAMED} others"]
    raise InputError(
        f"dependency cycle: {' -> '.join([*names, names[0]])}",
        hint="operations of a stream run in the order in which they were added; streams of several "
        "ranks must be consistent",
    )
