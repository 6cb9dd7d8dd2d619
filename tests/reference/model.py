"""Input, output and numbers of the reference simulator."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .routing_policy import RoutingPolicy

# Packet kinds: 0..7 go to a flow's receiver, 8..14 to its sender, 15 lives on one link.
DATA = 0
TRIMMED = 1
ACK = 8
NACK = 9
PULL = 10
CNP = 11
PFC = 15
MESSAGE = 17

FLAG_CE = 1
FLAG_TRIMMED_LAST = 4
FLAG_ECHO = 2
FLAG_RETURNED = 8
PFC_BYTES = 64

# Purposes of random numbers.
ECMP = 1
RANDOM_SPRAY = 2
PERMUTATION_SPRAY = 3
ECN_DRAW = 4
TRIM_COIN = 5
SYMMETRIC = 9
THIRD_SWITCH = 13
TURNS = 14


@dataclass(frozen=True)
class Cable:
    """A full-bidirectional cable; each delay includes the latency of the node it enters."""

    a: int
    b: int
    rate_bps: int
    delay_ab_ps: int
    delay_ba_ps: int
    nic: int = 0  # which NIC of its host, if one end is a host's
    circuit: tuple[int, int, int] | None = None  # a circuit switch, and its ports toward a and b


@dataclass(frozen=True)
class CircuitSwitch:
    """A circuit switch: its matchings and its fibers.

    A matching has the port that each port is joined to, or -1; if ``bidirectional``, both ways.
    ``fibers`` are (node, delay_ps), port by port. With a ``control_delay_ps`` it is phase-driven:
    its slots have no lengths.
    """

    slots_ps: tuple[int, ...]
    matchings: tuple[tuple[int, ...], ...]
    fibers: tuple[tuple[int, int], ...]
    rate_bps: int
    reconfiguration_delay_ps: int = 0
    sync_delay_ps: int = 0
    offset_ps: int = 0
    repeats: bool = True
    bidirectional: bool = True
    control_delay_ps: int | None = None

    def ever_joins(self, port: int, other: int) -> bool:
        """Return whether port ``port`` is ever joined to ``other``."""
        return any(matching[port] == other for matching in self.matchings)


@dataclass(frozen=True)
class FaultInterval:
    """State of a link from a time on; rate None means the cable's rate."""

    start_ps: int
    loss: float
    bit_error_rate: float
    rate_bps: int | None = None

    def chance(self, size: int) -> int:
        """Return the probability that a packet of ``size`` bytes is lost, in units of 2**-32."""
        two_bits = (1.0 - self.bit_error_rate) * (1.0 - self.bit_error_rate)
        byte = two_bits * two_bits * two_bits * two_bits
        kept = 1.0 - self.loss
        for _ in range(size):
            kept *= byte
        return math.floor((1.0 - kept) * 2**32 + 0.5)


@dataclass(frozen=True)
class LinkFault:
    """Faults of a link: intervals in order of time, and outages (down_ps, up_ps)."""

    intervals: tuple[FaultInterval, ...]
    outages: tuple[tuple[int, int], ...]

    def interval_at(self, time_ps: int) -> FaultInterval | None:
        return next((p for p in reversed(self.intervals) if p.start_ps <= time_ps), None)


@dataclass(frozen=True)
class Reroute:
    """Local ports through which a switch sends to hosts of other edge switches, from a time on.

    ``ports`` are ascending lists by edge switch (node numbers), of one routing table, which may
    name a port several times; other edge switches keep their lists.
    """

    at_ps: int
    switch: int
    ports: dict[int, tuple[int, ...]]
    table: int = 0


@dataclass(frozen=True)
class Task:
    """A task: ``kind`` is "compute", "send", "receive" or "join".

    ``flow`` is the flow of a send or receive task; a send task is done when its flow is ``acked``,
    or else sent. The case's program starts a ``deferred`` task. ``after`` lists tasks of the same
    host.
    """

    kind: str
    host: int
    duration_ps: int = 0
    stream: int = 0
    flow: int = -1
    acked: bool = False
    after: tuple[int, ...] = ()
    deferred: bool = False


@dataclass
class Case:
    """One simulation.

    Nodes 0..n_hosts-1 are hosts, the switches follow. A node's local ports are in the order of its
    cables in the list; global port numbers go through the nodes in order.

    ``fabric`` has model (a name of ``queues.DISCIPLINES``), routing, n_traffic_classes, ecn
    (None, or kmin_bytes, kmax_bytes, pmax, at), ecn_from_class, and the discipline's parameters;
    keys without effect may be missing. ``packets`` has payload_bytes, header_bytes and
    control_bytes. ``params`` has the transport's parameters, see ``transports.py``.

    ``flows`` are (source host, destination host, bytes, start_ps); ``nics`` has the NIC that a flow
    names, ``queue_pairs`` the first flow of its message and its number among them. ``fabric`` may
    have planes, see ``port_pairs.py``, and circuits (guard_ps, clock_offset_ps, at_circuit_end, and
    perhaps indirect and indirect_class). Cables through ``circuits`` come after the others, in the
    order of (circuit switch, its ports), one for each pair that is ever joined, either way.

    ``tasks`` are numbered by their position; the start of a flow that has a send task, or waits for
    others by ``after`` (flow -> flows), is the delay after that. ``program`` has the parameters of
    `mixed_program.py` (gap_ps, most_runs, most_draws, resize) and ``first``, its first task.

    ``faults`` are by the global port that feeds the link. ``port_sizes`` (global port -> name ->
    bytes) override those of ``fabric``: of disciplines, and kmin_bytes and kmax_bytes. ``reroutes``
    are changes of switches' routes, in any order; ``policy`` is set if there are several routing
    tables. ``carrier`` has the delays after which hosts detect loss of carrier: their own, others'.
    ``phases``, with phase-driven circuit switches, are the phases of all flows, -1 for none.
    ``beside`` has the transport and parameters of flows that do not use ``transport``. Switches
    wait for ``cut_through_bytes`` of a packet; None: for all. ``nic`` has the interval and delay by
    which hosts process data, ack and cnp. ``llr`` has max_frames, max_bytes, replay_timeout_ps
    (None: by default) and max_replays (None: any). Only events before ``until_ps`` take place; None
    means all.
    """

    n_hosts: int
    n_switches: int
    cables: list[Cable]
    fabric: dict[str, Any]
    packets: dict[str, int]
    transport: str
    params: dict[str, Any]
    flows: list[tuple[int, int, int, int]]
    seed: int = 0
    until_ps: int | None = None
    faults: dict[int, LinkFault] = field(default_factory=dict)
    sample_ps: int | None = None  # interval of series
    reroutes: list[Reroute] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    after: dict[int, tuple[int, ...]] = field(default_factory=dict)
    nics: dict[int, int] = field(default_factory=dict)
    queue_pairs: dict[int, tuple[int, int]] = field(default_factory=dict)
    circuits: list[CircuitSwitch] = field(default_factory=list)
    program: dict[str, int] | None = None
    port_sizes: dict[int, dict[str, int]] = field(default_factory=dict)
    phases: tuple[int, ...] = ()
    policy: RoutingPolicy | None = None
    carrier: tuple[int, int] | None = None
    beside: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    cut_through_bytes: int | None = None
    nic: dict[str, tuple[int, int]] = field(default_factory=dict)
    llr: dict[str, Any] | None = None


@dataclass
class Packet:
    """A packet; switches change it from its arrival on."""

    kind: int
    flow: int
    seq: int
    dst: int
    size: int
    prio: int
    aux: int = 0
    flags: int = 0
    entropy: int = 0
    remaining: int = 0
    note: int = 0
    asks: bool = False  # for an ACK
    arrived: tuple[int, set[int]] = (0, set())  # of an ACK: all before a number, and others
    arrived_ps: int = 0
    hops: int = 0
    table: int = 0
    via: int | None = None  # an edge switch
    carried: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass
class Flow:
    """A flow cut into packets; ``start_ps`` is -1 until known."""

    index: int
    src: int
    dst: int
    size_bytes: int
    start_ps: int
    payload_bytes: int
    delay_ps: int = field(init=False)  # after what it waits for
    listed_bytes: int = field(init=False)  # as in the table of flows

    def __post_init__(self) -> None:
        self.delay_ps = self.start_ps
        self.listed_bytes = self.size_bytes

    @property
    def n_packets(self) -> int:
        """Number of packets: ceil(size / payload)."""
        return -(-self.size_bytes // self.payload_bytes)

    def packet_payload_bytes(self, seq: int) -> int:
        """Payload bytes of packet ``seq``; the last packet carries the rest."""
        if seq < self.n_packets - 1:
            return self.payload_bytes
        return self.size_bytes - seq * self.payload_bytes


class Departure(NamedTuple):
    """A transmission as it started."""

    start_ps: int
    arrival_ps: int
    kind: int
    flow: int
    seq: int
    aux: int
    size: int
    prio: int
    flags: int
    entropy: int


class FlowResult(NamedTuple):
    """Outcome of a flow; times are since its start, -1 for never."""

    fct_ps: int
    acked_ps: int
    retransmits: int
    packets_sent: int


class TaskResult(NamedTuple):
    """Times of a task: ready, first start, last end (-1 for never); its runs and their total."""

    ready_ps: int
    start_ps: int
    end_ps: int
    runs: int
    busy_ps: int


@dataclass
class Counters:
    """Counters of a port and class. PFC frames appear only in pfc_pauses, paused_ps."""

    sent_bytes: int = 0
    sent_packets: int = 0
    drops: int = 0
    drop_bytes: int = 0
    trims: int = 0
    ecn_marks: int = 0
    max_queue_bytes: int = 0
    lost_packets: int = 0
    lost_bytes: int = 0
    no_circuit_packets: int = 0  # included in lost_packets
    no_circuit_bytes: int = 0
    unroutable_packets: int = 0
    unroutable_bytes: int = 0
    replays: int = 0
    replay_bytes: int = 0
    pfc_pauses: int = 0
    paused_ps: int = 0


@dataclass
class Tally:
    """Packets and their bytes on the wire."""

    packets: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.packets += 1
        self.bytes += size


@dataclass
class Balance:
    """Where all packets (without PFC frames) ended up."""

    sent: Tally = field(default_factory=Tally)
    received: Tally = field(default_factory=Tally)
    dropped: Tally = field(default_factory=Tally)
    lost: Tally = field(default_factory=Tally)
    unroutable: Tally = field(default_factory=Tally)
    on_links: Tally = field(default_factory=Tally)
    in_queues: Tally = field(default_factory=Tally)
    trimmed_bytes: int = 0

    def holds(self) -> bool:
        gone = (self.dropped, self.lost, self.unroutable)
        ends = (self.received, *gone, self.on_links, self.in_queues)
        packets = sum(end.packets for end in ends)
        n_bytes = sum(end.bytes for end in ends) + self.trimmed_bytes
        return (self.sent.packets, self.sent.bytes) == (packets, n_bytes)


@dataclass
class Outcome:
    """All compared results of a run."""

    departures: dict[int, list[Departure]]
    flows: list[FlowResult]
    counters: dict[tuple[int, int], Counters]
    balance: Balance
    end_ps: int
    tasks: list[TaskResult] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)  # starts of those that are known
    log: list[tuple[int, ...]] = field(default_factory=list)  # of the program


def scaled_ps_per_byte(rate_bps: int) -> int:
    """Picoseconds per byte at a rate, times 2**20."""
    return round(8e12 * 2**20 / rate_bps)


def serialization_ps(size: int, rate_bps: int) -> int:
    """Return the time that ``size`` bytes take on a link."""
    return (size * scaled_ps_per_byte(rate_bps)) >> 20


def mix(x: int) -> int:
    """Scramble 32 bits."""
    x &= 0xFFFFFFFF
    x ^= x >> 16
    x = (x * 0x7FEB352D) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 0x45D9F3B) & 0xFFFFFFFF
    x ^= x >> 16
    return x


def rand32(seed: int, purpose: int, entity: int, counter: int) -> int:
    """Return 32 random bits that depend only on the arguments (each modulo 2**32)."""
    h = mix(seed)
    for argument in (purpose, entity, counter):
        h = mix(h ^ (argument & 0xFFFFFFFF))
    return h


def below(h: int, n: int) -> int:
    """Map 32 random bits to 0..n-1."""
    return (h * n) >> 32
