"""Messages sent as several flows: relayed by a peer, or over several queue pairs.

A peer relays messages between hosts without a common network, in two segments ("Relayed messages"
in `netsim/engine/MODEL.md`). Each segment is a separate flow. A message may be cut into chunks:

    source       send A0 ------> send A1 ------> send A2 ...
                    :               :               :
    peer       receive A0      receive A1      receive A2 ...
                    |               |               |
                 send B0 ------> send B1 ------> send B2 ...

Dependents of the message wait for all of its last segments. Dependents of its sending or
acknowledgment wait for the last of its first segments, since a host knows only its own segment.

Collective libraries stripe a message over queue pairs (NCCL_IB_QPS_PER_CONNECTION), so that ECMP
places its parts on several paths ("Queue pairs" in `netsim/engine/MODEL.md`).
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.columns import Ints, ranks_within, rows_of
from netsim.model.flows import FlowTable
from netsim.model.workload import JOIN, RECEIVE, SEND, SENT, TaskTable, Workload, join_tasks

SOURCE, DESTINATION = AT = ("source", "destination")  # rack of the peer


@frozen
class RelayRule:
    """Which messages of a network are relayed, and how."""

    rack: int  # hosts per rack; host h is in rack h // rack, as rank h % rack
    rail: int = 1  # adjacent ranks that share their networks
    at: str = SOURCE  # SOURCE or DESTINATION
    chunk_bytes: int | None = None  # size of chunks; None: whole messages
    hosts: int | None = None  # number of hosts in racks; later ones get no relays. None: all.

    def peers(self, flows: FlowTable) -> Ints:
        """Return int64[n], the peer of each flow; -1 if it needs none or names its NIC."""
        src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
        src_rank, dst_rank = src % self.rack, dst % self.rack
        apart = (src // self.rack != dst // self.rack) & (flows.nic < 0)
        apart &= src_rank // self.rail != dst_rank // self.rail
        if self.hosts is not None:
            apart &= np.maximum(src, dst) < self.hosts
        peer = src - src_rank + dst_rank if self.at == SOURCE else dst - dst_rank + src_rank
        return np.where(apart, peer, -1)

    def of_hosts(self, hosts: Ints) -> RelayRule:
        """Return the rule for a job on these hosts (`Network.of_hosts`)."""
        inside = hosts[hosts < (hosts.max() + 1 if self.hosts is None else self.hosts)]
        whole = inside[: inside.size // self.rack * self.rack].reshape(-1, self.rack)
        in_order = (whole == whole[:, :1] // self.rack * self.rack + np.arange(self.rack)).all()
        if whole.size != inside.size or not in_order or (hosts[: inside.size] != inside).any():
            message = f"{hosts.size} hosts are not whole racks of {self.rack}, whose peers relay"
            raise InputError(message, hint=f"a multiple of {self.rack}, or whole racks in order")
        return replace(self, hosts=int(inside.size))


@frozen(eq=False)
class RelaySegments:
    """The flows of messages that are relayed or sent over several queue pairs.

    The first flow of message m has number m; further flows follow the first flows of all messages.

    Attributes:
        flows, tasks: messages and tasks of the traffic.
        peer: int64[n], peer of each message, or -1.
        message, segment, chunk, queue_pair: int64[n_flows]. Relayed messages have segments 1 and 2,
            all others are of segment 0. A chunk of a segment has a flow for each queue pair.
    """

    flows: FlowTable
    tasks: TaskTable | None
    peer: Ints
    message: Ints
    segment: Ints
    chunk: Ints
    queue_pair: Ints

    @classmethod
    def whole(cls, load: Workload) -> RelaySegments:
        """Return the flows of a workload, each a message."""
        n = len(load.flows)
        zero = np.zeros(n, np.int64)
        return cls(load.flows, load.tasks, zero - 1, np.arange(n), zero, zero, zero)

    def of_flows(self, flows: Ints) -> Ints:
        """Return the messages of flows; -1 stays -1."""
        return np.where(flows < 0, -1, self.message[flows])

    def latest(self, values: Ints) -> Ints:
        """Return int64[n], the largest value of each message's last segments; -1 if any is
        negative."""
        last = self.segment != 1
        found = np.zeros(len(self.flows), np.int64)
        np.maximum.at(found, self.message[last], values[last])
        found[self.message[last & (values < 0)]] = -1
        return found

    def total(self, values: Ints) -> Ints:
        """Return int64[n], the sum over all flows of a message."""
        found = np.zeros(len(self.flows), np.int64)
        np.add.at(found, self.message, values)
        return found

    def at_destination(self, values: Ints) -> Ints:
        """Return int64[n], the sum over the flows of a message that end at its destination."""
        return self.total(np.where(self.segment == 1, 0, values))

    def ideal_ps(self, segment_ps: Ints, last_ps: Ints, handed_over_ps: Ints) -> Ints:
        """Return int64[n], the minimum time of each message alone.

        It is exact unless the last chunk is shorter and waits for full packets of the previous
        chunk. For each flow, `segment_ps` is its duration, `last_ps` the same or, for last
        segments, the time until the requested event, and `handed_over_ps` the time until its last
        packet has left.
        """
        found = np.where(self.peer < 0, last_ps[: self.peer.size], 0)
        first, second = (np.flatnonzero(self.segment == segment) for segment in (1, 2))
        order = np.argsort(self.message[first] + self.chunk[first] * self.peer.size, kind="stable")
        first = first[order]
        order = np.argsort(self.message[second] + self.chunk[second] * self.peer.size)
        second = second[order]
        starts = np.searchsorted(self.chunk[first], np.arange(self.chunk.max(initial=-1) + 2))
        source, peer = np.zeros((2, self.peer.size), np.int64)  # when each can take a chunk
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            a, b = first[begin:end], second[begin:end]
            m = self.message[a]
            at_peer = np.maximum(source[m] + segment_ps[a], peer[m])
            source[m] += handed_over_ps[a]
            peer[m] = at_peer + handed_over_ps[b]
            found[m] = np.maximum(found[m], at_peer + last_ps[b])
        return found


def relayed(load: Workload, rule: RelayRule) -> tuple[Workload, RelaySegments | None]:
    """Return the workload with relayed messages, and its segments (None if there are none).

    Raises InputError, naming the first one, for messages that cannot be cut into chunks: messages
    of programs, and messages that wait for a delivery at another host.
    """
    flows, peer = load.flows, rule.peers(load.flows)
    apart = np.flatnonzero(peer >= 0)
    if not apart.size:
        return load, None
    n = len(flows)
    chunk_bytes = rule.chunk_bytes or int(flows.size_bytes.max())
    chunks = -(-flows.size_bytes[apart] // chunk_bytes)
    _refuse(load, apart[chunks > 1])

    # Each chunk's message, its index there, and its two flows.
    message = np.repeat(apart, chunks)
    index = ranks_within(chunks)
    n_new = 1 + (index > 0)
    second = n + np.cumsum(n_new) - 1
    first = np.where(index > 0, second - 1, message)
    size = np.minimum(chunk_bytes, flows.size_bytes[message] - index * chunk_bytes)

    n_all = n + int(n_new.sum())
    segments = RelaySegments(
        flows=flows,
        tasks=load.tasks,
        peer=peer,
        message=np.arange(n_all),
        segment=np.zeros(n_all, np.int64),
        chunk=np.zeros(n_all, np.int64),
        queue_pair=np.zeros(n_all, np.int64),
    )
    for ends, segment in ((first, 1), (second, 2)):
        segments.message[ends], segments.segment[ends], segments.chunk[ends] = (
            message,
            segment,
            index,
        )
    cut = np.repeat(chunks > 1, chunks)
    table = _flows(segments, size, first, second)
    _wait(table, segments, first[~cut], second[~cut])
    tasks = _received(load.tasks, message, index, second, np.repeat(chunks, chunks))
    program, parts = load.program, load.parts
    if program is not None:
        program = replace(program, relayed=apart)
    if cut.any():
        in_chunks = _Chunks(message, index, first, second).of(cut)
        tasks, ends = _in_chunks(tasks, table, in_chunks)
        parts = tuple(part.with_last_tasks(ends) for part in parts)
    load = replace(load, flows=table, tasks=tasks, parts=parts, program=program)
    return load, segments


@frozen
class _Chunks:
    """Chunks in order: their message, their index in it, and their two flows."""

    message: Ints
    index: Ints
    first: Ints
    second: Ints

    def of(self, which: NDArray[np.bool_]) -> _Chunks:
        columns = (self.message, self.index, self.first, self.second)
        return _Chunks(*(column[which] for column in columns))


def _refuse(load: Workload, cut: Ints) -> None:
    """Raise InputError for messages that cannot be cut into chunks."""
    flows, hint = load.flows, 'relay_chunk = "none" relays whole messages'
    if cut.size and load.program is not None:
        message = f"flow {cut[0]} is relayed in chunks, but {load.program.name} is a program"
        raise InputError(message, key="topology.relay_chunk", hint=hint)
    awaited, waiter = flows.edges()
    for i in np.flatnonzero(np.isin(waiter, cut) & ~flows.waits_at_source())[:1].tolist():
        raise InputError(
            f"flow {waiter[i]} is relayed in chunks, but waits for flow {awaited[i]}, "
            "which is delivered at another host",
            key="topology.relay_chunk",
            hint=hint,
        )


def _flows(segments: RelaySegments, size: Ints, first: Ints, second: Ints) -> FlowTable:
    """Return all flows; first flows start with their messages, others at once."""
    table = segments.flows.take(segments.message)
    table.dst[first] = table.src[second] = segments.peer[segments.message[first]]
    table.size_bytes[first] = table.size_bytes[second] = size
    table.start_ps[len(segments.flows) :] = 0
    return table


def _wait(table: FlowTable, segments: RelaySegments, whole: Ints, onward: Ints) -> None:
    """Make flows wait for the last segments of the flows that they waited for, and second segments
    for first segments."""
    old, n = segments.flows, len(segments.flows)
    m, of_old = old.edges()
    last = np.flatnonzero(segments.segment != 1)
    last = last[np.argsort(segments.message[last], kind="stable")]
    counts = np.bincount(segments.message[last], minlength=n)
    begin = np.cumsum(counts) - counts
    awaited = np.concatenate([last[rows_of(begin[m], counts[m])], whole])
    waiter = np.concatenate([np.repeat(of_old, counts[m]), onward])
    if waiter.size:
        table.wait_for_pairs(awaited, waiter)


def _received(
    tasks: TaskTable | None, message: Ints, index: Ints, second: Ints, chunks: Ints
) -> TaskTable | None:
    """Return the tasks, each waiting for the last chunk instead of the message; see
    `_in_chunks`."""
    if tasks is None:
        return None
    tasks = _copy(tasks)
    last = index == chunks - 1
    of_message = np.full(int(max(tasks.flow.max(initial=0), message.max())) + 1, -1)
    of_message[message[last]] = second[last]
    receives = np.flatnonzero(tasks.kind == RECEIVE)
    new = of_message[tasks.flow[receives]]
    tasks.flow[receives] = np.where(new >= 0, new, tasks.flow[receives])
    return tasks


def _in_chunks(tasks: TaskTable | None, table: FlowTable, of: _Chunks) -> tuple[TaskTable, Ints]:
    """Add the tasks that relay messages in chunks; flows of `table` no longer wait.

    Flows that wait only for deliveries at their own host now do so by tasks. Also return the task
    that completes each task: for a message's send task, its last chunk's.
    """
    n, n_flows = 0 if tasks is None else len(tasks), len(table)
    new = TaskAppender(n)
    none = np.full(n_flows, -1, np.int64)
    send = none.copy() if tasks is None else tasks.of_flows(SEND, n_flows)
    receive = none if tasks is None else tasks.of_flows(RECEIVE, n_flows)

    # First segments, chunk by chunk; the first chunk starts when the message would have.
    starting = of.first[(of.index == 0) & (send[of.first] < 0)]
    send[starting] = new.add(SEND, table.src[starting], starting, table.start_ps[starting])
    table.start_ps[starting] = 0
    later = of.first[of.index > 0]
    send[later] = new.add(SEND, table.src[later], later)
    # Second segments: received chunks are forwarded in order.
    here = new.add(RECEIVE, table.dst[of.first], of.first)
    send[of.second] = new.add(SEND, table.src[of.second], of.second)
    before = np.flatnonzero(of.index > 0) - 1
    after = before + 1
    edges = [
        (send[of.first[before]], send[of.first[after]]),
        (send[of.second[before]], send[of.second[after]]),
        (here, send[of.second]),
    ]
    # Tasks that waited for the message now wait for its last chunk.
    is_last = np.append(of.message[1:] != of.message[:-1], True)
    final = of.second[is_last][np.cumsum(is_last) - is_last]  # of each chunk's message
    others = ~is_last & (receive[final] >= 0)
    arrived = new.add(RECEIVE, table.dst[of.second[others]], of.second[others])
    edges.append((arrived, receive[final[others]]))
    edges += _by_tasks(table, send, new, of.first[of.index == 0])
    joined = new.joined(tasks)
    moved = np.arange(len(joined))
    if tasks is not None:
        # Tasks that waited for a message's send task now wait for its last chunk's send task.
        sends, last = send[of.first[of.index == 0]], send[of.first[is_last]]
        own = sends < n
        joined.done_when = joined.done_when.copy()
        joined.done_when[last[own]] = joined.done_when[sends[own]]
        joined.done_when[sends[own & (last != sends)]] = SENT
        moved[sends[own]] = last[own]
        before_, then = tasks.edges()
        edges.insert(0, (moved[before_], then))
    joined.wait_for_pairs(*(np.concatenate(side) for side in zip(*edges, strict=True)))
    return joined, moved


def _by_tasks(
    table: FlowTable, send: Ints, new: TaskAppender, starting: Ints
) -> list[tuple[Ints, Ints]]:
    """Replace dependencies of flows at their own host by tasks, if any of `starting` waits; return
    the edges. Otherwise the engine does the same."""
    awaited, waiter = table.edges()
    here = table.waits_at_source()
    if not np.isin(starting, waiter).any():
        return []
    received, which = np.unique(awaited[here], return_inverse=True)
    tasks = new.add(RECEIVE, table.dst[received], received)
    waiting = np.unique(waiter[here])
    own = waiting[send[waiting] < 0]
    send[own] = new.add(SEND, table.src[own], own, table.start_ps[own])
    table.start_ps[own] = 0
    table.wait_for_pairs(awaited[~here], waiter[~here])
    return [(tasks[which.reshape(-1)], send[waiter[here]])]


class TaskAppender:
    """Tasks that follow the first `n`."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._parts: list[tuple[Ints, ...]] = []

    def add(self, kind: int, host: NDArray[np.int32], flow: Ints, duration: Ints | int = 0) -> Ints:
        """Add a task for each flow and return their numbers."""
        columns = np.broadcast_arrays(np.full(flow.size, kind), host, flow, duration)
        self._parts.append(tuple(np.array(column, np.int64) for column in columns))
        self._n += flow.size
        return np.arange(self._n - flow.size, self._n)

    def joined(self, tasks: TaskTable | None) -> TaskTable:
        """Return one table of `tasks` and the added tasks, without edges of the latter."""
        kind, host, flow, duration = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        added = TaskTable(kind, host, duration, flow=flow)
        return added if tasks is None else join_tasks([(tasks, 0), (added, 0)])


def _copy(tasks: TaskTable) -> TaskTable:
    table = copy(tasks)
    table.flow = tasks.flow.copy()
    return table


# --- queue pairs ----------------------------------------------------------------------------------

PARAM = "queue_pairs"  # parameter of transports that send a message over several


def striped(
    load: Workload, segments: RelaySegments | None, queue_pairs: Ints, payload_bytes: int
) -> tuple[Workload, RelaySegments | None]:
    """Return the workload with each flow sent over `queue_pairs` (int64[n_flows]) flows, and its
    segments; unchanged if every flow has one queue pair. Raises InputError for programs."""
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
    table.queue_pairs = np.stack([of, pair])
    table.size_bytes = payload_bytes * (
        packets[of] // counts[of] + (pair < packets[of] % counts[of])
    )
    last = pair == counts[of] - 1
    table.size_bytes[last] -= (payload_bytes * packets - flows.size_bytes)[of[last]]
    if flows.after_ptr is not None:
        first, then = flows.edges()
        row, _, awaited = expanded(first, counts)
        row, _, waiter = expanded(then[row], counts)
        table.wait_for_pairs(awaited[row], waiter)
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
    `counts` flows of each message: its own number, then numbers after all messages."""
    row = np.repeat(np.arange(messages.size), counts[messages])
    pair = ranks_within(counts[messages])
    first_more = counts.size + np.cumsum(counts - 1) - (counts - 1)
    m = messages[row]
    return row, pair, np.where(pair == 0, m, first_more[m] + pair - 1)


def _tasks(tasks: TaskTable, table: FlowTable, counts: Ints) -> tuple[TaskTable, Ints]:
    """Return tasks that start and await all flows of a message, and the task that completes each
    task: for a send task of several flows, the task that joins their send tasks."""
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
    # The tasks that start a send task also start the send tasks of its other queue pairs.
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
