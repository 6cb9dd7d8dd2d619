"""Positions of the tasks and flows of each operation in their tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsim.memory import require_room
from netsim.workloads.collectives import CollectiveOptions, Steps, schedule
from netsim.workloads.operations.noted import Collective, Ints, Noted

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


def place(
    noted: Noted, split: NDArray[np.bool_], by_order: Ints | None, settled: Settled
) -> OperationRows:
    """Number tasks batch by batch: first the separate first tasks, then sends, then the rest.

    `split` marks operations, except collectives, with a separate first task. `by_order` lists
    computing operations in execution order, if it differs from the order in which they were added:
    their
        tasks
    follow it.
    """
    size = np.array([n for n, _ in noted.batches], np.int64)
    first = np.cumsum(size) - size
    of_batch = np.repeat(np.arange(size.size), size)
    sends = _Sends(settled)
    counts = [sends.counts(call) for call in noted.collectives]
    flows, split = np.zeros(size.size, np.int64), split.copy()
    inner = flows.copy()
    for message in noted.messages:
        flows[message.batch] = message.n
    for call, count in zip(noted.collectives, counts, strict=True):
        flows[call.batch], inner[call.batch] = count.sum(), 2 * count.sum()
        split[first[call.batch] : first[call.batch] + size[call.batch]] = True
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
    for call, count in zip(noted.collectives, counts, strict=True):
        b, before = call.batch, np.cumsum(count) - count
        operation = first[b] + call.width * np.arange(call.groups)
        sends.add(call, operation, task[b] + begins[b] + 2 * before, flow[b] + before)
    return OperationRows(
        n_tasks=n_tasks,
        n_flows=int(flows.sum()),
        begin=np.where(split, begin, end),
        end=end,
        message=[int(flow[message.batch]) for message in noted.messages],
        alike=sends.alike(),
    )


class _Sends:
    """The sends of collectives; identical ones of several calls are joined."""

    def __init__(self, settled: Settled) -> None:
        self._settled = settled
        self._steps: dict[_Key, Steps] = {}
        self._found: dict[_Key, list[tuple[Ints, ...]]] = {}

    def counts(self, call: Collective) -> Ints:
        """int64[groups]: number of sends of each."""
        if call.size_bytes.ndim != 1:
            return np.full(call.groups, len(self._of(self._key(call))))
        return np.array([len(self._of(self._key(call, k))) for k in range(call.groups)], np.int64)

    def add(self, call: Collective, operation: Ints, task: Ints, flow: Ints) -> None:
        """Add a call's collectives with their operations, tasks and flows."""
        if call.size_bytes.ndim == 1:
            for k in range(call.groups):
                where = operation[k : k + 1], task[k : k + 1], flow[k : k + 1]
                self._found[self._key(call, k)].append((*where, call.size_bytes))
        else:
            self._found[self._key(call)].append((operation, task, flow, call.size_bytes))

    def alike(self) -> list[Alike]:
        """Return them in order of first appearance."""
        return [
            Alike(
                steps=self._steps[key],
                how=key[3],
                size_bytes=_sizes(self._steps[key], key[2], found),
                **{
                    name: np.concatenate([one[k] for one in found])
                    for k, name in enumerate(("first", "task", "flow"))
                },
            )
            for key, found in self._found.items()
        ]

    def _key(self, call: Collective, group: int = 0) -> _Key:
        sizes = call.size_bytes
        size = -1 if sizes.ndim > 1 else int(sizes[group] if sizes.ndim else sizes)
        return (call.what, call.n, size, self._settled(call, size))

    def _of(self, key: _Key) -> Steps:
        if key not in self._steps:
            what, n, size_bytes, how = key
            if size_bytes < 0:  # blocks are not split
                size_bytes, how = 0, replace(how, channels=1)
            self._steps[key] = schedule(what, n, size_bytes, how)
            self._found[key] = []
        return self._steps[key]


_Key = tuple[str, int, int, CollectiveOptions]
"""Collective, ranks, bytes (-1: a matrix), and options."""


def _sizes(steps: Steps, size_bytes: int, found: list[tuple[Ints, ...]]) -> Ints:
    if size_bytes >= 0:
        return steps.size_bytes[None, :]
    rows = []
    for operation, _, _, matrix in found:
        blocks = np.broadcast_to(matrix, (operation.size, steps.n, steps.n))
        rows.append(steps.bytes_of(blocks.reshape(operation.size, -1)))
    return np.concatenate(rows)
