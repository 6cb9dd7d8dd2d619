"""The two sides of a flow, whatever the transport."""

from .host import SENDER_TIMERS, Nic
from .model import DATA, Flow, Packet
from .port_pairs import PortPair, Spread


class Sender:
    """The sending side of a flow."""

    spread: Spread

    def __init__(self, nic: Nic, flow: Flow, data_class: int) -> None:
        self.nic = nic
        self.sim = nic.sim
        self.flow = flow
        self.n = flow.n_packets
        self.data_class = data_class
        self.header_bytes = nic.sim.case.packets["header_bytes"]
        self.port_pair: PortPair | None = None  # of the packet about to be sent
        self.finished = False
        self.acked_ps = -1
        self.packets_sent = 0
        self.bytes_sent = 0
        self.retransmits = 0
        self.seqs_sent: set[int] = set()
        self.joined_with = 0  # its rank
        self.pacing_timer = nic.timer((SENDER_TIMERS, flow.index, 0), self._on_pacing)
        self.handed_over = False
        if flow.start_ps >= 0:
            self.pacing_timer.set(flow.start_ps)

    @property
    def rank(self) -> int:
        """Rank in a ready list; smaller ones go first."""
        return 0

    def on_start(self) -> None:
        """Start the flow."""

    def _on_pacing(self) -> None:
        if not self.finished and self.sim.now == self.flow.start_ps:
            self.on_start()
        self.nic.join(self)

    def ready(self) -> int | None:
        """Return when the next packet may go (a past time is now), or None for blocked."""
        raise NotImplementedError

    def build(self) -> Packet:
        """Build the packet to send now."""
        raise NotImplementedError

    def on_control(self, packet: Packet) -> None:
        raise NotImplementedError

    def on_returned(self, packet: Packet) -> None:
        """Handle a packet that a switch has returned."""

    def data_packet(self, seq: int) -> Packet:
        """Return data packet ``seq``, counted as sent."""
        self.retransmits += seq in self.seqs_sent
        self.seqs_sent.add(seq)
        return self._packet(DATA, seq, self.flow.packet_payload_bytes(seq))

    def other_packet(self, kind: int, seq: int) -> Packet:
        """Return a packet of full size that is not data."""
        return self._packet(kind, seq, self.flow.payload_bytes)

    def _packet(self, kind: int, seq: int, payload: int) -> Packet:
        size = payload + self.header_bytes
        self.packets_sent += 1
        self.bytes_sent += size
        packet = Packet(kind, self.flow.index, seq, self.flow.dst, size, self.data_class)
        packet.entropy = self.spread.entropy
        return packet

    @property
    def all_sent(self) -> bool:
        return len(self.seqs_sent) == self.n

    def finish(self) -> None:
        """Finish the flow: all packets are acknowledged, or there is nothing left to do."""
        if not self.finished:
            self.finished = True
            self.acked_ps = self.sim.now - self.flow.start_ps
            self.sim.tasks.on_finished(self.flow, all_sent=self.all_sent)


class Receiver:
    """The receiving side of a flow."""

    spread: Spread

    def __init__(self, nic: Nic, flow: Flow, control_class: int = 0) -> None:
        self.nic = nic
        self.sim = nic.sim
        self.flow = flow
        self.n = flow.n_packets
        self.control_class = control_class
        self.fct_ps = -1
        self.has_heard = False  # from its sender

    def on_packet(self, packet: Packet) -> None:
        """Handle a packet of the flow (DATA or TRIMMED)."""
        raise NotImplementedError

    def send_control(self, kind: int, seq: int, aux: int = 0) -> Packet:
        size = self.sim.case.packets["control_bytes"]
        packet = Packet(kind, self.flow.index, seq, self.flow.src, size, self.control_class, aux)
        return self.nic.send_control(packet, self.spread)

    def complete(self) -> None:
        self.fct_ps = self.sim.now - self.flow.start_ps
        self.sim.tasks.on_delivered(self.flow)
        self.sim.phase_schedule.on_delivered(self.flow)
