"""Builder of the tasks and flows of operations, and their positions in the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.limits import HORIZON_PS, PS_BITS
from netsim.model.columns import first_of
from netsim.model.flows import FlowTable
from netsim.model.tasks import COMPUTE, JOIN, RECEIVE, SEND, Edges, TaskTable
from netsim.model.workload import Workload
from netsim.workloads.collectives import CollectiveOptions, Steps, schedule
from netsim.workloads.operations.noted import Collective, Ints, NotedOperations
from netsim.workloads.operations.table import OperationTable

TASK_BYTES = 300
"""Memory per task, with its share of flows and edges, while tables are built."""


@dataclass(frozen=True, eq=False)
class Alike:
    """G collectives of n ranks with identical sends, from all calls.

    Attributes:
        steps: the m sends of each.
        how: its options.
        size_bytes: int64[G, m], or int64[1, m] if equal for all; 0: no message.
        first: int64[G], the first operation of each; a group's are consecutive.
        task, flow: int64[G], the first of its send and receive tasks, two per send, and of its
            flows.
    """

    steps: Steps
    how: CollectiveOptions
    size_bytes: Ints
    first: Ints
    task: Ints
    flow: Ints


@dataclass(frozen=True, eq=False)
class OperationRows:
    """Tasks and flows of n operations.

    `begin` and `end` are int64[n], first and last task of each; `message` is the first flow of each
    call that sends messages.
    """

    n_tasks: int
    n_flows: int
    begin: Ints
    end: Ints
    message: list[int]
    alike: list[Alike]

    def operation_of(self) -> Ints:
        """int64[n_tasks], the operation of each task."""
        found = np.full(self.n_tasks, -1, np.int64)
        number = np.arange(self.end.size)
        found[self.begin], found[self.end] = number, number
        for one in self.alike:
            steps = one.steps
            task = one.task[:, None] + 2 * np.arange(len(steps))
            found[task] = one.first[:, None] + steps.src
            found[task + 1] = one.first[:, None] + steps.dst
        return found


Settled = Callable[[Collective, int], CollectiveOptions]
"""Selects a collective's algorithm for its size in bytes (-1: a matrix)."""


_Key = tuple[str, int, int, CollectiveOptions]
"""Collective, ranks, bytes (-1: a matrix), and options."""


def place(
    ops: NotedOperations, split: NDArray[np.bool_], by_order: Ints | None, settled: Settled
) -> OperationRows:
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
    steps: dict[_Key, Steps] = {}
    counts = []
    for call, keys in zip(ops.collectives, keyed, strict=True):
        count = np.empty(call.groups, np.int64)
        for key, which in keys:
            if key not in steps:
                steps[key] = _steps(key)
            count[which] = len(steps[key])
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
    found: dict[_Key, list[tuple[Ints, ...]]] = {key: [] for key in steps}
    for call, keys, count in zip(ops.collectives, keyed, counts, strict=True):
        b, before = call.batch, np.cumsum(count) - count
        operation = call.first + call.width * np.arange(call.groups)
        where = (operation, task[b] + begins[b] + 2 * before, flow[b] + before)
        for key, which in keys:
            found[key].append((*(one[which] for one in where), call.size_bytes))
    return OperationRows(
        n_tasks=n_tasks,
        n_flows=int(flows.sum()),
        begin=np.where(split, begin, end),
        end=end,
        message=[int(flow[message.batch]) for message in ops.messages],
        alike=[_alike(key, steps[key], parts) for key, parts in found.items()],
    )


def _keyed(call: Collective, settled: Settled) -> Iterator[tuple[_Key, slice]]:
    """Yield what determines the sends of a call's groups, and which groups."""
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
        """Set computes; one without a stream gets its own."""
        table, task = self._operations, self._rows.end[which]
        self._kind[task] = COMPUTE
        self._duration[task] = duration_ps[which]
        self._stream[task] = _streams(table, which)

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

    def _classes(self, classes: Mapping[str, int]) -> NDArray[np.int64]:
        kinds = self._operations.kinds
        for kind in classes:
            if kind not in kinds:
                named = ", ".join(filter(None, kinds)) or "none"
                raise InputError(f"unknown kind {kind!r}", hint=f"the kinds are {named}")
        return np.array([classes.get(kind, 0) for kind in kinds], np.int64)


def _after_nothing(steps: Steps, goes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[G, m]: sends that wait only for sends without a message: no earlier send has covered
    their software latency."""
    follows = steps.follows
    found: NDArray[np.bool_] = np.where(follows >= 0, ~goes[:, follows], True)
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
    """Return the deliveries that sends wait for, and those that other deliveries wait for.

    A unit sends many messages after the same deliveries. To avoid an edge per pair, the receive of
    the last delivery waits for the others.
    """
    waiting = np.repeat(np.arange(len(steps)), np.diff(steps.after_ptr))
    unit = steps.src[waiting] >= steps.n - steps.units
    if not unit.any():
        none = np.zeros(0, np.int64)
        return (steps.after, waiting), (none, none)
    last = steps.after[steps.after_ptr[waiting + 1] - 1]
    one_of = np.zeros(len(steps), bool)  # one of the sends with equal dependencies
    one_of[waiting[unit][np.unique(last[unit], return_index=True)[1]]] = True
    is_last = steps.after == last
    direct, others = ~unit | is_last, unit & one_of[waiting] & ~is_last
    return (steps.after[direct], waiting[direct]), (steps.after[others], last[others])


def _labels(table: OperationTable, operation: Ints) -> list[str] | None:
    if table.label is None:
        return None
    found: list[Any] = np.array(table.label, object)[operation].tolist()
    return found


def _streams(table: OperationTable, which: Ints) -> Ints:
    """Return the engine's stream of each compute: those of a host are numbered by rank and
    stream, followed by computes without a stream."""
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
    ordered = values[order]
    found: Ints = np.empty(values.size, np.int64)
    found[order] = np.arange(values.size) - np.searchsorted(ordered, ordered)
    return found
