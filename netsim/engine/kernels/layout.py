"""Record types and state groups of the engine: the one place that says what is stored where.

The fields of the records are in `fields.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from netsim.engine.kernels.fields import (
    BalanceRecord,
    CircuitRecord,
    ClockRecord,
    CommonParameters,
    Declared,
    FabricRecord,
    FaultIntervalRecord,
    FaultRecord,
    FiberRecord,
    HostPortRecord,
    HostRecord,
    LevelRecord,
    LinkReaderRecord,
    LossRecord,
    PacketRecord,
    ParameterRecord,
    PortChoiceRecord,
    PortRecord,
    QueueRecord,
    RxRecord,
    SampleRecord,
    SeriesClockRecord,
    StageTimesRecord,
    SwitchRecord,
    TimerRecord,
    TxRecord,
)
from netsim.engine.kernels.ids import (
    Address,
    Bytes,
    FlowId,
    GlobalPort,
    HostId,
    LocalPort,
    NicId,
    NodeId,
    Numbers,
    Ps,
    QueueId,
    Records,
    Slot,
    TaskId,
    TimerSlot,
)
from netsim.engine.kernels.slot_fields import SlotRecord
from netsim.engine.kernels.task_fields import ProgramHostRecord, ProgramTaskRecord, TaskRecord
from netsim.limits import INT64

INF: Ps = Ps(INT64)
"""A time that never comes."""


Field = str | tuple[str, type] | tuple[str, int]
"""A state field: an int64 called "name", a float64 ("name", float), n int64s ("name", n)."""


CACHE_LINE = 64
"""Bytes."""

NARROW = {"I4": "i4", "U2": "u2", "U1": "u1", "float": "f8"}
"""Types of fields that are no int64."""


def fields_of(declared: type[Declared]) -> tuple[str, ...]:
    """The names of a record's fields."""
    return tuple(name for name, _ in typed_fields(declared))


def typed_fields(declared: type[Declared]) -> list[tuple[str, str]]:
    """The names of a record's fields, each with its NumPy type."""
    return [
        (name, NARROW.get(kind, "i8"))
        for cls in reversed(declared.__mro__)
        for name, kind in inspect.get_annotations(cls).items()
    ]


def record_of(declared: type[Declared], *own: Field) -> np.dtype:
    """The record of a class, with a transport's own fields behind the engine's."""
    return np.dtype([*typed_fields(declared), *map(_described, own)], align=True)


def padded_record_of(declared: type[Declared], *own: Field) -> np.dtype:
    """Likewise, of whole cache lines, so that none straddles one line more than it has to."""
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


PACKET_FIELDS = fields_of(PacketRecord)
HOST_FIELDS = fields_of(HostRecord)
TX_FIELDS = fields_of(TxRecord)
RX_FIELDS = fields_of(RxRecord)
PROGRAM_TASK_FIELDS = fields_of(ProgramTaskRecord)
PROGRAM_HOST_FIELDS = fields_of(ProgramHostRecord)
PARAMETER_FIELDS = fields_of(ParameterRecord)
COMMON_PARAMETERS = fields_of(CommonParameters)
PORT_FIELDS = fields_of(PortRecord)
QUEUE_FIELDS = fields_of(QueueRecord)
SWITCH_FIELDS = fields_of(SwitchRecord)

PACKET = record_of(PacketRecord)
PORT = record_of(PortRecord)
QUEUE = record_of(QueueRecord)
LINK_READER = record_of(LinkReaderRecord)
BALANCE = record_of(BalanceRecord)
FAULT = record_of(FaultRecord)
CIRCUIT = record_of(CircuitRecord)
FIBER = record_of(FiberRecord)
FAULT_INTERVAL = record_of(FaultIntervalRecord)
SLOT = record_of(SlotRecord)
LOSS = record_of(LossRecord)
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
"""``code`` of a timer: its kind, one of these, plus its number k of that kind; TIMER_START is a
flow's start and pacing."""

TIMER_TASK, TIMER_BEGIN, TIMER_PROGRAM = -1, -2, -3
"""``code`` of a task's timer, of the one by which a program begins, and, less k, of its timer k:
none that a transport could take for its own."""

MAX_TIMERS = TIMERS_OF_A_KIND - 1
"""The most timers that may be declared of a kind, a flow's start included."""

ONE_PORT, HASH, ROUND_ROBIN, PERMUTATION, LEAST_LOADED, ENTROPY = range(6)
"""Values of ``PLANE_BALANCING``: every host has one port, or how flows go by several. With HASH a
flow has
one port pair, unless hosts notice loss of carrier."""

DIRECT, OPPORTUNISTIC, VLB = range(3)
"""Values of ``INDIRECT``: packets go by one circuit, or how they go by two."""

UNFINISHED = -1
"""Status of a node whose step has not ended."""

OK, GROW_POOL, GROW_SCRATCH, BROKEN = range(4)
"""Why a step ended early: the pool is used up, scratch is too small (``what`` says how much there
should be), or a handler broke a rule."""

RUNNING, DONE, IDLE, TIME_LIMIT, NEEDS_GROWTH, NEEDS_THINNING = range(6)
"""Why a run of windows ended; NEEDS_GROWTH and NEEDS_THINNING stay within the engine."""


Group = TypeVar("Group")


def grouped(group: Callable[..., Group], **arrays: Any) -> Group:
    """A group of arrays; of each, mypy takes from here on what the group says that it holds."""
    return group(**arrays)


class Net(NamedTuple):
    """The network, constant during a run."""

    n_hosts: int
    first_port: Numbers[NodeId, GlobalPort]  # int64[n_nodes + 1]
    first_word: Numbers[NodeId, int]  # int64[n_nodes + 1]: of a switch's sets of ports
    port_node: Numbers[GlobalPort, NodeId]  # int32[n_ports]
    port_peer: Numbers[GlobalPort, GlobalPort]  # int32[n_ports]
    host_group: Numbers[Address, int]  # int32[n_tables * n_host_ports]: its entry in rows
    host_port: Numbers[Address, LocalPort]  # int32[n_tables * n_host_ports]: of the leaf, toward it
    route_first: Numbers[NodeId, int]  # int64[n_nodes]: where a switch's row begins
    row_ptr: Numbers[int, int]  # int64[n_switches + 1]: each switch's rows, if links have faults
    row_from: Numbers[int, Ps]  # int64[...]: from when on a row holds, likewise
    row_first: Numbers[int, int]  # int64[...]: where it begins in route, likewise
    slots_from: Ps  # when the first slot begins of routes that take turns
    slot_ends: Numbers[int, Ps]  # int64[slots]: and when each ends, from then on
    slot_row_first: Numbers[
        tuple[int, int], int
    ]  # int64[slots, n_switches]: where rows begin in route
    route: Numbers[int, int]  # int64[...]: by group, offset << 16 | count, or NO_ROUTE
    route_ports: Numbers[int, LocalPort]  # int32[...]
    node_salt: Numbers[NodeId, int]  # int64[n_nodes], start of the ECMP hash
    # Where packets go by way of third switches (two_hops.py); else next to nothing.
    edge: Numbers[NodeId, int]  # int64[n_nodes]: number of a switch that has circuits, or -1
    reached: Numbers[tuple[int, int], int]  # int8[edges, edges]: 1 if there is a circuit to it
    detour: Numbers[tuple[int, int], int]  # int32[edges, edges]: which ports lead to that ...
    detour_first: Numbers[int, int]  # int64[...]: ... of detour_ports those from here on
    detour_ports: Numbers[int, LocalPort]  # int32[...]


class LinkState(NamedTuple):
    """Packets, and the rings and queues that hold them."""

    pool: Records[Slot, PacketRecord]  # packets: PACKET, and the transport's own fields
    zero_packet: Records[int, PacketRecord]  # one packet of zeros
    ingress: Numbers[Slot, LocalPort]  # int32[...]: a queued packet's ingress, or int32[1]
    ports: Records[GlobalPort, PortRecord]  # PORT[n_ports], and the discipline's own fields
    readers: Records[GlobalPort, LinkReaderRecord]  # LINK_READER[n_ports]
    balance: Records[GlobalPort, BalanceRecord]  # BALANCE[n_ports]
    queues: Records[QueueId, QueueRecord]  # QUEUE[n_ports * n_traffic_classes], and its own fields
    switches: Records[int, SwitchRecord]  # SWITCH[n_switches], and the discipline's own fields
    discipline: Records[int, Any]  # [kinds of ports]: the parameters of the queue discipline
    size_kind: Numbers[GlobalPort, int]  # int64[n_ports], if there are several kinds
    published_head: Numbers[
        GlobalPort, int
    ]  # int64[n_ports]: read by the far end when the window began
    new_tail: Numbers[GlobalPort, int]  # int64[n_ports]: end of the link's ring, to be published
    first_new: Numbers[GlobalPort, Ps]  # int64[n_ports]: first arrival sent in this window, or INF
    unread: Numbers[int, int]  # int64[words]: ports of switches with packets that came in ...
    busy: Numbers[int, int]  # ... ports at work when the last window ended ...
    dirty_ports: Numbers[int, int]  # ... ports that read or sent in this window ...
    waiting_ports: Numbers[int, int]  # ... ports that are looked at in a later one ...
    indirect_ready: Numbers[int, int]  # ... ports that may have packets for others to send ...
    pausing_ports: Numbers[int, int]  # ... and ports whose neighbors are asked to hold classes back
    pool_used: Numbers[int, int]  # int64[1]: slots of the pool that belong to rings, or did
    moved_links: Numbers[int, int]  # int64[1]: links whose rings moved in this window
    fabric: Records[int, FabricRecord]  # FABRIC[kinds of ports]; 0 has what all have in common
    faults: Records[GlobalPort, FaultRecord]  # FAULT[n_ports], if any link has faults
    fault_intervals: Records[int, FaultIntervalRecord]  # FAULT_INTERVAL[...]: link after link
    losses: Records[QueueId, LossRecord]  # LOSS[n_ports * n_traffic_classes], likewise, or circuits
    circuits: Records[GlobalPort, CircuitRecord]  # CIRCUIT[n_ports], if there are circuits
    days: Numbers[tuple[int, int], Ps]  # int64[..., 2], likewise: from ... until ...
    reconfiguring_ports: Numbers[
        int, GlobalPort
    ]  # int64[...]: whose circuits end or begin with each slot
    day_ports: Numbers[int, LocalPort]  # int64[...]: of a row of days, where it is a turn: the port
    fibers: Records[int, FiberRecord]  # FIBER[...], if packets go by way of third switches
    trace: Any  # trace.Trace; without tracing an array that is not used
    # Series, of some queues, hosts and flows (series.py). Samples and copies have a row for each of
    # an interval, and the intervals follow one another. Without series next to nothing.
    series_clock: Records[int, SeriesClockRecord]  # SERIES_CLOCK[1]
    level_of: Numbers[GlobalPort, int]  # int64[n_ports]: the level of its class 0, or -1
    levels: Records[int, LevelRecord]  # LEVEL[...]
    samples: Records[int, SampleRecord]  # SAMPLE[intervals * n_rows]
    level_times: Numbers[int, Ps]  # int64[levels * BINS_APART]: spent at each level
    series_due: Numbers[HostId, Ps]  # int64[n_hosts]: end of the interval under way, or INF
    first_watched: Numbers[HostId, int]  # int64[n_hosts + 1]: of its records that are watched
    watched: Numbers[tuple[int, int], int]  # int64[n_watched, 2]: kind and number of each
    watched_words: Numbers[tuple[int, int], int]  # int64[3, ...]: those of a kind; -1 behind them
    copies: Numbers[tuple[int, int], int]  # int64[intervals * n_watched, ...]: what they held
    loss_table: Numbers[tuple[int, int], int]  # int64[profiles, 2**16]: by size, in 2**-32
    outages: Numbers[tuple[int, int], Ps]  # int64[..., 2]: down from ... until ...


Timers = Records[TimerSlot, TimerRecord]
Heap = Numbers[int, TimerSlot]
"""The binary heaps of timers, one for each host, one behind the other."""


class HostState(NamedTuple):
    """Hosts and flows. Record types depend on the transport's declared fields."""

    nics: Records[NicId, HostRecord]  # the NICs of all hosts, host by host
    first_nic: Numbers[HostId, NicId]  # int64[n_hosts + 1]: those of each host
    host_ports: Records[GlobalPort, HostPortRecord]  # HOST_PORT[n_host_ports]
    port_choices: Records[
        int, PortChoiceRecord
    ]  # PORT_CHOICE[2 * n_flows], if a host has several ports
    port_pairs: Numbers[tuple[int, int], int]  # int32[..., 3], or with several routing tables:
    # the port here, and the addresses of data and of control packets
    carrier_delays: Numbers[int, Ps]  # int64[2], if hosts notice loss of carrier: own, others'
    carrier_first: Numbers[GlobalPort, int]  # int64[n_host_ports + 1], likewise: rows of each port
    carrier_lost: Numbers[tuple[int, int], Ps]  # int64[..., 2], likewise: from ... until ...
    tx: Records[FlowId, TxRecord]
    rx: Records[FlowId, RxRecord]
    timers: Timers  # TIMER[...]
    heap: Heap  # int64[...]
    bits: Numbers[int, int]  # int64[...]: bitmaps, 32 bits used of each word
    pars: Records[int, Any]  # one record of records: the parameters of each transport of the run
    next_flow: Numbers[FlowId, int]  # int64[n_flows + 1]: CSR of flows that wait for a flow ...
    next_flows: Numbers[int, FlowId]  # int64[...]: ... and who they are
    phase: Numbers[FlowId, int]  # int64[n_flows], if circuit switches are phase-driven: or -1
    tasks: Records[TaskId, TaskRecord]  # TASK[n_tasks], or PROGRAM_TASK and its own fields
    next_task: Numbers[TaskId, int]  # int64[n_tasks + 1]: CSR of tasks that wait for a task ...
    next_tasks: Numbers[int, TaskId]  # int64[...]: ... and who they are
    send_task: Numbers[FlowId, TaskId]  # int64[n_flows], if there are tasks: or NO_TASK
    receive_task: Numbers[FlowId, TaskId]  # int64[n_flows], likewise
    # Of a program (programs.py); without one next to nothing.
    program: Records[int, Any]  # one record: its parameters
    program_hosts: Records[HostId, ProgramHostRecord]  # PROGRAM_HOST[n_hosts], and its own fields
    log: Numbers[tuple[int, int], int]  # int64[rows, 1 + columns]: times and what is noted


class Clock(NamedTuple):
    """Where the run stands."""

    clock: Records[int, ClockRecord]  # CLOCK[1]
    next_event: Numbers[NodeId, Ps]  # int64[n_nodes]
    soonest: Numbers[int, Ps]  # int64[...]: the earliest of them among BLOCK nodes each
    active: Numbers[int, NodeId]  # int64[n_nodes]
    status: Numbers[NodeId, int]  # int64[n_nodes]
    what: Numbers[NodeId, int]  # int64[n_nodes]
    tickets: Numbers[int, int]  # int64[1]: active nodes that workers have taken in this window
    parts: Records[int, StageTimesRecord]  # STAGE_TIMES[1], for profiles
    slots: Records[int, SlotRecord]  # SLOT[...]: of circuit switches, if they are phase-driven


class Scratch(NamedTuple):
    """Working memory of one step, a row per worker."""

    keys: Numbers[tuple[int, int], Numbers[int, int]]  # int64[workers, 2, capacity]
    slots: Numbers[int, Numbers[int, Slot]]  # int64[workers, capacity]
    outs: Numbers[int, Numbers[int, LocalPort]]  # int32[workers, capacity]
    ins: Numbers[int, Numbers[int, LocalPort]]  # int32[workers, capacity]
    arrived_bytes: Numbers[int, Numbers[int, Bytes]]  # int64[workers, max ports * CLASSES]
    buckets: Numbers[int, Numbers[int, int]]  # int64[workers, N_BUCKETS + 1]
    starts: Numbers[int, Numbers[int, int]]  # int64[workers, max ports of a node + 2]
    undo: Numbers[int, Numbers[int, int]]  # int64[workers, UNDO * max ports]
    calendar: Numbers[int, Numbers[int, LocalPort]]  # int64[workers, N_BUCKETS]
    next_in_bucket: Numbers[int, Numbers[LocalPort, LocalPort]]  # int64[workers, max ports]
    words: Numbers[int, Numbers[int, int]]  # int64[workers, N_BUCKETS / 32]
    # For predicted pauses (pause_prediction.py); otherwise almost empty.
    affected_ingresses: Numbers[
        int, Numbers[int, int]
    ]  # int64[workers, words]: ingresses whose pause state may change ...
    candidate_ingresses: Numbers[int, Numbers[int, int]]  # ... those that predict_pause names ...
    pfc_received_ports: Numbers[int, Numbers[int, int]]  # ... ports that receive PFC frames ...
    ingresses_to_replay: Numbers[int, Numbers[int, int]]  # ... ingresses to be replayed ...
    ports_to_replan: Numbers[int, Numbers[int, int]]  # ... and ports to plan again
    accounts: Records[int, QueueRecord]  # QUEUE[workers * max ports * CLASSES]: of affected ones
    pause_requested: Numbers[
        int, Numbers[LocalPort, int]
    ]  # int64[workers, max ports]: as the window began
    planned_queues: Numbers[
        int, Numbers[tuple[int, int], int]
    ]  # int64[workers, CLASSES, 3]: of a port
    next_in_line: Numbers[int, Numbers[int, int]]  # int64[workers, capacity]: an arrival
    log_time: Numbers[int, Numbers[int, Ps]]  # int64[workers, capacity]: since the window began
    log_what: Numbers[int, Numbers[int, int]]  # int64[workers, capacity]
    log_first: Numbers[int, Numbers[LocalPort, int]]  # int64[workers, max ports]
    log_end: Numbers[int, Numbers[LocalPort, int]]  # int64[workers, max ports]
    log_limit: Numbers[int, Numbers[LocalPort, int]]  # int64[workers, max ports]
    account_keys: Numbers[int, Numbers[int, int]]  # int64[workers, capacity]
    account_first: Numbers[int, Numbers[int, int]]  # int64[workers, max ports + 2]
    pending_pfc_keys: Numbers[int, Numbers[int, int]]  # int64[workers, MAX_PENDING_PFC * max ports]
    pending_pfc_masks: Numbers[
        int, Numbers[int, int]
    ]  # int64[workers, MAX_PENDING_PFC * max ports]
    n_pending_pfc: Numbers[int, Numbers[LocalPort, int]]  # int64[workers, max ports]
    tallies: Numbers[int, Numbers[tuple[int, int], int]]  # int64[workers, ..., SLICES]
    slice_shift: Numbers[int, int]  # int64[workers]


PORTS_OF_A_WORD = 32
"""Bits used of a word of a set of ports."""

BLOCK = 64
"""So many nodes at a time are passed over that have no event in a window."""

UNDO = 7
"""Per ingress port of a step: three load-balancing counters to restore, the new head of its ring,
how many of its packets have no route, and which arrivals are its own: from ... up to."""

SLICES = 16
"""Parts of a window, for which what comes and leaves by an ingress is added up."""

MAX_PENDING_PFC = 32
"""The most PFC frames of a port in a window that are planned."""

N_BUCKETS = 1024
"""Time slots into which one window's events are sorted."""
