"""Positions of the tasks and flows of each operation in their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsim.memory import require_room
from netsim.workloads.collectives import CollectiveOptions, Steps, schedule
from netsim.workloads.operations.noted import Collective, Ints, NotedOperations

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
