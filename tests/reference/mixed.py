"""A random queue discipline and a random transport, which use every service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .host import HOST_TIMERS, RECEIVER_TIMERS, SENDER_TIMERS, Nic
from .model import ACK, DATA, FLAG_CE, FLAG_ECHO, TRIMMED, Flow, Packet, rand32
from .queues import Discipline
from .sides import Receiver, Sender

if TYPE_CHECKING:
    from .switch import Switch, SwitchPort


CHANCE = 32


class Mixed(Discipline):
    """Decides at random."""

    may_wait = True

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.draws: dict[int, int] = {}
        self.came_in: dict[tuple[int, int], int] = {}
        self.held = 0
        self.classes: int = self.fabric["classes"]

    def _draw(self, port: SwitchPort) -> int:
        self.draws[port.index] = self.draws.get(port.index, 0) + 1
        return rand32(self.switch.seed, CHANCE, port.index, self.draws[port.index])

    def on_arrival(self, ingress: SwitchPort, packet: Packet) -> bool:
        """Drop if the switch's buffer is full; pause with every eighth packet of an ingress and
        class."""
        if self.held + packet.size > self.fabric["buffer_bytes"] and self._draw(ingress) % 4:
            return False
        self.held += packet.size
        key = ingress.index, packet.prio
        self.came_in[key] = self.came_in.get(key, 0) + 1
        if self.came_in[key] % 8 == 0:
            ingress.pause(packet.prio)
        return True

    def on_departure(self, ingress: SwitchPort, c: int, size: int) -> None:
        self.held -= size
        if self._draw(ingress) % 2 == 0:
            ingress.resume(c)

    def on_drop(self, ingress: SwitchPort, c: int, size: int) -> None:
        self.on_departure(ingress, c, size)

    def on_pause(self, port: SwitchPort, mask: int) -> int:
        chance = self._draw(port)
        if chance % 4 == 0:
            self._set_timer(port, chance)
        return mask & ~(chance >> 8) if chance % 3 == 0 else mask

    def on_port_timer(self, port: SwitchPort, k: int) -> None:
        chance = self._draw(port)
        if chance % 2 == 0:
            port.set_paused(chance % 2**self.classes if k == 0 else 0)
        if chance % 3 == 0:
            port.owes_frame = True
        c = chance % self.classes
        if chance % 5 == 0 and port.fifos[c]:
            port.remove(c, len(port.fifos[c]) - 1)
        if port.backlog_bytes():
            self._set_timer(port, chance)

    def _set_timer(self, port: SwitchPort, chance: int) -> None:
        if chance % 7 == 0:
            port.set_timer(chance // 7 % 2, 0)
        else:
            port.set_timer(chance // 7 % 2, self.now + 1 + chance % (self.fabric["gap_ps"] + 1))

    def frame_times(self, port: SwitchPort) -> tuple[int, int]:
        n = port.local
        return 50_000 * (n % 4), 3_000_000 * (n % 3)

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        chance = self._draw(out)
        flow = self.switch.sim.flows[packet.flow]
        other = (chance + (flow.src if packet.kind < ACK else flow.dst)) % self.classes
        behind = (other + 1) % self.classes
        if chance % 3 == 0 and out.fifos[other] and behind != packet.prio:
            removed = out.pop_tail(other)
            if self.fabric["makes"] and chance % 5 == 0 and removed.packet.kind < ACK:
                out.bounce(removed.packet, removed)
            else:
                out.enqueue(behind, removed)
        if self.fabric["makes"] and chance % 11 == 0 and packet.kind < ACK:
            out.bounce(packet)
            return None
        return packet.prio if self.fits(out, packet.prio, packet.size) else None

    def choose_class(self, port: SwitchPort) -> int | None:
        chance = self._draw(port)
        if chance % 4 == 0:
            port.wait_until(self.now + 1 + self.fabric["gap_ps"])
            return None
        classes = port.open_classes()
        first = chance % self.classes
        return min(classes, key=lambda c: (c - first) % self.classes)

    def choose_packet(self, port: SwitchPort, c: int) -> int:
        chance = self._draw(port)
        fifo = port.fifos[c]
        for place in (0, 1):
            if chance % 8 == place and len(fifo) > place + 1:
                port.remove(c, place)
        return chance % len(fifo)

    def on_send(self, port: SwitchPort, c: int, packet: Packet) -> None:
        """Change packets of all kinds."""
        packet.entropy = (packet.entropy + 1) % 65536
        chance = self._draw(port)
        if chance % 8 == 0 and packet.kind == DATA:
            port.mark(c, packet)
        if self.fabric["makes"] and chance % 16 == 1:
            port.emit(packet, ACK + chance % 7, chance % 1000, chance % self.classes)


OF_TX, OF_RX, OF_HOST = 64, 65, 66


class MixedSender(Sender):
    """Decides at random."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any]) -> None:
        super().__init__(nic, flow, params["data_class"])
        self.params = params
        self.gap_ps: int = params["gap_ps"]
        self.draws = 0
        self.sent = 0
        self.again = 0
        self.asked = 0
        self.key = 0
        self.heard = 0
        self.timers = [
            nic.timer((SENDER_TIMERS, flow.index, 1 + k), lambda k=k: self._on_timer(k))  # type: ignore[misc]
            for k in range(2)
        ]

    @property
    def rank(self) -> int:
        return self.key

    def on_start(self) -> None:
        self.key = self.sim.words.get(self.flow.index, (0, 0))[1] % 5
        self._ask()

    def ready(self) -> int | None:
        if self.sent >= self.n + self.again:
            return None
        chance = self._draw()
        if chance % 4 == 0:
            return self.sim.now + chance % (self.gap_ps + 1)
        return self.sim.now

    def build(self) -> Packet:
        """Build all packets from the last to the first, then any, and packets that are not data."""
        chance = self._draw()
        seq = self.n - 1 - self.sent if self.sent < self.n else chance % self.n
        if self.sent >= self.n and chance % 3 == 0:
            packet = self.other_packet(2 + chance % 6, seq)
        else:
            packet = self.data_packet(seq)
        packet.aux = chance % 100_000
        packet.prio = (chance + self.spread.chosen) % self.params["classes"]
        if chance % 2 == 0:
            packet.entropy = chance % 65_536
            self.spread.entropy = chance % 64_007 - (20_000 if self.sim.two_in_ports else 0)
        self.sent += 1
        self.key = chance % 5
        if chance % 8 == 0:
            self.timers[chance // 8 % 2].set(self.sim.now + self.gap_ps)
        if chance % 8 == 1:
            self._ask()
        return packet

    def on_control(self, _: Packet) -> None:
        """Request, retransmit or cancel at random; finish after more than 2n control packets."""
        if self.finished:
            return
        chance = self._draw()
        self.heard += 1
        if chance % 3 == 0 and self.again < self.params["most"]:
            self.again += 1
        if chance % 5 == 0:
            self.timers[chance % 2].cancel()
        if chance % 7 == 0:
            self._ask()
        if self.heard > 2 * self.n:
            self.finish()

    def on_returned(self, packet: Packet) -> None:
        self.on_control(packet)

    def _on_timer(self, k: int) -> None:
        if self.finished:
            return
        chance = self._draw()
        self._ask()
        if chance % 2 == 0:
            self.timers[1 - k].set(self.sim.now + chance % (self.gap_ps + 1))
        if chance % 32 == 1:
            self.finish()
        self.nic.join(self)

    def _ask(self) -> None:
        chance = self._draw()
        if self.asked < self.params["most"]:
            self.asked += 1
            prio = (chance + self.spread.bits_in_use()) % self.params["classes"]
            size = self.sim.case.packets["control_bytes"]
            kind, aux = 2 + chance % 6, chance % 7919
            asking = Packet(kind, self.flow.index, chance % 1000, -1, size, prio, aux)
            self.nic.send_control(asking, self.spread)

    def _draw(self) -> int:
        self.draws += 1
        return rand32(self.sim.case.seed, OF_TX, self.flow.index, self.draws)


class MixedReceiver(Receiver):
    """Decides at random."""

    def __init__(self, nic: Nic, flow: Flow, params: dict[str, Any], pacer: Pacer) -> None:
        super().__init__(nic, flow)
        self.params = params
        self.pacer = pacer
        self.draws = 0
        self.answers = 0
        self.received: set[int] = set()
        self.timer = nic.timer((RECEIVER_TIMERS, flow.index, 0), lambda: self._answer(0, False))

    def on_packet(self, packet: Packet) -> None:
        note = {DATA: packet.note, TRIMMED: packet.seq}.get(packet.kind, packet.aux)
        if packet.kind == DATA and packet.seq not in self.received:
            self.received.add(packet.seq)
            if len(self.received) == self.n:
                self.complete()
        self._answer(note, bool(packet.flags & FLAG_CE))

    def _answer(self, note: int, marked: bool) -> None:
        self.draws += 1
        chance = rand32(self.sim.case.seed, OF_RX, self.flow.index, self.draws)
        self.pacer.latest = self
        packets = self.sim.case.packets
        if self.answers < self.params["most"]:
            for i in range(chance % 3):
                self.answers += 1
                self.control_class = chance % self.params["classes"]
                packet = self.send_control(8 + (chance + i) % 7, chance % 1000, note)
                if chance % 4 == 0:
                    packet.size = packets["header_bytes"] + 1 + chance % packets["payload_bytes"]
                packet.flags = FLAG_ECHO if marked else 0
                if chance % 5 == 0:
                    packet.entropy = chance % 65_536
                    self.spread.entropy = chance % 64_007
        if chance % 8 == 0:
            self.timer.set(self.sim.now + chance % (self.params["gap_ps"] + 1))
        if chance % 8 == 1 and not self.pacer.timer.armed:
            self.pacer.timer.set(self.sim.now + self.params["gap_ps"])


class Pacer:
    """A timer shared by a NIC's receivers, and the last one to answer."""

    def __init__(self, nic: Nic) -> None:
        self.draws = 0
        self.latest: MixedReceiver
        self.timer = nic.timer((HOST_TIMERS, 0, 0), self._on_timer)

    def _on_timer(self) -> None:
        self.draws += 1
        one = self.latest
        chance = rand32(one.sim.case.seed, OF_HOST, one.flow.index, self.draws)
        if one.answers < one.params["most"]:
            one.answers += 1
            one.control_class = chance % one.params["classes"]
            one.send_control(10, chance % 1000, self.draws)


def on_forward(packet: Packet, port: SwitchPort, c: int) -> None:
    """Write the queue's and the port's bytes into a data packet."""
    of_class = port.held[c] + port.counters[c].sent_bytes
    of_port = 3 * sum(port.held) + 5 * sum(counters.sent_bytes for counters in port.counters)
    packet.note = (packet.note * 31 + of_class + of_port) % 1_000_003
