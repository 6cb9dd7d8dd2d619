"""Find what each part of a flow's completion time was spent on, by following causes backwards.

The search starts at the receipt that completed the flow and follows that packet hop by hop to its
sender. Then it finds what delayed the packet there: a busy NIC, pacing, a timer, or a control
packet, which it follows to the receiver and to the data that it answers. It repeats this until the
start of the flow. The segments are contiguous, so they add up to the completion time.

Packets have no identity in the trace. But a packet that leaves a port reaches the far end of the
link at a known time, and packets with the same kind and sequence number leave a queue in order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.engine.kernels import trace as event
from netsim.engine.kernels.packets import DATA, FIRST_CONTROL, PULL, TRIMMED
from netsim.engine.kernels.trace import TraceEntries
from netsim.frozen import frozen
from netsim.model.fabric import PacketFormat, after_header_ps, left_ps
from netsim.model.network import Network
from netsim.reports.flow_trace import SEGMENTS

if TYPE_CHECKING:
    import polars as pl


@dataclass
class _Packet:
    number: int
    since: int  # arrival at the current node
    sent: int = -1
    answers: _Packet | None = None


@frozen
class OrderedTrace:
    """Trace entries in order of time, then of node and port."""

    entries: np.ndarray  # int64[n, 6], as in `TraceEntries`
    # each entry's index in recording order, in which the events of one host happened
    recorded: np.ndarray
    # node, far: node of each entry's port, and node at the far end of its link
    node: np.ndarray
    far: np.ndarray
    row: np.ndarray  # each entry's row in `packets`, `tx` or `rx` as recorded
    is_packet: np.ndarray  # whether the entry is about a packet
    packets: np.ndarray  # packets of the entries about packets
    # tx, rx: copies of the flow's sides, in the order of `row`
    tx: np.ndarray
    rx: np.ndarray
    # number of the entry's packet, in order of creation; -1 without one or unknown
    packet: np.ndarray
    wait_ps: np.ndarray  # queueing time of a packet that leaves; else -1
    # when an answer reaches the sender, the time since the answered packet was sent; else -1
    rtt_ps: np.ndarray
    is_retransmit: np.ndarray  # whether a host resends data

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
    tracked = _track(entries[:, :4].tolist(), about, node.tolist(), far.tolist())
    return OrderedTrace(
        entries, order, node, far, row, is_packet, packets, recorded.tx, recorded.rx, *tracked
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


CREATED, QUEUED, INDIRECT, CAME, LEAVES = range(5)
"""Where a packet may be: in a host's control FIFO, at a switch's port, at a switch that sends it
indirectly, on the link by which it reaches an event's node, or on the link by which it leaves."""

LINK = CAME

MOVES: dict[int, tuple[tuple[int, ...], int | None]] = {
    event.CREATED: ((), CREATED),
    event.SENT: ((CREATED,), LEAVES),
    event.ARRIVED: ((CAME,), QUEUED),
    event.SENT_INDIRECT: ((QUEUED,), INDIRECT),
    event.FORWARDED: ((INDIRECT, QUEUED), LEAVES),
    event.TRIMMED: ((QUEUED,), QUEUED),
    event.MARKED: ((QUEUED,), QUEUED),
    event.RECEIVED: ((CAME,), None),
    event.UNROUTABLE: ((CAME,), None),
    event.HELD: ((LEAVES,), QUEUED),
    event.REPLAYED: ((QUEUED,), LEAVES),
    event.LOST: ((LEAVES, QUEUED), None),  # held by a link that gives up
    event.DROPPED: ((QUEUED, CAME), None),  # before queueing if PFC headroom is full
}
"""Where an event's packet may have been (the first match counts), and where it is afterwards."""


def _track(
    entries: list[list[int]],
    packets: list[tuple[int, int, int] | None],
    node: list[int],
    far_node: list[int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Follow packets; return the last four columns of `OrderedTrace`.

    `entries` are (time, port, what, value) in time order. `packets` are the (kind, seq, arrival
    time) of each entry's packet, None for a copy of a side.
    """
    numbers, wait_ps, rtt_ps = (np.full(len(entries), -1, np.int64) for _ in range(3))
    is_retransmit = np.zeros(len(entries), bool)
    waiting: dict[tuple[int, ...], list[_Packet]] = defaultdict(list)
    answered: dict[int, _Packet] = {}  # per host, the packet whose handler runs
    seen: set[tuple[int, int]] = set()
    count = 0
    for i, (now, port, what, value) in enumerate(entries):
        about, here = packets[i], node[i]
        if about is None:
            if what in (event.TX, event.RX) and value >= 0:
                answered.pop(here, None)
            continue
        kind, seq, arrival = about
        name = (DATA if kind == TRIMMED else kind, seq)
        places = (CREATED, port), (QUEUED, port), (INDIRECT, here), (LINK, here, now)
        keys = [(*place, *name) for place in (*places, (LINK, far_node[i], arrival))]
        before, after = MOVES[what]
        place = next((place for place in before if keys[place] in waiting), None)
        if place is not None:
            there = waiting[keys[place]]
            at_tail = place == QUEUED and what in (event.TRIMMED, event.DROPPED)
            packet = there.pop(-1 if at_tail else 0)
            if not there:
                del waiting[keys[place]]
        elif what in (event.CREATED, event.SENT):
            packet, count = _Packet(count, now), count + 1
        else:
            continue
        numbers[i] = packet.number
        if what == event.CREATED:
            packet.answers = answered.get(here)
        elif what == event.SENT:
            packet.sent = now
            is_retransmit[i] = kind == DATA and name in seen
            seen.add(name)
        elif what == event.ARRIVED:
            packet.since = now
        elif what == event.RECEIVED and kind < FIRST_CONTROL:
            answered[here] = packet
        elif what == event.RECEIVED and packet.answers is not None:
            rtt_ps[i] = now - packet.answers.sent
        if after == LEAVES:
            wait_ps[i] = now - packet.since
        if after is not None:
            there = waiting[keys[after]]
            there.insert(0 if what == event.MARKED else len(there), packet)
    return numbers, wait_ps, rtt_ps, is_retransmit


MERGED = ("sending", "pacing", "timeout", "timer", "receiver", "nic")
"""Types whose consecutive segments at one place are merged."""

RETRANSMIT_REQUESTS = ("NACK", "RESEND")  # from a receiver whose timer reports missing data


class _Segment(NamedTuple):
    """The use of an interval; -1 in fields that do not apply.

    `segment_type` is queue (at a switch), transmission, propagation (with the latency of the next
    switch), retry (until a link sends a packet again), paused (by PFC), nic (busy with other
    flows), sending (earlier packets of this flow), pacing, timeout (a packet was missing), timer
    (another timer of the sender), receiver (which spaces out pulls, credits or grants, or serves
    other flows first) or other. `packet` is the trace entry of the delayed packet.
    """

    segment_type: str
    start_ps: int
    end_ps: int
    node: int = -1
    port: int = -1
    packet: int = -1
    timer: int = -1


class _Interval(NamedTuple):
    """A time when the sender was blocked until `entry`, or lost data waited for retransmission."""

    start_ps: int
    end_ps: int
    entry: int


class _SegmentSearch:
    """A backward search through the trace entries of one flow.

    `segments`, `blocked` (the sender could not send before an event) and `resends` (from a lost
    transmission to its retransmission) end up in time order.
    """

    def __init__(
        self,
        network: Network,
        packets: PacketFormat,
        trace: OrderedTrace,
        ends: tuple[int, int],
        start_ps: int,
        names: tuple[Mapping[int, str], Mapping[tuple[str, int], str]],
    ) -> None:
        self.network, self.trace, self.start_ps = network, trace, start_ps
        self.src, self.dst = ends
        self.kinds, self.timers = names
        self.segments: list[_Segment] = []
        self.blocked: list[_Interval] = []
        self.resends: list[_Interval] = []
        self.time, self.port, self.what, self.value, self.paused = trace.entries.T[:5].tolist()
        self.node, self.far = trace.node.tolist(), network.port_node[network.port_peer].tolist()
        self.kind, self.seq = trace.of_packets("kind").tolist(), trace.of_packets("seq").tolist()
        self.prio = trace.of_packets("prio").tolist()
        self.number = trace.packet.tolist()
        self.is_retransmit = trace.is_retransmit.tolist()
        port, size = trace.entries[:, event.PORT], trace.of_packets("size_bytes")
        sent = trace.entries[:, event.TIME], trace.of_packets("time")
        # When a packet, or its header if the next switch cuts through, had left.
        self.left_ps = left_ps(network, packets, port, sent, size).tolist()
        self.after_header_ps = after_header_ps(network, packets, port, size).tolist()
        self.of_packet: dict[int, list[int]] = defaultdict(list)
        for i, number in enumerate(self.number):
            if number >= 0:
                self.of_packet[number].append(i)
        self.control = {self.number[i] for i, what in enumerate(self.what) if what == event.CREATED}
        self.at: dict[int, list[int]] = {}  # entries of both hosts, in recording order
        self.position: dict[int, int] = {}
        for host in (self.src, self.dst):
            here = np.flatnonzero(trace.node == host)
            self.at[host] = here[np.argsort(trace.recorded[here])].tolist()
            self.position.update({i: k for k, i in enumerate(self.at[host])})
        self.sent: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i in self.at[self.src]:
            if self.what[i] == event.SENT:
                self.sent[self.kind[i], self.seq[i]].append(i)
        self.pauses = self._positions(self.src, event.PAUSED, event.RESUMED)
        self.receipts = self._positions(self.dst, event.RECEIVED)
        pulls = self._positions(self.dst, event.CREATED)
        self.pulls = [k for k in pulls if self.kind[self.at[self.dst][k]] == PULL]

    def run(self, done_ps: int) -> None:
        """Search from the completion of the flow back to its start."""
        self.now, self.caused = done_ps, -1
        done, step = self.trace.rx["done_ps"], None
        for i in self.at[self.dst]:
            if self.what[i] == event.RX and done[self.trace.row[i]] == done_ps:
                step = self._copy_cause(i)
                break
        while step is not None and self.now > self.start_ps:
            step = self._find_cause(step)
        self._spend("other", self.start_ps)
        for intervals in (self.segments, self.blocked, self.resends):
            intervals.reverse()

    def _positions(self, host: int, *what: int) -> list[int]:
        """Return the positions of entries of these kinds among a host's entries."""
        return [k for k, i in enumerate(self.at[host]) if self.what[i] in what]

    def kind_name(self, i: int) -> str | None:
        """Return the packet kind of an entry; None without a packet."""
        kind = self.kind[i]
        return self.kinds.get(kind, f"kind {kind}") if self.number[i] >= 0 else None

    def _find_cause(self, i: int) -> int | None:
        """Account for the time since the entry that caused entry i; return that entry."""
        what = self.what[i]
        if what == event.RECEIVED:
            return self._follow_packet(i)
        if what == event.SENT and self.number[i] in self.control:
            return self._to_creation(i)
        if what in (event.SENT, event.ASKED):
            return self._sender_cause(i)
        if what == event.CREATED:
            return self._creation_cause(i)
        return self._timer_cause(i)

    def _follow_packet(self, i: int) -> int | None:
        """Go from the receipt of a packet to its departure from the other host."""
        chain = self.of_packet[self.number[i]]
        left, replayed = -1, False
        for j in reversed(chain[: chain.index(i)]):
            what, port = self.what[j], self.port[j]
            if what in (event.FORWARDED, event.SENT, event.REPLAYED):
                if not replayed:
                    self._spend("propagation", self.left_ps[j], port=port, packet=i)
                    self._spend("transmission", self.time[j], port=port, packet=i)
                else:
                    self._spend("retry", self.time[j], port=port, packet=i)
                replayed = what == event.REPLAYED
                if what == event.SENT:
                    self.caused = j
                    return j
                left = -1 if replayed else j
            elif what == event.ARRIVED and left >= 0:
                self._add_wait("queue", j, left, i)
        return None

    def _add_wait(self, what: str, arrived: int, left: int, packet: int) -> None:
        """Add the wait of a packet at a port, with any PFC pause first."""
        paused = 0
        if self.port[arrived] == self.port[left] and self.prio[arrived] == self.prio[left]:
            paused = min(self.paused[left] - self.paused[arrived], self.now - self.time[arrived])
        port = self.port[left]
        self._spend(what, self.time[arrived] + paused, port=port, packet=packet)
        self._spend("paused", self.time[arrived], port=port, packet=packet)

    def _to_creation(self, i: int) -> int | None:
        """Go from the departure of a control packet to its creation."""
        created = self.of_packet[self.number[i]][0]
        self._add_wait("nic", created, i, i)
        return created

    def _creation_cause(self, i: int) -> int | None:
        """Go from the creation of a control packet to the event that the host answered."""
        here, position = self.at[self.node[i]], self.position[i]
        while position > 0 and self.time[here[position - 1]] == self.time[i]:
            position -= 1
            before = here[position]
            if self.what[before] in (event.RECEIVED, event.SENT):
                return before
            if self.what[before] in (event.TX, event.RX) and self.value[before] != event.HANDLER:
                if self.value[before] >= event.SENDERS_TIMERS:
                    return before
                break
        return self._deferred_cause(i)

    def _deferred_cause(self, i: int) -> int | None:
        """Go to the event that a host answered later, in its turn."""
        node = self.node[i]
        here, position = self.at[node], self.position[i]
        cause: int | None = None
        if self.kind[i] == PULL and node == self.dst:  # one per receipt of data
            receipts = self.receipts[: bisect_left(self.receipts, position)]
            turn = bisect_left(self.pulls, position)
            cause = here[receipts[min(turn, len(receipts) - 1)]] if receipts else None
        else:
            for j in (here[k] for k in range(position - 1, -1, -1)):
                fired = (
                    self.what[j] in (event.TX, event.RX) and self.value[j] >= event.SENDERS_TIMERS
                )
                if self.what[j] in (event.RECEIVED, event.SENT) or fired:
                    cause = j
                    break
        start_ps = self.start_ps if cause is None else self.time[cause]
        self._spend("receiver" if node == self.dst else "timer", start_ps, node, packet=i)
        return cause

    def _timer_cause(self, i: int) -> int | None:
        """Go from a timer to the event at which it was set."""
        node, code = self.node[i], self.value[i]
        if code < event.SENDERS_TIMERS:
            return self._deferred_cause(i)
        here, position = self.at[node], self.position[i]
        while position > 0 and self.what[here[position - 1]] == event.SET:
            position -= 1  # set by this handler
        position -= 1
        while position >= 0 and (self.what[k := here[position]], self.value[k]) != (
            event.SET,
            code,
        ):
            position -= 1
        what = self._timer_type(node)
        if position < 0:
            self._spend(what, self.start_ps, node, timer=code)
            return None
        self._spend(what, self.time[here[position]], node, timer=code)
        back = position
        while self.what[here[position]] in (event.SET, event.PAUSED, event.RESUMED):
            position += 1
        if self.what[here[position]] in (event.TX, event.RX):
            return self._copy_cause(here[position], back)
        return here[position]

    def _timer_type(self, node: int) -> str:
        """Return the segment type of a timer, from what happened after it fired."""
        last = self.caused
        if node == self.src:
            is_timeout = self.number[last] in self.control or self.is_retransmit[last]
            return "timeout" if is_timeout else "timer"
        return "timeout" if self.kind_name(last) in RETRANSMIT_REQUESTS else "receiver"

    def _copy_cause(self, i: int, position: int | None = None) -> int:
        """Return the event after which a copy of a side was made."""
        if self.value[i] != event.HANDLER:
            return i
        here = self.at[self.node[i]]
        position = self.position[i] if position is None else position
        while self.what[here[position]] not in (event.RECEIVED, event.SENT):
            position -= 1
        return here[position]

    def _sender_cause(self, i: int) -> int | None:
        """Go from a request for data to the cause of its delay at the NIC."""
        if self.what[i] == event.SENT and self.is_retransmit[i]:
            self._add_resend(i)
        position = self.position[i]
        before, woken_by = self._previous_turn(position)
        listed = self.time[woken_by] if woken_by >= 0 else self.start_ps
        own = self._previous_own(position, self.port[i])
        free_ps = self.left_ps[own] + self.after_header_ps[own] if own >= 0 else -1
        if free_ps > listed:
            self._add_nic(position, free_ps)
            self._spend("sending", self.time[own], port=self.port[own], packet=own)
            return own
        self._add_nic(position, listed)
        if woken_by < 0 or woken_by == before or before < 0:
            return woken_by if woken_by >= 0 else None
        at = self.value[before]
        paced = self.what[woken_by] == event.TX and self.value[woken_by] == event.START
        if at < event.AT_EVENT and paced:
            while self.what[before] == event.ASKED and self.value[before] < event.AT_EVENT:
                first = before
                before, _ = self._previous_turn(self.position[before])
                if before < 0:
                    break
            self._spend("pacing", self.time[first], self.src)
            return first
        if at == event.AT_EVENT:
            while (
                before >= 0
                and self.what[before] == event.ASKED
                and self.value[before] == event.AT_EVENT
            ):
                first = before
                before, _ = self._previous_turn(self.position[before])
            self.blocked.append(_Interval(self.time[first], self.time[woken_by], woken_by))
        return woken_by

    def _previous_turn(self, position: int) -> tuple[int, int]:
        """Return the sender's previous turn, and the event that made it eligible again; or -1."""
        here, woken_by = self.at[self.src], -1
        while position > 0:
            position -= 1
            i = here[position]
            what = self.what[i]
            if what == event.ASKED:
                return i, woken_by
            if what == event.SENT and self.number[i] not in self.control:
                return i, i
            fired = (
                what == event.TX and event.SENDERS_TIMERS <= self.value[i] < event.RECEIVERS_TIMERS
            )
            if what == event.RECEIVED or fired:
                woken_by = i
        return -1, woken_by

    def _previous_own(self, position: int, port: int) -> int:
        """Return the flow's previous packet through a port of its host; or -1."""
        here = self.at[self.src]
        earlier = (here[k] for k in range(position - 1, -1, -1))
        return next((i for i in earlier if self.what[i] == event.SENT and self.port[i] == port), -1)

    def _add_nic(self, position: int, start_ps: int) -> None:
        """Add the flow's wait for the NIC since a time, and the PFC pauses in it."""
        here = self.at[self.src]
        port = self.port[here[position]]
        pauses = []
        for k in reversed(self.pauses[: bisect_left(self.pauses, position)]):
            if self.port[here[k]] == port:
                pauses.append(here[k])
                if self.time[here[k]] <= start_ps:
                    break
        for i in pauses:
            at = max(self.time[i], start_ps)
            self._spend("paused" if self.what[i] == event.PAUSED else "nic", at, port=port)
        self._spend("nic", start_ps, port=port)

    def _add_resend(self, i: int) -> None:
        """Add the interval from a lost transmission to its retransmission."""
        sent = self.sent[self.kind[i], self.seq[i]]
        lost = sent[sent.index(i) - 1]
        interval = _Interval(self.time[lost], self.time[i], lost)
        if self.resends and interval.end_ps >= self.resends[-1].start_ps:
            later = self.resends.pop()
            earlier = interval if interval.start_ps <= later.start_ps else later
            interval = earlier._replace(end_ps=later.end_ps)
        self.resends.append(interval)

    def _spend(
        self,
        what: str,
        start_ps: int,
        node: int = -1,
        port: int = -1,
        packet: int = -1,
        timer: int = -1,
    ) -> None:
        """Account for the time from `start_ps` to the current position, at a node or its port."""
        node = int(self.network.port_node[port]) if port >= 0 else node
        start_ps = max(start_ps, self.start_ps)
        if start_ps >= self.now:
            return
        end_ps, self.now = self.now, start_ps
        if what in MERGED and self.segments:
            after = self.segments[-1]
            place = after.node, after.port, after.timer
            if after.segment_type == what and place == (node, port, timer):
                self.segments[-1] = after._replace(start_ps=start_ps)
                return
        self.segments.append(_Segment(what, start_ps, end_ps, node, port, packet, timer))

    def pieces(self) -> Iterator[tuple[_Segment, _Interval | None, _Interval | None]]:
        """Cut the segments where intervals begin and end; yield each piece with its intervals."""
        intervals = (*self.blocked, *self.resends)
        cuts = sorted({time for one in intervals for time in (one.start_ps, one.end_ps)})
        for segment in self.segments:
            inner = cuts[bisect_right(cuts, segment.start_ps) : bisect_left(cuts, segment.end_ps)]
            for start, end in pairwise((segment.start_ps, *inner, segment.end_ps)):
                piece = segment._replace(start_ps=start, end_ps=end)
                yield piece, _interval_at(self.blocked, start), _interval_at(self.resends, start)

    def row(
        self, piece: _Segment, blocked: _Interval | None, resend: _Interval | None
    ) -> tuple[Any, ...]:
        name, entry, awaited = self.network.node_name, piece.packet, None
        if blocked is not None:
            timer = self.value[blocked.entry]
            awaited = self.kind_name(blocked.entry) or self._timer_name(timer, self.src)
        return (
            piece.start_ps,
            piece.end_ps,
            piece.segment_type,
            name(piece.node) if piece.node >= 0 else None,
            name(self.far[piece.port]) if piece.port >= 0 else None,
            piece.port if piece.port >= 0 else None,
            self.kind_name(entry) if entry >= 0 else None,
            self.seq[entry] if entry >= 0 else None,
            self.number[entry] in self.control if entry >= 0 else None,
            self._timer_name(piece.timer, piece.node) if piece.timer >= 0 else None,
            awaited,
            self.seq[resend.entry] if resend is not None else None,
        )

    def _timer_name(self, code: int, node: int) -> str:
        """Return the transport's name of a timer."""
        shown = event.TIMER_NAMES[code]
        number, side = shown.rpartition(" ")[2], "tx" if node == self.src else "rx"
        return self.timers.get((side, int(number)), shown) if number.isdigit() else shown


def _interval_at(intervals: list[_Interval], time_ps: int) -> _Interval | None:
    k = bisect_right(intervals, time_ps, key=lambda one: one.end_ps)
    return intervals[k] if k < len(intervals) and intervals[k].start_ps <= time_ps else None


def segment_table(
    network: Network,
    packets: PacketFormat,
    trace: OrderedTrace,
    ends: tuple[int, int],
    times: tuple[int, int],
    names: tuple[Mapping[int, str], Mapping[tuple[str, int], str]],
) -> pl.DataFrame:
    """Return the segments of a flow in time order; none if the flow is incomplete.

    `ends` are its source and destination, `times` its start and the receipt of its last byte (-1:
    never), `names` the names of packet kinds and of the timers of either side.
    """
    import polars as pl

    search = _SegmentSearch(network, packets, trace, ends, times[0], names)
    if times[1] >= 0 and event.RX in trace.entries[:, event.WHAT]:
        search.run(times[1])
    rows = [search.row(*piece) for piece in search.pieces()]
    return pl.DataFrame(rows, schema=SEGMENTS.schema(control=pl.Boolean), orient="row")
