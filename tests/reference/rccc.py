"""RCCC: senders that spend credit, and hosts that pace pulls."""

from __future__ import annotations

from collections import deque
from typing import Any

from .host import HOST_TIMERS, SENDER_TIMERS, Nic
from .model import (
    ACK,
    DATA,
    FLAG_CE,
    FLAG_ECHO,
    FLAG_TRIMMED_LAST,
    NACK,
    PULL,
    TRIMMED,
    Flow,
    Packet,
    below,
    rand32,
    serialization_ps,
)
from .sides import Receiver, Sender

REQUEST = 2
QUANTUM = 256
PATHS, PERIODS = 64, 65

# A data packet's or request's `note` is its target, a pull's its grant.
# Params: rto_ps, credit_window, base_rtt_ps, ack_bytes, ack_report, pull_bytes, pull_rate,
# idle_requests, oversubscription, paths, entropies.


class CreditSender(Sender):
    """Sends while it has credit."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any], credits: Credits) -> None:
        super().__init__(nic, flow, 1)
        self.params = params
        self.credits = credits
        self.next = self.oldest = self.before = 0
        self.acked: set[int] = set()
        self.rtx: set[int] = set()
        self.credit = 0
        self.pulled = 0
        self.speculating = False
        self.timer = nic.timer((SENDER_TIMERS, flow.index, 1), self._on_timeout)
        credits.senders.append(self)

    @property
    def full(self) -> int:
        return self.flow.payload_bytes + self.header_bytes

    def _size(self, seq: int) -> int:
        return self.flow.packet_payload_bytes(seq) + self.header_bytes

    @property
    def is_ready(self) -> bool:
        return self.credit > 0 and bool(self.rtx or self.next < self.n)

    def on_start(self) -> None:
        """Speculate with a window of credit."""
        self.credit = self.params["credit_window"]
        self.speculating = True

    def ready(self) -> int | None:
        """Return now while there is credit."""
        return self.sim.now if self.is_ready else None

    def _end_speculation(self) -> None:
        if self.speculating:
            self.speculating = False
            self.credit = min(self.credit, 0)

    def _target(self, n_ready: int) -> int:
        unsent = sum(self._size(seq) for seq in range(self.next, self.n))
        wanted = min(unsent + len(self.rtx) * self.full, self.params["credit_window"]) - self.credit
        if self.speculating and self.next < self.n:
            wanted = max(wanted, self.full)
        target: int = self.pulled - (-(max(wanted, 0) // max(n_ready, 1)) // QUANTUM)
        return target

    def _watch(self) -> None:
        self.before = self.next
        self.timer.set(self.sim.now + self.params["rto_ps"])

    def build(self) -> Packet:
        """Build the lowest packet to send again, else the next new one."""
        n_ready = self.credits.n_ready
        again = bool(self.rtx)
        if again:
            seq = min(self.rtx)
            self.rtx.remove(seq)
        else:
            seq = self.next
            self.next += 1
        self.credit -= self._size(seq)
        c = self.packets_sent
        packet = self.data_packet(seq)
        packet.aux = self.sim.now // 1024 % 2**31
        packet.note = self._target(n_ready)
        packet.asks = again or self.next == self.n or self.credit <= 0
        if self.params["paths"] == "oblivious":
            n = self.params["entropies"]
            start = below(rand32(self.sim.case.seed, PATHS, self.flow.index, c // n), n)
            packet.entropy = (start + c) % n
        if not self.timer.armed:
            self._watch()
        return packet

    def on_control(self, packet: Packet) -> None:
        """Handle ACK, NACK or PULL; a finished flow ignores them."""
        if self.finished:
            return
        self._end_speculation()
        if packet.kind == ACK:
            self.acked |= set(range(packet.arrived[0])) | packet.arrived[1]
            self.rtx -= self.acked
            oldest = next(seq for seq in range(self.n + 1) if seq not in self.acked)
            if oldest != self.oldest:
                self.oldest = oldest
                if oldest == self.n:
                    self.timer.cancel()
                    self.finish()
                else:
                    self._watch()
        elif packet.kind == NACK:
            if packet.seq == self.oldest:
                self._watch()
            if packet.seq not in self.acked:
                self.rtx.add(packet.seq)
        elif packet.note > self.pulled:
            more = QUANTUM * (packet.note - self.pulled)
            self.credit = min(self.credit + more, self.params["credit_window"])
            self.pulled = packet.note

    def _on_timeout(self) -> None:
        if not self.params["idle_requests"] and len(self.acked) + len(self.rtx) == self.next:
            self._watch()
            return
        self.rtx |= set(range(self.oldest, self.before)) - self.acked
        self._watch()
        if not self.is_ready:
            self._end_speculation()
            size = self.sim.case.packets["control_bytes"]
            request = Packet(REQUEST, self.flow.index, 0, self.flow.dst, size, 0)
            request.note = self._target(self.credits.n_ready)
            self.nic.send_control(request, self.spread)
        self.nic.join(self)


class CreditReceiver(Receiver):
    """Sends ACKs and NACKs, and asks its host for pulls."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any], credits: Credits) -> None:
        super().__init__(nic, flow, control_class=0)
        self.params = params
        self.credits = credits
        self.target = self.granted = self.expected = self.unacked = 0
        self.owed = False
        self.received: set[int] = set()

    def _answer(self, kind: int, seq: int, cause: Packet | None) -> Packet:
        packet = self.send_control(kind, seq, 0 if cause is None else cause.aux)
        if cause is not None:
            packet.entropy = cause.entropy
        return packet

    def on_packet(self, packet: Packet) -> None:
        """Handle DATA, TRIMMED or REQUEST."""
        self.credits.count(self, packet)
        if packet.note > self.target:
            self.target = packet.note
            self.credits.want_pull(self)
        if packet.kind == DATA:
            self._on_data(packet)
        else:
            self.credits.want_pull(self)
            if packet.kind == TRIMMED and packet.seq in self.received:
                self._acknowledge(packet)
            elif packet.kind == TRIMMED:
                nack = self._answer(NACK, packet.seq, packet)
                nack.flags = packet.flags & FLAG_TRIMMED_LAST

    def _on_data(self, packet: Packet) -> None:
        at_once = bool(packet.flags & FLAG_CE) or not self.received or packet.seq in self.received
        if packet.seq not in self.received:
            self.received.add(packet.seq)
            self.unacked += packet.size
            if len(self.received) == self.n:
                self.complete()
            if packet.asks:
                at_once = self.owed = True
            if packet.seq == self.expected:
                while self.expected in self.received:
                    self.expected += 1
                if self.owed and len(self.received) == self.expected:
                    at_once, self.owed = True, False
        if at_once or self.unacked >= self.params["ack_bytes"]:
            self.unacked = 0
            self._acknowledge(packet)

    def _acknowledge(self, packet: Packet) -> None:
        ack = self._answer(ACK, packet.seq, packet)
        block = 16 if self.params["ack_report"] == "all" else 32
        first = packet.seq // block * block
        ack.arrived = (self.expected, self.received & set(range(first, first + block)))
        if packet.flags & FLAG_CE:
            ack.flags = FLAG_ECHO


class Credits:
    """A NIC: its senders, the flows that it pulls, and its pull rate."""

    def __init__(self, nic: Nic) -> None:
        self.nic = nic
        self.sim = nic.sim
        self.senders: list[CreditSender] = []
        self.wanting: deque[CreditReceiver] = deque()
        self.satisfied: deque[CreditReceiver] = deque()
        self.next_pull_ps = 0
        self.timer = nic.timer((HOST_TIMERS, 0, 0), self._pull)
        self.adapt_timer = nic.timer((HOST_TIMERS, 0, 1), self._adapt)
        self.params: dict[str, Any] = {}
        self.withheld = self.g = 0.0
        self.f = 1.0
        self.draws = 0
        self.period_ps = 0
        self._begin()

    @property
    def n_ready(self) -> int:
        return sum(sender.is_ready for sender in self.senders if not sender.finished)

    def want_pull(self, receiver: CreditReceiver) -> None:
        if receiver not in self.wanting:
            self.wanting.append(receiver)
        self.timer.set(max(self.sim.now, self.next_pull_ps))

    def _pull(self) -> None:
        if self.wanting:
            receiver = self.wanting.popleft()
            c = receiver.params["pull_bytes"] // QUANTUM
            c = min(c, max(receiver.target - receiver.granted, 0))
            receiver.granted += c
            if receiver.target > receiver.granted:
                self.wanting.append(receiver)
            elif receiver not in self.satisfied:
                self.satisfied.append(receiver)
        else:
            receiver = self.satisfied.popleft()
            c = receiver.params["pull_bytes"] // QUANTUM
            receiver.granted += c
            if receiver.granted - receiver.target < receiver.params["credit_window"] // QUANTUM:
                self.satisfied.append(receiver)
        receiver._answer(PULL, 0, None).note = receiver.granted
        gap_ps = serialization_ps(QUANTUM * (c or 4), self.nic.rate_bps)
        rate = receiver.params["pull_rate"] * (1 - self.withheld)
        self.next_pull_ps = self.sim.now + int(gap_ps / rate)
        if self.wanting or self.satisfied:
            self.timer.set(self.next_pull_ps)

    def _begin(self) -> None:
        self.data = self.marked = self.trimmed = self.trimmed_inside = 0

    def count(self, receiver: CreditReceiver, packet: Packet) -> None:
        """Count an arrived packet, and schedule adaptation of the rate."""
        if packet.kind not in (DATA, TRIMMED):
            return
        self.data += packet.kind == DATA
        self.marked += packet.kind == DATA and bool(packet.flags & FLAG_CE)
        self.trimmed += packet.kind == TRIMMED
        inside = not packet.flags & FLAG_TRIMMED_LAST
        self.trimmed_inside += packet.kind == TRIMMED and inside
        self.params = receiver.params
        if self.params["oversubscription"] > 1 and not self.adapt_timer.armed:
            self.period_ps = 3 * self.params["base_rtt_ps"] // 2
            if self.params["rules"] == "2024":
                self.period_ps = 18_000_000
            end_ps = self.sim.now // self.period_ps * self.period_ps + self._jittered()
            self.adapt_timer.set(end_ps + (self.period_ps if end_ps <= self.sim.now else 0))

    def _jittered(self) -> int:
        draw = rand32(self.sim.case.seed, PERIODS, self.nic.host.index, self.draws)
        self.draws += 1
        return int((0.75 + draw / 2**32 / 2) * self.period_ps)

    def _adapt(self) -> None:
        rate, slower = 1 - self.withheld, False
        arrived = self.data + self.trimmed
        if self.params["rules"] == "2024":
            self.g = (self.g + self.marked / max(self.data, 1)) / 2
            rate = rate * (1 - (self.g - 0.3) * 0.75) if self.g > 0.3 else rate + 0.05
            self._set(rate, max(0.75 / self.params["oversubscription"], 0.01), arrived)
            return
        if self.trimmed_inside > 0:
            rate -= self.trimmed_inside / arrived
            slower = True
        self.g = (self.g + self.marked / max(self.data, 1)) / 2
        if self.g > 0.3:
            rate *= 1 - (self.g - 0.3) * 0.5
            slower = True
        if slower:
            self.f = 1.0
        else:
            rate += 0.01 * self.f if self.marked == 0 else 0.01
            self.f = min(2 * self.f, 128.0)
        self._set(rate, max(0.9 / self.params["oversubscription"], 0.01), arrived)

    def _set(self, rate: float, lowest: float, arrived: int) -> None:
        self.withheld = 1 - min(max(rate, lowest), 1.0)
        self._begin()
        if arrived == 0 and self.withheld == 0:
            self.g = 0.0
        else:
            self.adapt_timer.set(self.sim.now + self._jittered())
