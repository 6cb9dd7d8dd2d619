"""The two sides of a flow in each transport."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .host import HOST_TIMERS, SENDER_TIMERS, Nic
from .mixed import MixedReceiver, MixedSender, Pacer
from .model import ACK, DATA, NACK, PULL, TRIMMED, Flow, Packet, serialization_ps
from .port_pairs import Spread, port_pairs_of
from .rccc import CreditReceiver, Credits, CreditSender
from .sides import Receiver, Sender

if TYPE_CHECKING:
    from .simulator import Simulator


class DatagramSender(Sender):
    """Sends every packet once."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any]) -> None:
        super().__init__(nic, flow, params["data_class"])
        self.next = 0
        self.gap_ps = 0
        if params["rate_bps"] is not None:
            full = flow.payload_bytes + self.header_bytes
            self.gap_ps = serialization_ps(full, params["rate_bps"])

    def ready(self) -> int | None:
        """Return the start plus ``next`` gaps."""
        if self.next == self.n:
            return None
        return self.flow.start_ps + self.next * self.gap_ps

    def build(self) -> Packet:
        """Build the next packet; with the last one the sender is done."""
        packet = self.data_packet(self.next)
        packet.remaining = self.n - self.next
        self.next += 1
        if self.next == self.n:
            self.finish()
        return packet


class DatagramReceiver(Receiver):
    """Counts bytes."""

    def __init__(self, nic: Nic, flow: Flow, _: dict[str, Any]) -> None:
        super().__init__(nic, flow)
        self.missing_bytes = flow.size_bytes

    def on_packet(self, packet: Packet) -> None:
        """Count a packet; trimmed ones have lost their bytes."""
        if packet.kind == DATA:
            self.missing_bytes -= self.flow.packet_payload_bytes(packet.seq)
            if self.missing_bytes == 0:
                self.complete()


class RoceSender(Sender):
    """Go-back-N."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any]) -> None:
        super().__init__(nic, flow, params["data_class"])
        self.next = 0
        self.una = 0
        self.rto_ps: int = params["rto_ps"]
        self.rto_timer = nic.timer((SENDER_TIMERS, flow.index, 1), self._on_timeout)

    def ready(self) -> int | None:
        return self.sim.now if self.next < self.n else None

    def build(self) -> Packet:
        packet = self.data_packet(self.next)
        self.next += 1
        if not self.rto_timer.armed:
            self._arm()
        return packet

    def on_control(self, packet: Packet) -> None:
        """Handle ACK(e) or NACK(e)."""
        e, una_before = packet.seq, self.una
        self.una = max(self.una, e)
        self.next = max(self.next, self.una)
        if packet.kind == NACK and e == self.una:
            self.next = self.una
        if self.una == self.n:
            self.finish()
            self.rto_timer.cancel()
        elif self.una > una_before or packet.kind == NACK:
            self._arm()

    def _on_timeout(self) -> None:
        self.next = self.una
        self._arm()
        self.nic.join(self)

    def _arm(self) -> None:
        self.rto_timer.set(self.sim.now + self.rto_ps)


class RoceReceiver(Receiver):
    """Accepts packets in order only."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any]) -> None:
        ack_class = params.get("ack_class")
        super().__init__(nic, flow, params["data_class"] if ack_class is None else ack_class)
        self.ack_every: int = params.get("ack_every", 1)
        self.expected = 0
        self.nacked = False
        self.since_ack = 0
        self.reorder: int = params.get("reorder_packets", 0)
        self.placed: set[int] = set()

    def _place(self, seq: int) -> None:
        """Handle DATA(seq) in any order."""
        if seq < self.expected or seq in self.placed:
            self.send_control(ACK, self.expected)
            return
        self.placed.add(seq)
        if seq == self.expected:
            self.nacked = False
            while self.expected in self.placed:
                self.expected += 1
        if len(self.placed) == self.n:
            self.complete()
        if seq >= self.expected + self.reorder and not self.nacked:
            self.nacked = True
            self.send_control(NACK, self.expected)
            return
        self.since_ack += 1
        if self.since_ack == self.ack_every or self.expected == self.n:
            self.send_control(ACK, self.expected)
            self.since_ack = 0

    def on_packet(self, packet: Packet) -> None:
        """Handle DATA(seq); a trimmed packet does nothing."""
        if packet.kind != DATA:
            return
        if self.reorder:
            self._place(packet.seq)
        elif packet.seq == self.expected:
            self.expected += 1
            self.nacked = False
            self.since_ack += 1
            if self.expected == self.n:
                self.complete()
            if self.since_ack == self.ack_every or self.expected == self.n:
                self.send_control(ACK, self.expected)
                self.since_ack = 0
        elif packet.seq > self.expected:
            if not self.nacked:
                self.send_control(NACK, self.expected)
                self.nacked = True
        else:
            self.send_control(ACK, self.expected)


class NdpSender(Sender):
    """Sends an initial window, then a packet per pull."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any]) -> None:
        super().__init__(nic, flow, data_class=1)
        self.next = 0
        self.credit = min(params["initial_window"], self.n)
        self.pulled = 0
        self.nacks = 0
        self.void = 0  # packets for which no pull will come
        self.acked: set[int] = set()
        self.rtx: set[int] = set()
        self.rto_ps: int = params["rto_ps"]
        self.rto_timer = nic.timer((SENDER_TIMERS, flow.index, 1), self._on_timeout)

    def ready(self) -> int | None:
        if self.credit > 0 and (self.rtx or self.next < self.n):
            return self.sim.now
        return None

    def build(self) -> Packet:
        """Build the lowest packet to retransmit, else the next new one."""
        if self.rtx:
            seq = min(self.rtx)
            self.rtx.remove(seq)
        else:
            seq = self.next
            self.next += 1
        self.credit -= 1
        if not self.rto_timer.armed:
            self._arm()
        return self.data_packet(seq)

    def on_control(self, packet: Packet) -> None:
        """Handle ACK(seq), NACK(seq) or PULL(aux); a finished flow ignores them."""
        if self.finished:
            return
        seq = packet.seq
        if packet.kind == ACK:
            self.acked.add(seq)
            self.rtx.discard(seq)
            if len(self.acked) == self.n:
                self.finish()
                self.rto_timer.cancel()
            else:
                self._arm()
        elif packet.kind == NACK:
            self.nacks += 1
            if seq not in self.acked:
                self.rtx.add(seq)
            self._arm()
        elif packet.kind == PULL and packet.aux > self.pulled:
            to_send = len(self.rtx) + self.n - self.next + max(0, packet.seq - self.nacks)
            self.credit = min(self.credit + packet.aux - self.pulled, to_send)
            self.pulled = packet.aux

    def on_returned(self, packet: Packet) -> None:
        """Send it again when pulled or, if no pull is awaited, now."""
        if self.finished:
            return
        self.void += 1
        if packet.seq not in self.acked:
            self.rtx.add(packet.seq)
        if self.credit == 0 and self.void + self.pulled >= self.packets_sent:
            self.credit = 1
        self._arm()

    def _on_timeout(self) -> None:
        lost = set(range(self.next)) - self.acked - self.rtx
        self.rtx |= lost
        self.credit = max(self.credit + len(lost), 1)
        self.void = self.packets_sent - self.pulled
        self._arm()
        self.nic.join(self)

    def _arm(self) -> None:
        self.rto_timer.set(self.sim.now + self.rto_ps)


class NdpReceiver(Receiver):
    """Answers every packet, and pulls one more for each at its NIC's rate."""

    def __init__(self, nic: Nic, flow: Flow, pacer: PullPacer) -> None:
        super().__init__(nic, flow, control_class=0)
        self.pacer = pacer
        self.received: set[int] = set()
        self.owed = 0
        self.refused = 0
        self.pull_no = 0
        self.again_no = 0

    def on_packet(self, packet: Packet) -> None:
        """Handle DATA(seq) or TRIMMED(seq)."""
        self.send_control(NACK if packet.kind == TRIMMED else ACK, packet.seq)
        self.refused += packet.kind == TRIMMED
        if packet.kind == DATA and packet.seq not in self.received:
            self.received.add(packet.seq)
            if len(self.received) == self.n:
                self.complete()
        if len(self.received) == self.n:
            self.owed = 0
        else:
            self.owed += 1
            self.pacer.join(self)


class PullPacer:
    """The pull list of a NIC: its receiving flows together pull at the NIC's rate."""

    def __init__(self, nic: Nic) -> None:
        packets = nic.sim.case.packets
        self.nic = nic
        self.full_packet = packets["payload_bytes"] + packets["header_bytes"]
        self.receivers: deque[NdpReceiver] = deque()
        self.next_pull_ps = 0
        self.timer = nic.timer((HOST_TIMERS, 0, 0), self._on_timer)

    def join(self, receiver: NdpReceiver) -> None:
        if receiver not in self.receivers:
            self.receivers.append(receiver)
        if not self.timer.armed:
            self.timer.set(max(self.nic.sim.now, self.next_pull_ps))

    def _on_timer(self) -> None:
        while self.receivers:
            receiver = self.receivers.popleft()
            if receiver.owed == 0:
                continue
            receiver.owed -= 1
            receiver.pull_no += 1
            receiver.again_no = min(receiver.again_no + 1, receiver.refused)
            receiver.send_control(PULL, receiver.again_no, aux=receiver.pull_no)
            if receiver.owed > 0:
                self.receivers.append(receiver)
            gap_ps = serialization_ps(self.full_packet, self.nic.rate_bps)
            self.next_pull_ps = self.nic.sim.now + gap_ps
            break
        if self.receivers:
            self.timer.set(self.next_pull_ps)


class Sides:
    """Creates the senders and receivers of flows."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.pull_pacers: dict[Nic, PullPacer] = {}
        self.mixed_pacers: dict[Nic, Pacer] = {}
        self.credits: dict[Nic, Credits] = {}
        for flow in sim.flows:
            self.attach(flow)

    def attach(self, flow: Flow) -> None:
        """Create both sides of a flow that has not started."""
        sim = self.sim
        transport, params = sim.case.beside.get(flow.index, (sim.case.transport, sim.case.params))
        port_pairs = port_pairs_of(sim, flow.src, flow.dst, sim.case.nics.get(flow.index))
        there = [(b, a) for a, b in port_pairs]
        spreads = Spread(sim, flow.index, port_pairs, 0), Spread(sim, flow.index, there, 2)
        src, dst = (spread.first[0].nic for spread in spreads)
        sender: Sender
        receiver: Receiver
        if transport == "datagram":
            sender = DatagramSender(src, flow, params)
            receiver = DatagramReceiver(dst, flow, params)
        elif transport == "roce":
            sender, receiver = RoceSender(src, flow, params), RoceReceiver(dst, flow, params)
        elif transport == "ndp":
            if dst not in self.pull_pacers:
                self.pull_pacers[dst] = PullPacer(dst)
            sender = NdpSender(src, flow, params)
            receiver = NdpReceiver(dst, flow, self.pull_pacers[dst])
        elif transport == "rccc":
            for nic in (src, dst):
                self.credits.setdefault(nic, Credits(nic))
            sender = CreditSender(src, flow, params, self.credits[src])
            receiver = CreditReceiver(dst, flow, params, self.credits[dst])
        elif transport == "mixed":
            if dst not in self.mixed_pacers:
                self.mixed_pacers[dst] = Pacer(dst)
            sender = MixedSender(src, flow, params)
            receiver = MixedReceiver(dst, flow, params, self.mixed_pacers[dst])
        else:
            raise ValueError(f"unknown transport {transport}")
        sender.spread, receiver.spread = spreads
        src.host.senders[flow.index] = sender
        dst.host.receivers[flow.index] = receiver
