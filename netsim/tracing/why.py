"""Where the completion time of a flow went: a walk backwards along what caused what.

It begins at the receipt that completed the flow and follows that packet hop by hop to its sender.
There it asks why the packet was not sent earlier: the NIC was busy, the sender was paced, a timer
had to fire, or a control packet had to come. That one is followed in turn, to the receiver and to
the data that it answers, and so on back to the flow's start. Each segment ends where the one behind
it begins, so they add up to the completion time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from netsim.engine.kernels.packets import PULL
from netsim.engine.kernels.trace import (
    ARRIVED,
    ASKED,
    AT_EVENT,
    CREATED,
    FORWARDED,
    HANDLER,
    PAUSED,
    RECEIVED,
    RECEIVERS_TIMERS,
    RESUMED,
    RX,
    SENDERS_TIMERS,
    SENT,
    SET,
    START,
    TX,
)
from netsim.model.network import Network
from netsim.tracing.ordered import Ordered

WHAT_FOR = (
    "queue",
    "transmission",
    "propagation",
    "paused",
    "nic",
    "sending",
    "pacing",
    "timeout",
    "timer",
    "receiver",
    "other",
)
"""Kinds of segments: a packet waits in a queue of a switch; is transmitted; propagates, with the
latency of the switch that it enters; is paused by PFC; waits for the NIC of its host, which is busy
with other flows; the NIC sends earlier packets of the flow; the sender keeps to its pace; a timer
fires because something did not come; another timer of the sender fires; the receiver spaces out its
pulls, credits or grants, or serves other flows first; none of these."""

MERGED = ("sending", "pacing", "timeout", "timer", "receiver", "nic")
"""Segments of these kinds, of one place, that follow each other are one."""

ASKING_AGAIN = ("NACK", "RESEND")
"""Kinds of packets that a receiver sends when a timer says that data is missing."""


class Segment(NamedTuple):
    """A stretch of time, and what it was spent on.

    `node` and `to` are numbers of nodes, -1 without one. `packet` is the entry of the trace with
    the packet that was held up or on its way, -1 if there is none.
    """

    what: str
    start_ps: int
    end_ps: int
    node: int = -1
    to: int = -1
    packet: int = -1
    timer: int = -1


class Stretch(NamedTuple):
    """A time in which the sender was blocked until `entry`, or lost data was sent again by it."""

    start_ps: int
    end_ps: int
    entry: int


@dataclass
class Walk:
    """The walk through the entries of one flow's trace.

    `segments` are in the order of time, as are `blocked`, in which the sender could send nothing
    before an event came, and `again`, from when a packet was sent to when it was sent once more.
    """

    network: Network
    found: Ordered
    src: int
    dst: int
    start_ps: int
    kinds: Mapping[int, str]
    segments: list[Segment] = field(default_factory=list)
    blocked: list[Stretch] = field(default_factory=list)
    again: list[Stretch] = field(default_factory=list)

    def __post_init__(self) -> None:
        found = self.found
        self.time, self.port, self.what, self.value, self.paused = found.entries.T.tolist()
        self.node, self.far = found.node.tolist(), found.far.tolist()
        self.kind, self.seq = found.of_packets("kind").tolist(), found.of_packets("seq").tolist()
        self.prio, self.arrival = (found.of_packets(name).tolist() for name in ("prio", "time"))
        self.number = found.latency.packet.tolist()
        self.is_again = found.latency.again.tolist()
        self.delay = self.network.port_delay_ps.tolist()
        self.of_packet: dict[int, list[int]] = defaultdict(list)
        for i, number in enumerate(self.number):
            if number >= 0:
                self.of_packet[number].append(i)
        self.control = {self.number[i] for i, what in enumerate(self.what) if what == CREATED}
        self.at: dict[int, list[int]] = {}  # of both hosts: their entries, as they happened
        self.place: dict[int, int] = {}
        for host in (self.src, self.dst):
            here = np.flatnonzero(found.node == host)
            self.at[host] = here[np.argsort(found.recorded[here])].tolist()
            self.place.update({i: k for k, i in enumerate(self.at[host])})
        self.sent: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i in self.at[self.src]:
            if self.what[i] == SENT:
                self.sent[self.kind[i], self.seq[i]].append(i)
        self.pauses = self._places(self.src, PAUSED, RESUMED)
        self.receipts = self._places(self.dst, RECEIVED)
        pulls = self._places(self.dst, CREATED)
        self.pulls = [k for k in pulls if self.kind[self.at[self.dst][k]] == PULL]

    def run(self, done_ps: int) -> None:
        """Walk from the completion of the flow back to its start."""
        self.now, self.caused = done_ps, -1
        done, step = self.found.rx["done_ps"], None
        for i in self.at[self.dst]:
            if self.what[i] == RX and done[self.found.row[i]] == done_ps:
                step = self._of_copy(i)
                break
        while step is not None and self.now > self.start_ps:
            step = self._before(step)
        self._spend("other", self.start_ps)
        for stretches in (self.segments, self.blocked, self.again):
            stretches.reverse()

    def _places(self, host: int, *what: int) -> list[int]:
        """Where the entries of some kinds stand among those of a host."""
        return [k for k, i in enumerate(self.at[host]) if self.what[i] in what]

    def kind_name(self, i: int) -> str | None:
        """The kind of the packet of an entry; None if it is about none."""
        kind = self.kind[i]
        return self.kinds.get(kind, f"kind {kind}") if self.number[i] >= 0 else None

    # One step back: from an entry to the one that caused it.

    def _before(self, i: int) -> int | None:
        what = self.what[i]
        if what == RECEIVED:
            return self._journey(i)
        if what == SENT and self.number[i] in self.control:
            return self._in_fifo(i)
        if what in (SENT, ASKED):
            return self._asked(i)
        if what == CREATED:
            return self._created(i)
        return self._fired(i)

    def _journey(self, i: int) -> int | None:
        """From the receipt of a packet to its departure from the other host."""
        chain = self.of_packet[self.number[i]]
        left = -1
        for j in reversed(chain[: chain.index(i)]):
            what, node, far = self.what[j], self.node[j], self.far[j]
            if what in (FORWARDED, SENT):
                self._spend("propagation", self._end(j), node, far, i)
                self._spend("transmission", self.time[j], node, far, i)
                if what == SENT:
                    self.caused = j
                    return j
                left = j
            elif what == ARRIVED and left >= 0:
                self._wait("queue", j, left, i)
        return None

    def _end(self, sent: int) -> int:
        """When the transmission that began at an entry ended."""
        return int(self.arrival[sent] - self.delay[self.port[sent]])

    def _wait(self, what: str, came: int, left: int, packet: int) -> None:
        """A packet waited at a port from one entry to another one; first, as it were, if paused."""
        paused = 0
        if self.port[came] == self.port[left] and self.prio[came] == self.prio[left]:
            paused = min(self.paused[left] - self.paused[came], self.now - self.time[came])
        node, far = self.node[left], self.far[left]
        self._spend(what, self.time[came] + paused, node, far, packet)
        self._spend("paused", self.time[came], node, far, packet)

    def _in_fifo(self, i: int) -> int | None:
        """From the departure of a control packet to its creation."""
        chain = self.of_packet[self.number[i]]
        created = chain[0]
        self._wait("nic", created, i, i)
        return created

    def _created(self, i: int) -> int | None:
        """From the creation of a control packet to what its host did it for."""
        here, place = self.at[self.node[i]], self.place[i]
        while place > 0 and self.time[here[place - 1]] == self.time[i]:
            place -= 1
            before = here[place]
            if self.what[before] in (RECEIVED, SENT):
                return before
            if self.what[before] in (TX, RX) and self.value[before] != HANDLER:
                if self.value[before] >= SENDERS_TIMERS:
                    return before
                break
        return self._by_host(i)

    def _by_host(self, i: int) -> int | None:
        """To the event that a host answered later than at once, when its turn had come."""
        node = self.node[i]
        here, place = self.at[node], self.place[i]
        cause: int | None = None
        if self.kind[i] == PULL and node == self.dst:  # each receipt of data is answered by one
            receipts = self.receipts[: bisect_left(self.receipts, place)]
            turn = bisect_left(self.pulls, place)
            cause = here[receipts[min(turn, len(receipts) - 1)]] if receipts else None
        else:
            for j in (here[k] for k in range(place - 1, -1, -1)):
                fired = self.what[j] in (TX, RX) and self.value[j] >= SENDERS_TIMERS
                if self.what[j] in (RECEIVED, SENT) or fired:
                    cause = j
                    break
        start_ps = self.start_ps if cause is None else self.time[cause]
        self._spend("receiver" if node == self.dst else "timer", start_ps, node, packet=i)
        return cause

    def _fired(self, i: int) -> int | None:
        """From a timer of one of the flow's sides to the event at which it was set."""
        node, code = self.node[i], self.value[i]
        if code < SENDERS_TIMERS:
            return self._by_host(i)
        here, place = self.at[node], self.place[i]
        while place > 0 and self.what[here[place - 1]] == SET:
            place -= 1  # by this handler
        place -= 1
        while place >= 0 and not (
            self.what[here[place]] == SET and self.value[here[place]] == code
        ):
            place -= 1
        what = self._timer_kind(node)
        if place < 0:
            self._spend(what, self.start_ps, node, timer=code)
            return None
        self._spend(what, self.time[here[place]], node, timer=code)
        back = place
        while self.what[here[place]] in (SET, PAUSED, RESUMED):
            place += 1
        if self.what[here[place]] in (TX, RX):
            return self._of_copy(here[place], back)
        return here[place]

    def _timer_kind(self, node: int) -> str:
        """What a timer is that fired at a host: the segments so far say what came of it."""
        last = self.caused
        if node == self.src:
            again = self.number[last] in self.control or self.is_again[last]
            return "timeout" if again else "timer"
        return "timeout" if self.kind_name(last) in ASKING_AGAIN else "receiver"

    def _of_copy(self, i: int, place: int | None = None) -> int:
        """The event that a copy of a side was made after."""
        if self.value[i] != HANDLER:
            return i
        here = self.at[self.node[i]]
        place = self.place[i] if place is None else place
        while self.what[here[place]] not in (RECEIVED, SENT):
            place -= 1
        return here[place]

    # Why a sender did not send earlier.

    def _asked(self, i: int) -> int | None:
        """From when a sender was asked for data to what kept the NIC from asking before."""
        if self.what[i] == SENT and self.is_again[i]:
            self._sent_again(i)
        place = self.place[i]
        before, woken = self._last_turn(place)
        listed = self.time[woken] if woken >= 0 else self.start_ps
        own = self._own_before(place, self.port[i])
        if own >= 0 and self._end(own) > listed:
            self._at_nic(place, self._end(own))
            self._spend("sending", self.time[own], self.src, self.far[own], own)
            return own
        self._at_nic(place, listed)
        if woken < 0 or woken == before or before < 0:
            return woken if woken >= 0 else None
        at = self.value[before]
        paced = self.what[woken] == TX and self.value[woken] == START
        if at < AT_EVENT and paced:
            while self.what[before] == ASKED and self.value[before] < AT_EVENT:
                first = before
                before, _ = self._last_turn(self.place[before])
                if before < 0:
                    break
            self._spend("pacing", self.time[first], self.src)
            return first
        if at == AT_EVENT:
            while before >= 0 and self.what[before] == ASKED and self.value[before] == AT_EVENT:
                first = before
                before, _ = self._last_turn(self.place[before])
            self.blocked.append(Stretch(self.time[first], self.time[woken], woken))
        return woken

    def _last_turn(self, place: int) -> tuple[int, int]:
        """When the sender last had its turn, and the event that put it on the list again, or -1."""
        here, woken = self.at[self.src], -1
        while place > 0:
            place -= 1
            i = here[place]
            what = self.what[i]
            if what == ASKED:
                return i, woken
            if what == SENT and self.number[i] not in self.control:
                return i, i
            if what == RECEIVED or (
                what == TX and SENDERS_TIMERS <= self.value[i] < RECEIVERS_TIMERS
            ):
                woken = i
        return -1, woken

    def _own_before(self, place: int, port: int) -> int:
        """The last packet of the flow that its host began to send by a port before; or -1."""
        here = self.at[self.src]
        for k in range(place - 1, -1, -1):
            if self.what[here[k]] == SENT and self.port[here[k]] == port:
                return here[k]
        return -1

    def _at_nic(self, place: int, start_ps: int) -> None:
        """The flow was on the NIC's list from a time on; its class may have been paused."""
        here = self.at[self.src]
        port, far = self.port[here[place]], self.far[here[place]]
        pauses = []
        for k in reversed(self.pauses[: bisect_left(self.pauses, place)]):
            if self.port[here[k]] == port:
                pauses.append(here[k])
                if self.time[here[k]] <= start_ps:
                    break
        for i in pauses:
            at = max(self.time[i], start_ps)
            self._spend("paused" if self.what[i] == PAUSED else "nic", at, self.src, far)
        self._spend("nic", start_ps, self.src, far)

    def _sent_again(self, i: int) -> None:
        """Note from when to when a packet was lost."""
        sent = self.sent[self.kind[i], self.seq[i]]
        lost = sent[sent.index(i) - 1]
        stretch = Stretch(self.time[lost], self.time[i], lost)
        if self.again and stretch.end_ps >= self.again[-1].start_ps:
            later = self.again.pop()
            earlier = stretch if stretch.start_ps <= later.start_ps else later
            stretch = earlier._replace(end_ps=later.end_ps)
        self.again.append(stretch)

    def _spend(
        self,
        what: str,
        start_ps: int,
        node: int = -1,
        to: int = -1,
        packet: int = -1,
        timer: int = -1,
    ) -> None:
        """The time from `start_ps` to where the walk stands was spent on something."""
        start_ps = max(start_ps, self.start_ps)
        if start_ps >= self.now:
            return
        end_ps, self.now = self.now, start_ps
        if what in MERGED and self.segments:
            after = self.segments[-1]
            if (after.what, after.node, after.to, after.timer) == (what, node, to, timer):
                self.segments[-1] = after._replace(start_ps=start_ps)
                return
        self.segments.append(Segment(what, start_ps, end_ps, node, to, packet, timer))
