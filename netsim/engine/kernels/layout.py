"""Where the engine stores its state: record types, groups of arrays, and indices into them.

fields.py has the fields of records.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from netsim.engine.kernels.fields import (
    NO_PORT,
    Address,
    Block,
    CircuitRecord,
    ClassWeightRecord,
    ClockRecord,
    Declared,
    FabricRecord,
    FaultIntervalRecord,
    FaultRecord,
    FiberRecord,
    Fixed,
    FlowId,
    FlowRecord,
    GlobalPort,
    HostId,
    HostPortRecord,
    HostRecord,
    LevelRecord,
    LinkReaderRecord,
    LocalPort,
    LossRecord,
    NicId,
    NodeId,
    Numbers,
    Origin,
    PacketRecord,
    PortChoiceRecord,
    PortRecord,
    ProgramHostRecord,
    ProgramTaskRecord,
    Ps,
    QueueId,
    QueueRecord,
    Records,
    RetryRecord,
    RouterRecord,
    RoutingPortRecord,
    RxRecord,
    SampleRecord,
    SeriesClockRecord,
    Slot,
    SlotRecord,
    StageTimesRecord,
    SwitchRecord,
    TaskId,
    TaskRecord,
    TimerRecord,
    TimerSlot,
    TxRecord,
    span,
)
from netsim.engine.kernels.instructions import lowest_bit
from netsim.engine.kernels.specialization_constants import N_CLASSES, N_LEVELS, PLANE_BALANCING
from netsim.limits import INT64

INF: Ps = Ps(INT64)  # later than any time


Field = str | tuple[str, type] | tuple[str, int]
"""A state field: an int64 "name", a float64 ("name", float), or n int64s ("name", n)."""


CACHE_LINE = 64  # bytes
NARROW = {"I4": "i4", "U2": "u2", "U1": "u1", "float": "f8"}  # types of fields other than int64


def fields_of(declared: type[Declared]) -> tuple[str, ...]:
    """Return the names of a record's fields."""
    return tuple(annotated(declared))


def annotated(declared: type) -> dict[str, str]:
    """Return the types of a record's fields, or of a group's arrays, as written."""
    return {
        name: str(getattr(kind, "__forward_arg__", kind))  # how NamedTuple keeps it
        for cls in reversed(declared.__mro__)
        for name, kind in inspect.get_annotations(cls).items()
    }


def record_of(declared: type[Declared], *own: Field) -> np.dtype:
    """Return the NumPy type of a record, with a plugin's own fields after the engine's."""
    fields = [(name, NARROW.get(kind, "i8")) for name, kind in annotated(declared).items()]
    return np.dtype([*fields, *map(_described, own)], align=True)


def padded_record_of(declared: type[Declared], *own: Field) -> np.dtype:
    """Like `record_of`, padded to whole cache lines: workers do not share them."""
    record = record_of(declared, *own)
    fields: Mapping[str, Any] = record.fields or {}
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, *_ in fields.values()],
            "offsets": [offset for _, offset, *_ in fields.values()],
            "itemsize": -(-record.itemsize // CACHE_LINE) * CACHE_LINE,
        },
        align=True,
    )


def _described(field: Field) -> tuple[str, str] | tuple[str, str, tuple[int]]:
    if isinstance(field, str):
        return field, "i8"
    name, kind = field
    if isinstance(kind, int):
        return name, "i8", (kind,)
    return name, "f8" if kind is float else "i8"


PACKET = record_of(PacketRecord)
PORT = record_of(PortRecord)
QUEUE = record_of(QueueRecord)
LINK_READER = record_of(LinkReaderRecord)
RETRY = record_of(RetryRecord)
ROUTING_PORT = record_of(RoutingPortRecord)
FAULT = record_of(FaultRecord)
CIRCUIT = record_of(CircuitRecord)
FIBER = record_of(FiberRecord)
FAULT_INTERVAL = record_of(FaultIntervalRecord)
SLOT = record_of(SlotRecord)
LOSS = record_of(LossRecord)
CLASS_WEIGHT = record_of(ClassWeightRecord)
HOST_PORT = record_of(HostPortRecord)
PORT_CHOICE = record_of(PortChoiceRecord)
TIMER = record_of(TimerRecord)
TASK = record_of(TaskRecord)
PROGRAM_TASK = record_of(ProgramTaskRecord)
PROGRAM_HOST = record_of(ProgramHostRecord)
FABRIC = record_of(FabricRecord)
CLOCK = record_of(ClockRecord)
STAGE_TIMES = record_of(StageTimesRecord)
LEVEL = padded_record_of(LevelRecord)
SAMPLE = record_of(SampleRecord)
SERIES_CLOCK = record_of(SeriesClockRecord)

TIMERS_OF_A_KIND = 16
TIMER_HOST, TIMER_TX, TIMER_RX = (kind * TIMERS_OF_A_KIND for kind in range(3))
TIMER_START = TIMER_RX - 1
"""``code`` of a timer is one of these kinds plus its number k of that kind; TIMER_START is a flow's
start and pacing timer."""

TIMER_TASK, TIMER_BEGIN, TIMER_PROGRAM = -1, -2, -3
"""``code`` of a task's timer, of a program's `on_begin`, and (minus k) of a program's timer k."""

MAX_TIMERS = TIMERS_OF_A_KIND - 1  # maximum number per kind, including a flow's start timer

ONE_PORT, HASH, ROUND_ROBIN, PERMUTATION, LEAST_LOADED, ENTROPY, BY_ROUTING = range(7)
"""Values of ``PLANE_BALANCING``. With HASH a flow has one port pair, unless hosts detect loss of
carrier."""

DIRECT, OPPORTUNISTIC, VLB = range(3)  # values of ``INDIRECT``
UNFINISHED = -1  # status of a node whose step has not ended

OK, GROW_SCRATCH, BROKEN = range(3)
"""Why a step ended: complete, scratch is too small (``what`` has the size needed), or a handler
broke a rule."""

RUNNING, DONE, IDLE, TIME_LIMIT, NEEDS_GROWTH, NEEDS_THINNING = range(6)
"""Why a run of windows ended; the engine handles NEEDS_GROWTH and NEEDS_THINNING itself."""


Group = TypeVar("Group")


def grouped(group: Callable[..., Group], **arrays: Any) -> Group:
    """Return a group of arrays, typed for mypy as the group declares."""
    return group(**arrays)


class Net(NamedTuple):
    """The network, constant during a run."""

    n_hosts: int
    first_port: Numbers[NodeId, GlobalPort]  # int64[n_nodes + 1]
    first_word: Numbers[NodeId, int]  # int64[n_nodes + 1]: first word of a switch's port sets
    port_node: Numbers[GlobalPort, NodeId]  # int32[n_ports]
    port_peer: Numbers[GlobalPort, GlobalPort]  # int32[n_ports]
    host_group: Numbers[Address, int]  # int32[n_tables * n_host_ports]: column of the routes
    host_port: Numbers[Address, LocalPort]  # int32[n_tables * n_host_ports]: the leaf's port to it
    route_first: Numbers[NodeId, int]  # int64[n_nodes]: start of a switch's row
    row_ptr: Numbers[int, int]  # int64[n_switches + 1]: each switch's rows, with faults
    row_from: Numbers[int, Ps]  # int64[...]: time from which a row applies
    row_first: Numbers[int, int]  # int64[...]: its start in route
    slots_from: Ps  # start of the first slot of time-slotted routes
    slot_ends: Numbers[int, Ps]  # int64[slots]: end of each slot, relative to that
    slot_row_first: Numbers[tuple[int, int], int]  # int64[slots, n_switches]: rows in route
    route: Numbers[int, int]  # int64[...]: by column, offset << 16 | count, or NO_ROUTE
    route_ports: Numbers[int, LocalPort]  # int32[...]
    # For algorithms that ask; otherwise minimal.
    hops: Numbers[tuple[int, int], int]  # uint8[n_switches, groups]: links to an edge switch
    port_dimension: Numbers[GlobalPort, int]  # int64[n_ports]
    group_switch: Numbers[int, int]  # int64[groups]: edge switches
    port_q20: Numbers[GlobalPort, int]  # int64[n_ports]: ps_per_byte_q20 as built
    # For indirect packets (coupled_switch.py); otherwise minimal.
    edge: Numbers[NodeId, int]  # int64[n_nodes]: index of a switch with circuits, or -1
    reached: Numbers[tuple[int, int], int]  # int8[edges, edges]: 1 if a circuit leads there
    detour: Numbers[tuple[int, int], int]  # int32[edges, edges]: list of ports that lead there ...
    detour_first: Numbers[int, int]  # int64[...]: ... and its start in detour_ports
    detour_ports: Numbers[int, LocalPort]  # int32[...]


class LinkState(NamedTuple):
    """Packets, links, queues and switches."""

    pool: Records[Slot, PacketRecord]  # PACKET with the transport's own fields
    zero_packet: Records[int, PacketRecord]  # one packet of zeros, and room to swap packets
    origins: Numbers[Slot, Origin]  # int32[...]: of queued packets, or int32[1]
    ports: Records[GlobalPort, PortRecord]  # PORT[n_ports] with the discipline's own fields
    readers: Records[GlobalPort, LinkReaderRecord]  # LINK_READER[n_ports]
    queues: Records[QueueId, QueueRecord]  # QUEUE[n_ports * n_traffic_classes] with own fields
    switches: Records[int, SwitchRecord]  # SWITCH[n_switches] with the discipline's own fields
    discipline: Fixed[Records[int, Any]]  # [kinds of ports]: the discipline's parameters
    # ROUTING_PORT[n_ports], ROUTER[n_switches] and flow tables, with the algorithm's own fields
    routing_ports: Records[GlobalPort, RoutingPortRecord]
    routers: Records[int, RouterRecord]
    flow_rows: Records[int, Any]  # FLOW_ROWS for each switch, or for each of its ports
    # int64[n_switches * N_PUBLISHED, 2, KEPT]: periods, plus 1, in which values were published, and
    # these (routing.py)
    published: Numbers[tuple[int, int, int], int]
    routing: Fixed[Records[int, Any]]  # one record: the algorithm's parameters
    size_kind: Fixed[Numbers[GlobalPort, int]]  # int64[n_ports], if there are several kinds
    first_new: Numbers[GlobalPort, Ps]  # int64[n_ports]: first arrival sent in this window, or INF
    # int64[n_ports], with CUT_THROUGH: the largest ps_per_byte_q20 of a link from which the next
    # switch cuts through, or -1
    cut_through_q20: Fixed[Numbers[GlobalPort, int]]
    nic_busy: Numbers[tuple[GlobalPort, int], Ps]  # int64[n_ports, 3], with NIC: by sending port
    unread: Numbers[int, int]  # int64[words]: ingress ports of switches with unread packets ...
    busy: Numbers[int, int]  # ... ports active at the end of the last window ...
    dirty_ports: Numbers[int, int]  # ... ports that may have sent in this window ...
    waiting_ports: Numbers[int, int]  # ... ports suspended until a later window ...
    indirect_ready: Numbers[int, int]  # ... and ports that may have packets for others to send
    next_block: Numbers[Block, Block]  # int32[...]: next block on a link or in a free list
    free_blocks: Numbers[tuple[int, int], int]  # int64[workers, ...]: free blocks (links.py)
    pool_used: Numbers[int, int]  # int64[1]: blocks of the pool that have ever been taken
    pool_full: Numbers[int, int]  # int64[1]: 1 if the pool had no room
    # If the discipline asks for sources: int64[n_flows + 1], and of each port pair the port at the
    # destination and the address of control packets for the source
    first_source: Fixed[Numbers[FlowId, int]]
    sources: Fixed[Numbers[tuple[int, int], int]]
    fabric: Fixed[Records[int, FabricRecord]]  # FABRIC[kinds of ports]; entry 0: shared values
    faults: Records[GlobalPort, FaultRecord]  # FAULT[n_ports], if any link has faults
    fault_intervals: Fixed[Records[int, FaultIntervalRecord]]  # FAULT_INTERVAL[...], link by link
    losses: Records[QueueId, LossRecord]  # LOSS[n_queues], with faults, circuits or LLR
    retries: Records[GlobalPort, RetryRecord]  # RETRY[n_ports], with LLR
    kept: Records[Slot, PacketRecord]  # packets of replay buffers, port by port
    class_weights: Records[QueueId, ClassWeightRecord]  # CLASS_WEIGHT[n_queues], with WEIGHTED
    circuits: Records[GlobalPort, CircuitRecord]  # CIRCUIT[n_ports], if there are circuits
    days: Numbers[tuple[int, int], Ps]  # int64[..., 2], with circuits: start, end
    reconfiguring_ports: Fixed[Numbers[int, GlobalPort]]  # int64[...]: ports that change by slot
    day_ports: Fixed[Numbers[int, LocalPort]]  # int64[...]: port of each of a fiber's days
    fibers: Records[int, FiberRecord]  # FIBER[...], for indirect packets
    trace: Any  # trace.Trace; without tracing an unused array
    # Series of some queues, hosts and flows (series.py); minimal without series. Samples and copies
    # have one row per queue or record, interval after interval.
    series_clock: Records[int, SeriesClockRecord]  # SERIES_CLOCK[1]
    level_of: Fixed[Numbers[GlobalPort, int]]  # int64[n_ports]: the level of class 0, or -1
    levels: Records[int, LevelRecord]  # LEVEL[...]
    samples: Records[int, SampleRecord]  # SAMPLE[intervals * n_rows]
    level_times: Numbers[int, Ps]  # int64[levels * BINS_APART]: time at each level
    series_due: Numbers[HostId, Ps]  # int64[n_hosts]: end of the current interval, or INF
    first_watched: Fixed[Numbers[HostId, int]]  # int64[n_hosts + 1]: rows of each host
    watched: Fixed[Numbers[tuple[int, int], int]]  # int64[n_watched, 2]: kind and index of each
    watched_words: Fixed[Numbers[tuple[int, int], int]]  # int64[3, ...]: words per kind; then -1
    copies: Numbers[tuple[int, int], int]  # int64[intervals * n_watched, ...]: their values
    loss_table: Fixed[Numbers[tuple[int, int], int]]  # int64[profiles, 2**16]: by size, in 2**-32
    outages: Fixed[Numbers[tuple[int, int], Ps]]  # int64[..., 2]: down, up


Timers = Records[TimerSlot, TimerRecord]
Heap = Numbers[int, TimerSlot]  # binary heaps of timers, host after host


class HostState(NamedTuple):
    """Hosts and flows; record types include plugins' own fields."""

    nics: Records[NicId, HostRecord]  # NICs of all hosts, host by host
    first_nic: Fixed[Numbers[HostId, NicId]]  # int64[n_hosts + 1]: first NIC of each host
    host_ports: Records[GlobalPort, HostPortRecord]  # HOST_PORT[n_host_ports]
    port_choices: Records[int, PortChoiceRecord]  # PORT_CHOICE[2 * n_flows], with several ports
    port_pairs: Numbers[tuple[int, int], int]  # int32[..., 3], or with several routing tables:
    # port here, and addresses of data and of control packets
    carrier_delays: Fixed[Numbers[int, Ps]]  # int64[2], with loss of carrier: own, others'
    carrier_first: Fixed[Numbers[GlobalPort, int]]  # int64[n_host_ports + 1], likewise: rows
    carrier_lost: Fixed[Numbers[tuple[int, int], Ps]]  # int64[..., 2], likewise: lost, regained
    tx: Records[FlowId, TxRecord]
    rx: Records[FlowId, RxRecord]
    timers: Records[TimerSlot, TimerRecord]  # TIMER[...]
    heap: Heap  # int64[...]
    bits: Numbers[int, int]  # int64[...]: bitmaps, 32 bits per word
    pars: Fixed[Records[int, Any]]  # one record of records: each transport's parameters
    next_flow: Fixed[Numbers[FlowId, int]]  # int64[n_flows + 1]: CSR of flows that wait ...
    next_flows: Fixed[Numbers[int, FlowId]]  # int64[...]: ... for a flow
    phase: Numbers[FlowId, int]  # int64[n_flows], with phase-driven switches; -1: none
    tasks: Records[TaskId, TaskRecord]  # TASK[n_tasks], or PROGRAM_TASK and its own fields
    next_task: Fixed[Numbers[TaskId, int]]  # int64[n_tasks + 1]: CSR of tasks that wait ...
    next_tasks: Fixed[Numbers[int, TaskId]]  # int64[...]: ... for a task
    send_task: Numbers[FlowId, TaskId]  # int64[n_flows], with tasks; or NO_TASK
    receive_task: Fixed[Numbers[FlowId, TaskId]]  # int64[n_flows], likewise
    # Program (tasks.py); minimal without one.
    program: Fixed[Records[int, Any]]  # one record: its parameters
    program_hosts: Records[HostId, ProgramHostRecord]  # PROGRAM_HOST[n_hosts] with its own fields
    log: Numbers[tuple[int, int], int]  # int64[rows, 1 + columns]: times and logged numbers
    words: Numbers[tuple[FlowId, int], int]  # int64[n_flows, 2]: numbers that flows carry


class Clock(NamedTuple):
    """Progress of the run."""

    clock: Records[int, ClockRecord]  # CLOCK[1]
    next_event: Numbers[NodeId, Ps]  # int64[n_nodes]
    soonest: Numbers[int, Ps]  # int64[...]: earliest of them per BLOCK nodes
    active: Numbers[int, NodeId]  # int64[n_nodes]
    status: Numbers[NodeId, int]  # int64[n_nodes]
    what: Numbers[NodeId, int]  # int64[n_nodes]
    parts: Records[int, StageTimesRecord]  # STAGE_TIMES[1], for profiles
    slots: Records[int, SlotRecord]  # SLOT[...], with phase-driven circuit switches


WorkerRows = Numbers[int, Numbers[int, int]]
PortRows = Numbers[int, Numbers[LocalPort, int]]  # per worker: a row, or a number per port


class Crew(NamedTuple):
    """The division of active nodes among workers (loop.py, division.py)."""

    order: Numbers[int, NodeId]  # int64[n_nodes]: nodes in the order of cables
    owner: Numbers[NodeId, int]  # int32[n_nodes]: the worker of each
    first: Numbers[int, int]  # int64[workers]: start of a worker's list in nodes ...
    ends: Numbers[int, int]  # int64[workers]: ... and its end
    nodes: Numbers[int, NodeId]  # int64[n_nodes]: active nodes, worker by worker
    left: WorkerRows  # int64[workers, ...]: the rest of a worker's list
    done: WorkerRows  # int64[workers, ...]: nodes that a worker has stepped, when shared
    dealt: Numbers[int, int]  # int64[...]: windows shared so far
    ending: Numbers[int, int]  # int64[...]: whether workers must stop
    pace: Numbers[int, int]  # int64[2]: in the last window, NODES and NANOSECONDS of worker 0


class Scratch(NamedTuple):
    """Working memory of one step, a row per worker."""

    keys: Numbers[tuple[int, int], Numbers[int, int]]  # int64[workers, 2, capacity]
    slots: Numbers[int, Numbers[int, Slot]]  # int64[workers, capacity]
    outs: Numbers[int, Numbers[int, LocalPort]]  # int32[workers, capacity]
    ins: Numbers[int, Numbers[int, LocalPort]]  # int32[workers, capacity]
    buckets: WorkerRows  # int64[workers, N_BUCKETS + 1]
    ends: PortRows  # int64[workers, max ports]
    read_to: PortRows  # int64[workers, max ports]: new head of the link into each port ...
    n_unroutable: PortRows  # ... and number of its packets without a route
    calendar: Numbers[int, Numbers[int, LocalPort]]  # int64[workers, N_BUCKETS]
    next_in_bucket: Numbers[int, Numbers[LocalPort, LocalPort]]  # int64[workers, max ports]
    due: Numbers[int, Numbers[LocalPort, Ps]]  # int64[workers, max ports]
    words: WorkerRows  # int64[workers, N_BUCKETS / 32]


PORTS_OF_A_WORD = 32  # bits used per word of a set of ports
BLOCK = 64  # nodes skipped at a time when none has an event in a window

N_BUCKETS = 1024  # parts of a window, by which its events are sorted


# --- indices of ring slots, queues, ports and NICs; sets of a switch's ports ----------------------

NOT_QUEUED, WAITS = -1, -2
"""``tx_class`` of a port that sends a PFC frame or sends a packet again, or that is idle and wakes
up at ``free_at``."""

PFC_FRAME_PENDING = 1 << 8  # bit of ``pause_requested`` above the classes: a frame is to be sent


def ring_slot(first: Slot, mask: int, position: int) -> Slot:
    """Return the slot of entry number ``position`` of a ring of ``mask + 1`` slots."""
    return first + (position & mask)


def queue_of(p: GlobalPort, cls: int) -> QueueId:
    """Return the queue of class ``cls`` at port ``p``."""
    return QueueId(int(p) * N_CLASSES + cls)


def first_level(cls: int) -> int:
    """Return the class on links of traffic class ``cls`` at level 0."""
    return cls * N_LEVELS + N_LEVELS - 1


def ports_of(net: Net, node: NodeId) -> Iterable[GlobalPort]:
    """Return the ports of a node, in ascending order."""
    return span(net.first_port[node], net.first_port[node + 1])


def first_port_of(net: Net, host: HostId) -> GlobalPort:
    """Return the first port of a host; hosts precede switches."""
    if PLANE_BALANCING == ONE_PORT:
        return GlobalPort(host)
    return net.first_port[host]


def ports_of_host(net: Net, host: HostId) -> Iterable[GlobalPort]:
    """Return the ports of a host, in ascending order."""
    return span(first_port_of(net, host), first_port_of(net, HostId(host + 1)))


def first_nic_of(hosts: HostState, host: HostId) -> NicId:
    """Return the first NIC of a host."""
    if PLANE_BALANCING == ONE_PORT:
        return NicId(host)
    return hosts.first_nic[host]


def nics_of(hosts: HostState, host: HostId) -> Iterable[NicId]:
    """Return the NICs of a host, in ascending order."""
    return span(first_nic_of(hosts, host), first_nic_of(hosts, HostId(host + 1)))


def nic_of_port(hosts: HostState, p: GlobalPort) -> NicId:
    """Return the NIC that host port ``p`` is on."""
    if PLANE_BALANCING == ONE_PORT:
        return NicId(p)
    return hosts.host_ports[p].nic


def nic_of(hosts: HostState, side: FlowRecord) -> NicId:
    """Return the NIC that one side of a flow is on."""
    if PLANE_BALANCING == ONE_PORT:
        return NicId(side.host)
    return hosts.port_choices[side.port_choice].nic


Words = Numbers[int, int]
"""Sets of ports: a bit per port. Each switch has its own words, so that nodes stepped in parallel
never write to the same word."""


def include(ports: Words, first_word: int, port: LocalPort) -> None:
    """Add a port to the set of the switch whose words begin at ``first_word``."""
    ports[first_word + port // PORTS_OF_A_WORD] |= 1 << (port & (PORTS_OF_A_WORD - 1))


def exclude(ports: Words, first_word: int, port: LocalPort) -> None:
    """Remove a port from a set, if it is in it."""
    ports[first_word + port // PORTS_OF_A_WORD] &= ~(1 << (port & (PORTS_OF_A_WORD - 1)))


def includes(ports: Words, first_word: int, port: LocalPort) -> bool:
    """Return whether a port is in a set."""
    word = ports[first_word + port // PORTS_OF_A_WORD]
    return (word >> (port & (PORTS_OF_A_WORD - 1))) & 1 == 1


def next_port(net: Net, ports: Words, node: NodeId, before: LocalPort) -> LocalPort:
    """Return the next port of a set after ``before`` (NO_PORT: the first), or NO_PORT."""
    at = before + 1
    word = net.first_word[node] + at // PORTS_OF_A_WORD
    end = net.first_word[node + 1]
    if word >= end:
        return NO_PORT
    bits = ports[word] >> (at & (PORTS_OF_A_WORD - 1))
    if bits != 0:
        return LocalPort(at + lowest_bit(bits))
    word += 1
    while word < end:
        bits = ports[word]
        if bits != 0:
            first = (word - net.first_word[node]) * PORTS_OF_A_WORD
            return LocalPort(first + lowest_bit(bits))
        word += 1
    return NO_PORT


def empty(net: Net, ports: Words, node: NodeId) -> None:
    """Remove all of a switch's ports from a set."""
    for word in range(net.first_word[node], net.first_word[node + 1]):
        ports[word] = 0
