"""A host: its NICs and their ports, lists of ready flows, timers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .model import ACK, CNP, FLAG_RETURNED, PFC, Packet, below, rand32
from .port import SENDING, TIMER, Port
from .routing_policy import control_table, data_table

if TYPE_CHECKING:
    from .port_pairs import Spread
    from .sides import Receiver, Sender
    from .simulator import Event, Simulator

# First number of a timer slot of a NIC; they sort as (group, flow, number in the flow).
HOST_TIMERS = 0
SENDER_TIMERS = 1
RECEIVER_TIMERS = 2
BEGIN_TIMER, TASK_TIMERS, PROGRAM_TIMERS = 999, 1000, 1001
"""First numbers of other timer slots, instead of the NIC's number."""


HOST_JITTER, READY_ORDER = 15, 16


class Timer:
    """A timer with one deadline; setting it again replaces the deadline."""

    def __init__(self, host: Host, slot: tuple[int, ...], action: Callable[[], None]) -> None:
        self.host = host
        self.slot = slot
        self.action = action
        self.event: Event | None = None

    @property
    def armed(self) -> bool:
        return self.event is not None

    def set(self, deadline_ps: int) -> None:
        """Fire at the deadline, or at once (before the ports send) if that has passed."""
        self.cancel()
        sim = self.host.sim
        when = max(deadline_ps, sim.now)
        self.event = sim.at(when, self.host.index, TIMER, self.slot, self._fire)

    def cancel(self) -> None:
        if self.event is not None:
            self.event.canceled = True
            self.event = None

    def _fire(self) -> None:
        self.event = None
        self.action()
        self.host.wake()


class HostPort(Port):
    """A port of a host, with its waiting packets and flows."""

    nic: Nic
    network: int

    def prepare(self, nic: Nic) -> None:
        """Assign the port to a NIC."""
        self.nic = nic
        self.packets_sent = 0
        self.busy_until_ps = {"data": 0, "ack": 0, "cnp": 0}
        self.last_arrival_ps = 0
        self.n_of_round = 0  # flows at the front of the list
        self.turns = 0
        self.placed = 0
        self.control: deque[Packet] = deque()
        self.ready: deque[Sender] = deque()
        nic.ports.append(self)

    def start(self) -> bool:
        """Take a packet if the port has room and there is one: control first, then data."""
        if self.last_begin_ps > self.sim.now if self.sim.two_in_ports else self.busy:
            return False
        if self.send_again():
            return True
        if self.retry is not None and self.retry.is_full:
            return False
        for i, packet in enumerate(self.control):
            if not self.is_closed(self.sim.first_level(packet.prio), packet.size):
                del self.control[i]
                self._send(packet)
                return True
        full = self.sim.case.packets["payload_bytes"] + self.sim.case.packets["header_bytes"]
        for sender in list(self.ready):
            closed = self.is_closed(self.sim.first_level(sender.data_class), full)
            if closed and not sender.finished:
                continue  # skipped, it keeps its position
            self._leave(sender)
            if sender.finished:
                continue
            port_pair, sender.port_pair = sender.port_pair, None
            answer = sender.ready()
            if answer is None:  # blocked
                continue
            if answer > self.sim.now:  # later
                sender.pacing_timer.set(answer)
                continue
            packet = sender.build()
            assert port_pair is not None
            packet.dst = port_pair[1].index
            packet.table = data_table(self.sim, packet.flow, port_pair)
            end_ps = self._send(packet)
            if sender.all_sent and not sender.handed_over:
                sender.handed_over = True
                self.sim.tasks.on_handed_over(sender.flow, end_ps)
            self.nic.join(sender)
            return True
        return False

    def _leave(self, sender: Sender) -> None:
        """Take a flow off the list, which may begin a round."""
        at = self.ready.index(sender)
        if at >= self.n_of_round:
            self.n_of_round = len(self.ready)
            self.turns += 1
        self.n_of_round -= 1
        self.ready.remove(sender)

    def place(self) -> int:
        """Return where on the list a flow joins for the next round."""
        first = self.n_of_round
        if first == len(self.ready) or self.turns % 2:
            return first
        draw = rand32(self.sim.case.seed, READY_ORDER, self.index, self.placed)
        self.placed += 1
        return first if draw % 2 else len(self.ready)

    def arrival_at(self, left_ps: int) -> int:
        """Return when a packet arrives, late by chance."""
        arrival_ps = super().arrival_at(left_ps)
        jitter_ps = self.sim.case.fabric.get("host_jitter_ps", 0)
        if jitter_ps:
            draw = rand32(self.sim.case.seed, HOST_JITTER, self.index, self.packets_sent)
            arrival_ps = max(arrival_ps + below(draw, jitter_ps), self.last_arrival_ps + 1)
            self.last_arrival_ps = arrival_ps
        self.packets_sent += 1
        return arrival_ps

    def processed_at(self, packet: Packet, arrival_ps: int) -> int:
        """Return when the port has processed a packet, by the server of its kind."""
        if not self.sim.case.nic:
            return arrival_ps
        kind = "data" if packet.kind < ACK else "cnp" if packet.kind == CNP else "ack"
        interval_ps, delay_ps = self.sim.case.nic[kind]
        self.busy_until_ps[kind] = max(arrival_ps, self.busy_until_ps[kind]) + interval_ps
        return self.busy_until_ps[kind] + delay_ps

    def _send(self, packet: Packet) -> int:
        self.sim.balance.sent.add(packet.size)
        packet.prio = self.sim.first_level(packet.prio)
        return self.transmit(packet)


class Nic:
    """A NIC: ports, and the transports' state of a host."""

    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        self.sim = host.sim
        self.number = number
        self.ports: list[HostPort] = []
        self.last_chosen: dict[int, int] = {}  # by least load: 0 for data, 1 for control packets

    @property
    def rate_bps(self) -> int:
        return sum(port.rate_bps for port in self.ports)

    def timer(self, slot: tuple[int, int, int], action: Callable[[], None]) -> Timer:
        return Timer(self.host, (self.number, *slot), action)

    def join(self, sender: Sender) -> None:
        """Put a flow into the ready list of its next port, after flows of its rank, unless it is in
        a list or finished.
        """
        if not sender.finished and sender.port_pair is None:
            sender.port_pair = sender.spread.of_data(sender.packets_sent)
            sender.joined_with = sender.rank
            port = sender.port_pair[0]
            ready = port.ready
            if self.sim.has_rounds:
                ready.insert(port.place(), sender)
                return
            before = [k for k, one in enumerate(ready) if one.joined_with <= sender.rank]
            ready.insert(before[-1] + 1 if before else 0, sender)

    def send_control(self, packet: Packet, spread: Spread) -> Packet:
        """Queue a control packet at the port of its port pair."""
        here, there = spread.of_control()
        packet.dst = there.index
        packet.table = control_table(self.sim, packet.flow, spread.from_source((here, there)))
        packet.entropy = spread.entropy
        here.control.append(packet)
        return packet


class Host:
    """A host, with the senders and receivers of its flows by flow index."""

    def __init__(self, sim: Simulator, index: int) -> None:
        self.sim = sim
        self.index = index
        self.ports: list[HostPort] = []
        self.nics: list[Nic] = []
        self.senders: dict[int, Sender] = {}
        self.receivers: dict[int, Receiver] = {}

    def add(self, port: HostPort, nic: int) -> None:
        while len(self.nics) <= nic:
            self.nics.append(Nic(self, len(self.nics)))
        port.prepare(self.nics[nic])
        self.ports.append(port)

    def arrive(self, port: Port, packet: Packet) -> None:
        """Handle an arrival at this instant."""
        if packet.kind == PFC:
            port.frame_heard = packet.seq
            port.set_paused(packet.aux)
        else:
            self.sim.balance.received.add(packet.size)
            packet.prio //= self.sim.n_levels
            if packet.kind < 8:
                self.receivers[packet.flow].has_heard = True
                self.receivers[packet.flow].on_packet(packet)
            else:
                sender = self.senders[packet.flow]
                returned = packet.flags & FLAG_RETURNED
                (sender.on_returned if returned else sender.on_control)(packet)
                sender.nic.join(sender)
        self.wake()

    def pauses_ended(self, _: Port) -> None:
        self.wake()

    def replay_due(self, _: Port) -> None:
        self.wake()

    def room_made(self, _: Port) -> None:
        self.wake()

    def complete(self, _: Port) -> None:
        """Handle a port that has become free; it sends after arrivals and timers."""
        self.wake()

    def wake(self) -> None:
        """Schedule sending at the end of this instant."""
        self.sim.at(self.sim.now, self.index, SENDING, (), self._start)

    def _start(self) -> None:
        """Start the lowest free port with something to send, then the next."""
        if any(port.start() for port in self.ports):
            self.wake()
