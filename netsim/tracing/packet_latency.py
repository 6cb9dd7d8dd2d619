"""Which entries of a trace are about the same packet, and what answered what.

Packets carry no identity. But a packet that left a port arrives at the other end of the link at a
time that is known when it leaves, and packets of one kind and number leave a queue in the order in
which they came.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.engine.kernels.packets import DATA, FIRST_CONTROL
from netsim.engine.kernels.packets import TRIMMED as TRIMMED_KIND
from netsim.engine.kernels.trace import (
    ARRIVED,
    CREATED,
    DROPPED,
    FORWARDED,
    LOST,
    MARKED,
    RECEIVED,
    RX,
    SENT,
    SENT_INDIRECT,
    TRIMMED,
    TX,
    UNROUTABLE,
)

NONE = -1


@dataclass
class PacketLatency:
    """Per entry: the packet's number (in the order of creation), and times, NONE without one.

    `wait_ps`, of a packet that leaves: since it came. `rtt_ps`, of an answer that reaches the
    sender: since the packet that it answers was sent. `again`: data that was sent before.
    """

    packet: np.ndarray
    wait_ps: np.ndarray
    rtt_ps: np.ndarray
    again: np.ndarray


@dataclass
class _Packet:
    number: int
    since: int  # when it came to where it is
    sent: int = NONE
    answers: _Packet | None = None


@dataclass
class _Tracker:
    """The packets that are under way, by where they are."""

    count: int = 0
    created: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    queued: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    given: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    on_link: dict[Any, list[_Packet]] = field(default_factory=lambda: defaultdict(list))
    seen: set[tuple[int, int]] = field(default_factory=set)

    def new(self, now: int) -> _Packet:
        self.count += 1
        return _Packet(self.count - 1, now)


def follow(
    entries: list[tuple[int, int, int, int]],
    packets: list[tuple[int, int, int] | None],
    node: list[int],
    far_node: list[int],
) -> PacketLatency:
    """Follow the packets through the entries, which stand in the order of time.

    Parameters
    ----------
    entries : (time, port, what, value) of each.
    packets : (kind, seq, time of arrival) of the packet of each; None for a copy of a side.
    node, far_node : the node of each entry's port, and the node at the other end of its link.
    """
    n = len(entries)
    journeys = PacketLatency(
        packet=np.full(n, NONE, np.int64),
        wait_ps=np.full(n, NONE, np.int64),
        rtt_ps=np.full(n, NONE, np.int64),
        again=np.zeros(n, bool),
    )
    tracker = _Tracker()
    answered: dict[int, _Packet] = {}  # at each host: the packet whose handler is running
    for i, (now, port, what, value) in enumerate(entries):
        about = packets[i]
        if about is None:
            if what in (TX, RX) and value >= 0:
                answered.pop(node[i], None)
            continue
        kind, seq, arrival = about
        name = (DATA if kind == TRIMMED_KIND else kind, seq)
        here, far = (port, *name), (far_node[i], arrival, *name)
        packet: _Packet | None = None
        if what == CREATED:
            packet = tracker.new(now)
            packet.answers = answered.get(node[i])
            tracker.created[here].append(packet)
        elif what == SENT:
            packet = _take(tracker.created, here) or tracker.new(now)
            packet.sent = now
            journeys.wait_ps[i] = now - packet.since
            journeys.again[i] = kind == DATA and name in tracker.seen
            tracker.seen.add(name)
            tracker.on_link[far].append(packet)
        elif what == ARRIVED:
            packet = _take(tracker.on_link, (node[i], now, *name))
            if packet is not None:
                packet.since = now
                tracker.queued[here].append(packet)
        elif what == SENT_INDIRECT:
            packet = _take(tracker.queued, here)
            if packet is not None:
                tracker.given[node[i], *name].append(packet)
        elif what == FORWARDED:
            packet = _take(tracker.given, (node[i], *name)) or _take(tracker.queued, here)
            if packet is not None:
                journeys.wait_ps[i] = now - packet.since
                tracker.on_link[far].append(packet)
        elif what == RECEIVED:
            packet = _take(tracker.on_link, (node[i], now, *name))
            if packet is not None:
                if kind < FIRST_CONTROL:
                    answered[node[i]] = packet
                elif packet.answers is not None:
                    journeys.rtt_ps[i] = now - packet.answers.sent
        elif what == UNROUTABLE:
            packet = _take(tracker.on_link, (node[i], now, *name))
        elif what == LOST:
            packet = _take(tracker.on_link, far)
        elif what == DROPPED:
            # From the queue's tail; or, where PFC's headroom is full, before it was queued.
            packet = _take(tracker.queued, here, last=True) or _take(
                tracker.on_link, (node[i], now, *name)
            )
        elif what in (TRIMMED, MARKED) and tracker.queued[here]:
            packet = tracker.queued[here][-1 if what == TRIMMED else 0]
        if packet is not None:
            journeys.packet[i] = packet.number
    return journeys


def _take(waiting: dict[Any, list[_Packet]], key: Any, *, last: bool = False) -> _Packet | None:
    """Remove the first (or last) packet that waits under a key; None if there is none."""
    packets = waiting.get(key)
    if not packets:
        return None
    packet = packets.pop(-1 if last else 0)
    if not packets:
        del waiting[key]
    return packet
