"""A GOAL schedule of LogGOPSim or ATLAHS, as text or in binary form.

    num_ranks 2
    rank 0 {
    l1: calc 5000
    l2: send 4096b to 1 tag 7
    l2 requires l1
    }
    rank 1 {
    l1: recv 4096b from 0 tag 7
    }

A message is a flow; a `calc` occupies its CPU for the given ns. A CPU runs one operation at a time,
in the order in which they could start on idle CPUs; LogGOPSim runs whichever is ready first. A
`calc` of 0 needs no CPU. Receives match sends of their source and tag in order, as in MPI; a
wildcard receive takes the first send that no other receive needs.

Of LogGOPS, the network determines L, g and G; `overhead` is o, which each end of a message takes
from its CPU; O is not modeled. A send of at most `eager_threshold` bytes (S) ends when it begins. A
larger one starts when its receiver has posted the receive and sent a message of `control` bytes,
and ends when it has left. NIC numbers are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import user_path
from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.limits import PS_BITS
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.goal import (
    CALC,
    PS_PER_NS,
    RECV,
    SEND,
    GoalSchedule,
    is_binary,
    read_goal_binary,
    read_goal_text,
)
from netsim.workloads.importers.matching import (
    PostedMessages,
    is_chain,
    match,
    order_by_start,
    posted,
)
from netsim.workloads.operations import Operations
from netsim.workloads.traffic._options import PLACEMENT_PARAMS, hosts_of

Ints = NDArray[np.int64]

LABELED = 100_000
"""Largest number of operations that get labels with their lines."""


@dataclass(frozen=True)
class GoalCosts:
    """Costs of messages besides the network; `eager_bytes` None: all are eager.

    `rate_bps` is that of hosts, to estimate the order on CPUs.
    """

    overhead_ps: int
    eager_bytes: int | None
    control_bytes: int
    rate_bps: int


@dataclass(frozen=True)
class _Messages:
    """Matched sends and receives: operations of the schedule, int64[m] each."""

    send: Ints
    receive: Ints
    size_bytes: Ints
    local: NDArray[np.bool_]
    """Whether sender and receiver are the same rank."""
    waits: NDArray[np.bool_]
    """Whether the send waits until its receive is posted (rendezvous)."""


class GoalOperations:
    """A schedule as `Operations`; `begin` and `end` are those of its operations, int64[n]."""

    def __init__(self, schedule: GoalSchedule, costs: GoalCosts) -> None:
        self.schedule, self.costs = schedule, costs
        self.ops = Operations(schedule.n_ranks)
        self.begin = np.full(len(schedule), -1, np.int64)
        self.end = self.begin.copy()
        self.after: list[tuple[Ints, Ints]] = []
        self.after_start: list[tuple[Ints, Ints]] = []
        self.computes: list[tuple[Ints, Ints, Any]] = []  # made, of the schedule, ps
        self.flights: list[tuple[Ints, Ints, Ints]] = []  # sends, receives, ps
        self.order = posted(schedule.rank.astype(np.int64), schedule.first, schedule.then)
        self.messages = self._matched()
        self._calculate()
        self._exchange()
        self._wait()

    def lower(self, hosts: Ints) -> Workload:
        """Lower to tasks and flows. Raises InputError, with the operations, for cycles."""
        try:
            load = self.ops.lower(hosts)
        except InputError as error:
            raise error.at(file=str(self.schedule.path)) from None
        return replace(load, notes=tuple(self._notes()))

    def _matched(self) -> _Messages:
        """Match sends and receives."""
        one = self.schedule
        send, receive = (self.order[one.kind[self.order] == kind] for kind in (SEND, RECV))
        ends = (
            PostedMessages(one.rank[which].astype(np.int64), one.peer[which], one.tag[which])
            for which in (send, receive)
        )
        try:
            send = send[match(*ends)]
        except InputError as error:
            raise error.at(file=str(one.path)) from None
        size = np.maximum(one.size[send], 1)
        local = one.rank[send] == one.rank[receive]
        most = self.costs.eager_bytes
        waits = ~local & (size > most) if most is not None else np.zeros(size.size, np.bool_)
        return _Messages(send, receive, size, local, waits)

    def _calculate(self) -> None:
        one = self.schedule
        calc = np.flatnonzero(one.kind == CALC)
        lasts, joins = calc[one.size[calc] > 0], calc[one.size[calc] == 0]
        made = self._compute(lasts, one.size[lasts] * PS_PER_NS)
        self.begin[lasts] = self.end[lasts] = made
        made = self.ops.join(one.rank[joins], label=self._labels(joins))
        self.begin[joins] = self.end[joins] = made

    def _exchange(self) -> None:
        """Add sends, receives, and their CPU overhead."""
        one, of, ops = self.schedule, self.messages, self.ops
        sent, received = np.full((2, of.send.size), -1, np.int64)
        far = ~of.local
        sent[far], received[far] = ops.send(
            one.rank[of.send[far]],
            one.rank[of.receive[far]],
            of.size_bytes[far],
            kind="message",
            label=self._labels(of.send[far], of.receive[far]),
        )
        self._fly(sent[far], received[far], of.size_bytes[far])
        for made, ends in ((sent, of.send), (received, of.receive)):
            made[of.local] = ops.join(one.rank[ends[of.local]], label=self._labels(ends[of.local]))
        self.after.append((sent[of.local], received[of.local]))
        for made, ends in ((sent, of.send), (received, of.receive)):
            self.begin[ends] = self.end[ends] = made
        if self.costs.overhead_ps:
            before = self._compute(of.send, self.costs.overhead_ps)
            behind = self._compute(of.receive, self.costs.overhead_ps)
            self.after += [(before, sent), (received, behind)]
            self.begin[of.send], self.end[of.receive] = before, behind
            self.end[of.send] = np.where(of.waits, sent, before)
        self._rendezvous(sent[of.waits], received[of.waits])

    def _rendezvous(self, sent: Ints, received: Ints) -> None:
        """Add rendezvous messages: the receiver notifies the sender when the receive is posted."""
        of, ops = self.messages, self.ops
        send, receive = of.send[of.waits], of.receive[of.waits]
        src, dst = self.schedule.rank[send], self.schedule.rank[receive]
        is_posted = ops.join(dst, label=self._labels(receive))
        notice, notified = ops.send(
            dst, src, self.costs.control_bytes, kind="control", label=self._labels(send, receive)
        )
        self._fly(notice, notified, self.costs.control_bytes)
        self.after += [(is_posted, notice), (notified, sent), (is_posted, received)]
        self.begin[receive] = is_posted

    def _wait(self) -> None:
        """Add the schedule's dependencies and the order on shared CPUs."""
        one, of = self.schedule, self.messages
        at_start = one.at_start.copy()
        if not self.costs.overhead_ps:
            eager = np.zeros(len(one), np.bool_)
            eager[of.send[~of.waits]] = True
            at_start |= eager[one.first]  # they end when they begin
        first, then = one.first, self.begin[one.then]
        self.after.append((self.end[first[~at_start]], then[~at_start]))
        self.after_start.append((self.begin[first[at_start]], then[at_start]))
        self._share_cpus()
        for pair in self.after:
            self.ops.after(*pair)
        for pair in self.after_start:
            self.ops.after_start(*pair)

    def _share_cpus(self) -> None:
        """Set the order of operations that share a CPU."""
        one = self.schedule
        cpu = one.rank.astype(np.int64) << 8 | one.cpu
        computing = self.order
        if not self.costs.overhead_ps:
            computing = computing[(one.kind[computing] == CALC) & (one.size[computing] > 0)]
        place = np.empty(len(one), np.int64)
        place[self.order] = np.arange(len(one))
        edges = one.first, one.then
        settled = any(is_chain(some, cpu[some], *edges) for some in (computing, self.order))
        self.is_guessed = not settled
        order = self._guessed() if self.is_guessed else None
        for made, of, _ in self.computes:
            self.ops.set_order(made, place[of] if order is None else order[made])

    def _guessed(self) -> Ints:
        """int64[operations]: their order by earliest start with idle CPUs.

        So no receive can block a CPU that its own message depends on.
        """
        n = len(self.ops)
        lasts = np.zeros(n, np.int64)
        for made, _, duration_ps in self.computes:
            lasts[made] = duration_ps
        edges = [(*pair, lasts[pair[0]]) for pair in self.after]
        edges += [(*pair, np.zeros(pair[0].size, np.int64)) for pair in self.after_start]
        edges += self.flights
        return order_by_start(n, edges)

    def _compute(self, of: Ints, duration_ps: Any) -> Any:
        """Add computes on CPUs."""
        one = self.schedule
        made = self.ops.compute(
            one.rank[of], duration_ps, stream=one.cpu[of], label=self._labels(of)
        )
        self.computes.append((made, of, duration_ps))
        return made

    def _fly(self, sent: Ints, received: Ints, size_bytes: Any) -> None:
        """Record the least transfer time of messages."""
        flight = np.asarray(size_bytes) * (PS_BITS / self.costs.rate_bps)
        self.flights.append((sent, received, np.broadcast_to(flight, sent.shape).astype(np.int64)))

    def _labels(self, of: Ints, to: Ints | None = None) -> str | list[str]:
        """Return labels with lines, of both ends for messages; none if there are too many."""
        if len(self.schedule) > LABELED:
            return ""
        what, place = "node" if self.schedule.binary else "line", self.schedule.place
        labels = [f"{what} {number}" for number in place[of].tolist()]
        if to is None:
            return labels
        return [
            f"{one} to {number}" for one, number in zip(labels, place[to].tolist(), strict=True)
        ]

    def _notes(self) -> Iterator[str]:
        """Yield notes on deviations from the file."""
        one, of = self.schedule, self.messages
        name, n = written(one.path.name), of.send.size
        empty = int((one.size[of.send] == 0).sum())
        if empty:
            yield f"{name}: {empty:,} of {n:,} messages have 0 bytes and are sent as 1 byte"
        other = int((one.size[of.send] != one.size[of.receive]).sum())
        if other:
            yield f"{name}: {other:,} of {n:,} receives differ in size from sends, which count"
        if of.local.any():
            own = int(of.local.sum())
            yield f"{name}: {own:,} of {n:,} messages to the sending rank itself take no time"
        if of.waits.any():
            late = int(of.waits.sum())
            yield f"{name}: {late:,} of {n:,} messages wait for their receive to be posted"
        if self.is_guessed:
            yield f"{name}: operations on a CPU run in the order of their start on idle CPUs"
        if one.unread_bytes:
            yield f"{name}: {one.unread_bytes:,} bytes belong to no rank and are ignored"
        if one.nic.any():
            many = int((one.nic > 0).sum())
            yield f"{name}: {many:,} operations name a NIC, which is ignored"


PARAMS = [
    Param("file", "file", REQUIRED, "GOAL schedule, as text or in binary form"),
    Param("overhead", "time", "0us", "CPU time of each send and receive (o)", minimum="0us"),
    Param(
        "eager_threshold",
        "bytes",
        "65535B",
        "largest message that does not wait for its receive (S)",
        "LogGOPSim's default; none: whatever its size",
        optional=True,
    ),
    Param("control", "bytes", "64B", "size of the message that a receive is posted"),
    *PLACEMENT_PARAMS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    path = user_path(params["file"], context.directory)
    schedule = read_goal_binary(path) if is_binary(path) else read_goal_text(path)
    context.reserve(len(schedule), key="traffic.file")
    hosts = hosts_of(params, schedule.n_ranks, network.n_hosts, context.directory, rng)
    costs = GoalCosts(
        overhead_ps=params["overhead"],
        eager_bytes=params["eager_threshold"],
        control_bytes=params["control"],
        rate_bps=context.host_rate_bps,
    )
    return GoalOperations(schedule, costs).lower(hosts)
