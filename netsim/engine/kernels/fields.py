"""The engine's records: the fields of a packet, a port, a queue, a host, a flow.

`layout.py` turns each class into a NumPy type; no instance is ever made. mypy takes an entry of an
array of records for one, so an unknown field or a number of the wrong kind (`ids.py`) is an error.

Every field of state is int64 (or float64), so plain Python, under NumPy's integer rules, computes
exactly what compiled code does. Packets are copied at every hop, so they are packed into 32 bytes:
make an ``int`` (`Bytes`, a `FlowId`, ...) of their fields before doing arithmetic on them.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.ids import (
    I4,
    U1,
    U2,
    Bytes,
    FlowId,
    GlobalPort,
    HostId,
    LocalPort,
    NicId,
    Ps,
    Slot,
    TimerSlot,
)


class Declared:
    """Base of the classes that declare records; each annotation is a field, in this order."""

    def __getitem__(self, field: str) -> Any:
        raise TypeError("records are entries of arrays")


class PacketRecord(Declared):
    time: Ps  # when the last bit reaches the far end of the link
    flow: I4
    seq: I4
    dst: I4  # address that the packet travels to
    aux: I4  # free for the transport
    size_bytes: U2  # bytes on the wire
    entropy: U2  # what ECMP hashes besides the flow
    kind: U1
    prio: U1  # traffic class, 0 is the highest
    ecn: U1  # bit 0: congestion experienced; bit 1: echo of it
    hops: U1  # links crossed so far


class PortRecord(Declared):
    number: GlobalPort
    # The link's ring: slots ring_off .. ring_off + ring_mask of the pool.
    ring_off: Slot
    ring_mask: int
    tail: int
    ps_per_byte_q20: int
    delay_ps: Ps
    # The transmitter.
    free_at: Ps  # when the current transmission ends
    tx_bytes: Bytes  # its size; 0 when idle or already accounted for
    tx_class: int  # its class, or PFC_FRAME or WAITS (indexing.py)
    tx_ingress: LocalPort  # by which its packet came in, where a discipline asks
    backlog: int  # bit c: a packet of class c waits
    paused: int  # bit c: the neighbor paused class c
    pause_requested: int  # bit c: of class c; bit PFC_FRAME_PENDING: the frame is still to be sent
    ecn_draws: int
    # Of all classes, as `on_forward` of a transport finds them; set for it alone.
    held_bytes: Bytes
    sent_bytes: Bytes


class LinkReaderRecord(Declared):
    """Reading side of the ring that feeds a port; ``tail`` moves only between windows."""

    ring_off: Slot
    ring_mask: int
    head: int
    tail: int
    packet_ps: Ps  # send time of a full data packet; this and order_salt are for arrival_order.py
    order_salt: int


class BalanceRecord(Declared):
    """Load-balancing counters of an ingress port."""

    choices: int
    data_choices: int
    other_choices: int
    salt_random: int
    salt_data: int
    salt_other: int


class QueueRecord(Declared):
    # One cache line for what every packet touches ...
    off: Slot
    mask: int
    head: int
    tail: int
    bytes: Bytes  # held, the packet in transmission included
    max_bytes: Bytes
    sent_packets: int
    sent_bytes: Bytes
    # ... and one for what is rare.
    drops: int
    drop_bytes: Bytes
    trims: int
    trim_bytes: Bytes
    ecn_marks: int
    pfc_pauses: int  # asked of the neighbor, as ingress (port, class)
    paused_since: Ps  # as egress (port, class)
    paused_ps: Ps


class FaultRecord(Declared):
    """What goes wrong on the link that a port feeds: its row of the loss table now, the draws made,
    the outage that is next or under way, and the interval that holds."""

    profile: int
    draws: int
    outage: int
    last_outage: int
    interval: int
    last_interval: int


class CircuitRecord(Declared):
    """When a port may send into its circuit: rows of `days` of one period, in the port's own time,
    and the current or next of them. Ports that feed no circuit: always."""

    first_up: int  # days at the circuit switch ...
    last_up: int
    first_start: int  # ... and when the port may start to send
    last_start: int
    period_ps: Ps
    up_ps: Ps
    down_ps: Ps
    opens_ps: Ps
    closes_ps: Ps
    fiber: int  # where INDIRECT: the port's fiber, of all; or -1


class FiberRecord(Declared):
    """A switch's fiber to a circuit switch. One of its ports at a time may start to send, for the
    day in `days`, from row ``first_day`` on; ``day`` is the current or next one."""

    first_day: int
    last_day: int
    period_ps: Ps
    day: int
    period_offset_ps: Ps  # added to the times of its row
    port: LocalPort
    opens_ps: Ps
    closes_ps: Ps


class FaultIntervalRecord(Declared):
    """What a link is like from a time on, for transmissions that start then."""

    start_ps: Ps
    profile: int  # row of the loss table
    ps_per_byte_q20: int


class LossRecord(Declared):
    """What the link of a port lost of a class, and what came in by the port without a route."""

    packets: int
    bytes: Bytes
    no_circuit_packets: int  # of them those that met no circuit
    no_circuit_bytes: Bytes
    unroutable_packets: int
    unroutable_bytes: Bytes


class SwitchRecord(Declared):
    """A switch, as the handlers of its queue discipline find it."""

    handler: int  # current or last handler of this step (queue_handlers.py)
    admitted_at_ingress: int  # 1: `on_arrival` accepted the arriving packet; it waits for room
    holds_packet: int  # 1: `admit` removed a waiting packet and has not enqueued or dropped it
    held_packet_ingress: LocalPort  # the port that packet came in by
    enqueued_classes: int  # bit c: `admit` enqueued one to class c
    first_port: GlobalPort
    first_word: int  # of its sets of ports
    mode: int  # how its ports are being simulated: one of indexing.py
    first_fiber: int  # where INDIRECT: its fibers ...
    last_fiber: int
    indirect_from: LocalPort  # the last port whose packet another port sent ...
    indirect_by: LocalPort  # ... the port that sent it ...
    n_indirect: int  # ... and how many were sent so
    next_wakeup_ps: Ps  # of the ports that wait (wakeups.py)
    rule_broken: int  # number of the rule (rules.py), or 0
    breaking_handler: int
    breaking_value: int


class LevelRecord(Declared):
    """A queue of which more is kept (series.py): what it held until ``since_ps``, and changes."""

    since_ps: Ps
    due_ps: Ps  # end of the interval that is under way; INF if there are no intervals
    row: int  # of the samples, for that interval
    peak_bytes: Bytes  # in it
    area_high: int  # bytes held, times picoseconds, until then: in units of 2**24 ...
    area_low: int  # ... and the rest
    moment: int  # bytes that came since, less those that left, each times when, counted from then
    first_bin: int  # of the times at each level


class SampleRecord(Declared):
    """What a queue was like when an interval ended; all but the maximum since the run began."""

    area_high: int
    area_low: int
    max_bytes: Bytes  # within the interval
    sent_bytes: Bytes
    drops: int
    trims: int
    ecn_marks: int
    paused_ps: Ps


class SeriesClockRecord(Declared):
    interval_ps: Ps
    end_ps: Ps  # up to which there is room for samples; INF if there are none
    n_rows: int  # samples of an interval: queues ...
    n_watched: int  # ... and records of hosts and flows


class TimerRecord(Declared):
    """``key``: the time under which the timer stands in the heap at ``pos`` (-1: not in it).
    A deadline that moved later leaves the entry where it is; it is put right when it surfaces."""

    deadline: Ps
    key: Ps
    pos: int
    owner: int  # a flow, a host for its own, or a task
    code: int


class HostRecord(Declared):
    """A NIC of a host and what is on it; a host with several has as many of these."""

    host: HostId
    nic: NicId
    port: GlobalPort  # the first one of the host
    ps_per_byte_q20: int  # of the NIC's ports together
    first_timer: TimerSlot  # of the NIC's own
    heap_off: int  # of the host's heap
    delivered: int  # flows whose last byte arrived here in this window
    finished: int  # flows from here that the transport called finished in this window
    done_head: FlowId  # list of flows delivered here in this window
    sent_packets: int
    sent_bytes: Bytes
    received_packets: int
    received_bytes: Bytes
    tasks_done: int  # in this window
    payload_bytes: Bytes  # delivered to the application ...
    counted_bytes: Bytes  # ... of which the clock has counted so many
    n_timers: int
    now_ps: Ps  # of what is being done, where hosts notice loss of carrier
    handler: int  # current or last handler of this step (handlers.py)
    rule_broken: int  # number of the rule (rules.py), or 0
    breaking_handler: int
    breaking_value: int


class HostPortRecord(Declared):
    """What waits at a host's port: a FIFO of control packets, the list of flows that are ready."""

    ctrl_off: Slot
    ctrl_mask: int
    ctrl_head: int
    ctrl_tail: int
    ready_head: FlowId
    ready_tail: FlowId
    # Where hosts have several ports (several_ports.py):
    nic: NicId  # the port's
    n_ready: int  # flows on the list
    checked: int  # end of what has been looked at of the FIFO
    stuck: int  # every flow on the list is paused


class PortChoiceRecord(Declared):
    """Port pairs of one side of a flow (port_pairs.py), where hosts have several ports."""

    nic: NicId  # the one that it is on
    first_pair: int
    n_pairs: int
    port_pair: int  # of them the one that the next data packet takes
    sent_control: int  # control packets queued so far
    salt_data: int  # of permutations; with HASH the number that chooses the port pair
    salt_control: int


class FlowRecord(Declared):
    """What both sides of a flow have."""

    flow: FlowId
    transport: int  # which one of the run's transports
    host: HostId  # the host this side lives on
    peer: HostId  # the host at the other end
    size_bytes: Bytes
    n_packets: int
    last_bytes: Bytes  # payload of the last packet
    entropy: int
    prio: int  # class of the flow's data
    first_timer: TimerSlot
    bits: int  # first word of this side's bitmaps
    bits_end: int  # the word behind them
    port_choice: (
        int  # its PortChoiceRecord; with one port a host and several routing tables, its port pair
    )


class TxRecord(FlowRecord):
    next_ready: FlowId
    listed: int
    rank: int  # place on the ready list: smaller ones go first
    finished: int
    start_ps: Ps
    acked_ps: Ps
    sent_packets: int
    sent_bytes: Bytes  # on the wire; counted where series are kept
    retransmits: int
    high_seq: int  # the number behind the highest that was sent
    skipped: int  # data packets below it that were not; a bitmap of them begins at bits_end
    base_rtt_ps: Ps  # data packet out, control packet back, on empty links
    bdp_bytes: Bytes  # of its paths together, in bytes on the wire
    ps_per_byte_q20: int  # of the ports that the flow uses together
    waits_for: int  # flows that must be delivered before this one starts
    ready_from: Ps  # the latest of their delivery times


class RxRecord(FlowRecord):
    received_bytes: Bytes
    done_ps: Ps
    next_done: FlowId


class FabricRecord(Declared):
    """What the engine itself reads of [fabric]."""

    seed: int
    kmin_bytes: Bytes
    kmax_bytes: Bytes
    ecn_from_class: int
    pmax: float
    indirect_class: int


class CommonParameters(Declared):
    """What transports and queue disciplines find among their parameters besides their own."""

    payload_bytes: Bytes
    header_bytes: Bytes
    control_bytes: Bytes
    seed: int


class ParameterRecord(CommonParameters):
    """Those of a transport."""

    first_host_timer: int  # of this transport, among those of a host
    pair_by_entropy: int  # does `tx.entropy` say by which port the next packet leaves?


class ClockRecord(Declared):
    w0: Ps
    w1: Ps
    lookahead_ps: Ps
    window_ps: Ps
    n_active: int
    resume: int  # the last window is not complete: nodes asked for growth
    windows: int
    hops: int
    delivered: int
    finished: int
    tasks_done: int
    under_way: int  # of a program: tasks begun and not yet done and told, and timers that are set
    expected: int  # with a program: flows that have begun, or will by themselves
    slot: int  # of phase-driven circuit switches, the last one of which it is known when it begins
    payload_bytes: Bytes


class StageTimesRecord(Declared):
    """What the parts of all windows took, in nanoseconds of the computer's clock (profile.py)."""

    since_ns: int  # when the part that is being measured began
    find_ns: int
    switches_ns: int
    hosts_ns: int
    publish_ns: int
    switch_steps: int
    host_steps: int
