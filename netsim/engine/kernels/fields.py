"""The kernels' numbers and records: packets, ports, queues, hosts and flows.

A wrong kind of number (a local port for a global one, a pool slot for a timer) would cause no
error. mypy knows a type for each, and the type of their sums: a node's first port plus a local port
is a global port. At run time all are int: `Slot(n)` converts like ``int(n)`` and costs nothing.

`layout.py` turns each record class into a NumPy type; mypy types entries of record arrays by it.
State is int64 or float64, so plain Python computes exactly what compiled code does. Packets are
packed into 32 bytes: convert their fields to ``int`` (`Bytes`, a `FlowId`, ...) before arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Constant = TypeVar("Constant")
Fixed = Annotated[Constant, "fixed"]  # a field or an array that no run changes

if TYPE_CHECKING:
    from typing import SupportsIndex, SupportsInt

    Key = TypeVar("Key")
    Value = TypeVar("Value")

    class LocalPort(int):
        """A port of a node, from 0."""

    class Origin(int):
        """How a packet came in: ``port * CLASSES + class``, with a local port."""

    class GlobalPort:
        """A port of the whole network. Not an int, because most sums with one are mistakes."""

        def __init__(self, number: SupportsInt | SupportsIndex) -> None: ...
        def __index__(self) -> int: ...
        def __add__(self, local: LocalPort) -> GlobalPort: ...
        def __sub__(self, first: GlobalPort) -> LocalPort: ...
        def __lt__(self, other: GlobalPort) -> bool: ...

    class Address(int):
        """A host's port in one routing table: a packet's destination."""

    class QueueId(int):
        """The queue of one class at one port (`layout.queue_of`)."""

    class Slot(int):
        """A packet's slot in the pool."""

        def __add__(self, slots: int, /) -> Slot: ...

    class Block(int):
        """A block of slots of the pool."""

    class TimerSlot(int):
        """A timer's index among all hosts' timers."""

        def __add__(self, timers: int, /) -> TimerSlot: ...
        def __sub__(self, timers: int, /) -> TimerSlot: ...

    class FlowId(int):
        """A flow."""

    class TaskId(int):
        """A task; a host's tasks are consecutive."""

    class NodeId(int):
        """A host or a switch; hosts come first."""

        def __add__(self, nodes: int, /) -> NodeId: ...

    class HostId(NodeId):
        """A host, which is a node."""

    class NicId(int):
        """A NIC's index among all hosts' NICs."""

    class Ps(int):
        """A time or a duration in picoseconds."""

        def __add__(self, duration: int, /) -> Ps: ...
        def __sub__(self, other: int, /) -> Ps: ...

    class Bytes(int):
        """Bytes, on the wire unless stated otherwise."""

        def __add__(self, other: int, /) -> Bytes: ...
        def __sub__(self, other: int, /) -> Bytes: ...

    class Narrow:
        """A packet field as read: convert it to an int (a `Slot`, ...) before use."""

        def __int__(self) -> int: ...

    class I4:
        """A signed 32-bit packet field."""

        def __get__(self, packet: object, kind: object) -> Narrow: ...
        def __set__(self, packet: object, number: int) -> None: ...

    class U2(I4):
        """A 16-bit packet field."""

    class U1(I4):
        """An 8-bit packet field."""

    class Numbers(np.ndarray[Any, np.dtype[Any]], Generic[Key, Value]):
        """An array of numbers: a ``Value`` for each ``Key``."""

        @overload  # type: ignore[override]
        def __getitem__(self, key: Key, /) -> Value: ...
        @overload
        def __getitem__(self, key: slice | Array, /) -> Array: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Key | slice, value: Value | Array, /) -> None: ...  # type: ignore[override]

    class Records(np.ndarray[Any, np.dtype[Any]], Generic[Key, Value]):
        """An array of records, one for each ``Key``; a field name selects a column."""

        @overload  # type: ignore[override]
        def __getitem__(self, key: Key, /) -> Value: ...
        @overload
        def __getitem__(self, key: str | slice | Array, /) -> Array: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Key | slice, value: Value | Array, /) -> None: ...  # type: ignore[override]

    class span(Iterable[Key]):  # noqa: N801
        """``range`` over typed numbers."""

        def __init__(self, first: Key, end: Key) -> None: ...
        def __iter__(self) -> Iterator[Key]: ...

else:
    LocalPort = Origin = GlobalPort = Address = QueueId = Slot = Block = TimerSlot = int
    FlowId = TaskId = NodeId = HostId = NicId = int
    Ps = Bytes = I4 = U2 = U1 = int
    Numbers = Records = np.ndarray
    span = range

NO_PORT = LocalPort(-1)
NO_TIMER = TimerSlot(-1)
NO_FLOW = FlowId(-1)
NO_TASK = TaskId(-1)  # none of each kind


# --- records --------------------------------------------------------------------------------------


class Declared:
    """Base of record classes; each annotation is a field, in this order."""

    def __getitem__(self, field: str) -> Any:
        raise TypeError("records are entries of arrays")


class PacketRecord(Declared):
    time: Ps  # when the last bit reaches the far end of the link
    flow: I4
    seq: I4
    dst: I4  # destination address
    aux: I4  # free for the transport
    size_bytes: U2  # bytes on the wire
    entropy: U2  # hashed by ECMP together with the flow
    kind: U1
    prio: U1  # traffic class, 0 is the highest
    ecn: U1  # bits: congestion experienced, echo of it, trimmed at a port that leads to a host,
    # returned by a switch
    hops: U1  # links crossed so far


class PortRecord(Declared):
    number: Fixed[GlobalPort]
    block: Block  # last block of the link's chain (links.py) ...
    block_end: int  # ... and the position at which it ends
    tail: int
    ps_per_byte_q20: int
    delay_ps: Ps
    free_at: Ps  # when the current transmission ends
    tx_bytes: Bytes  # size of that packet; 0 when idle or already accounted for
    tx_class: int  # class of that packet, or NOT_QUEUED or WAITS (layout.py)
    tx_origin: Origin  # of that packet, if the discipline needs it
    backlog: int  # bit c: a packet of class c waits
    paused: int  # bit c: the neighbor paused class c
    pause_requested: int  # bit c: pause of class c; bit PFC_FRAME_PENDING: frame not yet sent
    ecn_draws: int
    held_bytes: Bytes  # of all classes, set for `on_forward` of a transport only
    sent_bytes: Bytes  # likewise
    if TYPE_CHECKING:  # fields that only some disciplines have (`read_discipline`)
        timers_ps: Numbers[int, Ps]  # with PORT_TIMERS: when each is due, or 0
        response_ps: Ps
        pause_ps: Ps
        frames_sent: int  # with pause_ps, PFC frames sent, and the number of the last one received
        frame_heard: int


class LinkReaderRecord(Declared):
    """Reading side of the link to a port; ``tail`` changes only between windows."""

    block: Block  # of the last packet read, or the next
    block_end: int  # position at which it ends
    head: int
    tail: int
    packet_ps: Ps  # send time of a full data packet; for switch.py, like order_salt
    order_salt: int
    from_host: int  # 1 if a host feeds the link, and so the port leads to one


class QueueRecord(Declared):
    off: Slot  # from here, one cache line for the fields that every packet uses ...
    mask: int  # slots of the ring minus 1
    head: int
    tail: int
    bytes: Bytes  # held, including the packet in transmission
    max_bytes: Bytes
    sent_packets: int
    sent_bytes: Bytes
    drops: int  # ... and one for rare events
    drop_bytes: Bytes
    trims: int
    trim_bytes: Bytes
    ecn_marks: int
    pfc_pauses: int  # requested from the neighbor, by ingress (port, class)
    paused_since: Ps  # by egress (port, class)
    paused_ps: Ps


class ClassWeightRecord(Declared):
    """A class of a port that is served by weight."""

    quantum_bytes: Bytes
    deficit_bytes: Bytes
    first: int  # the first class of its group, and the end
    end: int
    turn: int  # of a group's first class: the group's turn


class FaultRecord(Declared):
    """Faults of a port's link: loss-table row, draws made, current or next outage, interval."""

    profile: int
    draws: int
    outage: int
    last_outage: int
    interval: int
    last_interval: int


class CircuitRecord(Declared):
    """When a port may send into its circuit: rows of `days` in its own time; always if none."""

    first_up: int  # days at the circuit switch ...
    last_up: int
    first_start: int  # ... and when the port may start to send
    last_start: int
    period_ps: Ps
    up_ps: Ps
    down_ps: Ps
    opens_ps: Ps
    closes_ps: Ps
    fiber: int  # with INDIRECT, the port's fiber, or -1


class FiberRecord(Declared):
    """A switch's fiber to a circuit switch: its ports' days in `days`, and the current or next."""

    first_day: int
    last_day: int
    period_ps: Ps
    day: int
    period_offset_ps: Ps  # added to the times of the row
    port: LocalPort
    opens_ps: Ps
    closes_ps: Ps


class FaultIntervalRecord(Declared):
    """Rate and loss of a link for transmissions that start in an interval."""

    start_ps: Ps
    profile: int  # row of the loss table
    ps_per_byte_q20: int


class RetryRecord(Declared):
    """A port's replay buffer (link_retry.py): a ring of ``mask + 1`` packets, and its positions."""

    off: Fixed[Slot]
    mask: Fixed[int]
    answer_ps: Fixed[Ps]  # from a packet's arrival until the answer arrives
    timeout_ps: Fixed[Ps]
    max_frames: Fixed[int]
    max_bytes: Fixed[Bytes]
    max_replays: Fixed[int]
    head: int
    expected: int
    cursor: int
    tail: int
    bytes: Bytes
    due_ps: Ps  # when a replay begins, after a loss
    refused: int  # 1: the other end sent a NACK since it last accepted a packet
    replays: int  # since then


class LossRecord(Declared):
    """Packets lost on a port's link, replays, and packets that came in without a route."""

    packets: int
    bytes: Bytes
    no_circuit_packets: int  # included in packets
    no_circuit_bytes: Bytes
    unroutable_packets: int
    unroutable_bytes: Bytes
    replays: int
    replay_bytes: Bytes


class SwitchRecord(Declared):
    """A switch, as the handlers of its queue discipline see it."""

    number: Fixed[int]  # index among the switches
    handler: int  # current or last handler of this step (handlers.py)
    worker: int  # that steps the switch
    holds_packet: int  # 1: `admit` removed a waiting packet and has not enqueued or dropped it
    held_packet_origin: Origin  # of that packet
    enqueued_classes: int  # bit c: `admit` enqueued a packet to class c
    returned: int  # 1: `admit` has returned the arriving packet to its sender
    n_made: int  # packets made in this event ...
    made_packets: int  # ... and by `emit` in the run, ...
    made_bytes: Bytes  # ... with their bytes
    first_port: Fixed[GlobalPort]
    first_word: Fixed[int]  # first word of its port sets
    first_fiber: Fixed[int]  # with INDIRECT, its fibers ...
    last_fiber: Fixed[int]
    indirect_from: LocalPort  # the last port whose packet another port sent ...
    indirect_by: LocalPort  # ... the port that sent it ...
    n_indirect: int  # ... and the number of such packets
    next_wakeup_ps: Ps  # earliest wakeup of waiting ports (switch.py)
    next_timer_ps: Ps  # earliest timer of a port, or before it; INF without any
    dropped: int  # 1: `on_drop` was called for this event
    late_ps: Ps  # last time that a link's frame arrived late, or a port's timer fired
    rule_broken: int  # number of the rule (handlers.py), or 0
    breaking_handler: int
    breaking_value: int


class LevelRecord(Declared):
    """Series state of a queue (series.py): bytes held until ``since_ps``, and changes since."""

    since_ps: Ps
    due_ps: Ps  # end of the current interval; INF without intervals
    row: int  # sample row of that interval
    peak_bytes: Bytes  # in that interval
    area_high: int  # integral of bytes held until since_ps, in units of 2**24 byte-ps ...
    area_low: int  # ... and the remainder
    moment: int  # arrived minus departed bytes, each times its time since then
    first_bin: int  # first bin of its histogram


class SampleRecord(Declared):
    """A queue at the end of an interval; all but the maximum are totals since the run began."""

    area_high: int
    area_low: int
    max_bytes: Bytes  # in the interval
    sent_bytes: Bytes
    drops: int
    trims: int
    ecn_marks: int
    paused_ps: Ps


class SeriesClockRecord(Declared):
    interval_ps: Ps
    end_ps: Ps  # end of the room for samples; INF without intervals
    n_rows: int  # samples per interval: of queues ...
    n_watched: int  # ... and records of hosts and flows


class TimerRecord(Declared):
    """A timer: ``key`` is its time in the heap, ``pos`` its position there (-1: none)."""

    deadline: Ps
    key: Ps
    pos: int
    owner: Fixed[int]  # a flow, a host or a task
    code: Fixed[int]


class HostRecord(Declared):
    """A NIC of a host, with its flows and timers."""

    host: Fixed[HostId]
    nic: Fixed[NicId]
    port: Fixed[GlobalPort]  # first port of the host
    ps_per_byte_q20: int  # all ports of the NIC together
    first_timer: Fixed[TimerSlot]  # first timer of the NIC
    heap_off: Fixed[int]  # heap of the host
    delivered: int  # flows fully delivered here in this window
    finished: int  # flows from here that the transport finished in this window
    done_head: FlowId  # list of flows delivered here in this window
    sent_packets: int
    sent_bytes: Bytes
    received_packets: int
    received_hops: int  # links that they crossed
    received_bytes: Bytes
    received_acks: int  # of the kinds of packets.py
    received_nacks: int
    received_pulls: int
    tasks_done: int  # in this window
    payload_bytes: Bytes  # delivered to the application ...
    counted_bytes: Bytes  # ... of which the clock has counted this many
    n_timers: Fixed[int]
    now_ps: Ps  # current time, for loss of carrier; in a host's first NIC, its last event's
    data_port: GlobalPort  # with LEAST_LOADED the last port chosen for data ...
    control_port: GlobalPort  # ... and for a control packet
    last_done_ps: Ps  # last time that a flow or task ended here
    worker: int  # that steps the host
    handler: int  # current or last handler of this step (handlers.py)
    rule_broken: int  # number of the rule (handlers.py), or 0
    breaking_handler: int
    breaking_value: int


class HostPortRecord(Declared):
    """A host port's FIFO of control packets and list of ready flows."""

    ctrl_off: Slot
    ctrl_mask: int
    ctrl_head: int
    ctrl_tail: int
    ready_head: FlowId
    ready_tail: FlowId
    checked: int  # end of the checked part of the FIFO
    stuck: int  # every flow on the list is paused
    nic: Fixed[NicId]  # with several ports, the NIC of this one ...
    n_ready: int  # ... the number of flows on the list ...
    begins_ps: Ps  # ... and, with ENTROPY, the start of the last transmission
    last_arrival: Ps  # with HOST_JITTER when the last packet arrives ...
    n_late: int  # ... draws for packets ...
    turn_end: FlowId  # ... the last flow on the list that has a turn in this round, ...
    n_turns: int  # ... rounds so far ...
    n_placed: int  # ... and draws for places on the list


class PortChoiceRecord(Declared):
    """Port pairs of one side of a flow (port_pairs.py), for hosts with several ports."""

    nic: Fixed[NicId]  # NIC of this side
    first_pair: Fixed[int]
    n_pairs: Fixed[int]
    port_pair: int  # pair that the next data packet takes
    sent_control: int  # control packets queued
    salt_data: int  # salt of permutations; with HASH the number that chooses the pair
    salt_control: int


class FlowRecord(Declared):  # fields of both sides of a flow
    flow: Fixed[FlowId]
    transport: Fixed[int]  # index of the flow's transport in the run
    host: Fixed[HostId]  # host of this side
    peer: Fixed[HostId]  # host of the other side
    size_bytes: Bytes
    n_packets: int
    last_bytes: Bytes  # payload of the last packet
    entropy: int
    prio: int  # class of the flow's data
    first_timer: Fixed[TimerSlot]
    bits: Fixed[int]  # first word of this side's bitmaps
    bits_end: Fixed[int]  # end of this side's bitmaps
    port_choice: Fixed[int]  # PortChoiceRecord; with one port and several tables, the port pair


class TxRecord(FlowRecord):
    next_ready: FlowId
    listed: int
    rank: int  # key in the ready list, smallest first
    finished: int
    start_ps: Ps
    acked_ps: Ps
    sent_packets: int
    sent_bytes: Bytes  # on the wire; counted with series only
    retransmits: int
    high_seq: int  # highest sequence number sent, plus 1
    skipped: int  # sequence numbers below it not sent; their bitmap begins at bits_end
    base_rtt_ps: Ps  # full data packet out, control packet back, unloaded
    bdp_bytes: Bytes  # of all its paths together, in wire bytes
    ps_per_byte_q20: int  # all the flow's ports together
    waits_for: int  # flows that must be delivered before this one starts
    ready_from: Ps  # the latest of their delivery times


class RxRecord(FlowRecord):
    received_bytes: Bytes
    done_ps: Ps
    next_done: FlowId  # in a list of delivered flows


class FabricRecord(Declared):
    """Parts of [fabric] that the engine itself reads."""

    seed: int
    kmin_bytes: Bytes
    kmax_bytes: Bytes
    ecn_from_class: int
    pmax: float
    indirect_class: int
    host_jitter_ps: Ps
    cut_through_bytes: Bytes  # of [packets]
    data_interval_ps: Ps  # of [packets.nic] ...
    data_delay_ps: Ps
    ack_interval_ps: Ps
    ack_delay_ps: Ps
    cnp_interval_ps: Ps
    cnp_delay_ps: Ps


class CommonParameters(Declared):
    """Parameters that every transport, queue discipline and routing algorithm has."""

    payload_bytes: Bytes
    header_bytes: Bytes
    control_bytes: Bytes
    seed: int


class QueueParameters(CommonParameters):
    n_classes: int  # of a port


class ParameterRecord(CommonParameters):  # parameters of a transport
    first_host_timer: int  # first host timer of this transport
    pair_by_entropy: int  # if `tx.entropy` chooses the next packet's port: the most of a flow


class ClockRecord(Declared):
    w0: Ps
    w1: Ps
    lookahead_ps: Ps
    window_ps: Ps
    ending_ps: Ps  # from the time that all is done to the run's end
    last_done_ps: Ps  # last time that a flow or task ended
    returns_ps: Ps  # from here on, other parts' packets may depend on this part's last ones
    n_active: int
    resume: int  # 1 if the last window is incomplete because a switch needs more scratch
    windows: int
    hops: int
    delivered: int
    finished: int
    tasks_done: int
    under_way: int  # with a program: tasks started and not reported, and timers set
    expected: int  # with a program: flows that have started or start on their own
    slot: int  # with phase-driven circuit switches, the latest slot with a known start
    payload_bytes: Bytes
    last_delivered: FlowId  # list of delivered flows, latest first


class StageTimesRecord(Declared):
    """Wall-clock time of each stage over all windows, in ns (loop.py)."""

    since_ns: int  # start of the current stage
    find_ns: int
    switches_ns: int
    hosts_ns: int
    publish_ns: int
    switch_steps: int
    host_steps: int


class SlotRecord(Declared):
    """A slot of phase-driven circuit switches."""

    control_delay_ps: Ps  # from the end of the previous phase to its start
    night_ps: Ps  # from its start until all its circuits are up
    begin_ps: Ps  # INF until known
    up_ps: Ps  # likewise
    waits_for: int  # undelivered flows of its phase
    done_ps: Ps  # last delivery of its phase
    first_ending: int  # rows of `reconfiguring_ports`: ports whose circuit goes down ...
    first_beginning: int  # ... ports whose circuit comes up ...
    behind: int  # ... and the row past them


class TaskRecord(Declared):
    number: Fixed[int]  # index in the task table; tasks that the engine adds for flows follow
    kind: Fixed[int]
    host: Fixed[HostId]
    flow: Fixed[FlowId]  # of a send or receive task
    duration_ps: Ps
    until_acked: int  # of a send task: 1 if done when the transport finishes the flow
    timer: Fixed[TimerSlot]
    edges: int  # unfinished tasks of this host that it waits for
    pending: int  # the flow's delivery, the previous task of its stream, or the program's start
    in_stream: TaskId  # next task of its stream
    next_done: TaskId  # list of tasks that are done together
    ready_ps: Ps
    start_ps: Ps
    end_ps: Ps


class ProgramTaskRecord(TaskRecord):
    """A task of a run with a program, followed by the program's own fields."""

    of_program: int  # 1 if it belongs to the program
    index: int  # among the program's tasks of its host
    waits_for_start: int  # 1 until the program starts it
    unreported: int  # 1 from its end until the program is notified
    runs: int  # completed runs
    first_start_ps: Ps  # of its first completed run
    busy_ps: Ps  # total over its completed runs
    most_bytes: Bytes  # of a send task, the largest size that may be set; 0 for none


class ProgramHostRecord(Declared):
    """A host of a program, followed by the program's own fields."""

    host: Fixed[HostId]
    n_tasks: Fixed[int]  # of the program on this host
    first_task: Fixed[TaskId]
    first_timer: Fixed[TimerSlot]  # first of the program's own
    first_row: Fixed[int]  # of the log: first row, ...
    next_row: int  # ... next row ...
    end_row: Fixed[int]  # ... and end of the host's rows
    calls: int  # calls of its handlers at one instant ...
    calls_at: Ps  # ... and that instant
    under_way: int  # in this window: tasks started minus reported, timers set minus gone
    begun_flows: int  # in this window: flows started by send tasks


# --- records that handlers of routing algorithms see ----------------------------------------------


class RoutingPortRecord(Declared):
    """A port, as the handlers of the routing algorithm see it."""

    number: Fixed[GlobalPort]
    from_host: Fixed[int]  # 1 if it leads to a host
    draws: int  # random choices for packets that came in by it


class RouterRecord(Declared):
    """A switch, as the handlers of the routing algorithm see it."""

    node: Fixed[NodeId]
    first_port: Fixed[GlobalPort]
    n_ports: Fixed[int]
    group: Fixed[int]  # of its hosts in its network, or -1
    n_groups: Fixed[int]  # of its network ...
    first_group: Fixed[int]  # ... and the first of them
    salt: Fixed[int]  # start of the ECMP hash
    ticks: int  # periods that have ended
