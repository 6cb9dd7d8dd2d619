"""Lanes: the ports by which a flow may go, and which of them a packet takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .balancing import permuted
from .model import below, rand32

if TYPE_CHECKING:
    from .host import HostPort
    from .port import Port
    from .simulator import Simulator

FLOW_ENTROPY = 7
LANE_FOR_LIFE = 10
LANE_PERMUTATION = 11

Lane = tuple["HostPort", "HostPort"]
"""A port of this host and one of the flow's other end."""


def lanes_of(sim: Simulator, src: int, dst: int, wanted: int | None) -> list[Lane]:
    """The lanes of a flow between two hosts, by NIC ``wanted`` of the source if that is named."""
    there = sim.hosts[dst].ports
    found: list[Lane] = []
    fastest = 0
    for nic in sim.hosts[src].nics:
        if wanted is not None and nic.number != wanted:
            continue
        lanes: list[Lane] = []
        for port in nic.ports:
            same = [p for p in sim.hosts[src].ports if p.network == port.network]
            theirs = [p for p in there if p.network == port.network]
            if theirs:
                lanes.append((port, theirs[same.index(port) % len(theirs)]))
        rate = sum(min(here.rate_bps, far.rate_bps) for here, far in lanes)
        if rate > fastest:
            found, fastest = lanes, rate
    if not found:
        raise ValueError(f"host {src} does not reach host {dst}")
    return found


def has_carrier(port: Port, time: int) -> bool:
    """Were both links of a port up at a time?"""
    faults = port.sim.case.faults
    both = (faults[end.index] for end in (port, port.peer) if end.index in faults)
    return not any(down <= time < up for fault in both for down, up in fault.outages)


class Spread:
    """How one side of a flow goes by its lanes; ``k`` is 0 for the sender, 2 for the receiver.

    With "hash" the first is the one that it keeps.
    """

    def __init__(self, sim: Simulator, flow: int, lanes: list[Lane], k: int) -> None:
        self.seed = sim.case.seed
        self.planes = sim.case.fabric.get("plane_balancing", "hash")
        self.sim = sim
        self.flow = flow
        self.lanes = lanes
        self.draw = rand32(self.seed, LANE_FOR_LIFE, flow, 0)
        self.first = lanes[0]
        if self.planes == "hash":
            self.first = lanes[below(self.draw, len(lanes))]
        self.k = k
        several = any(len(host.ports) > 1 for host in sim.hosts)
        self.entropy = 0
        if several and self.planes == "entropy":
            self.entropy = rand32(self.seed, FLOW_ENTROPY, flow, 0) & 0xFFFF
        self.queued = 0

    def of_data(self, sent: int) -> Lane:
        """The lane of the data packet after the first ``sent``."""
        return self._lane(sent, self.k, lambda port: len(port.ready))

    def of_control(self) -> Lane:
        """The lane of the control packet that is queued now."""
        self.queued += 1
        return self._lane(self.queued - 1, self.k + 1, lambda port: len(port.control))

    def from_source(self, lane: Lane) -> Lane:
        """A lane of this side as it leads from the flow's source to its destination."""
        return lane if self.k == 0 else lane[::-1]

    def _in_use(self) -> list[Lane]:
        """The lanes whose ports are taken to have carrier, or all."""
        if self.sim.case.carrier is None:
            return self.lanes
        own, other = (self.sim.now - delay for delay in self.sim.case.carrier)
        lanes = [
            (here, there)
            for here, there in self.lanes
            if has_carrier(here, own) and has_carrier(there, other)
        ]
        return lanes or self.lanes

    def _lane(self, c: int, k: int, waiting: Callable[[HostPort], int]) -> Lane:
        lanes = self._in_use()
        n = len(lanes)
        if self.planes == "hash":
            if self.first in lanes:
                return self.first
            i = below(self.draw, n)
        elif self.planes == "round_robin":
            i = c % n
        elif self.planes == "permutation":
            key = rand32(self.seed, LANE_PERMUTATION, 4 * self.flow + k, c // n)
            i = permuted(key, c % n, n)
        elif self.planes == "least_loaded":
            i = min(range(n), key=lambda i: (waiting(lanes[i][0]), lanes[i][0].last_end_ps, i))
        else:
            i = self.entropy % n
        return lanes[i]
