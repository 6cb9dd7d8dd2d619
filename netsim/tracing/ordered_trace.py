"""The entries of a trace in time order, and which of them are about the same packet.

Packets have no identity in the trace. But a packet that leaves a port reaches the far end of the
link at a known time, and packets with the same kind and sequence number leave a queue in order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.engine.kernels import trace as event
from netsim.engine.kernels.packets import DATA, FIRST_CONTROL, TRIMMED
from netsim.engine.kernels.trace import TraceEntries
from netsim.model.network import Network


@dataclass
class PacketLatency:
    """Packet numbers (in order of creation) and times per trace entry; -1 if there are none.

    `wait_ps` is the queueing time of a packet that leaves; `rtt_ps`, when an answer reaches the
    sender, the time since the answered packet was sent. `is_retransmit` marks data sent before.
    """

    packet: np.ndarray
    wait_ps: np.ndarray
    rtt_ps: np.ndarray
    is_retransmit: np.ndarray


@dataclass
class _Packet:
    number: int
    since: int  # arrival at the current node
    sent: int = -1
    answers: _Packet | None = None


@dataclass
class _Tracker:
    """The packets in the network, by location."""

    count: int = 0
    created: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    queued: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    indirect: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    on_link: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    seen: set[tuple[int, int]] = field(default_factory=set)

    def new(self, now: int) -> _Packet:
        self.count += 1
        return _Packet(self.count - 1, now)


@dataclass(frozen=True)
class OrderedTrace:
    """Trace entries in order of time, then of node and port.

    Attributes:
        entries: int64[n, 6], as in `TraceEntries`.
        recorded: each entry's index in recording order, in which the events of one host happened.
        node, far: node of each entry's port, and node at the far end of its link.
        row: each entry's row in `packets`, `tx` or `rx` as recorded.
        is_packet: whether the entry is about a packet.
        packets: packets of the entries about one.
        tx, rx: copies of the flow's sides, in the order of `row`.
        latency: packet numbers and times.
    """

    entries: np.ndarray
    recorded: np.ndarray
    node: np.ndarray
    far: np.ndarray
    row: np.ndarray
    is_packet: np.ndarray
    packets: np.ndarray
    tx: np.ndarray
    rx: np.ndarray
    latency: PacketLatency

    def of_packets(self, name: str) -> np.ndarray:
        """Return a packet field for each entry; 0 for entries without a packet."""
        column = np.zeros(len(self.entries), np.int64)
        column[self.is_packet] = self.packets[name]
        return column


def order_trace(network: Network, recorded: TraceEntries) -> OrderedTrace:
    """Sort the recorded entries, independently of window lengths, and identify packets."""
    entries = recorded.entries
    node = network.port_node[entries[:, event.PORT]].astype(np.int64)
    order = np.lexsort((_sort_ports(entries), node, entries[:, 0]))
    row = np.empty(len(entries), np.int64)
    kept = entries[:, event.WHAT]
    for which in (kept < event.TX, kept == event.TX, kept == event.RX):
        row[which] = np.arange(np.count_nonzero(which))
    entries, node, row = entries[order], node[order], row[order]
    far = network.port_node[network.port_peer[entries[:, event.PORT]]].astype(np.int64)
    is_packet = entries[:, event.WHAT] < event.TX
    packets = recorded.packets[row[is_packet]]
    about: list[Any] = [None] * len(entries)
    keys = zip(*(packets[name].tolist() for name in ("kind", "seq", "time")), strict=True)
    for i, key in zip(np.flatnonzero(is_packet).tolist(), keys, strict=True):
        about[i] = key
    latency = _track(entries[:, :4].tolist(), about, node.tolist(), far.tolist())
    return OrderedTrace(
        entries, order, node, far, row, is_packet, packets, recorded.tx, recorded.rx, latency
    )


def _sort_ports(entries: np.ndarray) -> np.ndarray:
    """Return each entry's port; for a packet sent on behalf of another port, that port."""
    ports, what = entries[:, event.PORT].copy(), entries[:, event.WHAT]
    for first in np.flatnonzero(what == event.SENT_INDIRECT).tolist():
        last = first + 1
        while what[last] != event.FORWARDED:  # it may be marked first
            last += 1
        if last + 1 < what.size and what[last + 1] == event.LOST:
            last += 1
        ports[first + 1 : last + 1] = ports[first]
    return ports


def _track(
    entries: list[list[int]],
    packets: list[tuple[int, int, int] | None],
    node: list[int],
    far_node: list[int],
) -> PacketLatency:
    """Track the packets through the entries.

    `entries` are (time, port, what, value) in time order. `packets` are the (kind, seq, arrival
    time) of each entry's packet, None for a copy of a side.
    """
    n = len(entries)
    latency = PacketLatency(
        packet=np.full(n, -1, np.int64),
        wait_ps=np.full(n, -1, np.int64),
        rtt_ps=np.full(n, -1, np.int64),
        is_retransmit=np.zeros(n, bool),
    )
    tracker = _Tracker()
    answered: dict[int, _Packet] = {}  # per host, the packet whose handler runs
    for i, (now, port, what, value) in enumerate(entries):
        about = packets[i]
        if about is None:
            if what in (event.TX, event.RX) and value >= 0:
                answered.pop(node[i], None)
            continue
        kind, seq, arrival = about
        name = (DATA if kind == TRIMMED else kind, seq)
        here, far = (port, *name), (far_node[i], arrival, *name)
        packet: _Packet | None = None
        if what == event.CREATED:
            packet = tracker.new(now)
            packet.answers = answered.get(node[i])
            tracker.created[here].append(packet)
        elif what == event.SENT:
            packet = _take(tracker.created, here) or tracker.new(now)
            packet.sent = now
            latency.wait_ps[i] = now - packet.since
            latency.is_retransmit[i] = kind == DATA and name in tracker.seen
            tracker.seen.add(name)
            tracker.on_link[far].append(packet)
        elif what == event.ARRIVED:
            packet = _take(tracker.on_link, (node[i], now, *name))
            if packet is not None:
                packet.since = now
                tracker.queued[here].append(packet)
        elif what == event.SENT_INDIRECT:
            packet = _take(tracker.queued, here)
            if packet is not None:
                tracker.indirect[node[i], *name].append(packet)
        elif what == event.FORWARDED:
            packet = _take(tracker.indirect, (node[i], *name)) or _take(tracker.queued, here)
            if packet is not None:
                latency.wait_ps[i] = now - packet.since
                tracker.on_link[far].append(packet)
        elif what == event.RECEIVED:
            packet = _take(tracker.on_link, (node[i], now, *name))
            if packet is not None:
                if kind < FIRST_CONTROL:
                    answered[node[i]] = packet
                elif packet.answers is not None:
                    latency.rtt_ps[i] = now - packet.answers.sent
        elif what == event.UNROUTABLE:
            packet = _take(tracker.on_link, (node[i], now, *name))
        elif what == event.LOST:
            packet = _take(tracker.on_link, far)
        elif what == event.DROPPED:
            # From the queue's tail, or, if PFC headroom is full, before queueing.
            packet = _take(tracker.queued, here, last=True) or _take(
                tracker.on_link, (node[i], now, *name)
            )
        elif what in (event.TRIMMED, event.MARKED) and tracker.queued[here]:
            packet = tracker.queued[here][-1 if what == event.TRIMMED else 0]
        if packet is not None:
            latency.packet[i] = packet.number
    return latency


def _take(waiting: dict[Any, list[_Packet]], key: Any, *, last: bool = False) -> _Packet | None:
    """Remove and return the first (or last) packet under a key; None if there is none."""
    packets = waiting.get(key)
    if not packets:
        return None
    packet = packets.pop(-1 if last else 0)
    if not packets:
        del waiting[key]
    return packet
