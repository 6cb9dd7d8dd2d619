"""Port pairs of a flow, and the choice of one for each packet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .model import below, rand32
from .routing import permuted

if TYPE_CHECKING:
    from .host import HostPort
    from .port import Port
    from .simulator import Simulator

FLOW_ENTROPY = 7
PAIR_FOR_LIFE = 10
PAIR_PERMUTATION = 11

PortPair = tuple["HostPort", "HostPort"]  # a port of this host and one of the other


def port_pairs_of(sim: Simulator, src: int, dst: int, wanted: int | None) -> list[PortPair]:
    """Return the port pairs of a flow, on the source's NIC ``wanted`` if given."""
    there = sim.hosts[dst].ports
    found: list[PortPair] = []
    fastest = 0
    for nic in sim.hosts[src].nics:
        if wanted is not None and nic.number != wanted:
            continue
        port_pairs: list[PortPair] = []
        for port in nic.ports:
            same = [p for p in sim.hosts[src].ports if p.network == port.network]
            theirs = [p for p in there if p.network == port.network]
            if theirs:
                port_pairs.append((port, theirs[same.index(port) % len(theirs)]))
        rate = sum(min(here.rate_bps, far.rate_bps) for here, far in port_pairs)
        if rate > fastest:
            found, fastest = port_pairs, rate
    if not found:
        raise ValueError(f"host {src} does not reach host {dst}")
    return found


def has_carrier(port: Port, time: int) -> bool:
    """Return whether both links of a port were up at a time."""
    faults = port.sim.case.faults
    both = (faults[end.index] for end in (port, port.peer) if end.index in faults)
    return not any(down <= time < up for fault in both for down, up in fault.outages)


class Spread:
    """Port pair choice of one side of a flow; ``k`` is 0 for the sender, 2 for the receiver. With
    "hash", the flow keeps the first pair."""

    def __init__(self, sim: Simulator, flow: int, port_pairs: list[PortPair], k: int) -> None:
        self.seed = sim.case.seed
        self.planes = sim.case.fabric.get("plane_balancing", "hash")
        self.sim = sim
        self.flow = flow
        self.port_pairs = port_pairs
        first, queue_pair = sim.case.queue_pairs.get(flow, (flow, 0))
        step = -(-(1 << 32) // len(port_pairs))
        self.draw = (rand32(self.seed, PAIR_FOR_LIFE, first, 0) + queue_pair * step) % (1 << 32)
        self.first = port_pairs[0]
        if self.planes == "hash":
            self.first = port_pairs[below(self.draw, len(port_pairs))]
        self.k = k
        self.entropy = 0
        if sim.two_in_ports:
            self.entropy = rand32(self.seed, FLOW_ENTROPY, flow, 0) & 0xFFFF
        self.queued = 0
        self.chosen = 0  # number of the port pair of the last data packet
        self.fixed = self.planes == "hash" and sim.case.carrier is None

    def of_data(self, sent: int) -> PortPair:
        """Return the port pair of the data packet after the first ``sent``."""
        port_pair = self._port_pair(sent, self.k, lambda port: len(port.ready))
        self.chosen = 0 if self.fixed else self.port_pairs.index(port_pair)
        return port_pair

    def bits_in_use(self) -> int:
        """Return the numbers of the port pairs in use as bits."""
        if self.fixed:
            return 1
        in_use = self._in_use()
        return sum(1 << k for k, pair in enumerate(self.port_pairs) if pair in in_use)

    def of_control(self) -> PortPair:
        """Return the port pair of the control packet that is queued now."""
        self.queued += 1
        return self._port_pair(self.queued - 1, self.k + 1, lambda port: len(port.control))

    def from_source(self, port_pair: PortPair) -> PortPair:
        """Return a port pair of this side as (source port, destination port)."""
        return port_pair if self.k == 0 else port_pair[::-1]

    def _in_use(self) -> list[PortPair]:
        """Return the port pairs that this host believes to have carrier; all if there are none."""
        if self.sim.case.carrier is None:
            return self.port_pairs
        own, other = (self.sim.now - delay for delay in self.sim.case.carrier)
        port_pairs = [
            (here, there)
            for here, there in self.port_pairs
            if has_carrier(here, own) and has_carrier(there, other)
        ]
        return port_pairs or self.port_pairs

    def _port_pair(self, c: int, k: int, waiting: Callable[[HostPort], int]) -> PortPair:
        port_pairs = self._in_use()
        n = len(port_pairs)
        if self.planes == "hash":
            if self.first in port_pairs:
                return self.first
            i = below(self.draw, n)
        elif self.planes == "round_robin":
            i = c % n
        elif self.planes == "permutation":
            key = rand32(self.seed, PAIR_PERMUTATION, 4 * self.flow + k, c // n)
            i = permuted(key, c % n, n)
        elif self.planes == "least_loaded":
            i = self._least_loaded(port_pairs, k, waiting)
        else:
            if self.entropy < 0:
                least = self._least_loaded(port_pairs, k, waiting)
                e = -1 - self.entropy
                self.entropy = e - e % n + least
                if self.entropy > 65_535:
                    self.entropy -= n
            i = self.entropy % n
        return port_pairs[i]

    def _least_loaded(
        self, port_pairs: list[PortPair], k: int, waiting: Callable[[HostPort], int]
    ) -> int:
        nic = self.port_pairs[0][0].nic
        last = nic.last_chosen.get(k % 2, -1)

        def order(i: int) -> tuple[int, int, bool, int]:
            port = port_pairs[i][0]
            return waiting(port), port.last_end_ps, port.index <= last, port.index

        i = min(range(len(port_pairs)), key=order)
        nic.last_chosen[k % 2] = port_pairs[i][0].index
        return i
