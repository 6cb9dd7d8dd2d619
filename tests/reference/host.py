"""A host: one NIC port, a ready list of flows, timers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .model import PFC, Packet
from .port import NIC, TIMER, Port

if TYPE_CHECKING:
    from .simulator import Event, Simulator
    from .transports import Receiver, Sender

# First number of a timer slot; slots of a host sort as (group, flow, number in the flow).
# No transport has receiver timers, which would be the third group before that of tasks.
HOST_TIMERS = 0
SENDER_TIMERS = 1
TASK_TIMERS = 3


class Timer:
    """A timer with one deadline; setting it again replaces the deadline."""

    def __init__(self, host: Host, slot: tuple[int, ...], action: Callable[[], None]) -> None:
        self.host = host
        self.slot = slot
        self.action = action
        self.event: Event | None = None

    @property
    def armed(self) -> bool:
        """Whether it is going to fire."""
        return self.event is not None

    def set(self, deadline_ps: int) -> None:
        """Fire at the deadline, or at once (before the NIC's turn) if that has passed."""
        self.cancel()
        sim = self.host.sim
        when = max(deadline_ps, sim.now)
        self.event = sim.at(when, self.host.index, TIMER, self.slot, self._fire)

    def cancel(self) -> None:
        """Do not fire."""
        if self.event is not None:
            self.event.cancelled = True
            self.event = None

    def _fire(self) -> None:
        self.event = None
        self.action()
        self.host.wake_nic()


class Host:
    """A host. Its transports are the senders and receivers of its flows, by flow index."""

    def __init__(self, sim: Simulator, index: int) -> None:
        self.sim = sim
        self.index = index
        self.nic: Port
        self.senders: dict[int, Sender] = {}
        self.receivers: dict[int, Receiver] = {}
        self.control: deque[Packet] = deque()
        self.ready: deque[Sender] = deque()

    def arrive(self, port: Port, packet: Packet) -> None:
        """The arrival at this instant."""
        if packet.kind == PFC:
            port.set_paused(packet.aux)
        else:
            self.sim.balance.received.add(packet.size)
            if packet.kind < 8:
                self.receivers[packet.flow].on_packet(packet)
            else:
                sender = self.senders[packet.flow]
                sender.on_control(packet)
                self.join(sender)
        self.wake_nic()

    def complete(self, _: Port) -> None:
        """The NIC has become free; its turn comes after the arrival and the timers."""
        self.wake_nic()

    def join(self, sender: Sender) -> None:
        """Put a flow at the tail of the ready list unless it is in it or finished."""
        if not sender.finished and sender not in self.ready:
            self.ready.append(sender)

    def send_control(self, packet: Packet) -> None:
        """Queue a control packet at the NIC."""
        self.control.append(packet)

    def wake_nic(self) -> None:
        """Have the NIC look for something to send at the end of this instant."""
        self.sim.at(self.sim.now, self.index, NIC, (), self._start)

    def _start(self) -> None:
        """Start one transmission if the NIC is free: control first, then data."""
        if self.nic.busy:
            return
        if self.control and not self.nic.paused[self.control[0].prio]:
            self._transmit(self.control.popleft())
            return
        for sender in list(self.ready):
            if self.nic.paused[sender.data_class]:
                continue  # passed over, it keeps its place
            self.ready.remove(sender)
            answer = sender.ready()
            if answer is None:  # blocked
                continue
            if answer > self.sim.now:  # later
                sender.pacing_timer.set(answer)
                continue
            end_ps = self._transmit(sender.build())
            if sender.all_sent and not sender.handed_over:
                sender.handed_over = True
                self.sim.tasks.on_handed_over(sender.flow, end_ps)
            self.join(sender)
            return

    def _transmit(self, packet: Packet) -> int:
        self.sim.balance.sent.add(packet.size)
        return self.nic.transmit(packet)
