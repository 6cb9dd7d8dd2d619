"""A switch: admission, ECN, scheduling and PFC."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from .balancing import Balancer
from .model import (
    DATA,
    ECN_DRAW,
    FLAG_CE,
    PFC,
    PFC_BYTES,
    TRIM_COIN,
    TRIMMED,
    Packet,
    rand32,
)
from .port import Port

if TYPE_CHECKING:
    from .simulator import Simulator

HEADERS = 0  # with trimming, the class of headers and control
BULK = 1  # with trimming, the class of data


class SwitchPort(Port):
    """A port of a switch with its FIFOs (as egress) and its PFC accounting (as ingress)."""

    def __init__(
        self, sim: Simulator, node: Switch, local: int, index: int, rate_bps: int, delay_ps: int
    ) -> None:
        super().__init__(sim, node, local, index, rate_bps, delay_ps)
        n_classes = sim.case.fabric["n_classes"]
        # Egress: (packet, ingress port) per class; the one in transmission is in `sending`.
        self.fifos: list[deque[tuple[Packet, SwitchPort]]] = [deque() for _ in range(n_classes)]
        self.sending: tuple[Packet, SwitchPort] | None = None
        self.held = [0] * n_classes  # q[c]: bytes from arrival until transmission completes
        self.header_run = 0
        self.coins = 0
        self.draws = 0
        # Ingress: b[c], whether the neighbour is to keep class c back, and h[c] since then.
        self.came_in = [0] * n_classes
        self.holding_back = [False] * n_classes
        self.since_pause = [0] * n_classes
        self.owes_frame = False


class Switch:
    """A switch of any of the three models."""

    def __init__(self, sim: Simulator, index: int) -> None:
        self.sim = sim
        self.index = index
        self.fabric = sim.case.fabric
        self.model: str = self.fabric["model"]
        self.seed = sim.case.seed
        self.ports: list[SwitchPort] = []
        self.routes: dict[int, list[SwitchPort]] = {}  # by destination host
        self.balancer = Balancer(self.fabric["load_balancing"], self.seed, index)

    # -- events ------------------------------------------------------------------------------

    def complete(self, port: Port) -> None:
        """A transmission ends: its bytes are held no longer, and the port goes on."""
        assert isinstance(port, SwitchPort)
        done, port.sending = port.sending, None
        ingress = None
        if done is not None:  # None: it was a PFC frame
            packet, ingress = done
            port.held[packet.prio] -= packet.size
            if self.model == "lossless":
                self._release(ingress, packet)
        self._start(port)
        if ingress is not None and ingress.owes_frame:
            self._start(ingress)

    def arrive(self, port: Port, packet: Packet) -> None:
        """A packet comes in by a port."""
        assert isinstance(port, SwitchPort)
        if packet.kind == PFC:
            port.set_paused(packet.aux)
            self._start(port)
            return
        if self.model == "lossless" and not self._account(port, packet):
            self._drop(port, packet)
            return
        out = self._route(packet, port)
        self._admit(out, packet, port)
        self._start(out)
        if port.owes_frame:
            self._start(port)

    # -- routing and admission ---------------------------------------------------------------

    def _route(self, packet: Packet, ingress: SwitchPort) -> SwitchPort:
        candidates = self.routes[packet.dst]
        if len(candidates) == 1:
            return candidates[0]
        return self.balancer.choose(packet, ingress, candidates)

    def _admit(self, out: SwitchPort, packet: Packet, ingress: SwitchPort) -> None:
        c, s = packet.prio, packet.size
        if self.model == "lossless":
            self._queue(out, packet, ingress)
        elif self.model == "drop_tail":
            if out.held[c] + s > self.fabric["queue_bytes"]:
                self._drop(out, packet)
            else:
                self._queue(out, packet, ingress)
        elif c == HEADERS:
            self._admit_header(out, packet, ingress)
        elif out.held[BULK] + s <= self.fabric["queue_bytes"]:
            self._queue(out, packet, ingress)
        else:
            self._trim_one(out, packet, ingress)

    def _admit_header(self, out: SwitchPort, packet: Packet, ingress: SwitchPort) -> None:
        if out.held[HEADERS] + packet.size > self.fabric["header_queue_bytes"]:
            self._drop(out, packet)
        else:
            self._queue(out, packet, ingress)

    def _trim_one(self, out: SwitchPort, packet: Packet, ingress: SwitchPort) -> None:
        """Class 1 is full: trim the arriving packet, or the one waiting at the tail."""
        coin = rand32(self.seed, TRIM_COIN, out.index, out.coins) & 1
        out.coins += 1
        waiting = out.fifos[BULK]
        if coin and waiting:
            tail, tail_ingress = waiting[-1]
            if out.held[BULK] - tail.size + packet.size <= self.fabric["queue_bytes"]:
                waiting.pop()
                out.held[BULK] -= tail.size
                self._queue(out, packet, ingress)
                packet, ingress = tail, tail_ingress
        out.counters[BULK].trims += 1
        control_bytes = self.sim.case.packets["control_bytes"]
        self.sim.balance.trimmed_bytes += packet.size - control_bytes
        packet.kind, packet.size, packet.prio = TRIMMED, control_bytes, HEADERS
        self._admit_header(out, packet, ingress)

    def _queue(self, out: SwitchPort, packet: Packet, ingress: SwitchPort) -> None:
        c = packet.prio
        self._maybe_mark("enqueue", out, packet)
        out.fifos[c].append((packet, ingress))
        out.held[c] += packet.size
        counters = out.counters[c]
        counters.max_queue_bytes = max(counters.max_queue_bytes, out.held[c])

    def _drop(self, port: SwitchPort, packet: Packet) -> None:
        port.counters[packet.prio].drops += 1
        port.counters[packet.prio].drop_bytes += packet.size
        self.sim.balance.dropped.add(packet.size)

    def _maybe_mark(self, when: str, out: SwitchPort, packet: Packet) -> None:
        """ECN; out.held is q as the rule wants it, without (enqueue) or with this packet."""
        ecn = self.fabric["ecn"]
        if ecn is None or ecn["at"] != when or packet.kind != DATA:
            return
        if packet.prio < self.fabric["ecn_from_class"]:
            return
        q, kmin, kmax = out.held[packet.prio], ecn["kmin_bytes"], ecn["kmax_bytes"]
        mark = q > kmax
        if kmin < q <= kmax:
            threshold = math.floor(ecn["pmax"] * 2**32 * (q - kmin) / (kmax - kmin))
            mark = rand32(self.seed, ECN_DRAW, out.index, out.draws) < threshold
            out.draws += 1
        if mark:
            packet.flags |= FLAG_CE
            out.counters[packet.prio].marks += 1

    # -- sending -----------------------------------------------------------------------------

    def _start(self, port: SwitchPort) -> None:
        """Start the port's next transmission, if it is idle and may send something."""
        if port.busy:
            return
        if port.owes_frame:
            port.owes_frame = False
            mask = sum(1 << c for c, back in enumerate(port.holding_back) if back)
            port.transmit(Packet(PFC, -1, 0, -1, PFC_BYTES, 0, aux=mask))
            return
        c = self._trim_class(port) if self.model == "trim" else self._first_class(port)
        if c is None:
            return
        port.sending = port.fifos[c].popleft()
        packet = port.sending[0]
        self._maybe_mark("dequeue", port, packet)
        port.transmit(packet)

    def _first_class(self, port: SwitchPort) -> int | None:
        """The lowest-numbered class that has a packet waiting and is not paused."""
        for c, fifo in enumerate(port.fifos):
            if fifo and not port.paused[c]:
                return c
        return None

    def _trim_class(self, port: SwitchPort) -> int | None:
        """Headers first, but after `header_ratio` of them in a row one waiting data packet."""
        headers, bulk = port.fifos[HEADERS], port.fifos[BULK]
        if headers and not (bulk and port.header_run >= self.fabric["header_ratio"]):
            if bulk:
                port.header_run += 1
            return HEADERS
        if bulk:
            port.header_run = 0
            return BULK
        return None

    # -- PFC ---------------------------------------------------------------------------------

    def _xoff(self) -> int:
        """The pause threshold as things stand."""
        shared, alpha = self.fabric.get("shared_buffer_bytes"), self.fabric.get("alpha")
        if shared is None or alpha is None:
            return int(self.fabric["xoff_bytes"])
        used = sum(sum(port.came_in) for port in self.ports)
        xoff: int = math.floor(alpha * max(0, shared - used))
        return xoff

    def _account(self, ingress: SwitchPort, packet: Packet) -> bool:
        """Count an arriving packet and decide on a pause; False if it must be dropped."""
        c, s = packet.prio, packet.size
        if ingress.holding_back[c]:
            if ingress.since_pause[c] + s > self.fabric["headroom_bytes"]:
                return False
            ingress.since_pause[c] += s
        ingress.came_in[c] += s
        if ingress.came_in[c] > self._xoff() and not ingress.holding_back[c]:
            ingress.holding_back[c] = True
            ingress.since_pause[c] = 0
            ingress.owes_frame = True
            ingress.counters[c].pauses_sent += 1
        return True

    def _release(self, ingress: SwitchPort, packet: Packet) -> None:
        """A packet has left the switch: discount it and decide on the end of a pause."""
        c = packet.prio
        ingress.came_in[c] -= packet.size
        if ingress.holding_back[c] and self._may_resume(ingress.came_in[c]):
            ingress.holding_back[c] = False
            ingress.owes_frame = True

    def _may_resume(self, b: int) -> bool:
        shared, alpha = self.fabric.get("shared_buffer_bytes"), self.fabric.get("alpha")
        if shared is None or alpha is None:
            return bool(b == 0 or b < self.fabric["xon_bytes"])
        return bool(b == 0 or b + self.fabric["xon_gap_bytes"] <= self._xoff())
