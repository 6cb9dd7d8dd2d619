"""Tracing (`TRACE`): events of the packets of chosen flows, arrivals and departures of all packets
at chosen ports during chosen times, and the state of both sides of the chosen flows.

Entries go to one buffer in the order in which nodes are stepped, so the engine runs with one
worker. A window always runs to its end: once the buffer is full, entries are only counted, and
``drain`` reports that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import NamedTuple

import numpy as np

from netsim.engine.kernels.fields import (
    FlowId,
    GlobalPort,
    HostPortRecord,
    Numbers,
    PacketRecord,
    Ps,
    Records,
    RxRecord,
    TimerRecord,
    TxRecord,
)
from netsim.engine.kernels.handlers import Env
from netsim.engine.kernels.layout import (
    INF,
    TIMER_RX,
    TIMER_START,
    TIMER_TASK,
    TIMER_TX,
    TIMERS_OF_A_KIND,
    LinkState,
    first_level,
    grouped,
    ring_slot,
)
from netsim.engine.kernels.port_pairs import may_use
from netsim.engine.kernels.series import paused_until
from netsim.engine.kernels.specialization_constants import HAS_PFC
from netsim.errors import RunError
from netsim.frozen import frozen
from netsim.model.flows import FlowTable

SENT, ARRIVED, FORWARDED, DROPPED, TRIMMED, MARKED, LOST, RECEIVED, CREATED, UNROUTABLE = range(10)
SENT_INDIRECT, HELD, REPLAYED = range(10, 13)
"""Events of a packet: a NIC starts to send it; it arrives at a switch's output port; that port
starts to send it, drops it, trims it, marks it; it is lost on the link; it arrives at a host; it
joins a host's control FIFO; it has no route; another port sends it indirectly; with LLR, the other
end will not accept it; it is sent again, and will be accepted."""

TX, RX = 16, 17  # copies of the state of a flow's sending or receiving side
PAUSED, RESUMED = 18, 19  # PFC pauses or resumes the class of a flow's data at its sender

ASKED, SET = 20, 21
"""A sender had no packet to send; the value is when it will have one, or AT_EVENT. A timer of a
flow was set; the value is its code."""

AT_EVENT = INF  # only an event can unblock the sender

SENDERS_TIMERS, START, RECEIVERS_TIMERS = TIMER_TX, TIMER_START, TIMER_RX
"""First timer codes of a flow's sender, its start and pacing, and its receiver; lower codes are
timers that the flows of a host share."""

HANDLER = -1  # value of a copy made after a packet was sent or received; after a timer, its code

TIMER_NAMES = (
    *(f"host timer {k}" for k in range(TIMERS_OF_A_KIND)),
    *(f"timer {k}" for k in range(TIMER_START - TIMER_TX)),
    "start",
    *(f"timer {k}" for k in range(TIMERS_OF_A_KIND)),
)
"""Names of timers by code."""

CAPACITY = 1 << 15
TIME, PORT, WHAT, VALUE, PAUSED_PS, FLOW = range(6)
"""Columns of an entry. PAUSED_PS is how long the packet's class at that port had been paused. FLOW
is -1 for a PFC frame. The value of ARRIVED, DROPPED, TRIMMED, MARKED, FORWARDED and SENT_INDIRECT
is the bytes that the class held: without the packet on its arrival, with it afterwards."""


class Trace(NamedTuple):
    """The buffer. Entry k has its packet, or its copy of a side, in row k of that array."""

    chosen: Numbers[FlowId, int]  # uint8[n_flows]: 1 for a traced flow
    first_flow: Numbers[int, int]  # int64[n_hosts + 1]: where each host's flows begin in ...
    flows: Numbers[int, FlowId]  # int64[2 k]: ... the traced flows, by source and by destination
    since: Numbers[int, Ps]  # int64[2 k]: start of recording of their hosts' timers
    first_time: Numbers[int, int]  # int64[n_ports + 1]: where each port's times begin in ...
    times: Numbers[int, Ps]  # ... starts and ends, ascending, of when it records all packets
    length: Numbers[int, int]  # int64[1]: entries since the last drain
    entries: Numbers[tuple[int, int], int]  # int64[capacity, 6]
    packets: Records[int, PacketRecord]  # packets[capacity]
    tx: Records[int, TxRecord]  # sides[capacity]
    rx: Records[int, RxRecord]


def build_trace(
    flows: FlowTable,
    since: Mapping[int, int],
    n_hosts: int,
    times_of_port: Sequence[Sequence[tuple[int, int]]],
    records: tuple[np.dtype, np.dtype, np.dtype],
    capacity: int,
) -> Trace:
    """Return a buffer. ``since`` has the traced flows and their starts; ``times_of_port`` has each
    port's recording times, which may overlap; ``records`` are the types of packets and of both
    sides."""
    traced = np.array([*since], np.int64)
    ends = np.concatenate([flows.src[traced], flows.dst[traced]])
    order = np.argsort(ends, kind="stable")
    chosen = np.zeros(len(flows), np.uint8)
    chosen[traced] = 1
    times = [_joined(one) for one in times_of_port]
    packets, tx, rx = (np.zeros(capacity, record) for record in records)
    return grouped(
        Trace,
        chosen=chosen,
        first_flow=np.searchsorted(ends[order], np.arange(n_hosts + 1)),
        flows=np.tile(traced, 2)[order],
        since=np.tile(np.array([*since.values()], np.int64), 2)[order],
        first_time=np.cumsum([0, *map(len, times)]),
        times=np.array(list(chain.from_iterable(times)), np.int64),
        length=np.zeros(1, np.int64),
        entries=np.zeros((capacity, 6), np.int64),
        packets=packets,
        tx=tx,
        rx=rx,
    )


def _joined(times: Sequence[tuple[int, int]]) -> list[int]:
    """Return the starts and ends of the union of some times."""
    joined: list[int] = []
    for start_ps, end_ps in sorted(times):
        if joined and start_ps <= joined[-1]:
            joined[-1] = max(joined[-1], end_ps)
        else:
            joined += [start_ps, end_ps]
    return joined


class TraceOverflowError(RunError):
    """One window had more entries than the buffer holds."""


@frozen
class TraceEntries:
    """Recorded entries with their packets and copies. `packets`, `tx` and `rx` are records as
    handlers see them, in the order of the entries that have one."""

    entries: np.ndarray  # int64[n, 6]
    packets: np.ndarray
    tx: np.ndarray
    rx: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[TraceEntries]) -> TraceEntries:
        """Concatenate the entries that several calls drained."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def until(self, end_ps: int) -> TraceEntries:
        """Return the entries up to a time."""
        return self.where(self.entries[:, TIME] <= end_ps)

    def of_flow(self, flow: int) -> TraceEntries:
        """Return the entries of a flow."""
        return self.where(self.entries[:, FLOW] == flow)

    def where(self, keep: np.ndarray) -> TraceEntries:
        """Return the entries that a mask, bool[n], selects."""
        what = self.entries[:, WHAT]
        return TraceEntries(
            entries=self.entries[keep],
            packets=self.packets[keep[what < TX]],
            tx=self.tx[keep[what == TX]],
            rx=self.rx[keep[what == RX]],
        )


def drain(trace: Trace) -> TraceEntries:
    """Take all entries out of the buffer. Raises TraceOverflowError if some were not recorded."""
    n = int(trace.length[0])
    if n > trace.entries.shape[0]:
        raise TraceOverflowError(f"{n} entries in a window, room for {trace.entries.shape[0]}")
    trace.length[0] = 0
    entries = trace.entries[:n].copy()
    what = entries[:, WHAT]
    return TraceEntries(
        entries=entries,
        packets=np.asarray(trace.packets)[:n][what < TX],
        tx=np.asarray(trace.tx)[:n][what == TX],
        rx=np.asarray(trace.rx)[:n][what == RX],
    )


def append(trace: Trace, what: int, p: GlobalPort, flow: FlowId, now: Ps, value: int) -> int:
    """Add an entry; return its row, or -1 if the buffer is full."""
    k = trace.length[0]
    trace.length[0] = k + 1
    if k >= trace.entries.shape[0]:
        return -1
    trace.entries[k, TIME] = now
    trace.entries[k, PORT] = int(p)
    trace.entries[k, WHAT] = what
    trace.entries[k, VALUE] = value
    trace.entries[k, PAUSED_PS] = 0
    trace.entries[k, FLOW] = int(flow)
    return k


def half_full(trace: Trace) -> bool:
    """Return whether the buffer should be drained."""
    capacity: int = trace.entries.shape[0]
    return 2 * trace.length[0] > capacity


def trace_packet(
    links: LinkState, what: int, p: GlobalPort, pkt: PacketRecord, now: Ps, value: int
) -> None:
    """Record an event at port ``p`` of packet ``pkt``."""
    trace: Trace = links.trace
    flow = FlowId(pkt.flow)
    moves = what == FORWARDED or what == SENT or (HAS_PFC and what == ARRIVED)
    if (flow >= 0 and trace.chosen[flow] == 1) or (moves and in_times(trace, p, now)):
        k = append(trace, what, p, flow, now, value)
        if k >= 0:
            trace.packets[k] = pkt
            trace.entries[k, PAUSED_PS] = paused_until(links, p, int(pkt.prio), now)


def in_times(trace: Trace, p: GlobalPort, now: Ps) -> bool:
    """Return whether port ``p`` records all packets at a time."""
    first = trace.first_time[int(p)]
    low, high = first, trace.first_time[int(p) + 1]
    while low < high:
        middle = (low + high) // 2
        if trace.times[middle] <= now:
            low = middle + 1
        else:
            high = middle
    return (low - first) % 2 == 1


def trace_created(links: LinkState, host_port: HostPortRecord, p: GlobalPort, now: Ps) -> None:
    """Record the control packets that were put into port ``p``'s FIFO, before they are checked."""
    for i in range(host_port.checked, host_port.ctrl_tail):
        slot = ring_slot(host_port.ctrl_off, host_port.ctrl_mask, i)
        trace_packet(links, CREATED, p, links.pool[slot], now, 0)


def trace_tx(links: LinkState, env: Env, flow: FlowId, p: GlobalPort, now: Ps, cause: int) -> None:
    """Copy the state of the sending side of ``flow``."""
    trace: Trace = links.trace
    if trace.chosen[flow] == 1:
        k = append(trace, TX, p, flow, now, cause)
        if k >= 0:
            trace.tx[k] = env.tx[flow]


def trace_rx(links: LinkState, env: Env, flow: FlowId, p: GlobalPort, now: Ps, cause: int) -> None:
    """Copy the state of the receiving side of ``flow``."""
    trace: Trace = links.trace
    if trace.chosen[flow] == 1:
        k = append(trace, RX, p, flow, now, cause)
        if k >= 0:
            trace.rx[k] = env.rx[flow]


def trace_timer(links: LinkState, env: Env, timer: TimerRecord, p: GlobalPort, now: Ps) -> None:
    """Copy the state that a timer's handler may have changed: for a host timer, any flow there."""
    code = timer.code
    if code <= TIMER_TASK:
        return  # timers of tasks and programs are not recorded
    if code >= TIMER_RX:
        trace_rx(links, env, FlowId(timer.owner), p, now, code)
    elif code >= TIMER_TX:
        trace_tx(links, env, FlowId(timer.owner), p, now, code)
    else:
        trace: Trace = links.trace
        host = env.host.host
        for i in range(trace.first_flow[host], trace.first_flow[host + 1]):
            flow = trace.flows[i]
            if now < trace.since[i] or has_ended(env, flow, now):
                continue
            if env.tx[flow].host == host:
                trace_tx(links, env, flow, p, now, code)
            else:
                trace_rx(links, env, flow, p, now, code)


def has_ended(env: Env, flow: FlowId, now: Ps) -> bool:
    """Return whether a flow was done at both ends before a time."""
    acked, done = env.tx[flow].acked_ps, env.rx[flow].done_ps
    return 0 <= acked < now and 0 <= done < now


def trace_pause(links: LinkState, env: Env, paused: int, p: GlobalPort, now: Ps) -> None:
    """Record that PFC frame ``paused``, not yet applied, pauses or resumes a traced sender."""
    before = links.ports[p].paused
    trace: Trace = links.trace
    host = env.host.host
    for i in range(trace.first_flow[host], trace.first_flow[host + 1]):
        tx = env.tx[trace.flows[i]]
        here = tx.host == host and may_use(env, tx, p)
        if here and ((before ^ paused) >> first_level(tx.prio)) & 1 == 1:
            what = RESUMED
            if (paused >> first_level(tx.prio)) & 1 == 1:
                what = PAUSED
            append(trace, what, p, trace.flows[i], now, HANDLER)


def trace_asked(env: Env, flow: FlowId, p: GlobalPort, now: Ps, at: Ps) -> None:
    """Record that ``flow`` had nothing to send by port ``p`` before ``at``."""
    trace: Trace = env.links.trace
    if trace.chosen[flow] == 1:
        append(trace, ASKED, p, flow, now, at)


def trace_set(env: Env, flow: FlowId, code: int, now: Ps) -> None:
    """Record that a timer of a flow's side was set."""
    trace: Trace = env.links.trace
    if trace.chosen[flow] == 1:
        append(trace, SET, env.host.port, flow, now, code)
