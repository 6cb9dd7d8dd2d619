"""The tasks and flows of a serving run, as columns.

At the leader of its first instance, a request is a task that is done when it arrives; at the leader
of its decode instance, one that is done when it has the whole KV cache. In between, part by part of
the cache:

    leader      starts its own flows to the decode instance, and a message to each other GPU
    other GPU   starts its flows when it gets that message
    decode GPU  sends a message to its leader when it has its share of all parts
    leader      waits for its own share and these messages

The tasks that a leader starts for one part of one request are consecutive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.flows import ACKED, COMPUTE, JOIN, RECEIVE, SEND, SENT, FlowTable, TaskTable, Workload
from netsim.workloads.serving.kv_partition import partition

Ints = NDArray[np.int64]

KINDS = ("kv", "control", "all_reduce", "pool")
KV, CONTROL, ALL_REDUCE, POOL = range(4)
"""Kinds of flows."""

TASK_COLUMNS = ("kind", "host", "flow", "duration_ps", "deferred", "done_when")


@dataclass
class ServingTasks:
    """Growing columns of tasks and flows, which are identified by their indices."""

    n_tasks: int = 0
    n_flows: int = 0
    tasks: list[dict[str, Any]] = field(default_factory=list)
    flows: list[dict[str, Any]] = field(default_factory=list)
    edges: list[tuple[Ints, Ints]] = field(default_factory=list)
    state: list[tuple[str, Ints, Ints]] = field(default_factory=list)
    pointers: list[tuple[str, Ints, Ints]] = field(default_factory=list)
    host_state: list[tuple[str, Ints, NDArray[Any]]] = field(default_factory=list)
    host_pointers: list[tuple[str, Ints, Ints]] = field(default_factory=list)

    def add_flows(self, src: ArrayLike, dst: ArrayLike, size: ArrayLike, kind: int) -> Ints:
        """Add flows between hosts; return their indices in the broadcast shape."""
        ends = np.broadcast_arrays(src, dst, size)
        numbers = self.n_flows + np.arange(ends[0].size)
        self.n_flows += ends[0].size
        names = ("src", "dst", "size_bytes")
        row = {name: one.reshape(-1) for name, one in zip(names, ends, strict=True)}
        self.flows.append({**row, "kind": np.full(numbers.size, kind)})
        return numbers.reshape(ends[0].shape)

    def add_tasks(
        self,
        kind: ArrayLike,
        host: ArrayLike,
        *,
        flow: ArrayLike = -1,
        duration_ps: ArrayLike = 0,
        deferred: ArrayLike = False,
        done_when: ArrayLike = SENT,
    ) -> Ints:
        """Add tasks; return their indices in the broadcast shape."""
        columns = np.broadcast_arrays(kind, host, flow, duration_ps, deferred, done_when)
        numbers = self.n_tasks + np.arange(columns[0].size)
        self.n_tasks += columns[0].size
        self.tasks.append(
            {name: one.reshape(-1) for name, one in zip(TASK_COLUMNS, columns, strict=True)}
        )
        return numbers.reshape(columns[0].shape)

    def wait(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make each task `then` wait for `first`, as broadcast."""
        self.edges.append(_pairs(first, then))

    def set(self, name: str, tasks: Ints, values: ArrayLike) -> None:
        """Set a program field of tasks."""
        self.state.append((name, *_pairs(tasks, values)))

    def point(self, name: str, tasks: Ints, to: Ints) -> None:
        """Set a program field of tasks to the local index of another task at the same host."""
        self.pointers.append((name, *_pairs(tasks, to)))

    def set_host(self, name: str, hosts: Ints, values: ArrayLike) -> None:
        """Set a program field of hosts."""
        self.host_state.append((name, *_pairs(hosts, values)))

    def point_host(self, name: str, hosts: Ints, to: Ints) -> None:
        """Set a program field of hosts to the local index of one of their tasks."""
        self.host_pointers.append((name, *_pairs(hosts, to)))

    def workload(self, n_hosts: int, classes: ArrayLike) -> Workload:
        """Build the workload; `classes` is the traffic class of each kind of flow."""
        tasks = self._task_table()
        places = tasks.local_indices()
        of_tasks = [*self.state, *((name, one, places[to]) for name, one, to in self.pointers)]
        of_hosts = [(name, one, places[to]) for name, one, to in self.host_pointers]
        return Workload(
            self._flow_table(classes),
            tasks,
            _columns(of_tasks, self.n_tasks),
            _columns([*self.host_state, *of_hosts], n_hosts),
        )

    def _flow_table(self, classes: ArrayLike) -> FlowTable:
        column = {name: _joined(self.flows, name) for name in ("src", "dst", "size_bytes", "kind")}
        cls = np.asarray(classes)[column["kind"]]
        table = FlowTable(column["src"], column["dst"], column["size_bytes"], cls=cls)
        table.use_kinds(column["kind"], KINDS)
        return table

    def _task_table(self) -> TaskTable:
        kind, host, *rest = (_joined(self.tasks, name) for name in TASK_COLUMNS)
        flow, duration, deferred, done_when = rest
        table = TaskTable(kind, host, duration, flow=flow, done_when=done_when, deferred=deferred)
        if self.edges:
            table.wait_for_pairs(*(np.concatenate(side) for side in zip(*self.edges, strict=True)))
        return table


def _pairs(one: ArrayLike, other: ArrayLike) -> tuple[Ints, Ints]:
    """Return two arrays, broadcast, in one dimension."""
    first, second = np.broadcast_arrays(one, other)
    return first.reshape(-1), second.reshape(-1)


def _columns(fields: Sequence[tuple[str, Ints, NDArray[Any]]], n: int) -> dict[str, NDArray[Any]]:
    """Return the program's fields as columns of n entries."""
    found: dict[str, NDArray[Any]] = {}
    for name, which, values in fields:
        dtype = np.float64 if values.dtype.kind == "f" else np.int64
        found.setdefault(name, np.zeros(n, dtype))[which] = values
    return found


def _joined(rows: list[dict[str, Any]], name: str) -> Ints:
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *(row[name] for row in rows)])


@dataclass(frozen=True, eq=False)
class Transferred:
    """The tasks and flows of n KV caches.

    Attributes:
        starts: int64[n, parts, s], tasks that the leader starts for each part.
        own: int64[n, parts, o], the leader's own flows of KV cache among them.
        there: int64[n], tasks that are done when a cache has arrived.
        flows: int64[n, parts, f], flows that carry it.
    """

    starts: Ints
    own: Ints
    there: Ints
    flows: Ints


def add_arrivals(tables: ServingTasks, leader: Ints, arrival_ps: Ints) -> Ints:
    """int64[n]: the task of each request at its leader, done when it arrives.

    They run in sequence, each for the time since the one before. `arrival_ps` does not decrease.
    """
    order = np.argsort(leader, kind="stable")
    times = arrival_ps[order]
    gaps = np.diff(times, prepend=0)
    first = np.flatnonzero(np.diff(leader[order], prepend=-1))
    gaps[first] = times[first]
    duration = np.empty_like(gaps)
    duration[order] = gaps
    return tables.add_tasks(COMPUTE, leader, duration_ps=duration)


def add_transfers(
    tables: ServingTasks, sources: Ints, sinks: Ints, size_bytes: Ints, parts: int, control: int
) -> Transferred:
    """Add the tasks and flows of KV caches, sent in `parts` parts in sequence.

    Args:
        sources, sinks: int64[n, m] and int64[n, k], hosts of both instances of n requests.
        size_bytes: int64[n], of the caches.
        control: size of a message between GPUs of an instance.
    """
    n, share = size_bytes.size, partition(sources.shape[1], sinks.shape[1])
    src = sources[:, share.source][:, None, :]
    dst = sinks[:, share.sink][:, None, :]
    flows = tables.add_flows(src, dst, share.sizes(size_bytes, parts), KV)
    leader, others = sources[:, :1, None], sources[:, None, 1:]
    orders = tables.add_flows(np.broadcast_to(leader, (n, parts, 1)), others, control, CONTROL)
    own = flows[:, :, share.source == 0]
    # A leader's own sends end on acknowledgment: then it frees that part of the cache.
    started = np.concatenate([own, orders], axis=2)
    starts = tables.add_tasks(SEND, leader, flow=started, deferred=True, done_when=ACKED)
    for gpu in range(1, share.sources):
        told = tables.add_tasks(RECEIVE, others[:, :, gpu - 1], flow=orders[:, :, gpu - 1])
        mine = flows[:, :, share.source == gpu]
        sends = tables.add_tasks(SEND, others[:, :, gpu - 1, None], flow=mine)
        tables.wait(told[:, :, None], sends)
    there = tables.add_tasks(JOIN, sinks[:, 0])
    for gpu in range(share.sinks):
        host = sinks[:, gpu, None, None]
        mine = flows[:, :, share.sink == gpu]
        arrived = tables.add_tasks(RECEIVE, host, flow=mine).reshape(n, -1)
        if gpu == 0:
            tables.wait(arrived, there[:, None])
            continue
        reports = tables.add_flows(host[:, 0, 0], sinks[:, 0], control, CONTROL)
        tables.wait(arrived, tables.add_tasks(SEND, host[:, 0, 0], flow=reports)[:, None])
        tables.wait(tables.add_tasks(RECEIVE, sinks[:, 0], flow=reports), there)
    return Transferred(starts, starts[:, :, : own.shape[2]], there, flows)
