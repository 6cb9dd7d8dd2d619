"""Link-level retry: the replay buffer of a port, and acceptance at the other end of its link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .model import Packet, serialization_ps

if TYPE_CHECKING:
    from .port import Port
    from .simulator import Event

ANSWER = -1  # step of a node before all others
ANSWER_BYTES = 8

WHOLE, DAMAGED, NOTHING = range(3)  # how a packet arrives over a link


@dataclass(eq=False)
class Kept:
    """A packet in a replay buffer."""

    packet: Packet
    number: int
    size: int  # switches may trim an accepted packet before its ACK comes
    is_acknowledged: bool = False


class Retry:
    """Both ends of a link. The other end's reaction to a packet is known when it is sent."""

    def __init__(self, port: Port, rules: dict[str, Any]) -> None:
        self.port, self.sim, self.rules = port, port.sim, rules
        self.buffer: list[Kept] = []
        self.again: list[Kept] = []
        self.numbers = 0  # packets so far
        self.due = False
        self.lacks_room = False  # the port waits for an ACK
        self.replays = 0  # since the other end last accepted a packet
        self.begun = 0  # replays, and times that the port gave up
        self.timer: Event | None = None
        # The other end.
        self.expected = 0
        self.has_refused = False

    @property
    def wait_ps(self) -> int:
        """The time from a packet's arrival until the answer arrives."""
        peer = self.port.peer
        return serialization_ps(ANSWER_BYTES, peer.rate_bps) + peer.delay_ps

    @property
    def largest(self) -> int:
        packets = self.sim.case.packets
        return max(packets["payload_bytes"] + packets["header_bytes"], packets["control_bytes"])

    @property
    def loop_ps(self) -> int:
        sent_ps = serialization_ps(self.largest, self.port.rate_bps)
        return sent_ps + self.port.delay_ps + self.wait_ps

    @property
    def is_full(self) -> bool:
        most: int | None = self.rules["max_bytes"]
        if most is None:
            most = -(-self.port.rate_bps * self.loop_ps // (8 * 10**12)) + self.largest
        held = sum(kept.size for kept in self.buffer)
        return len(self.buffer) >= self.rules["max_frames"] or held >= most

    def keep(self, packet: Packet) -> Kept:
        """Keep a packet that is sent for the first time."""
        kept = Kept(packet, self.numbers, packet.size)
        self.numbers += 1
        self.buffer.append(kept)
        return kept

    def accepts(self, kept: Kept, brings: int, end_ps: int, arrival_ps: int) -> bool:
        """Return whether the other end accepts a packet that is sent; schedule its answer."""
        answer_ps = arrival_ps + self.wait_ps
        if brings == WHOLE and kept.number == self.expected:
            self.expected += 1
            self.has_refused = False
            self.replays = 0
            self._at(answer_ps, lambda: self._acknowledge(kept))
            return True
        if kept.number == self.expected:
            timeout_ps: int | None = self.rules["replay_timeout_ps"]
            due_ps = end_ps + (2 * self.loop_ps if timeout_ps is None else timeout_ps)
            self.timer = self._at(due_ps, self._expire)
        if brings != NOTHING and not self.has_refused:
            self.has_refused = True
            begun = self.begun
            self._at(answer_ps, lambda: self._refuse(begun))
        return False

    def next(self) -> Kept | None:
        """Return the packet to be sent again, if any; begin a replay that is due, or give up."""
        if self.due:
            self._stop_waiting()
            refused = [kept for kept in self.buffer if kept.number >= self.expected]
            limit: int | None = self.rules["max_replays"]
            if limit is not None and self.replays >= limit:
                self.again = []
                self.buffer = [kept for kept in self.buffer if kept not in refused]
                self.expected, self.has_refused, self.replays = self.numbers, False, 0
                for kept in refused:
                    self.port.give_up(kept.packet)
            else:
                self.again = refused
                self.replays += 1
        return self.again.pop(0) if self.again else None

    def _stop_waiting(self) -> None:
        self.due = False
        self.begun += 1
        if self.timer is not None:
            self.timer.canceled = True
            self.timer = None

    def _at(self, time_ps: int, action: Any) -> Event:
        node = self.port.node.index
        return self.sim.at(time_ps, node, ANSWER, (self.port.local,), action)

    def _acknowledge(self, kept: Kept) -> None:
        kept.is_acknowledged = True
        if self.buffer[0] is kept:
            while self.buffer and self.buffer[0].is_acknowledged:
                self.buffer.pop(0)
            self.port.node.room_made(self.port)

    def _refuse(self, begun: int) -> None:
        if begun == self.begun:
            self._expire()

    def _expire(self) -> None:
        self.due = True
        self.port.node.replay_due(self.port)
