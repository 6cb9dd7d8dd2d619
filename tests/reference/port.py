"""One end of a cable, common to hosts and switches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from .circuits import Circuit
from .model import PFC, Counters, Departure, Packet, rand32, serialization_ps

if TYPE_CHECKING:
    from .simulator import Simulator

# Steps of a node at one instant, in order.
COMPLETION = 0
ARRIVAL = 1
TIMER = 2
SENDING = 3


LOSS = 8  # purpose of the random draws for losses on a link


class Node(Protocol):
    """What a port needs of its host or switch."""

    index: int

    def complete(self, port: Port) -> None:
        """Handle the end of a transmission of ``port``."""

    def arrive(self, port: Port, packet: Packet) -> None:
        """Handle the arrival of a packet's last bit at ``port``."""


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
        self.departures: list[Departure] = []
        self.counters = [Counters() for _ in range(sim.n_link_classes)]

    def transmit(self, packet: Packet, c: int | None = None) -> int:
        """Send a packet, now or after the one in transmission; return when its last bit has left.
        It is counted in class ``c``, by default its own."""
        c = packet.prio if c is None else c
        sim, peer = self.sim, self.peer
        begin_ps = self.last_begin_ps = max(sim.now, self.last_end_ps)
        done_ps = begin_ps + serialization_ps(packet.size, self.rate_at(begin_ps))
        arrival_ps = self.arrival_at(done_ps)
        self.busy = True
        packet.hops += 1
        self.last_end_ps = done_ps
        sim.at(done_ps, self.node.index, COMPLETION, (self.local,), self._complete)
        if packet.kind != PFC:
            self.counters[c].sent_packets += 1
            self.counters[c].sent_bytes += packet.size
            dark = self.circuit is not None and not self.circuit.passes(begin_ps, done_ps)
            if dark:
                self.counters[c].no_circuit_packets += 1
                self.counters[c].no_circuit_bytes += packet.size
            if dark or self._loses(packet, begin_ps, arrival_ps):
                self.counters[c].lost_packets += 1
                self.counters[c].lost_bytes += packet.size
                sim.balance.lost.add(packet.size)
                return done_ps
            sim.on_links[id(packet)] = packet
        content = packet.kind, packet.flow, packet.seq, packet.aux
        header = packet.size, packet.prio, packet.flags, packet.entropy
        self.departures.append(Departure(begin_ps, arrival_ps, *content, *header))
        turn, node = peer.turn_at(arrival_ps), peer.node.index
        sim.at(arrival_ps, node, ARRIVAL, turn, lambda: peer.admit_arrival(packet))
        return done_ps

    def arrival_at(self, done_ps: int) -> int:
        """Return when a packet arrives whose last bit has left then."""
        return done_ps + self.delay_ps

    def turn_at(self, _: int) -> tuple[int, ...]:
        """Return the rank among simultaneous arrivals; the smallest goes first."""
        return (self.local,)

    def rate_at(self, begin_ps: int) -> int:
        """Return the link's rate for a transmission that starts then."""
        fault = self.sim.case.faults.get(self.index)
        interval = fault.interval_at(begin_ps) if fault is not None else None
        return self.rate_bps if interval is None or interval.rate_bps is None else interval.rate_bps

    def _loses(self, packet: Packet, begin_ps: int, arrival_ps: int) -> bool:
        """Return whether the link loses a packet that is sent and arrives at these times."""
        fault = self.sim.case.faults.get(self.index)
        if fault is None:
            return False
        if any(down < arrival_ps and begin_ps < up for down, up in fault.outages):
            return True
        interval = fault.interval_at(begin_ps)
        chance = 0 if interval is None else interval.chance(packet.size)
        if chance == 0:
            return False
        draw = rand32(self.sim.case.seed, LOSS, self.index, self.loss_draws)
        self.loss_draws += 1
        return draw < chance

    def _complete(self) -> None:
        self.busy = False
        self.node.complete(self)

    def admit_arrival(self, packet: Packet) -> None:
        """Receive the last bit of a packet."""
        self.sim.on_links.pop(id(packet), None)
        self.node.arrive(self, packet)

    def set_paused(self, mask: int) -> None:
        """Replace the pause state of all classes by that of a PFC frame."""
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
