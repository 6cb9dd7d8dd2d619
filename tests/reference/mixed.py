"""A random queue discipline that uses every service; its twin is `mixed_queue.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import DATA, Packet, rand32
from .queues import Discipline

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
        """Resume with every second packet."""
        self.held -= size
        if self._draw(ingress) % 2 == 0:
            ingress.resume(c)

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """Sometimes move the last packet of a class to the next one."""
        chance = self._draw(out)
        other = chance % self.classes
        behind = (other + 1) % self.classes
        if chance % 3 == 0 and out.fifos[other] and behind != packet.prio:
            out.enqueue(behind, out.pop_tail(other))
        if self.fits(out, packet.prio, packet.size):
            return packet.prio
        self.held -= packet.size
        return None

    def choose_class(self, port: SwitchPort) -> int | None:
        """Return any open class, or none for a while."""
        chance = self._draw(port)
        if chance % 4 == 0:
            port.wait_until(self.now + 1 + self.fabric["gap_ps"])
            return None
        classes = port.open_classes()
        first = chance % self.classes
        return min(classes, key=lambda c: (c - first) % self.classes)

    def choose_packet(self, port: SwitchPort, c: int) -> int:
        """Return any packet, after dropping others."""
        chance = self._draw(port)
        fifo = port.fifos[c]
        for place in (0, 1):
            if chance % 8 == place and len(fifo) > place + 1:
                self.held -= fifo[place].packet.size
                port.remove(c, place)
        return chance % len(fifo)

    def on_send(self, port: SwitchPort, c: int, packet: Packet) -> None:
        """Change packets of all kinds."""
        packet.entropy = (packet.entropy + 1) % 65536
        if self._draw(port) % 8 == 0 and packet.kind == DATA:
            port.mark(c, packet)
