"""Start and end times of ranks' operations, written from the docs of `Operations` and
`CollectiveOptions`.

There are no tasks here. Given how the network handles each message, times are computed until no
further one can be.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

PS_PER_SECOND = 10**12

Time = float  # whole picoseconds, or NEVER

NEVER = math.inf

Network = Callable[[int, Time], tuple[Time, Time]]
"""Message and its start -> when the network has taken it, and when it is delivered."""


@dataclass(frozen=True)
class Operation:
    """One rank's operation; ``number`` is the number of the call that created it.

    ``what`` is "compute", "join", "send", "receive" or a collective. ``duration_ps`` is set for a
    compute, and for a collective without packets.
    """

    rank: int
    what: str
    kind: str = ""
    stream: int = -1
    order: int = 0
    duration_ps: int | None = None
    size_bytes: int = 0


@dataclass(frozen=True)
class Message:
    """A message from one operation to another, by their numbers.

    ``after`` are messages that must first be delivered to its sender, ``follows`` one of the same
    sender that must first be handed over, or -1. ``added_at_bps``: rate at which delivered data is
    reduced, if at all. Empty messages are not sent.
    """

    sender: int
    receiver: int
    size_bytes: int
    latency_ps: int = 0
    after: tuple[int, ...] = ()
    follows: int = -1
    added_at_bps: int | None = None

    @property
    def added_ps(self) -> int:
        """Return the duration of the reduction of delivered data, rounded down."""
        if self.added_at_bps is None:
            return 0
        return self.size_bytes * 8 * PS_PER_SECOND // self.added_at_bps


@dataclass
class Plan:
    """Operations in the order of their calls, with messages and dependencies."""

    operations: list[Operation] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    after: list[tuple[int, int]] = field(default_factory=list)
    after_start: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Times:
    """Start and end of operations, and start of messages; None: unknown."""

    begin: list[Time | None]
    end: list[Time | None]
    start: list[Time | None]


def stream_edges(plan: Plan) -> list[tuple[int, int]]:
    """Return each operation of a stream with its successor."""
    streams: dict[tuple[int, int], list[int]] = {}
    for k, one in enumerate(plan.operations):
        if one.stream >= 0:
            streams.setdefault((one.rank, one.stream), []).append(k)
    pairs = []
    for numbers in streams.values():
        numbers.sort(key=lambda k: plan.operations[k].order)  # stable for equal orders
        pairs += list(itertools.pairwise(numbers))
    return pairs


def play(plan: Plan, network: Network) -> Times:
    """Compute all times. Operations whose times stay unknown are in a cycle."""
    n, m = len(plan.operations), len(plan.messages)
    times = Times([None] * n, [None] * n, [None] * m)
    handed_over: list[Time | None] = [None] * m
    delivered: list[Time | None] = [None if one.size_bytes else 0 for one in plan.messages]
    available = delivered.copy()
    ends = [*stream_edges(plan), *plan.after]
    moved = True
    while moved:
        moved = False
        for k in range(n):
            if times.begin[k] is None:
                ended = [times.end[one] for one, then in ends if then == k]
                begun = [times.begin[one] for one, then in plan.after_start if then == k]
                times.begin[k] = _latest([0, *ended, *begun])
                moved |= times.begin[k] is not None
            if times.end[k] is None:
                times.end[k] = _end(plan, k, times.begin[k], handed_over, available)
                moved |= times.end[k] is not None
        for k, message in enumerate(plan.messages):
            if times.start[k] is None:
                begin = times.begin[message.sender]
                start = _start(message, begin, handed_over, available)
                if start is not None:
                    moved = True
                    times.start[k] = handed_over[k] = start
                    if message.size_bytes:
                        handed_over[k], delivered[k] = network(k, start)
            if available[k] is None:
                available[k] = _available(message, delivered[k], times.begin[message.receiver])
                moved |= available[k] is not None
    return times


def _end(
    plan: Plan,
    number: int,
    begin: Time | None,
    handed_over: list[Time | None],
    available: list[Time | None],
) -> Time | None:
    one = plan.operations[number]
    if begin is None:
        return None
    if one.duration_ps is not None:
        return begin + one.duration_ps
    sent = [handed_over[k] for k, it in enumerate(plan.messages) if it.sender == number]
    got = [available[k] for k, it in enumerate(plan.messages) if it.receiver == number]
    return _latest([begin, *sent, *got])


def _start(
    message: Message,
    begin: Time | None,
    handed_over: list[Time | None],
    available: list[Time | None],
) -> Time | None:
    """Return when a message starts. Software latency starts once all its dependencies are done, in
    parallel with the message that it follows."""
    ready = _latest([begin, *(available[k] for k in message.after)])
    before = handed_over[message.follows] if message.follows >= 0 else 0
    if ready is None or before is None:
        return None
    return max(before, ready + (message.latency_ps if message.size_bytes else 0))


def _available(message: Message, delivered: Time | None, begin: Time | None) -> Time | None:
    """Return when delivered data can be sent on: a receiver reduces no sooner than it starts."""
    if not message.added_ps:
        return delivered
    there = _latest([delivered, begin])
    return None if there is None else there + message.added_ps


def _latest(times: list[Time | None]) -> Time | None:
    """Return the latest, if all of them are known."""
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None
