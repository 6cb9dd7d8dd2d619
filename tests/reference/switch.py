"""A switch: routing, FIFOs, ECN, PFC frames. ``queues.py`` has the disciplines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .mixed import Mixed, on_forward
from .model import (
    ACK,
    DATA,
    ECN_DRAW,
    FLAG_CE,
    FLAG_RETURNED,
    FLAG_TRIMMED_LAST,
    NACK,
    PFC,
    TRIMMED,
    TURNS,
    Packet,
    rand32,
    serialization_ps,
)
from .port import COMPLETION, PORT_TIMER, Port
from .queues import DISCIPLINES
from .routing import ALGORITHMS
from .series import Held
from .two_hops import TwoHops

if TYPE_CHECKING:
    from .simulator import Event, Simulator

MAX_HOPS = 255  # links that a packet may cross


@dataclass
class Waiting:
    """A packet in a switch, its ingress port, and the class in which it arrived."""

    packet: Packet
    ingress: SwitchPort
    came_in: int


class ClassWeights:
    """Deficit round robin of a port's classes, group by group."""

    def __init__(self, port: SwitchPort) -> None:
        self.port = port
        packets, levels = port.sim.case.packets, port.sim.n_levels
        full = packets["payload_bytes"] + packets["header_bytes"]
        largest = max(full, packets["control_bytes"])
        self.groups: list[list[int]] = []
        self.quanta: list[int] = []
        for group in port.sim.case.fabric["class_weights"].split(">"):
            weights = [int(weight) for weight in group.split(":") for _ in range(levels)]
            self.groups.append([len(self.quanta) + i for i in range(len(weights))])
            self.quanta += [weight * largest // min(weights) for weight in weights]
        self.deficits = [0] * len(self.quanta)
        self.turns = [group[0] for group in self.groups]

    def choose(self, classes: list[int]) -> int:
        """Return the open class to serve."""
        number = next(i for i, group in enumerate(self.groups) if set(group) & set(classes))
        group = self.groups[number]
        while True:
            c = self.turns[number]
            if c in classes and self.port.fifos[c][0].packet.size <= self.deficits[c]:
                return c
            c = group[(group.index(c) + 1) % len(group)]
            self.turns[number] = c
            if c in classes:
                self.deficits[c] += self.quanta[c]

    def charge(self, c: int, size: int) -> None:
        """Count a packet that is sent, and has left its FIFO."""
        self.deficits[c] = max(0, self.deficits[c] - size) if self.port.fifos[c] else 0


class SwitchPort(Port):
    """A switch port: its FIFOs (as egress), and the classes it pauses (as ingress)."""

    def __init__(
        self, sim: Simulator, node: Switch, local: int, index: int, rate_bps: int, delay_ps: int
    ) -> None:
        super().__init__(sim, node, local, index, rate_bps, delay_ps)
        self.switch = node
        self.fifos: list[list[Waiting]] = [[] for _ in range(sim.n_link_classes)]
        self.sending: tuple[Waiting, int, int] | None = None  # with its class and size
        self.held = Held(sim, sim.n_link_classes)  # q[c]
        self.draws = 0
        self.latest_rate_bps = rate_bps  # of the last transmission started
        self.look: Event | None = None
        self.without_day = False  # it may not start, and the time when it may is unknown
        self.holding_back = [False] * sim.n_link_classes
        self.owes_frame = False
        self.timers: dict[int, tuple[int, Event]] = {}
        self.weights = ClassWeights(self) if sim.case.fabric.get("class_weights") else None

    def turn_at(self, time_ps: int) -> tuple[int, ...]:
        """Return the port's rank among simultaneous arrivals; first its distance from the mark."""
        packets = self.sim.case.packets
        full = packets["payload_bytes"] + packets["header_bytes"]
        s = time_ps // serialization_ps(full, self.rate_bps)
        u = rand32(self.sim.case.seed, TURNS, self.index, s // 4) // 2**19
        a = 2048 * (s % 4)
        return min((u - a) % 8192, (a - u) % 8192), self.local

    def open_classes(self) -> list[int]:
        """Return the classes with a waiting packet that are not paused."""
        waiting = ((c, fifo[0].packet.size) for c, fifo in enumerate(self.fifos) if fifo)
        return [c for c, size in waiting if not self.is_closed(c, size)]

    def backlog_bytes(self) -> int:
        """Return the bytes of waiting packets."""
        return sum(waiting.packet.size for fifo in self.fifos for waiting in fifo)

    def pop_tail(self, c: int) -> Waiting:
        """Remove the packet at the tail of its FIFO."""
        return self._take(c, len(self.fifos[c]) - 1)

    def remove(self, c: int, i: int) -> None:
        """Drop the waiting packet at position ``i``."""
        waiting = self._take(c, i)
        self.drop(c, waiting.packet)
        self.switch.tell_drop(waiting.ingress, waiting.came_in, waiting.packet.size)

    def _take(self, c: int, i: int) -> Waiting:
        waiting = self.fifos[c].pop(i)
        self.held[c] -= waiting.packet.size
        return waiting

    def enqueue(self, c: int, waiting: Waiting) -> None:
        self.switch.mark_by_ecn("enqueue", self, c, waiting.packet)
        self.fifos[c].append(waiting)
        self.hold(c, waiting.packet)

    def hold(self, c: int, packet: Packet) -> None:
        """Add a packet's bytes to those held."""
        self.held[c] += packet.size
        counters = self.counters[c]
        counters.max_queue_bytes = max(counters.max_queue_bytes, self.held[c])

    def drop(self, c: int, packet: Packet) -> None:
        self.counters[c].drops += 1
        self.counters[c].drop_bytes += packet.size
        self.sim.balance.dropped.add(packet.size)

    def trim(self, c: int, packet: Packet, to: int | None = None) -> None:
        self.counters[c].trims += 1
        left = self.sim.case.packets["control_bytes"] if to is None else min(to, packet.size)
        self.sim.balance.trimmed_bytes += packet.size - left
        packet.kind, packet.size = TRIMMED, left
        if not isinstance(self.peer.node, Switch):
            packet.flags |= FLAG_TRIMMED_LAST

    def bounce(self, packet: Packet, removed: Waiting | None = None) -> None:
        """Return the arriving packet, or a removed one, to its sender."""
        if packet.kind != TRIMMED:
            self.trim(packet.prio, packet)
        packet.dst, packet.table = self.sim.address_of_sender(packet)
        packet.kind, packet.via = NACK, None
        packet.flags |= FLAG_RETURNED
        self.switch.made.append((self, packet))
        if removed is None:
            self.switch.returns = True
        else:
            self.switch.tell_drop(removed.ingress, removed.came_in, packet.size)

    def emit(self, packet: Packet, kind: int, aux: int, c: int) -> None:
        """Make a control packet for the sender of a packet's flow."""
        to, table = packet.dst, packet.table
        if packet.kind < ACK:
            to, table = self.sim.address_of_sender(packet)
        size = self.sim.case.packets["control_bytes"]
        made = Packet(kind, packet.flow, packet.seq, to, size, c, aux)
        made.entropy, made.table = packet.entropy, table
        self.sim.balance.sent.add(size)
        self.switch.made.append((self, made))

    def mark(self, c: int, packet: Packet) -> None:
        packet.flags |= FLAG_CE
        self.counters[c].ecn_marks += 1

    def wait_until(self, time: int) -> None:
        """Schedule a wakeup of this port."""
        assert time > self.sim.now
        sim, switch = self.sim, self.switch
        self.look = sim.at(time, switch.index, COMPLETION, (self.local,), self._look)

    def _look(self) -> None:
        self.look = None
        self.wake()

    def wake(self) -> None:
        """Start, if idle."""
        self.switch.start(self)
        self.switch.start_owing()

    def hear_of_order(self) -> None:
        """Schedule a wakeup once a phase-driven slot's start is known."""
        if self.without_day:
            assert self.circuit is not None
            first = self.circuit.first_start(self, self.sim.now)
            if first is not None:
                self.without_day = False
                self.wait_until(first)

    def cancel_wakeup(self) -> None:
        self.without_day = False
        if self.look is not None:
            self.look.canceled = True
            self.look = None

    def set_timer(self, k: int, time: int) -> None:
        """Set a timer to a time, or clear it with 0."""
        if k in self.timers:
            self.timers.pop(k)[1].canceled = True
        if time:
            assert time > self.sim.now
            order = (self.local, k)
            event = self.sim.at(time, self.switch.index, PORT_TIMER, order, lambda: self._fire(k))
            self.timers[k] = time, event

    def _fire(self, k: int) -> None:
        del self.timers[k]
        self.switch.discipline.on_port_timer(self, k)
        self.switch.start(self)
        self.switch.start_owing()

    def pause(self, c: int) -> None:
        if not self.holding_back[c]:
            self.holding_back[c] = True
            self.owes_frame = True
            self.counters[c].pfc_pauses += 1

    def resume(self, c: int) -> None:
        if self.holding_back[c]:
            self.holding_back[c] = False
            self.owes_frame = True


class Switch:
    """A switch, whatever its queue discipline."""

    def __init__(self, sim: Simulator, index: int) -> None:
        self.sim = sim
        self.index = index
        self.fabric = sim.case.fabric
        self.seed = sim.case.seed
        self.ports: list[SwitchPort] = []
        # By host port, routing table and slot.
        self.routes: dict[tuple[int, int, int], list[SwitchPort]] = {}
        self.height = 0  # fewest links to a host
        self.network = -1
        self.has_dropped = False
        self.made: list[tuple[SwitchPort, Packet]] = []
        self.returns = False  # `admit` has returned the arriving packet
        self.handles_made = False
        self.routing = ALGORITHMS[self.fabric["routing"]](self)
        self.two_hops = TwoHops(self)
        self.discipline = {**DISCIPLINES, "mixed": Mixed}[self.fabric["queue_discipline"]](self)

    def complete(self, port: Port) -> None:
        """Handle the end of a transmission: release its bytes and start the next."""
        assert isinstance(port, SwitchPort)
        done, port.sending = port.sending, None
        if done is None:  # it was a PFC frame
            self.start(port)
            self.start_owing()
            return
        waiting, c, size = done  # with cut-through, the next switch may have trimmed it
        port.held[c] -= size
        counted = c if self.sim.n_levels == 1 else waiting.came_in
        self.discipline.on_departure(waiting.ingress, counted, size)
        self.start(port)
        self.two_hops.after_completion(port)
        if waiting.ingress.owes_frame:
            self.start(waiting.ingress)
        self.start_owing()

    def arrive(self, port: Port, packet: Packet) -> None:
        """Handle the arrival of a packet at a port."""
        assert isinstance(port, SwitchPort)
        if packet.kind == PFC:
            port.frame_heard = packet.seq
            port.set_paused(self.discipline.on_pause(port, packet.aux))
            self.start(port)
            self.start_owing()
            return
        if packet.hops >= MAX_HOPS or not self.candidates(packet):
            port.counters[packet.prio].unroutable_packets += 1
            port.counters[packet.prio].unroutable_bytes += packet.size
            self.sim.balance.unroutable.add(packet.size)
            return
        packet.arrived_ps = self.sim.now
        came_in = packet.prio
        if self.discipline.on_arrival(port, packet):
            self.routing.arrive(packet, port)
            out = self.two_hops.choose(packet, port) or self.routing.port_for(packet, port)
            self.routing.on_route(port, out, packet)
            c = self.discipline.admit(out, packet)
            if self.returns:
                self.returns = False
                self.tell_drop(port, came_in, packet.size)
            elif c is None:
                out.drop(packet.prio, packet)
                self.tell_drop(port, came_in, packet.size)
            else:
                out.enqueue(c, Waiting(packet, port, came_in))
            self.start(out)
            self.two_hops.after_arrival(out)
        else:
            port.drop(packet.prio, packet)
        if port.owes_frame:
            self.start(port)
        self.start_owing()

    def pauses_ended(self, port: Port) -> None:
        assert isinstance(port, SwitchPort)
        self.start(port)
        self.start_owing()

    def replay_due(self, port: Port) -> None:
        assert isinstance(port, SwitchPort)
        if not port.busy:
            self.sim.at(self.sim.now, self.index, COMPLETION, (port.local,), port.wake)

    def room_made(self, port: Port) -> None:
        if port.retry is not None and port.retry.lacks_room:
            self.replay_due(port)

    def tell_drop(self, ingress: SwitchPort, c: int, size: int) -> None:
        """Notify the discipline of a dropped packet that arrived at a port in a class."""
        self.has_dropped = True
        self.discipline.on_drop(ingress, c, size)

    def start_owing(self) -> None:
        """Let generated packets arrive; after drops, start the ports that owe a frame."""
        if self.made and not self.handles_made:
            self.handles_made = True
            while self.made:
                self.arrive(*self.made.pop(0))
            self.handles_made = False
        if self.handles_made:
            return
        if self.has_dropped:
            self.has_dropped = False
            for port in self.ports:
                if port.owes_frame:
                    self.start(port)

    def candidates(self, packet: Packet) -> list[SwitchPort]:
        """Return the ports that lead to a packet's destination now."""
        policy = self.sim.case.policy
        slot = policy.slot_at(self.sim.now) if policy and packet.table == policy.slotted else 0
        return self._listed(packet.dst, packet.table, slot)

    def ports_to(self, edge: int) -> list[SwitchPort]:
        """Return the ports that lead to an edge switch now, with one routing table."""
        return self._listed(self.sim.port_at[edge], 0, 0)

    def _listed(self, dst: int, table: int, slot: int) -> list[SwitchPort]:
        found = self.routes.get((dst, table, slot), [])
        edge = self.sim.ports[dst].peer.node.index
        if edge == self.index:
            return found
        mine = [r for r in self.sim.case.reroutes if r.switch == self.index and edge in r.ports]
        past = [r for r in mine if r.at_ps <= self.sim.now and r.table == table]
        if not past:
            return found
        last = max(past, key=lambda reroute: reroute.at_ps)
        return [self.ports[local] for local in last.ports[edge]]

    def start(self, port: SwitchPort) -> None:
        """Start the port's next transmission, if it is idle and may send."""
        if port.busy:
            return
        if port.owes_frame:
            port.cancel_wakeup()
            port.owes_frame = False
            port.latest_rate_bps = port.rate_at(self.sim.now)
            mask = sum(1 << c for c, back in enumerate(port.holding_back) if back)
            port.send_pauses(mask, self.discipline.frame_times(port))
            return
        if port.send_again():
            port.latest_rate_bps = port.rate_at(self.sim.now)
            port.cancel_wakeup()
            return
        classes = port.open_classes()
        if port.retry is not None:
            port.retry.lacks_room = bool(classes) and port.retry.is_full
        if not classes:
            return
        port.cancel_wakeup()
        if port.retry is not None and port.retry.is_full:
            return
        if port.circuit is not None:
            first = port.circuit.first_start(port, self.sim.now)
            if first is None:
                port.without_day = True
                return
            if first > self.sim.now:
                port.wait_until(first)
                return
        c: int | None = classes[0]
        if len(classes) > 1 or self.discipline.may_wait:
            by_weight = port.weights
            c = by_weight.choose(classes) if by_weight else self.discipline.choose_class(port)
        if c is None:
            return
        self.send(port, c, port.fifos[c].pop(self.discipline.choose_packet(port, c)))

    def send(self, port: SwitchPort, c: int, waiting: Waiting) -> None:
        """Start the transmission of a packet that has left its FIFO."""
        port.latest_rate_bps = port.rate_at(self.sim.now)
        self.mark_by_ecn("dequeue", port, c, waiting.packet)
        self.discipline.on_send(port, c, waiting.packet)
        if self.sim.case.transport == "mixed" and waiting.packet.kind == DATA:
            on_forward(waiting.packet, port, c)
        self.routing.on_depart(port, waiting.packet)
        if port.weights is not None:
            port.weights.charge(c, waiting.packet.size)
        port.sending = waiting, c, waiting.packet.size
        port.transmit(waiting.packet, c)

    def mark_by_ecn(self, when: str, out: SwitchPort, c: int, packet: Packet) -> None:
        """Apply ECN; out.held is q, without (enqueue) or with (dequeue) this packet."""
        ecn = self.fabric["ecn"]
        if ecn is None or ecn["at"] != when or packet.kind != DATA:
            return
        if c // self.sim.n_levels < self.fabric["ecn_from_class"]:
            return
        own = {**ecn, **self.sim.case.port_sizes.get(out.index, {})}
        q, kmin, kmax = out.held[c], own["kmin_bytes"], own["kmax_bytes"]
        mark = q > kmax
        if kmin < q <= kmax:
            threshold = math.floor(ecn["pmax"] * 2**32 * (q - kmin) / (kmax - kmin))
            mark = rand32(self.seed, ECN_DRAW, out.index, out.draws) < threshold
            out.draws += 1
        if mark:
            out.mark(c, packet)
