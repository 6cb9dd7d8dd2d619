"""One end of a cable, common to hosts and switches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from .circuits import Circuit
from .link_retry import DAMAGED, NOTHING, WHOLE, Kept, Retry
from .model import (
    MESSAGE,
    PFC,
    PFC_BYTES,
    Counters,
    Departure,
    Packet,
    rand32,
    scaled_ps_per_byte,
    serialization_ps,
)

if TYPE_CHECKING:
    from .simulator import Simulator

# Steps of a node at one instant, in order.
COMPLETION = 0
PORT_TIMER = 1
ARRIVAL = 2
TIMER = 3
SENDING = 4


LOSS = 8  # purpose of the random draws for losses on a link


class Credit(Protocol):
    """A discipline's credits at a port that leads to a switch."""

    def fits(self, port: Port, c: int, size: int) -> bool:
        """Return whether a packet may be sent."""

    def charge(self, port: Port, c: int, size: int) -> None:
        """Count a packet that is sent."""

    def refund(self, port: Port, c: int, size: int) -> None:
        """Undo the charge of a packet that never arrives."""

    def on_message(self, port: Port, c: int, value: int) -> None:
        """Handle a message from the other end."""


class Node(Protocol):
    """The interface of a host or switch that its ports use."""

    index: int

    def complete(self, port: Port) -> None:
        """Handle the end of a transmission of ``port``."""

    def arrive(self, port: Port, packet: Packet) -> None:
        """Handle the arrival of a packet at ``port``."""

    def pauses_ended(self, port: Port) -> None:
        """Continue after the end of pauses at ``port``."""

    def replay_due(self, port: Port) -> None:
        """Start ``port`` at this instant, if it is idle."""

    def room_made(self, port: Port) -> None:
        """Do so if ``port`` waits for room in its replay buffer."""


class Port:
    """A port: the sending end of one link and the receiving end of the opposite one."""

    def __init__(
        self, sim: Simulator, node: Node, local: int, index: int, rate_bps: int, delay_ps: int
    ) -> None:
        self.sim = sim
        self.node = node
        self.local = local
        self.index = index
        self.rate_bps = rate_bps
        self.delay_ps = delay_ps
        self.peer: Port
        self.cable: int  # index among the case's
        self.circuit: Circuit | None = None
        self.busy = False
        self.last_end_ps = 0
        self.last_begin_ps = 0
        self.loss_draws = 0
        self.paused = [False] * sim.n_link_classes
        self.paused_since = [0] * sim.n_link_classes
        self.frames_sent = 0
        self.frame_heard = 0
        self.departures: list[Departure] = []
        self.credit: Credit | None = None
        self.retry = None if sim.case.llr is None else Retry(self, sim.case.llr)
        self.counters = [Counters() for _ in range(sim.n_link_classes)]

    def transmit(
        self, packet: Packet, c: int | None = None, late_ps: int = 0, again: Kept | None = None
    ) -> int:
        """Send a packet, now or after the one in transmission; return when its last bit has left.
        It is counted in class ``c``, by default its own, and arrives ``late_ps`` late. ``again``:
        it is sent again from the replay buffer."""
        c = packet.prio if c is None else c
        sim, peer = self.sim, self.peer
        begin_ps = self.last_begin_ps = max(sim.now, self.last_end_ps)
        rate_bps = self.rate_at(begin_ps)
        done_ps = begin_ps + serialization_ps(packet.size, rate_bps)
        header_ps = begin_ps + serialization_ps(self.needed_bytes(packet, rate_bps), rate_bps)
        arrival_ps = self.arrival_at(header_ps) + late_ps
        last_bit_ps = arrival_ps + done_ps - header_ps
        self.busy = True
        self.last_end_ps = done_ps
        sim.at(done_ps, self.node.index, COMPLETION, (self.local,), self._complete)
        counters = self.counters[c]
        if again is not None:
            counters.replays += 1
            counters.replay_bytes += packet.size
        else:
            packet.hops += 1
        if packet.kind != PFC:
            if again is None:
                counters.sent_packets += 1
                counters.sent_bytes += packet.size
                sim.on_links[id(packet)] = packet
            dark = self.circuit is not None and not self.circuit.passes(begin_ps, done_ps)
            if dark:
                counters.no_circuit_packets += 1
                counters.no_circuit_bytes += packet.size
            brings = NOTHING if dark else self._brings(packet, begin_ps, last_bit_ps)
            arrives = brings == WHOLE
            if self.retry is not None:
                kept = self.retry.keep(packet) if again is None else again
                arrives = self.retry.accepts(kept, brings, done_ps, last_bit_ps)
            elif not arrives:
                self._lose(packet, c)
            if self.credit is not None and again is None and (arrives or self.retry is not None):
                self.credit.charge(self, c, packet.size)
            if not arrives:
                return done_ps
            arrival_ps = peer.processed_at(packet, arrival_ps)
        content = packet.kind, packet.flow, packet.seq, packet.aux
        header = packet.size, packet.prio, packet.flags, packet.entropy
        self.departures.append(Departure(begin_ps, arrival_ps, *content, *header))
        turn, node = peer.turn_at(arrival_ps), peer.node.index
        sim.at(arrival_ps, node, ARRIVAL, turn, lambda: peer.admit_arrival(packet))
        return done_ps

    def needed_bytes(self, packet: Packet, rate_bps: int) -> int:
        """Return the bytes after which a packet sent at this rate arrives: all, or the header."""
        header, node = self.sim.case.cut_through_bytes, self.peer.node
        if header is None or packet.kind == PFC or node.index < self.sim.case.n_hosts:
            return packet.size
        beyond = [port.rate_bps for port in self.sim.ports if port.node is node]
        if scaled_ps_per_byte(rate_bps) > min(map(scaled_ps_per_byte, beyond)):
            return packet.size
        return min(header, packet.size)

    def arrival_at(self, left_ps: int) -> int:
        """Return the arrival time of a packet whose last bit, or header, leaves at this time."""
        return left_ps + self.delay_ps

    def processed_at(self, _: Packet, arrival_ps: int) -> int:
        """Return when the node processes a packet that arrives at this time."""
        return arrival_ps

    def _lose(self, packet: Packet, c: int) -> None:
        self.counters[c].lost_packets += 1
        self.counters[c].lost_bytes += packet.size
        self.sim.balance.lost.add(packet.size)
        del self.sim.on_links[id(packet)]

    def give_up(self, packet: Packet) -> None:
        """Lose a packet that was replayed too often."""
        self._lose(packet, packet.prio)
        if self.credit is not None:
            self.credit.refund(self, packet.prio, packet.size)

    def send_again(self) -> bool:
        """Send the next packet of a replay, if there is one."""
        kept = None if self.retry is None else self.retry.next()
        if kept is not None:
            self.transmit(kept.packet, again=kept)
        return kept is not None

    def send_pauses(self, mask: int, times: tuple[int, int] | None) -> None:
        """Send a PFC frame; ``times`` are its response time and the length of its pauses (0: no
        end), if the discipline has them."""
        packet = Packet(PFC, -1, 0, -1, PFC_BYTES, 0, aux=mask)
        if times is None:
            self.transmit(packet)
            return
        response_ps, pause_ps = times
        self.frames_sent += 1
        packet.seq = number = self.frames_sent
        done_ps = self.transmit(packet, late_ps=response_ps)
        if mask and pause_ps:
            peer = self.peer
            end_ps = self.arrival_at(done_ps) + response_ps + pause_ps
            order = peer.turn_at(end_ps)
            self.sim.at(end_ps, peer.node.index, ARRIVAL, order, lambda: peer.end_pauses(number))

    def end_pauses(self, number: int) -> None:
        """End the pauses of a frame unless another frame has arrived."""
        if self.frame_heard == number:
            self.set_paused(0)
            self.node.pauses_ended(self)

    def send_message(self, c: int, value: int) -> None:
        """Send a message out of band."""
        now, rate, peer = self.sim.now, self.rate_at(self.sim.now), self.peer
        arrival_ps = now + serialization_ps(8, rate) + self.delay_ps
        self.departures.append(
            Departure(now, arrival_ps, MESSAGE, -1, 0, value % 2**31, 8, c, 0, 0)
        )
        order = peer.turn_at(arrival_ps)
        hear = lambda: peer.hear(c, value)  # noqa: E731
        self.sim.at(arrival_ps, peer.node.index, ARRIVAL, order, hear)

    def hear(self, c: int, value: int) -> None:
        """Handle a message."""
        if self.credit is not None:
            self.credit.on_message(self, c, value)
        self.node.pauses_ended(self)

    def is_closed(self, c: int, size: int) -> bool:
        """Return whether no packet of a class and size may be sent now."""
        return self.paused[c] or not (self.credit is None or self.credit.fits(self, c, size))

    def turn_at(self, _: int) -> tuple[int, ...]:
        """Return the rank among simultaneous arrivals; the smallest goes first."""
        return (self.local,)

    def rate_at(self, begin_ps: int) -> int:
        """Return the link's rate for a transmission that starts at this time."""
        fault = self.sim.case.faults.get(self.index)
        interval = fault.interval_at(begin_ps) if fault is not None else None
        return self.rate_bps if interval is None or interval.rate_bps is None else interval.rate_bps

    def _brings(self, packet: Packet, begin_ps: int, arrival_ps: int) -> int:
        """Return how a packet that is sent and arrives at these times comes through the link."""
        fault = self.sim.case.faults.get(self.index)
        if fault is None:
            return WHOLE
        if any(down < arrival_ps and begin_ps < up for down, up in fault.outages):
            return NOTHING
        interval = fault.interval_at(begin_ps)
        chance = 0 if interval is None else interval.chance(packet.size)
        if chance == 0:
            return WHOLE
        draw = rand32(self.sim.case.seed, LOSS, self.index, self.loss_draws)
        self.loss_draws += 1
        return DAMAGED if draw < chance else WHOLE

    def _complete(self) -> None:
        self.busy = False
        self.node.complete(self)

    def admit_arrival(self, packet: Packet) -> None:
        """Receive a packet."""
        self.sim.on_links.pop(id(packet), None)
        self.node.arrive(self, packet)

    def set_paused(self, mask: int) -> None:
        """Replace the pause state of all classes by a PFC frame's."""
        now = self.sim.now
        for c, was in enumerate(self.paused):
            becomes = bool(mask >> c & 1)
            if becomes and not was:
                self.paused_since[c] = now
            elif was and not becomes:
                self.counters[c].paused_ps += now - self.paused_since[c]
            self.paused[c] = becomes

    def counters_at(self, c: int, time_ps: int) -> Counters:
        """Return a copy of a class's counters, including a pause that still lasts at a time."""
        lasting = time_ps - self.paused_since[c] if self.paused[c] else 0
        return replace(self.counters[c], paused_ps=self.counters[c].paused_ps + lasting)
