"""Series from every value of every queue and copies of all counters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .mixed import MixedReceiver, MixedSender
from .model import Counters
from .rccc import CreditReceiver, CreditSender
from .sides import Receiver, Sender
from .transports import DatagramReceiver, NdpReceiver, NdpSender, RoceReceiver, RoceSender

if TYPE_CHECKING:
    from .port import Port
    from .simulator import Simulator


class Held(list[int]):
    """q[c] of a port's classes, with the history of each: (since when, bytes)."""

    def __init__(self, sim: Simulator, n_traffic_classes: int) -> None:
        super().__init__([0] * n_traffic_classes)
        self.sim = sim
        self.history: list[list[tuple[int, int]]] = [[(0, 0)] for _ in range(n_traffic_classes)]

    def __setitem__(self, c: Any, n_bytes: Any) -> None:
        super().__setitem__(c, n_bytes)
        self.history[c].append((self.sim.now, n_bytes))


@dataclass
class Moment:
    """All counters and the flows' state at a time, before any event at it."""

    time_ps: int
    counters: dict[tuple[int, int], Counters]
    delivered: list[int]  # per flow
    sent: list[int]  # bytes of data packets per flow
    senders: list[dict[str, int]]  # sender state per flow, by the engine's names


class Recorder:
    """Copies everything at the end of each interval."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.every_ps = sim.case.sample_ps
        self.moments: list[Moment] = []

    def before(self, time_ps: int) -> None:
        """Close intervals that end by ``time_ps``, before any event at it."""
        while self.every_ps and (len(self.moments) + 1) * self.every_ps <= time_ps:
            self.moments.append(self._moment((len(self.moments) + 1) * self.every_ps))

    def up_to(self, end_ps: int) -> list[Moment]:
        """Return the end of every interval of a run that ends at ``end_ps``."""
        assert self.every_ps
        self.before(end_ps)
        ends = [moment for moment in self.moments if moment.time_ps <= end_ps]
        return ends if end_ps % self.every_ps == 0 else [*ends, self._moment(end_ps)]

    def _moment(self, time_ps: int) -> Moment:
        hosts, flows = self.sim.hosts, self.sim.flows
        senders = [hosts[flow.src].senders[flow.index] for flow in flows]
        return Moment(
            time_ps,
            {(port.index, c): port.counters_at(c, time_ps) for port, c in self._classes()},
            [_delivered(hosts[flow.dst].receivers[flow.index]) for flow in flows],
            [sender.bytes_sent for sender in senders],
            [_state(sender) for sender in senders],
        )

    def _classes(self) -> Iterator[tuple[Port, int]]:
        for port in self.sim.ports:
            for c in range(len(port.counters)):
                yield port, c


def _delivered(receiver: Receiver) -> int:
    """Return the payload bytes that a receiver has."""
    flow = receiver.flow
    if isinstance(receiver, DatagramReceiver):
        return flow.size_bytes - receiver.missing_bytes
    if isinstance(receiver, RoceReceiver):
        got = receiver.placed | set(range(receiver.expected))
        return sum(map(flow.packet_payload_bytes, got))
    assert isinstance(receiver, NdpReceiver | CreditReceiver | MixedReceiver)
    return sum(map(flow.packet_payload_bytes, receiver.received))


def _state(sender: Sender) -> dict[str, int]:
    if isinstance(sender, RoceSender):
        return {"tx.next_seq": sender.next, "tx.una": sender.una}
    if isinstance(sender, NdpSender):
        return {"tx.pulled": sender.pulled, "tx.n_nacks": sender.nacks}
    if isinstance(sender, CreditSender):
        return {"tx.pulled": sender.pulled, "tx.credit_bytes": sender.credit}
    if isinstance(sender, MixedSender):
        return {"tx.draws": sender.draws, "tx.sent": sender.sent}
    return {}


def spans(history: list[tuple[int, int]], begin_ps: int, end_ps: int) -> list[tuple[int, int, int]]:
    """Return (from, to, bytes) of every value between two times; some last for no time. The first
    is the value before any event at ``begin_ps``."""
    first = bisect_left(history, (begin_ps, -1))
    last = bisect_left(history, (end_ps, -1))
    values = [(begin_ps, history[max(0, first - 1)][1]), *history[first:last]]
    until = [*(since for since, _ in values[1:]), end_ps]
    return [(since, to, held) for (since, held), to in zip(values, until, strict=True)]


def area(history: list[tuple[int, int]], begin_ps: int, end_ps: int) -> int:
    """Return the integral of the bytes held between two times."""
    return sum(held * (to - since) for since, to, held in spans(history, begin_ps, end_ps))


def largest(history: list[tuple[int, int]], begin_ps: int, end_ps: int) -> int:
    """Return the largest value between two times."""
    return max(held for *_, held in spans(history, begin_ps, end_ps))


def percentile(history: list[tuple[int, int]], end_ps: int) -> int:
    """Return the level that a queue did not exceed for at least 99 % of the time."""
    reached = 0
    for since, until, held in sorted(spans(history, 0, end_ps), key=lambda span: span[2]):
        reached += until - since
        if 100 * reached >= 99 * end_ps:
            return held
    raise AssertionError("all of the time is spent somewhere")
