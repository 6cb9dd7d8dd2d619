"""Queue disciplines: what a switch's ports admit and drop, and what they send next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .model import ACK, DATA, TRIM_COIN, Packet, rand32, serialization_ps

if TYPE_CHECKING:
    from .switch import Switch, SwitchPort

HEADERS = 0  # trim: the class of headers and control
BULK = 1  # trim: the class of data
CREDITS = 0  # credit_shaper: the class that is shaped


class Discipline:
    """What all have in common: the lowest-numbered open class is served, from its head.

    One stands for a whole switch; what it knows of a port it keeps by the port's number.
    """

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self.fabric: dict[str, Any] = switch.fabric
        packets = switch.sim.case.packets
        self.full_packet_bytes = packets["payload_bytes"] + packets["header_bytes"]
        self.control_bytes = packets["control_bytes"]

    @property
    def now(self) -> int:
        """The time."""
        return self.switch.sim.now

    def on_arrival(self, _ingress: SwitchPort, _packet: Packet) -> bool:
        """A packet has come in by a port; False if it is dropped."""
        return True

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """The class in which a packet is queued at its output port, or None: it is dropped."""
        raise NotImplementedError

    may_wait = False
    """Does ``choose_class`` ever say None? If not, it is not asked about a single class."""

    def choose_class(self, port: SwitchPort) -> int | None:
        """The class to serve, of those that are open; or None, after ``port.wait_until``."""
        return port.open_classes()[0]

    def choose_packet(self, _port: SwitchPort, _c: int) -> int:
        """The position in class c of the packet to send."""
        return 0

    def on_send(self, port: SwitchPort, c: int, packet: Packet) -> None:
        """The transmission of a packet begins."""

    def on_departure(self, ingress: SwitchPort, c: int, size: int) -> None:
        """A packet that had come in by a port has been sent."""

    def fits(self, out: SwitchPort, c: int, size: int, limit: str = "queue_bytes") -> bool:
        """Is there room for so many more bytes in a class?"""
        return bool(out.held[c] + size <= self.size_at(out, limit))

    def size_at(self, port: SwitchPort, name: str) -> int:
        """A size in bytes, which may be one of the port's own."""
        own = self.switch.sim.case.port_sizes.get(port.index, {})
        return int(own.get(name, self.fabric[name]))


class DropTail(Discipline):
    """Drops what does not fit."""

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """The class that it is of, if there is room."""
        return packet.prio if self.fits(out, packet.prio, packet.size) else None


class Trim(Discipline):
    """Cuts what does not fit to its header."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.coins: dict[int, int] = {}
        self.header_run: dict[int, int] = {}

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """Data that fits, or a header; another one's, perhaps."""
        if packet.prio > BULK:
            fits = self.fits(out, packet.prio, packet.size, "lower_queue_bytes")
            return packet.prio if fits else None
        if packet.prio == BULK:
            if self.fits(out, BULK, packet.size):
                return BULK
            if self._toss(out) and out.fifos[BULK]:
                tail = out.fifos[BULK][-1].packet
                if tail.kind < ACK and self.fits(out, BULK, packet.size - tail.size):
                    return self._trim_the_last(out)
            if packet.kind >= ACK:
                return None
            self._trim(out, packet)
        return HEADERS if self.fits(out, HEADERS, packet.size, "header_queue_bytes") else None

    def _toss(self, out: SwitchPort) -> int:
        coins = self.coins.get(out.index, 0)
        self.coins[out.index] = coins + 1
        return rand32(self.switch.seed, TRIM_COIN, out.index, coins) & 1

    def _trim(self, out: SwitchPort, packet: Packet) -> None:
        out.trim(BULK, packet)
        packet.prio = HEADERS

    def _trim_the_last(self, out: SwitchPort) -> int:
        """Trim the packet at the tail of the data; the class of the one that takes its place."""
        last = out.pop_tail(BULK)
        self._trim(out, last.packet)
        if self.fits(out, HEADERS, last.packet.size, "header_queue_bytes"):
            out.enqueue(HEADERS, last)
        else:
            out.drop(HEADERS, last.packet)
        return BULK

    def choose_class(self, port: SwitchPort) -> int | None:
        """Headers first, but after ``header_ratio`` of them in a row one waiting data packet."""
        open_classes = port.open_classes()
        if HEADERS not in open_classes or BULK not in open_classes:
            return open_classes[0]
        run = self.header_run.get(port.index, 0)
        if run >= self.fabric["header_ratio"]:
            return BULK
        self.header_run[port.index] = run + 1
        return HEADERS

    def on_send(self, port: SwitchPort, c: int, _packet: Packet) -> None:
        """Data ends a run of headers."""
        if c == BULK:
            self.header_run[port.index] = 0


class Lossless(Discipline):
    """Has the neighbor pause a class of which too much has come in."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        # By (ingress port, class): b, and h while that is paused.
        self.came_in: dict[tuple[int, int], int] = {}
        self.since_pause: dict[tuple[int, int], int] = {}

    def on_arrival(self, ingress: SwitchPort, packet: Packet) -> bool:
        """Count it and decide on a pause; there may be no headroom for it."""
        c, s = packet.prio, packet.size
        key = ingress.index, c
        if ingress.holding_back[c]:
            if self.since_pause[key] + s > self.size_at(ingress, "headroom_bytes"):
                return False
            self.since_pause[key] += s
        self.came_in[key] = self.came_in.get(key, 0) + s
        if self.came_in[key] > self._xoff(ingress) and not ingress.holding_back[c]:
            ingress.pause(c)
            self.since_pause[key] = 0
        return True

    def admit(self, _out: SwitchPort, packet: Packet) -> int | None:
        """Everything that came in."""
        return packet.prio

    def on_departure(self, ingress: SwitchPort, c: int, size: int) -> None:
        """Discount it and decide on the end of a pause."""
        self.came_in[ingress.index, c] -= size
        if self._may_resume(ingress, self.came_in[ingress.index, c]):
            ingress.resume(c)

    def _dynamic(self) -> bool:
        limits = self.fabric.get("shared_buffer_bytes"), self.fabric.get("alpha")
        return None not in limits

    def _xoff(self, ingress: SwitchPort) -> int:
        """The pause threshold as things stand."""
        if not self._dynamic():
            return self.size_at(ingress, "xoff_bytes")
        free = max(0, self.fabric["shared_buffer_bytes"] - sum(self.came_in.values()))
        xoff: int = math.floor(self.fabric["alpha"] * free)
        return xoff

    def _may_resume(self, ingress: SwitchPort, b: int) -> bool:
        if not self._dynamic():
            return bool(b == 0 or b < self.size_at(ingress, "xon_bytes"))
        return bool(b == 0 or b + self.size_at(ingress, "xon_gap_bytes") <= self._xoff(ingress))


class PFabric(Discipline):
    """Keeps and serves what belongs to the flow with the least left to send."""

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """Drop waiting packets of which more remains, one by one, until it fits."""
        c = packet.prio
        while not self.fits(out, c, packet.size):
            remaining = [waiting.packet.remaining for waiting in out.fifos[c]]
            if not remaining or max(remaining) <= packet.remaining:
                return None
            last = len(remaining) - 1 - remaining[::-1].index(max(remaining))
            out.remove(c, last)
        return c

    def choose_packet(self, port: SwitchPort, c: int) -> int:
        """The first packet of the flow that has the packet with the least remaining."""
        waiting = [each.packet for each in port.fifos[c]]
        best = min(waiting, key=lambda packet: packet.remaining)  # the first of equals
        return next(i for i, packet in enumerate(waiting) if packet.flow == best.flow)


class CoDelState:
    """What CoDel knows of a class at a port."""

    def __init__(self) -> None:
        self.first_above_ps: int | None = None
        self.dropping = False
        self.drop_next_ps = 0
        self.count = 0
        self.last_count = 0


class CoDel(DropTail):
    """Drops from the head, ever faster, while the time that packets wait stays above a target."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.states: dict[tuple[int, int], CoDelState] = {}

    def choose_packet(self, port: SwitchPort, c: int) -> int:
        """The head, once those that are to be dropped have gone."""
        state = self.states.setdefault((port.index, c), CoDelState())
        if not self._may_drop(port, c, state):
            state.dropping = False
            return 0
        if state.dropping:
            while state.dropping and self.now >= state.drop_next_ps:
                state.count += 1
                if self._signal(port, c):
                    state.drop_next_ps += self._gap_ps(state.count)
                    break
                if self._may_drop(port, c, state):
                    state.drop_next_ps += self._gap_ps(state.count)
                else:
                    state.dropping = False
            return 0
        if not self._signal(port, c):
            self._may_drop(port, c, state)
        state.dropping = True
        delta = state.count - state.last_count
        recent = self.now - state.drop_next_ps < 16 * self.fabric["interval_ps"]
        state.count = delta if delta > 1 and recent else 1
        state.last_count = state.count
        state.drop_next_ps = self.now + self._gap_ps(state.count)
        return 0

    def _may_drop(self, port: SwitchPort, c: int, state: CoDelState) -> bool:
        """Have packets waited too long for an interval? The head shows it."""
        head = port.fifos[c][0].packet
        waited_ps = self.now - head.arrived_ps
        behind = port.held[c] - head.size
        if waited_ps < self.fabric["target_ps"] or behind <= self.full_packet_bytes:
            state.first_above_ps = None
            return False
        if state.first_above_ps is None:
            state.first_above_ps = self.now + self.fabric["interval_ps"]
            return False
        return self.now >= state.first_above_ps

    def _signal(self, port: SwitchPort, c: int) -> bool:
        """Mark the head, or drop it; True if it was marked."""
        head = port.fifos[c][0].packet
        if self.fabric["mark"] and head.kind == DATA:
            port.mark(c, head)
            return True
        port.remove(c, 0)
        return False

    def _gap_ps(self, count: int) -> int:
        interval_ns = self.fabric["interval_ps"] // 1000
        return 1000 * math.isqrt(interval_ns * interval_ns // count)


class CreditShaper(Discipline):
    """Sends class 0 at the rate at which full packets of class 1 may come back for it."""

    may_wait = True

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.full_at_ps: dict[int, int] = {}

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """So many credits may wait; class 1 has a limit in bytes."""
        if packet.prio == CREDITS:
            return CREDITS if len(out.fifos[CREDITS]) < self.fabric["credit_slots"] else None
        return packet.prio if self.fits(out, packet.prio, packet.size) else None

    def choose_class(self, port: SwitchPort) -> int | None:
        """A credit as soon as it may go; in the meantime data."""
        classes = port.open_classes()
        if classes[0] == CREDITS:
            credit = port.fifos[CREDITS][0].packet
            when = self._full_at(port) + self._cost_ps(port, credit) - self._depth_ps(port)
            if when <= self.now:
                return CREDITS
            if len(classes) == 1:
                port.wait_until(when)
                return None
        return classes[-1]

    def on_send(self, port: SwitchPort, c: int, packet: Packet) -> None:
        """A credit costs its tokens."""
        if c == CREDITS:
            self.full_at_ps[port.index] = self._full_at(port) + self._cost_ps(port, packet)

    def _full_at(self, port: SwitchPort) -> int:
        """When the bucket is full again, or now."""
        return max(self.now, self.full_at_ps.get(port.index, 0))

    def _cost_ps(self, port: SwitchPort, packet: Packet) -> int:
        return min(self._time_ps(port, packet.size), self._depth_ps(port))

    def _depth_ps(self, port: SwitchPort) -> int:
        credit_bytes: int = self.fabric["credit_bytes"]
        return int(self.fabric["credit_burst"]) * self._time_ps(port, credit_bytes)

    def _time_ps(self, port: SwitchPort, size: int) -> int:
        """The time after which a credit of ``size`` bytes may be followed by the next."""
        credit_bytes: int = self.fabric["credit_bytes"]
        alone = serialization_ps(size, port.latest_rate_bps)
        return alone * (credit_bytes + self.full_packet_bytes) // credit_bytes


DISCIPLINES: dict[str, type[Discipline]] = {
    "drop_tail": DropTail,
    "trim": Trim,
    "lossless": Lossless,
    "pfabric": PFabric,
    "codel": CoDel,
    "credit_shaper": CreditShaper,
}
