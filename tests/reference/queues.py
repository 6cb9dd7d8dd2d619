"""Queue disciplines: admission, drops and service at a switch's ports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .model import ACK, DATA, TRIM_COIN, Packet, rand32, serialization_ps

if TYPE_CHECKING:
    from .port import Port
    from .simulator import Simulator
    from .switch import Switch, SwitchPort, Waiting

HEADERS = 0  # trim: class of headers and control
BULK = 1  # trim: class of data
CREDITS = 0  # credit_shaper: the shaped class


class Discipline:
    """Default discipline: serve the lowest open class from its head. One object per switch; its
    state of a port is keyed by the port's number."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self.fabric: dict[str, Any] = switch.fabric
        packets = switch.sim.case.packets
        self.full_packet_bytes = packets["payload_bytes"] + packets["header_bytes"]
        self.control_bytes = packets["control_bytes"]

    @property
    def now(self) -> int:
        return self.switch.sim.now

    def on_arrival(self, _ingress: SwitchPort, _packet: Packet) -> bool:
        """Handle a packet that arrived at a port; False if it is dropped."""
        return True

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """Return the class in which its output port queues a packet, or None to drop it."""
        raise NotImplementedError

    may_wait = False
    """Whether ``choose_class`` may return None; if not, it is not called for a single class."""

    def choose_class(self, port: SwitchPort) -> int | None:
        """Return the open class to serve; or None, after ``port.wait_until``."""
        return port.open_classes()[0]

    def choose_packet(self, _port: SwitchPort, _c: int) -> int:
        """Return the position in class c of the packet to send."""
        return 0

    def on_send(self, port: SwitchPort, c: int, packet: Packet) -> None:
        """Handle the start of a packet's transmission."""

    def on_departure(self, ingress: SwitchPort, c: int, size: int) -> None:
        """Handle the departure of a packet that arrived at a port."""

    def on_drop(self, ingress: SwitchPort, c: int, size: int) -> None:
        """Handle the drop of a packet that was accepted at an ingress port."""

    def on_pause(self, _port: SwitchPort, mask: int) -> int:
        """Return which classes in a PFC frame to pause."""
        return mask

    def on_port_timer(self, port: SwitchPort, k: int) -> None:
        """Handle timer k of a port."""

    def frame_times(self, _port: SwitchPort) -> tuple[int, int] | None:
        """Return the response time and the length of pauses, if the discipline has them."""
        return None

    def fits(self, out: SwitchPort, c: int, size: int, limit: str = "queue_bytes") -> bool:
        return bool(out.held[c] + size <= self.size_at(out, limit))

    def size_at(self, port: SwitchPort, name: str) -> int:
        """Return a size in bytes, which may be specific to the port."""
        own = self.switch.sim.case.port_sizes.get(port.index, {})
        return int(own.get(name, self.fabric[name]))


class DropTail(Discipline):
    """Drops what does not fit."""

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        full = len(out.fifos[packet.prio]) == self.fabric.get("queue_packets")
        return packet.prio if self.fits(out, packet.prio, packet.size) and not full else None


class Trim(Discipline):
    """Trims what does not fit to its header."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.coins: dict[int, int] = {}
        self.header_run: dict[int, int] = {}

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """Queue data that fits, or a header, perhaps that of another packet."""
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
        out.trim(BULK, packet, self.fabric.get("trim_bytes"))
        packet.prio = HEADERS

    def _refuse(self, out: SwitchPort, waiting: Waiting) -> None:
        """Handle a removed header without room."""
        out.drop(HEADERS, waiting.packet)

    def _trim_the_last(self, out: SwitchPort) -> int:
        """Trim the data packet at the tail; return the class of the packet that takes its place."""
        last = out.pop_tail(BULK)
        self._trim(out, last.packet)
        if self.fits(out, HEADERS, last.packet.size, "header_queue_bytes"):
            out.enqueue(HEADERS, last)
        else:
            self._refuse(out, last)
        return BULK

    def choose_class(self, port: SwitchPort) -> int | None:
        """Return headers first, but data after ``header_ratio`` of them in a row."""
        open_classes = port.open_classes()
        if HEADERS not in open_classes or BULK not in open_classes:
            return open_classes[0]
        run = self.header_run.get(port.index, 0)
        if run >= self.fabric["header_ratio"]:
            return BULK
        self.header_run[port.index] = run + 1
        return HEADERS

    def on_send(self, port: SwitchPort, c: int, _packet: Packet) -> None:
        """End a run of headers with data."""
        if c == BULK:
            self.header_run[port.index] = 0


class TrimReturn(Trim):
    """Returns headers that do not fit."""

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        admitted = super().admit(out, packet)
        if admitted is None and packet.prio == HEADERS and packet.kind < ACK:
            out.bounce(packet)
        return admitted

    def _refuse(self, out: SwitchPort, waiting: Waiting) -> None:
        out.bounce(waiting.packet, waiting)


PAUSING = ("lossless", "pfc", "credits", "mixed")  # disciplines that stop neighbors


class Lossless(Discipline):
    """Pauses the neighbor's class if too much of it has arrived."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        # By (ingress port, class): b, and h while it is paused.
        self.came_in: dict[tuple[int, int], int] = {}
        self.since_pause: dict[tuple[int, int], int] = {}

    def on_arrival(self, ingress: SwitchPort, packet: Packet) -> bool:
        """Count the packet and decide on a pause; drop it without headroom."""
        c, s = packet.prio, packet.size
        key = ingress.index, c
        if ingress.holding_back[c]:
            if self.since_pause[key] + s > self.headroom(ingress):
                return False
            self.since_pause[key] += s
        self.came_in[key] = self.came_in.get(key, 0) + s
        if self.came_in[key] > self._xoff(ingress) and not ingress.holding_back[c]:
            ingress.pause(c)
            self.since_pause[key] = 0
        return True

    def admit(self, _out: SwitchPort, packet: Packet) -> int | None:
        return packet.prio

    def on_departure(self, ingress: SwitchPort, c: int, size: int) -> None:
        self.came_in[ingress.index, c] -= size
        if self._may_resume(ingress, self.came_in[ingress.index, c]):
            ingress.resume(c)

    def headroom(self, ingress: SwitchPort) -> int:
        return self.size_at(ingress, "headroom_bytes")

    def _dynamic(self) -> bool:
        limits = self.fabric.get("shared_buffer_bytes"), self.fabric.get("alpha")
        return None not in limits

    def _xoff(self, ingress: SwitchPort) -> int:
        if not self._dynamic():
            return self.size_at(ingress, "xoff_bytes")
        free = max(0, self.fabric["shared_buffer_bytes"] - sum(self.came_in.values()))
        xoff: int = math.floor(self.fabric["alpha"] * free)
        return xoff

    def _may_resume(self, ingress: SwitchPort, b: int) -> bool:
        if not self._dynamic():
            return bool(b == 0 or b < self.size_at(ingress, "xon_bytes"))
        return bool(b == 0 or b + self.size_at(ingress, "xon_gap_bytes") <= self._xoff(ingress))


class Watched:
    """Pfc's state of a class at an output port."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.last = 0
        self.polls = 0
        self.sent = 0
        self.storm = False


REFRESH, POLL = 0, 1
QUANTA = ((200, 453), (100, 394), (50, 147), (40, 118), (25, 80), (10, 67), (1, 2), (0.1, 1))


def quanta_of(rate_bps: int) -> int:
    """Return the quanta of a rate; QUANTA has those up to some Gbps."""
    quanta = 905
    for gbps, fewer in QUANTA:
        if rate_bps <= gbps * 1e9:
            quanta = fewer
    return quanta


class Pfc(Lossless):
    """Pauses that take effect late and end, and a watchdog."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.watched: dict[tuple[int, int], Watched] = {}
        self.mode: str = self.fabric["watchdog"]
        self.every: int = self.fabric["watchdog_poll_ps"]

    def frame_times(self, port: SwitchPort) -> tuple[int, int]:
        response = serialization_ps(64 * self._response(port), port.rate_bps)
        return response, serialization_ps(64 * (self.fabric["pause_quanta"] or 0), port.rate_bps)

    def _response(self, port: SwitchPort) -> int:
        given = self.fabric["response_quanta"]
        return quanta_of(port.rate_bps) if given is None else int(given)

    def headroom(self, ingress: SwitchPort) -> int:
        if self.fabric["headroom_bytes"] is not None:
            return super().headroom(ingress)
        around_ps = ingress.delay_ps + ingress.peer.delay_ps
        on_cable = -(-ingress.rate_bps * around_ps // (8 * 10**12))
        largest = max(self.full_packet_bytes, self.control_bytes)
        return on_cable + 2 * largest + 64 + 64 * self._response(ingress)

    def on_arrival(self, ingress: SwitchPort, packet: Packet) -> bool:
        before = ingress.holding_back[packet.prio]
        accepted = super().on_arrival(ingress, packet)
        pause_ps = self.frame_times(ingress)[1]
        now_pausing = ingress.holding_back[packet.prio] and not before
        if now_pausing and pause_ps and REFRESH not in ingress.timers:
            ingress.set_timer(REFRESH, self.now + max(1, pause_ps // 2))
        return accepted

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        drops = self.mode == "drop" and self._at(out, packet.prio).storm
        return None if drops else packet.prio

    def on_drop(self, ingress: SwitchPort, c: int, size: int) -> None:
        self.on_departure(ingress, c, size)

    def _at(self, port: SwitchPort, c: int) -> Watched:
        return self.watched.setdefault((port.index, c), Watched())

    def on_pause(self, port: SwitchPort, mask: int) -> int:
        kept = mask
        for c, paused in enumerate(port.paused):
            state = self._at(port, c)
            if not mask >> c & 1:
                state.asked = None
                continue
            if state.asked is None or (not paused and not state.storm):
                state.asked = self.now
            state.last = self.now
            if state.storm and self.mode == "forward":
                kept &= ~(1 << c)
        if self.mode != "none" and mask and POLL not in port.timers:
            port.set_timer(POLL, (self.now // self.every + 1) * self.every)
        return kept

    def on_port_timer(self, port: SwitchPort, k: int) -> None:
        if k == POLL:
            self._poll(port)
        elif any(port.holding_back):
            port.owes_frame = True
            port.set_timer(REFRESH, self.now + max(1, self.frame_times(port)[1] // 2))

    def _poll(self, port: SwitchPort) -> None:
        goes_on = any(port.paused)
        for c in range(len(port.paused)):
            state, sent = self._at(port, c), port.counters[c].sent_packets
            quiet = port.paused[c] and port.fifos[c] and sent == state.sent
            if state.storm:
                if self.now - state.last >= self.fabric["watchdog_restore_ps"]:
                    state.storm, state.polls = False, 0
            elif quiet and state.asked is not None and state.asked < self.now - self.every:
                state.polls += 1
                if state.polls * self.every >= self.fabric["watchdog_detect_ps"]:
                    self._act(port, c)
            else:
                state.polls = 0
            state.sent = sent
            goes_on = goes_on or state.storm
        if goes_on:
            port.set_timer(POLL, self.now + self.every)

    def _act(self, port: SwitchPort, c: int) -> None:
        self._at(port, c).storm = True
        if self.mode == "drop":
            while port.fifos[c]:
                port.remove(c, 0)
        if self.mode == "forward":
            port.set_paused(sum(1 << k for k, p in enumerate(port.paused) if p and k != c))


def units(fabric: dict[str, Any], size: int) -> int:
    """Return the units of credit that a packet takes."""
    return -(-(size + int(fabric["overhead_bytes"])) // int(fabric["unit_bytes"]))


class Ledger:
    """Credits of all ports that lead to switches."""

    def __init__(self, sim: Simulator) -> None:
        self.fabric: dict[str, Any] = sim.case.fabric
        self.spent: dict[tuple[int, int], int] = {}
        self.freed: dict[tuple[int, int], int] = {}

    def fits(self, port: Port, c: int, size: int) -> bool:
        key = port.index, c
        used = self.spent.get(key, 0) - self.freed.get(key, 0) + units(self.fabric, size)
        return bool(used <= self.fabric["buffer_bytes"] // self.fabric["unit_bytes"])

    def charge(self, port: Port, c: int, size: int) -> None:
        key = port.index, c
        self.spent[key] = self.spent.get(key, 0) + units(self.fabric, size)

    def refund(self, port: Port, c: int, size: int) -> None:
        self.spent[port.index, c] -= units(self.fabric, size)

    def on_message(self, port: Port, c: int, value: int) -> None:
        self.freed[port.index, c] = value


class Credits(Discipline):
    """Sends credits to neighbors for what it has released."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.released: dict[tuple[int, int], int] = {}
        self.told: dict[tuple[int, int], int] = {}
        unit, update = self.fabric["unit_bytes"], self.fabric["update_bytes"]
        at_once = self.fabric["buffer_bytes"] // 8 if update is None else update
        self.least = max(1, at_once // unit)

    def admit(self, _out: SwitchPort, packet: Packet) -> int | None:
        return packet.prio

    def on_departure(self, ingress: SwitchPort, c: int, size: int) -> None:
        key = ingress.index, c
        self.released[key] = self.released.get(key, 0) + units(self.fabric, size)
        if self.released[key] - self.told.get(key, 0) >= self.least:
            self._tell(ingress, c)
        elif not ingress.timers:
            ingress.set_timer(0, self.now + self.fabric["update_period_ps"])

    def _tell(self, ingress: SwitchPort, c: int) -> None:
        self.told[ingress.index, c] = self.released[ingress.index, c]
        ingress.send_message(c, self.told[ingress.index, c])

    def on_port_timer(self, port: SwitchPort, _k: int) -> None:
        for c in range(len(port.paused)):
            key = port.index, c
            if self.told.get(key, 0) < self.released.get(key, 0):
                self._tell(port, c)


class PFabric(Discipline):
    """Keeps and serves packets of the flow with the least left to send."""

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """Drop waiting packets with more remaining, one by one, until it fits."""
        c = packet.prio
        while not self.fits(out, c, packet.size):
            remaining = [waiting.packet.remaining for waiting in out.fifos[c]]
            if not remaining or max(remaining) <= packet.remaining:
                return None
            last = len(remaining) - 1 - remaining[::-1].index(max(remaining))
            out.remove(c, last)
        return c

    def choose_packet(self, port: SwitchPort, c: int) -> int:
        """Return the first packet of the flow with the least remaining packet."""
        waiting = [each.packet for each in port.fifos[c]]
        best = min(waiting, key=lambda packet: packet.remaining)  # the first of equals
        return next(i for i, packet in enumerate(waiting) if packet.flow == best.flow)


class CoDelState:
    """CoDel's state of a class at a port."""

    def __init__(self) -> None:
        self.first_above_ps: int | None = None
        self.dropping = False
        self.drop_next_ps = 0
        self.count = 0
        self.last_count = 0


class CoDel(DropTail):
    """Drops from the head, ever faster, while packets wait longer than a target."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.states: dict[tuple[int, int], CoDelState] = {}

    def choose_packet(self, port: SwitchPort, c: int) -> int:
        """Return the head, after dropping those that are due."""
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
        """Return whether packets have waited too long for an interval, judged by the head."""
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
        """Mark the head, or drop it; return whether it was marked."""
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
    """Limits class 0 so that a full packet of class 1 can return for each of its packets."""

    may_wait = True

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch)
        self.full_at_ps: dict[int, int] = {}

    def admit(self, out: SwitchPort, packet: Packet) -> int | None:
        """Queue up to ``credit_slots`` credits; class 1 has a limit in bytes."""
        if packet.prio == CREDITS:
            return CREDITS if len(out.fifos[CREDITS]) < self.fabric["credit_slots"] else None
        return packet.prio if self.fits(out, packet.prio, packet.size) else None

    def choose_class(self, port: SwitchPort) -> int | None:
        """Return a credit once it may leave; until then data."""
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
        """Take the tokens of a credit."""
        if c == CREDITS:
            self.full_at_ps[port.index] = self._full_at(port) + self._cost_ps(port, packet)

    def _full_at(self, port: SwitchPort) -> int:
        """Return when the bucket is full again, or now."""
        return max(self.now, self.full_at_ps.get(port.index, 0))

    def _cost_ps(self, port: SwitchPort, packet: Packet) -> int:
        return min(self._time_ps(port, packet.size), self._depth_ps(port))

    def _depth_ps(self, port: SwitchPort) -> int:
        credit_bytes: int = self.fabric["credit_bytes"]
        return int(self.fabric["credit_burst"]) * self._time_ps(port, credit_bytes)

    def _time_ps(self, port: SwitchPort, size: int) -> int:
        """Return the time from a credit of ``size`` bytes to the next."""
        credit_bytes: int = self.fabric["credit_bytes"]
        alone = serialization_ps(size, port.latest_rate_bps)
        return alone * (credit_bytes + self.full_packet_bytes) // credit_bytes


DISCIPLINES: dict[str, type[Discipline]] = {
    "drop_tail": DropTail,
    "trim": Trim,
    "trim_return": TrimReturn,
    "lossless": Lossless,
    "pfc": Pfc,
    "credits": Credits,
    "pfabric": PFabric,
    "codel": CoDel,
    "credit_shaper": CreditShaper,
}
