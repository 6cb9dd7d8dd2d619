"""Operations of ranks, added one or many per call, and lowered to tasks and flows.

A compute, a join and each end of a message are one task. A collective at a rank starts with a join
that its sends wait for, and ends with a join that waits for its last sends and receives. Streams
become edges, except between consecutive computes, which are in one stream of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.model.columns import column_of, first_of
from netsim.model.network import Reduction
from netsim.model.tasks import Edges
from netsim.model.workload import Workload
from netsim.workloads.collectives import CollectiveOptions, algorithm_of, check_algorithm
from netsim.workloads.operations.noted import UNIT, Collective, Messages, NotedOperations
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


Ints = NDArray[np.int64]

IN_NETWORK = "in_network"
"""The algorithm that needs a reduction unit."""


class Operations(NotedOperations):
    """The operations of `n_ranks` ranks.

    Operations of one stream of a rank (0 and up) run in sequence, in the order in which they were
    added unless `set_order` changes it; those of stream -1 run when their dependencies are done. A
    stream may mix operations of all types.

    Arguments per operation are arrays of one shape, or single values for all; methods return
    operation indices in that shape. Times are in ps, sizes in bytes. A `label` is one text, or one
    per operation. Most errors are reported by `lower`.
    """

    def compute(
        self,
        rank: ArrayLike,
        duration_ps: ArrayLike,
        stream: ArrayLike = 0,
        label: str | Sequence[str] = "",
        kind: str = "",
    ) -> Any:
        """Add computations of `duration_ps`. Returns int64, the operations."""
        rank, duration_ps, stream = np.broadcast_arrays(rank, duration_ps, stream)
        return self._add(
            rank, what="compute", stream=stream, duration_ps=duration_ps, kind=kind, label=label
        )

    def join(self, rank: ArrayLike, stream: ArrayLike = -1, label: str | Sequence[str] = "") -> Any:
        """Add operations that take no time and end with their dependencies. Returns int64."""
        rank, stream = np.broadcast_arrays(rank, stream)
        return self._add(rank, what="join", stream=stream, label=label)

    def send(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        size_bytes: ArrayLike,
        stream: ArrayLike = -1,
        receive_stream: ArrayLike = -1,
        kind: str = "pp",
        latency_ps: ArrayLike = 0,
        label: str | Sequence[str] = "",
    ) -> tuple[Any, Any]:
        """Add messages from ranks `src` to ranks `dst`.

        `latency_ps` is the software time before a message. Returns int64 twice: operations at the
        source, which end when the message has left, and at the destination, which end with its
        delivery.
        """
        src, dst, size_bytes, stream, receive_stream, latency_ps = np.broadcast_arrays(
            src, dst, size_bytes, stream, receive_stream, latency_ps
        )
        common: dict[str, Any] = {"kind": kind, "label": label, "size_bytes": size_bytes, "n": 2}
        common["group"] = self._new_groups(src.size).reshape(src.shape)
        sent = self._add(src, what="send", stream=stream, duration_ps=latency_ps, **common)
        received = self._add(dst, what="receive", stream=receive_stream, **common)
        first, batch = len(self) - 2 * src.size, len(self._batches) - 2
        self.messages.append(Messages(first, src.size, batch))
        return sent, received

    def collective(
        self,
        what: str,
        groups: ArrayLike,
        size_bytes: ArrayLike,
        how: CollectiveOptions | str = "auto",
        stream: ArrayLike = -1,
        kind: str = "",
        duration_ps: ArrayLike | None = None,
        label: str | Sequence[str] = "",
    ) -> Any:
        """Add collectives of `groups`, int[g, n] (or int[n], one group).

        `size_bytes` (see `netsim.workloads.collectives`) is one value or int64[g]. For an
        all-to-all, int64[n, n] or int64[g, n, n] give the bytes between each pair of positions; 0
        sends no message. `how` is the name of an algorithm, or all options. With `duration_ps` no
        packets are sent: each rank is busy for that time in its stream.

        Returns int64 in the shape of `groups`, each rank's operation: it begins when its
        dependencies at that rank are done, and ends when everything for the rank is delivered and
        all of its sends have left.
        """
        how = CollectiveOptions(how) if isinstance(how, str) else how
        ranks = np.asarray(groups, np.int64)
        of_group = np.atleast_2d(ranks)
        g, n = of_group.shape
        sizes = np.asarray(size_bytes, np.int64)
        if sizes.ndim > 1 and (what != "all_to_all" or sizes.shape[-2:] != (n, n)):
            shape = "x".join(map(str, sizes.shape))
            raise InputError(f"sizes of {shape} for a {what} of {n} ranks")
        check_algorithm(what, how)
        has_unit = how.algorithm == IN_NETWORK and n > 1 and duration_ps is None
        stream = np.broadcast_to(stream, of_group.shape)
        if has_unit:
            of_group, stream = _with_unit(of_group, UNIT), _with_unit(stream, -1)
            if not isinstance(label, str):
                label = _with_unit(np.array(label, object).reshape(g, n), "").reshape(-1).tolist()
        of_rank = sizes.sum(-1) if sizes.ndim > 1 else sizes[..., None]
        made = self._add(
            of_group,
            what=what,
            stream=stream,
            duration_ps=0 if duration_ps is None else np.broadcast_to(duration_ps, of_group.shape),
            kind=kind,
            label=label,
            size_bytes=np.broadcast_to(of_rank, of_group.shape),
            n=n,
            group=np.broadcast_to(self._new_groups(g)[:, None], of_group.shape),
        )
        if duration_ps is None:
            first, batch = len(self) - made.size, len(self._batches) - 1
            self.collectives.append(Collective(first, batch, what, g, n, sizes, how, has_unit))
        return made[:, :n].reshape(ranks.shape)

    def after(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make operations `then` start after `first` end, each pair at one rank."""
        self.ends.append(_pairs(first, then))

    def after_start(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make operations `then` start after `first` start, each pair at one rank."""
        self.starts.append(_pairs(first, then))

    def set_order(self, operations: ArrayLike, order: ArrayLike) -> None:
        """Run operations of a stream by ascending `order`, 0 by default, ties as added."""
        self.orders.append(_pairs(operations, order))

    def lower(
        self,
        hosts: ArrayLike,
        classes: Mapping[str, int] | None = None,
        reduction: Reduction | None = None,
        wires: Wires | None = None,
    ) -> Workload:
        """Return all operations as tasks and flows, rank r at `hosts[r]` and kind k in class
        `classes[k]`.

        `reduction` describes the network's units for "in_network" collectives; `wires` lets "auto"
        choose for the network.

        Raises InputError, naming the operation, for invalid operations and dependency cycles.
        """
        return lower(self, hosts, classes or {}, reduction, wires)


def _with_unit(ranks: NDArray[Any], of_unit: Any) -> NDArray[Any]:
    """Append a unit's column to those of a group's ranks."""
    return np.concatenate([ranks, np.full((len(ranks), 1), of_unit, ranks.dtype)], axis=1)


def _pairs(one: ArrayLike, other: ArrayLike) -> tuple[Ints, Ints]:
    first, then = np.broadcast_arrays(np.asarray(one, np.int64), np.asarray(other, np.int64))
    return first.reshape(-1), then.reshape(-1)
