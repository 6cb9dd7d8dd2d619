"""Operations of ranks, added one or many per call, and lowered to tasks and flows.

A compute, a join and each end of a message are one task. A collective at a rank starts with a join
that its sends wait for, and ends with a join that waits for its last sends and receives. Streams
become edges, except between consecutive computes, which are in one stream of the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, PS_BITS
from netsim.model.columns import Edges, Flags, Ints, column_of, first_of
from netsim.model.flows import FlowTable
from netsim.model.network import Reduction
from netsim.model.workload import COMPUTE, JOIN, RECEIVE, SEND, TaskTable, Workload
from netsim.workloads.collectives import algorithm_of, check_algorithm, most_sends, schedule
from netsim.workloads.collectives.steps import CollectiveOptions, Steps
from netsim.workloads.operations.table import WHATS, OperationTable
from netsim.workloads.operations.wires import Wires

UNIT = -1  # rank of a reduction unit

MAX_EXACT_SENDS = 300_000  # larger schedules are estimated, not built, to count tasks

COLUMNS = ("rank", "what", "kind", "stream", "duration_ps", "size_bytes", "group", "n", "label")


class Messages(NamedTuple):
    """Messages of one call: `n` send operations from `first` on, followed by as many receives.
    `batch` is the batch of the sends; the receives are the next one."""

    first: int
    n: int
    batch: int


@frozen(eq=False)
class Collective:
    """Collectives of one call, a batch of operations from `first` on, group by group. The n ranks
    of a group may be followed by the unit of their switch, as rank `UNIT`."""

    first: int
    batch: int
    what: str
    groups: int
    n: int
    size_bytes: Ints
    how: CollectiveOptions
    has_unit: bool = False

    @property
    def width(self) -> int:
        return self.n + self.has_unit

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a view [groups, width] of a column of all operations."""
        end = self.first + self.groups * self.width
        return column[self.first : end].reshape(-1, self.width)


class Operations:
    """The operations of `n_ranks` ranks.

    Operations of one stream of a rank (0 and up) run in sequence, in the order in which they were
    added unless `set_order` changes it; operations of stream -1 run when their dependencies are
    done. A stream may mix operations of all types.

    Arguments per operation are arrays of one shape, or single values for all; methods return
    operation indices in that shape. Times are in ps, sizes in bytes. A `label` is one text, or one
    per operation. Most errors are reported by `lower`.
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.messages: list[Messages] = []
        self.collectives: list[Collective] = []
        self.ends: list[tuple[Ints, Ints]] = []  # edges that wait for an end, or for a start
        self.starts: list[tuple[Ints, Ints]] = []
        self.orders: list[tuple[Ints, Ints]] = []
        self.names = {"": 0}  # kinds and labels are indices of names
        self.batch_sizes: list[int] = []
        self._batches: list[tuple[Any, ...]] = []  # for each of COLUMNS a value or an array
        self._n_operations = self._n_groups = 0

    def __len__(self) -> int:
        return self._n_operations

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
        has_unit = how.algorithm == "in_network" and n > 1 and duration_ps is None
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
        choose an algorithm for the network.

        Raises InputError, naming the operation, for invalid operations and dependency cycles.
        """
        columns = self._columns()
        table = _operations(self, columns, hosts)
        _check(self, table, columns)
        if any(call.has_unit for call in self.collectives):
            table = _with_units(self, table, reduction)
        sends = np.zeros(len(table), bool)  # operations of collectives with flows
        for call in self.collectives:
            call.of(sends)[:] = True
        lone = np.isin(table.what, [WHATS.index(what) for what in ("join", "send", "receive")])
        computes = ~sends & ~lone
        split = np.zeros(len(table), bool)  # operations with a separate first task
        for one, _ in self.starts:
            split[one] = True
        split &= ~sends
        order = _order(self)
        by_order = None if order is None else order[computes[order]]
        rows = place(self, split, by_order, _settled(table, wires))
        table = replace(table, begin_task=rows.begin, end_task=rows.end)
        own = rows.begin != rows.end
        edges = [_streams(table, order, computes & ~own), (rows.begin[own], rows.end[own])]
        edges += [(rows.end[one], rows.begin[then]) for one, then in self.ends]
        edges += [(rows.begin[one], rows.begin[then]) for one, then in self.starts]
        tables = TaskArrays(table, rows)
        tables.compute(np.flatnonzero(computes), columns["duration_ps"])
        for message, flow in zip(self.messages, rows.message, strict=True):
            tables.messages(message.first, message.n, flow, columns["duration_ps"])
        for alike in rows.alike:
            edges += tables.collectives(alike)
        load = tables.workload(edges, classes or {})
        _check_hangs(load, rows)
        return load.with_part(table.without(table.rank == UNIT))

    def n_tasks(self, hosts: ArrayLike, wires: Wires) -> int:
        """Return the number of tasks of `lower`; an upper bound if a collective has many sends."""
        found, at = 2 * len(self), np.asarray(hosts)
        sends: dict[_Key, int] = {}

        def settled(call: Collective, size_bytes: int) -> CollectiveOptions:
            ranks = self._batches[call.batch][0].reshape(-1, call.width)
            return wires.settled(call.what, at[ranks], size_bytes, call.how)

        for call in self.collectives:
            for key, which in _keyed(call, settled):
                if key not in sends:
                    _, n, size_bytes, how = key
                    most = most_sends(how.algorithm, n, size_bytes, how)
                    sends[key] = len(_steps(key)) if most <= MAX_EXACT_SENDS else most
                found += 2 * sends[key] * len(range(call.groups)[which])
        return found

    def _columns(self) -> dict[str, Ints]:
        found = {}
        for k, name in enumerate(COLUMNS):
            given = [row[k] for row in self._batches]
            if all(np.ndim(one) == 0 for one in given):
                found[name] = np.repeat(np.array(given, np.int64), self.batch_sizes)
            else:
                found[name] = np.empty(len(self), np.int64)
                at = 0
                for n, one in zip(self.batch_sizes, given, strict=True):
                    found[name][at : at + n] = one
                    at += n
        return found

    def _add(
        self,
        rank: NDArray[Any],
        *,
        what: str,
        kind: str = "",
        label: str | Sequence[str] = "",
        **columns: Any,
    ) -> Any:
        """Add operations of one type at `rank`; return their indices in its shape."""
        values: dict[str, Any] = {"stream": -1, "duration_ps": 0, "size_bytes": 0, "group": -1}
        values |= {"n": 1, "what": WHATS.index(what), "kind": self._name(kind), **columns}
        values["rank"] = rank
        if isinstance(label, str):
            values["label"] = self._name(label)
        elif len(label) != rank.size:
            raise InputError(f"{len(label)} labels for {rank.size} operations")
        else:
            values["label"] = np.array([self._name(text) for text in label], np.int64)
        self._batches.append(tuple(_flat(values[name]) for name in COLUMNS))
        self.batch_sizes.append(rank.size)
        first = self._n_operations
        self._n_operations += rank.size
        return (first + np.arange(rank.size)).reshape(rank.shape)[()]

    def _new_groups(self, n: int) -> Ints:
        """Return the indices of `n` new messages or collectives."""
        self._n_groups += n
        return np.arange(self._n_groups - n, self._n_groups)

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))


def _flat(values: ArrayLike) -> Any:
    """Return a flat integer array; a single value as an int."""
    given = np.asarray(values)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"operations take integers, not {given.dtype}")
    return given.astype(np.int64).reshape(-1) if given.ndim else int(given)


def _with_unit(ranks: NDArray[Any], of_unit: Any) -> NDArray[Any]:
    """Append a unit's column to the columns of a group's ranks."""
    return np.concatenate([ranks, np.full((len(ranks), 1), of_unit, ranks.dtype)], axis=1)


def _pairs(one: ArrayLike, other: ArrayLike) -> tuple[Ints, Ints]:
    first, then = np.broadcast_arrays(np.asarray(one, np.int64), np.asarray(other, np.int64))
    return first.reshape(-1), then.reshape(-1)


TASK_BYTES = 300  # memory per task, with its share of flows and edges, while tables are built


@frozen(eq=False)
class Alike:
    """G collectives of n ranks with identical sends, from all calls."""

    steps: Steps  # the m sends of each
    how: CollectiveOptions
    size_bytes: Ints  # int64[G, m], or int64[1, m] if equal for all; 0: no message
    first: Ints  # int64[G], the first operation of each; a group's are consecutive
    # task, flow: int64[G], the first of its send and receive tasks, two per send, and of its flows
    task: Ints
    flow: Ints


@frozen(eq=False)
class OperationRows:
    """Tasks and flows of n operations."""

    n_tasks: int
    n_flows: int
    begin: Ints  # int64[n], first task of each
    end: Ints  # int64[n], last task of each
    message: list[int]  # the first flow of each call that sends messages
    alike: list[Alike]

    def operation_of(self) -> Ints:
        """int64[n_tasks], the operation of each task."""
        found = np.full(self.n_tasks, -1, np.int64)
        number = np.arange(self.end.size)
        found[self.begin], found[self.end] = number, number
        for alike in self.alike:
            steps = alike.steps
            task = alike.task[:, None] + 2 * np.arange(len(steps))
            found[task] = alike.first[:, None] + steps.src
            found[task + 1] = alike.first[:, None] + steps.dst
        return found


Settled = Callable[[Collective, int], CollectiveOptions]
"""Selects a collective's algorithm for its size in bytes (-1: a matrix)."""


_Key = tuple[str, int, int, CollectiveOptions]  # collective, ranks, bytes (-1: a matrix), options


def place(ops: Operations, split: Flags, by_order: Ints | None, settled: Settled) -> OperationRows:
    """Number tasks batch by batch: first the separate first tasks, then sends, then the rest.

    `split` marks operations, except collectives, with a separate first task. `by_order` lists
    computing operations in execution order, if it differs from the order in which they were added:
    their tasks follow it. Identical collectives of several calls are joined.
    """
    size = np.array(ops.batch_sizes, np.int64)
    first = np.cumsum(size) - size
    of_batch = np.repeat(np.arange(size.size), size)
    flows, split = np.zeros(size.size, np.int64), split.copy()
    inner = flows.copy()
    for message in ops.messages:
        flows[message.batch] = message.n
    keyed = [list(_keyed(call, settled)) for call in ops.collectives]
    steps, counts = cache(_steps), []
    for call, keys in zip(ops.collectives, keyed, strict=True):
        count = np.empty(call.groups, np.int64)
        for key, which in keys:
            count[which] = len(steps(key))
        counts.append(count)
        flows[call.batch], inner[call.batch] = count.sum(), 2 * count.sum()
        call.of(split)[:] = True
    begins = np.bincount(of_batch[split], minlength=size.size)
    total = begins + inner + size
    n_tasks = int(total.sum())
    require_room(n_tasks * TASK_BYTES, what=f"{n_tasks:,} tasks")
    task, flow = np.cumsum(total) - total, np.cumsum(flows) - flows
    end = (task + begins + inner - first)[of_batch] + np.arange(of_batch.size)
    if by_order is not None:
        end[by_order] = np.sort(end[by_order])
    # Index of each separate first task within its batch.
    earlier = np.cumsum(begins) - begins
    begin = (task - earlier)[of_batch] + np.cumsum(split) - split
    parts: dict[_Key, list[tuple[Ints, ...]]] = defaultdict(list)
    for call, keys, count in zip(ops.collectives, keyed, counts, strict=True):
        b, before = call.batch, np.cumsum(count) - count
        operation = call.first + call.width * np.arange(call.groups)
        where = (operation, task[b] + begins[b] + 2 * before, flow[b] + before)
        for key, which in keys:
            parts[key].append((*(column[which] for column in where), call.size_bytes))
    return OperationRows(
        n_tasks=n_tasks,
        n_flows=int(flows.sum()),
        begin=np.where(split, begin, end),
        end=end,
        message=[int(flow[message.batch]) for message in ops.messages],
        alike=[_alike(key, steps(key), of_key) for key, of_key in parts.items()],
    )


def _keyed(call: Collective, settled: Settled) -> Iterator[tuple[_Key, slice]]:
    """Yield the key that determines the sends of a call's groups, and these groups."""
    sizes = call.size_bytes
    if sizes.ndim == 1:
        parts = [(size, slice(k, k + 1)) for k, size in enumerate(sizes.tolist())]
    else:
        parts = [(-1 if sizes.ndim else int(sizes), slice(None))]
    for size, which in parts:
        yield (call.what, call.n, size, settled(call, size)), which


def _steps(key: _Key) -> Steps:
    what, n, size_bytes, how = key
    if size_bytes < 0:  # blocks are not split
        size_bytes, how = 0, replace(how, channels=1)
    return schedule(what, n, size_bytes, how)


def _alike(key: _Key, steps: Steps, parts: Sequence[tuple[Ints, ...]]) -> Alike:
    """Join the parts of several calls: operations, tasks, flows and sizes."""
    first, task, flow = (np.concatenate([part[k] for part in parts]) for k in range(3))
    if key[2] >= 0:
        return Alike(steps, key[3], steps.size_bytes[None, :], first, task, flow)
    rows = []
    for operation, _, _, matrix in parts:
        blocks = np.broadcast_to(matrix, (operation.size, steps.n, steps.n))
        rows.append(steps.bytes_of(blocks.reshape(operation.size, -1)))
    return Alike(steps, key[3], np.concatenate(rows), first, task, flow)


class TaskArrays:
    """Tasks and flows of operations; tasks are joins unless set."""

    def __init__(self, operations: OperationTable, rows: OperationRows) -> None:
        self._operations = operations
        self._rows = rows
        n = rows.n_tasks
        self._kind = np.full(n, JOIN, np.int8)
        self._duration = np.zeros(n, np.int64)
        self._stream = np.zeros(n, np.int32)
        self._flow = np.full(n, -1, np.int64)
        self._operation = rows.operation_of()
        self._size = np.zeros(rows.n_flows, np.int64)
        self._ends = np.zeros((2, rows.n_flows), np.int64)  # the operations at both ends

    def compute(self, which: Ints, duration_ps: Ints) -> None:
        """Set computes; a compute without a stream gets its own stream."""
        table, task = self._operations, self._rows.end[which]
        self._kind[task] = COMPUTE
        self._duration[task] = duration_ps[which]
        self._stream[task] = _engine_streams(table, which)

    def messages(self, first: int, n: int, flow: int, latency_ps: Ints) -> None:
        """Set messages from `n` operations from `first` on to the `n` after them, in order."""
        sends = first + np.arange(n)
        task = self._rows.end[sends]
        self._send(flow + np.arange(n), (sends, sends + n), (task, self._rows.end[sends + n]))
        self._duration[task] = latency_ps[sends]
        self._size[flow : flow + n] = self._operations.size_bytes[sends]

    def collectives(self, of: Alike) -> list[Edges]:
        """Set the sends of collectives; return edges between tasks."""
        steps, m = of.steps, len(of.steps)
        operation = of.first[:, None] + np.arange(steps.n)
        src, dst = operation[:, steps.src], operation[:, steps.dst]
        flow = of.flow[:, None] + np.arange(m)
        send = of.task[:, None] + 2 * np.arange(m)
        receive = send + 1
        size = np.broadcast_to(of.size_bytes, flow.shape)
        goes = size > 0
        self._send(flow[goes], (src[goes], dst[goes]), (send[goes], receive[goes]))
        self._size[flow] = size
        sends, delivered = steps.software()
        sends = sends | (~goes.all() and _after_nothing(steps, goes))
        self._duration[send] = np.where(goes & sends, of.how.latency_ps, 0)
        self._duration[receive] = np.where(goes & delivered, of.how.latency_ps, 0)
        adds = steps.adds & (steps.dst < steps.n - steps.units) & (of.how.reduce_bps is not None)
        if of.how.reduce_bps is not None:
            added = goes & adds
            self._duration[receive[added]] += _reduce_ps(size[added], of.how.reduce_bps)
        begin, end = self._rows.begin, self._rows.end
        starts, later = np.flatnonzero(steps.follows < 0), np.flatnonzero(steps.follows >= 0)
        delivered_to_send, delivered_to_receive = _waits(steps)
        kept = np.setdiff1d(np.arange(m), steps.after)
        last = np.setdiff1d(np.arange(m), steps.follows)
        # A rank handles deliveries only after its own operation has begun.
        held = np.flatnonzero(adds | (steps.noticed() & (of.how.latency_ps > 0)))
        pairs = [
            (begin[src[:, starts]], send[:, starts]),
            (begin[dst[:, held]], receive[:, held]),
            (send[:, steps.follows[later]], send[:, later]),
            (receive[:, delivered_to_send[0]], send[:, delivered_to_send[1]]),
            (receive[:, delivered_to_receive[0]], receive[:, delivered_to_receive[1]]),
            (receive[:, kept], end[dst[:, kept]]),
            (send[:, last], end[src[:, last]]),
        ]
        return [(first.reshape(-1), then.reshape(-1)) for first, then in pairs]

    def workload(self, edges: Sequence[Edges], classes: Mapping[str, int]) -> Workload:
        """Return the workload, with flows of kind k in class `classes[k]`."""
        table = self._operations
        goes = self._size > 0
        if not goes.all():
            number = np.cumsum(goes) - 1
            self._flow = np.where(self._flow >= 0, number[self._flow], -1)
            self._size, self._ends = self._size[goes], self._ends[:, goes]
        src, dst = self._ends
        for flow in first_of(table.host[src] == table.host[dst]):
            one, other = (table.rank[end[flow]] for end in (src, dst))
            where = f"ranks {one} and {other} are both on host {table.host[src[flow]]}"
            raise InputError(
                f"{table.name(src[flow])}: {where}", hint="place each rank on its own host"
            )
        flows = FlowTable(
            table.host[src],
            table.host[dst],
            self._size,
            cls=self._classes(classes)[table.kind[src]],
            label=_labels(table, src),
        )
        flows.use_kinds(table.kind[src], table.kinds)
        tasks = TaskTable(
            self._kind,
            table.host[self._operation],
            self._duration,
            stream=self._stream,
            flow=self._flow,
            label=_labels(table, self._operation),
        )
        first, then = (np.concatenate(side) for side in zip(*edges, strict=True))
        tasks.wait_for_pairs(first, then)
        return Workload(flows, tasks, parts=(table,))

    def _send(self, flow: Ints, ends: tuple[Ints, Ints], tasks: tuple[Ints, Ints]) -> None:
        for k, kind in enumerate((SEND, RECEIVE)):
            self._kind[tasks[k]] = kind
            self._flow[tasks[k]] = flow
            self._ends[k, flow] = ends[k]

    def _classes(self, classes: Mapping[str, int]) -> Ints:
        kinds = self._operations.kinds
        for kind in classes:
            if kind not in kinds:
                named = ", ".join(filter(None, kinds)) or "none"
                raise InputError(f"unknown kind {kind!r}", hint=f"the kinds are {named}")
        return np.array([classes.get(kind, 0) for kind in kinds], np.int64)


def _after_nothing(steps: Steps, goes: Flags) -> Flags:
    """bool[G, m]: sends that wait only for sends without a message, so that no earlier send covers
    their software latency."""
    follows = steps.follows
    found: Flags = np.where(follows >= 0, ~goes[:, follows], True)
    while (follows >= 0).any():
        found &= np.where(follows >= 0, found[:, follows], True)
        follows = np.where(follows >= 0, follows[follows], -1)
    found &= (steps.follows >= 0) & (np.diff(steps.after_ptr) == 0)
    return found


def _reduce_ps(size_bytes: Ints, reduce_bps: int) -> Ints:
    """Return the time to reduce each message. Raises InputError for a rate that is too low."""
    sizes, of = np.unique(size_bytes, return_inverse=True)
    times = [size * PS_BITS // reduce_bps for size in sizes.tolist()]
    if max(times, default=0) >= HORIZON_PS:
        raise InputError(f"reductions at {reduce_bps} bit/s take 20 h or more")
    return np.array(times, np.int64)[of.reshape(-1)]


def _waits(steps: Steps) -> tuple[Edges, Edges]:
    """Return the deliveries that sends wait for, and the deliveries that other deliveries wait for.

    A unit sends many messages after the same deliveries. To avoid an edge per pair, the receive of
    the last delivery waits for the others.
    """
    waiting = steps.waiting
    unit = steps.src[waiting] >= steps.n - steps.units
    if not unit.any():
        none = np.zeros(0, np.int64)
        return (steps.after, waiting), (none, none)
    last = steps.after[steps.after_ptr[waiting + 1] - 1]
    one_of = np.zeros(len(steps), bool)  # one representative of sends with equal dependencies
    one_of[waiting[unit][np.unique(last[unit], return_index=True)[1]]] = True
    is_last = steps.after == last
    direct, others = ~unit | is_last, unit & one_of[waiting] & ~is_last
    return (steps.after[direct], waiting[direct]), (steps.after[others], last[others])


def _labels(table: OperationTable, operation: Ints) -> list[str] | None:
    if table.label is None:
        return None
    return list(np.array(table.label, object)[operation])


def _engine_streams(table: OperationTable, which: Ints) -> Ints:
    """Return the engine's stream of each compute: a host's streams are numbered by rank and stream,
    followed by computes without a stream."""
    host, rank = table.host[which].astype(np.int64), table.rank[which].astype(np.int64)
    stream = table.stream[which].astype(np.int64)
    n_streams = int(stream.max(initial=0)) + 1
    ranks, of = np.unique(host << 32 | rank, return_inverse=True)
    slot = _place_among_equals(ranks >> 32)[of.reshape(-1)]
    found: Ints = slot * n_streams + stream
    none = np.flatnonzero(stream < 0)
    beyond = (int(slot.max(initial=0)) + 1) * n_streams
    found[none] = beyond + _place_among_equals(host[none])
    return found


def _place_among_equals(values: Ints) -> Ints:
    """int64[n]: number of earlier equal values."""
    order = np.argsort(values, kind="stable")
    ordered, place = values[order], np.empty(values.size, np.int64)
    place[order] = np.arange(values.size) - np.searchsorted(ordered, ordered)
    return place


MAX_NAMED = 6  # largest number of operations named in an error about a cycle


def _operations(ops: Operations, columns: dict[str, Ints], hosts: ArrayLike) -> OperationTable:
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


def _units(ops: Operations) -> Flags:
    """bool[n]: the operations of reduction units."""
    found = np.zeros(len(ops), bool)
    for call in ops.collectives:
        call.of(found)[:, call.n :] = True
    return found


def _with_units(
    ops: Operations, table: OperationTable, reduction: Reduction | None
) -> OperationTable:
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


def _check(ops: Operations, table: OperationTable, columns: dict[str, Ints]) -> None:
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
    """Return the options that determine each collective's algorithm."""

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


def _order(ops: Operations) -> Ints | None:
    """Return the operations in execution order; None: the order in which they were added."""
    if not ops.orders:
        return None
    order = np.zeros(len(ops), np.int64)
    for operations, given in ops.orders:
        order[operations] = given
    return np.argsort(order, kind="stable")


def _streams(table: OperationTable, order: Ints | None, alone: Flags) -> Edges:
    """Return edges between consecutive operations of a stream. Consecutive computes, `alone`, need
    none: they are in one stream of the engine."""
    inside = np.flatnonzero(table.stream >= 0) if order is None else order[table.stream[order] >= 0]
    key = table.rank[inside].astype(np.int64) << 16 | table.stream[inside]
    places = np.argsort(key, kind="stable")
    first, then = inside[places[:-1]], inside[places[1:]]
    same = (key[places[:-1]] == key[places[1:]]) & ~(alone[first] & alone[then])
    return table.end_task[first[same]], table.begin_task[then[same]]


def _check_hangs(load: Workload, rows: OperationRows) -> None:
    """Raise InputError, with their names, if operations wait for each other."""
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
