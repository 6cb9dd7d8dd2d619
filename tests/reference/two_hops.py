"""Indirect packets: over an intermediate switch and two circuits."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from .model import THIRD_SWITCH, Packet, below, rand32
from .port import COMPLETION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Case
    from .switch import Switch, SwitchPort

NO_RULES = {"indirect": "none", "indirect_class": 0}


def ways(case: Case) -> Iterator[tuple[int, int, int, tuple[int, int]]]:
    """Yield each direction of each circuit: circuit switch, its two ports, and the two switches."""
    for cable in case.cables:
        if cable.circuit is not None:
            number, a, b = cable.circuit
            yield number, a, b, (cable.a, cable.b)
            yield number, b, a, (cable.b, cable.a)


def reached(case: Case, start: int, end: int) -> bool:
    """Return whether a switch is reached from another: the same, or ever by a circuit."""
    return start == end or any(
        case.circuits[number].ever_joins(near, far) and ends == (start, end)
        for number, near, far, ends in ways(case)
    )


class TwoHops:
    """Indirect packets at one switch."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        rules = {**NO_RULES, **(switch.fabric.get("circuits") or {})}
        self._indirect: str = rules["indirect"]
        self.k: int = rules["indirect_class"]
        self.indirect_from = -1
        self.indirect_by = -1
        self.expected: set[int] = set()  # ports whose circuit's next opening is an event

    @cached_property
    def indirect(self) -> str:
        """Return how packets use intermediate switches; they do not if no circuit has nights."""
        ports = [port for switch in self.switch.sim.switches for port in switch.ports]
        nights = any(port.circuit is not None and port.circuit.changes for port in ports)
        return self._indirect if nights else "none"

    def choose(self, packet: Packet, ingress: SwitchPort) -> SwitchPort | None:
        """Return a packet's output port; None if routing decides."""
        switch, case = self.switch, self.switch.sim.case
        edge = switch.sim.ports[packet.dst].peer.node.index
        from_host = ingress.peer.node.index < case.n_hosts
        if not from_host or edge == switch.index or self.indirect != "vlb":
            return None
        if switch.candidates(packet)[0].circuit is None:
            return None
        there = [
            port
            for port in switch.ports
            if port.circuit is not None
            and port.circuit.is_ever_there
            and reached(case, port.peer.node.index, edge)
        ]
        if not there:
            return None
        c = switch.routing.count(ingress)
        return there[below(rand32(switch.seed, THIRD_SWITCH, ingress.index, c), len(there))]

    # -- opportunistic
    # -------------------------------------------------------------------------------

    def offers(self, port: SwitchPort) -> bool:
        """Return whether a port has a waiting packet that another port may send."""
        return port.circuit is not None and any(port.fifos[self.k + 1 :])

    def can_send_indirect(self, port: SwitchPort) -> bool:
        """Return whether a port may send packets of other ports."""
        now = self.switch.sim.now
        return (
            port.circuit is not None
            and port.circuit.first_start(port, now) == now
            and not port.busy
            and not port.open_classes()
        )

    def send_indirect(self, port: SwitchPort) -> None:
        """Send a packet of another port, if possible."""
        if self.indirect != "opportunistic" or not self.can_send_indirect(port):
            return
        case, ports = self.switch.sim.case, self.switch.ports
        first = self.indirect_from + 1
        by_way_of = port.peer.node.index
        for other in ports[first:] + ports[:first]:
            away = other.peer.node.index
            if other is port or not self.offers(other) or not reached(case, by_way_of, away):
                continue
            c = next(c for c in range(self.k + 1, len(other.fifos)) if other.fifos[c])
            waiting = other.fifos[c].pop(0)
            other.held[c] -= waiting.packet.size
            waiting.packet.prio = self.k
            port.cancel_wakeup()
            port.hold(self.k, waiting.packet)
            self.indirect_from, self.indirect_by = other.local, port.local
            self.switch.send(port, self.k, waiting)
            return

    def after_completion(self, port: SwitchPort) -> None:
        """Handle a completed transmission on a port, after its next start."""
        self.send_indirect(port)
        self._expect_openings()

    def after_arrival(self, out: SwitchPort) -> None:
        """Handle the arrival of a packet at an output port, which may have started."""
        if self.indirect != "opportunistic":
            return
        first = self.indirect_by + 1
        for port in self.switch.ports[first:] + self.switch.ports[:first]:
            if self.offers(out):
                self.send_indirect(port)
        self._expect_openings()

    def _expect_openings(self) -> None:
        """Make each opening of a circuit an event while anything is offered."""
        if self.indirect == "opportunistic" and any(map(self.offers, self.switch.ports)):
            for port in self.switch.ports:
                if port.circuit is not None and port.local not in self.expected:
                    self._expect(port)

    def _expect(self, port: SwitchPort) -> None:
        sim, switch = self.switch.sim, self.switch
        assert port.circuit is not None
        opens = port.circuit.next_opening(port, sim.now)
        if opens is not None:
            self.expected.add(port.local)
            sim.at(opens, switch.index, COMPLETION, (port.local,), lambda: self._open(port))

    def _open(self, port: SwitchPort) -> None:
        self.expected.remove(port.local)
        self.send_indirect(port)
        self._expect_openings()
