"""Queue pairs: a message is sent as several flows, each with its own path and congestion control.

Collective libraries stripe a message over queue pairs (NCCL_IB_QPS_PER_CONNECTION), so that ECMP
places its parts on several paths. A message of n packets over Q queue pairs becomes min(Q, n) flows
of whole packets, the first ones a packet longer. They start together; the message is delivered, and
its send task done, when all of them are ("Queue pairs" in `netsim/engine/MODEL.md`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.model.flows import FlowTable
from netsim.model.relays import RelaySegments, TaskAppender
from netsim.model.tasks import JOIN, RECEIVE, SEND, TaskTable
from netsim.model.workload import Workload

Ints = NDArray[np.int64]

PARAM = "queue_pairs"
"""Parameter of transports that send a message over several."""


def striped(
    load: Workload, segments: RelaySegments | None, queue_pairs: Ints, payload_bytes: int
) -> tuple[Workload, RelaySegments | None]:
    """Return the workload with each flow sent over `queue_pairs` (int64[n_flows]) flows, and its
    segments; what was given if there is one of each. Raises InputError for programs."""
    flows, n = load.flows, len(load.flows)
    packets = -(-flows.size_bytes // payload_bytes)
    counts = np.minimum(queue_pairs, packets)
    if load.program is not None and (queue_pairs > 1).any():
        message = f"several queue pairs conflict with {load.program.name}, which is a program"
        raise InputError(message, key=f"transport.{PARAM}", hint="1")
    if (counts == 1).all():
        return load, segments
    _, number, flow = expanded(np.arange(n), counts)
    of = np.empty(flow.size, np.int64)
    pair = np.empty(flow.size, np.int64)
    of[flow], pair[flow] = np.repeat(np.arange(n), counts), number
    table = flows.take(of)
    table.size_bytes = payload_bytes * (
        packets[of] // counts[of] + (pair < packets[of] % counts[of])
    )
    last = pair == counts[of] - 1
    table.size_bytes[last] -= (payload_bytes * packets - flows.size_bytes)[of[last]]
    if flows.after_ptr is not None and flows.after_flow is not None:
        row, _, awaited = expanded(flows.after_flow, counts)
        waiter = np.repeat(np.arange(n), np.diff(flows.after_ptr))[row]
        row, _, waiter = expanded(waiter, counts)
        order = np.argsort(waiter, kind="stable")
        ptr = np.cumsum(np.bincount(waiter, minlength=flow.size))
        table.after_ptr = np.concatenate([[0], ptr]).astype(np.int64)
        table.after_flow = awaited[row[order]]
    whole = segments or RelaySegments.whole(load)
    columns = {name: getattr(whole, name)[of] for name in ("message", "segment", "chunk")}
    segments = replace(whole, **columns, queue_pair=pair)
    load = replace(load, flows=table)
    if load.tasks is None:
        return load, segments
    tasks, ends = _tasks(load.tasks, table, counts)
    parts = tuple(part.with_last_tasks(ends) for part in load.parts)
    return replace(load, tasks=tasks, parts=parts), segments


def expanded(messages: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the row, the queue pair and the number of each flow of `messages` (int64[m]), with
    `counts` flows of each message: its own number, then those after all messages."""
    row = np.repeat(np.arange(messages.size), counts[messages])
    many = counts[messages]
    pair = np.arange(row.size) - np.repeat(np.cumsum(many) - many, many)
    first_more = counts.size + np.cumsum(counts - 1) - (counts - 1)
    m = messages[row]
    return row, pair, np.where(pair == 0, m, first_more[m] + pair - 1)


def _tasks(tasks: TaskTable, table: FlowTable, counts: Ints) -> tuple[TaskTable, Ints]:
    """Return tasks that start and await all flows of a message, and the task that completes each:
    for the send task of several flows, one that joins theirs."""
    n = len(tasks)
    new = TaskAppender(n)
    task_of, ends = {}, np.arange(n)
    for kind in (SEND, RECEIVE):
        own = np.flatnonzero((tasks.kind == kind) & (counts[tasks.flow] > 1))
        row, pair, flow = expanded(tasks.flow[own], counts)
        of, host = own[row], tasks.host[own[row]]
        others, task = pair > 0, of.copy()
        latency_ps = tasks.duration_ps[of[others]] if kind == SEND else 0
        task[others] = new.add(kind, host[others], flow[others], latency_ps)
        task_of[kind] = own, of, row, task, others
    own, of, row, task, _ = task_of[SEND]
    joins = new.add(JOIN, tasks.host[own], np.full(own.size, -1))
    ends[own] = joins
    joined = new.joined(tasks)
    joined.done_when = joined.done_when.copy()
    joined.done_when[task] = tasks.done_when[of]
    before, then = tasks.edges()
    edges = [(ends[before], then), (task, joins[row])]
    # What starts a send task starts those of its other queue pairs.
    to_own = np.flatnonzero(ends[then] != then)
    at, _, flow = expanded(tasks.flow[then[to_own]], counts)
    send_of = np.full(len(table), -1)
    send_of[joined.flow[task]] = task
    others = send_of[flow] >= n
    edges.append((ends[before[to_own[at]]][others], send_of[flow][others]))
    _, of, _, task, others = task_of[RECEIVE]
    edges.append((task[others], of[others]))
    joined.wait_for_pairs(*(np.concatenate(side) for side in zip(*edges, strict=True)))
    return joined, ends
