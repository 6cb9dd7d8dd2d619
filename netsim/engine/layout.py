"""Record types and state groups of the engine: the one place that says what is stored where.

Every state field is int64 (or float64), so that un-jitted runs, where NumPy's own
integer rules apply, compute exactly what the compiled code computes. Packets are
the exception: they are copied at every hop and are packed into 32 bytes; read
their fields through ``int(...)`` before doing arithmetic on them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

INF = 1 << 62
"""A time that never comes."""


Field = str | tuple[str, type] | tuple[str, int]
"""A state field: an int64 called "name", a float64 ("name", float), n int64s ("name", n)."""


def record(*fields: Field, extra: tuple[tuple[str, str], ...] = ()) -> np.dtype:
    """A record of ``fields``, followed by ``extra`` (name, type) ones."""
    return np.dtype([_described(field) for field in fields] + list(extra), align=True)


def _described(field: Field) -> tuple[str, str] | tuple[str, str, tuple[int]]:
    if isinstance(field, str):
        return field, "i8"
    name, kind = field
    if isinstance(kind, int):
        return name, "i8", (kind,)
    return name, "f8"


PACKET_FIELDS = [
    ("time", "i8"),  # when the last bit reaches the far end of the link, ps
    ("flow", "i4"),
    ("seq", "i4"),
    ("dst", "i4"),  # host that the packet travels to
    ("aux", "i4"),  # free for the transport
    ("size_bytes", "u2"),  # bytes on the wire
    ("entropy", "u2"),  # what ECMP hashes besides the flow
    ("kind", "u1"),
    ("prio", "u1"),  # traffic class, 0 is the highest
    ("ecn", "u1"),  # bit 0: congestion experienced; bit 1: echo of it
    ("hops", "u1"),  # links crossed so far
]

PACKET = np.dtype(PACKET_FIELDS, align=True)


def packet_record(*own: Field) -> np.dtype:
    """A packet with a transport's own fields behind the engine's."""
    return np.dtype([*PACKET_FIELDS, *(_described(field) for field in own)], align=True)


PORT = record(
    # The link's ring: slots ring_off .. ring_off + ring_mask of the pool.
    "ring_off",
    "ring_mask",
    "tail",
    "ps_per_byte_q20",
    "delay_ps",
    # The transmitter.
    "free_at",  # when the current transmission ends
    "tx_bytes",  # its size; 0 when idle or already accounted for
    "tx_class",
    "tx_ingress",
    "backlog",  # bit c: a packet of class c waits
    "paused",  # bit c: the neighbour paused class c
    # PFC towards the neighbour.
    "xoff",  # bit c: we want class c paused
    "pfc_due",
    # Trimming's weighted service, and counters of random draws.
    "header_run",
    "coins",
    "ecn_draws",
)

INBOX = record("ring_off", "ring_mask", "head", "tail")
"""Reading side of the ring that feeds a port; ``tail`` moves only between windows."""

BALANCE = record(
    "choices", "data_choices", "other_choices", "salt_random", "salt_data", "salt_other"
)
"""Load-balancing counters of an ingress port."""

QUEUE = record(
    # One cache line for what every packet touches ...
    "off",
    "mask",
    "head",
    "tail",
    "bytes",  # held, the packet in transmission included
    "max_bytes",
    "sent_packets",
    "sent_bytes",
    # ... and one for what is rare.
    "drops",
    "drop_bytes",
    "trims",
    "trim_bytes",
    "marks",
    "pauses",  # asked of the neighbour, as ingress (port, class)
    "paused_since",  # as egress (port, class)
    "paused_ps",
)

FAULT = record("profile", "draws", "first_outage", "last_outage")
"""What goes wrong on the link that a port feeds: its row of the loss table, the draws made,
and its stretch of the outages."""

LOSS = record("packets", "bytes")
"""What the link of a port lost of a class."""

CHARGE = record("bytes", "headroom_used")
"""PFC's account of an ingress port and class: bytes in the switch that came in by it, and
those of them that were admitted since the sender was paused."""

TIMER = record("deadline", "key", "pos", "owner", "code")
"""``key``: the time under which the timer stands in the heap at ``pos`` (-1: not in it).
A deadline that moved later leaves the entry where it is; it is put right when it surfaces."""

TIMER_HOST, TIMER_TX, TIMER_START, TIMER_RX = 0, 16, 31, 32
"""``code`` of a timer: one of these plus its number k; TIMER_START is a flow's start and pacing."""

HOST_FIELDS = (
    "host",
    "port",
    "ps_per_byte_q20",  # of the NIC
    "ctrl_off",
    "ctrl_mask",
    "ctrl_head",
    "ctrl_tail",
    "ready_head",
    "ready_tail",
    "first_timer",
    "heap_off",
    "heap_len",
    "delivered",  # flows whose last byte arrived here in this window
    "finished",  # flows from here that the transport called finished in this window
    "done_head",  # list of flows delivered here in this window
    "sent_packets",
    "sent_bytes",
    "received_packets",
    "received_bytes",
    "payload_bytes",  # delivered to the application in this window
    "n_timers",
    "doing",  # the handler that runs, or ran last in this step, by its number (handlers.py)
    "fault",  # the rule that it broke (rules.py) ...
    "fault_value",  # ... with what
)

FLOW_FIELDS = (
    "flow",
    "transport",  # which one of the run's transports
    "host",  # the host this side lives on
    "peer",  # the host at the other end
    "size_bytes",
    "n_packets",
    "last_bytes",  # payload of the last packet
    "entropy",
    "prio",  # class of the flow's data
    "first_timer",
    "bits",  # first word of this side's bitmaps
    "bits_end",  # the word behind them
)

TX_FIELDS = (
    *FLOW_FIELDS,
    "next_ready",
    "listed",
    "rank",  # place on the ready list: smaller ones go first
    "finished",
    "start_ps",
    "acked_ps",
    "sent_packets",
    "retransmits",
    "high_seq",  # the number behind the highest that was sent
    "skipped",  # data packets below it that were not; a bitmap of them begins at bits_end
    "base_rtt_ps",  # data packet out, control packet back, on empty links
    "bdp_bytes",  # of the path, in bytes on the wire
    "ps_per_byte_q20",  # of the NIC
    "waits_for",  # flows that must be delivered before this one starts
    "ready_from",  # the latest of their delivery times
)

RX_FIELDS = (*FLOW_FIELDS, "got_bytes", "done_ps", "next_done")

FABRIC = record(
    "seed",
    "queue_bytes",
    "header_queue_bytes",
    "header_ratio",
    "kmin_bytes",
    "kmax_bytes",
    "xoff_bytes",
    "xon_bytes",
    "headroom_bytes",
    "shared_buffer_bytes",
    "xon_gap_bytes",
    "ecn_from_class",
    "control_bytes",
    extra=(("pmax", "f8"), ("alpha", "f8")),
)

PARAMETER_FIELDS = (
    "payload_bytes",
    "header_bytes",
    "control_bytes",
    "seed",
    "first_host_timer",  # of this transport, among those of a host
)
"""What every transport finds among its parameters besides its own."""

CLOCK = record(
    "w0",
    "w1",
    "lookahead_ps",
    "window_ps",
    "n_active",
    "resume",  # the last window is not complete: nodes asked for growth
    "windows",
    "hops",
    "delivered",
    "finished",
    "payload_bytes",
)

UNFINISHED = -1
"""Status of a node whose step has not ended."""

OK, GROW_RING, GROW_CONTROL, GROW_SCRATCH, BROKEN = range(5)
"""Why a step ended early: rings of links or queues (see ``link_need``, ``queue_need``), the
host's control FIFO, or scratch (``what`` says how much) are too small, or a handler broke
a rule."""

RUNNING, DONE, IDLE, UNTIL, GROW = range(5)
"""Why a run of windows ended."""


class Net(NamedTuple):
    """The network, constant during a run."""

    n_hosts: int
    n_groups: int
    first_port: Array  # int64[n_nodes + 1]
    port_node: Array  # int32[n_ports]
    port_peer: Array  # int32[n_ports]
    host_group: Array  # int32[n_hosts]
    host_port: Array  # int32[n_hosts]
    route: Array  # int64[n_switches * n_groups], offset << 16 | count
    route_ports: Array  # int32[...], local ports
    node_salt: Array  # int64[n_nodes], start of the ECMP hash


class Wires(NamedTuple):
    """Packets, and the rings and queues that hold them."""

    pool: Array  # packets: PACKET, and the transport's own fields
    blank: Array  # one packet of zeros
    ingress: Array  # int32[...]: ingress port of a queued packet; one slot unless lossless
    ports: Array  # PORT[n_ports]
    inbox: Array  # INBOX[n_ports]
    balance: Array  # BALANCE[n_ports]
    queues: Array  # QUEUE[n_ports * n_classes]
    charges: Array  # CHARGE[n_ports * n_classes], lossless fabrics only
    used_bytes: Array  # int64[n_nodes]: bytes held in a switch (lossless)
    head_seen: Array  # int64[n_ports]: how far the far end had read at the window's start
    new_tail: Array  # int64[n_ports]: end of the link's ring, to be published
    first_new: Array  # int64[n_ports]: first arrival time sent in this window, or INF
    link_need: Array  # int64[n_ports]: slots that the link's ring should have, 0 if it will do
    queue_need: Array  # int64[n_ports * n_classes]: likewise for the class queues
    fabric: Array  # FABRIC[1]
    faults: Array  # FAULT[n_ports], if any link has faults
    losses: Array  # LOSS[n_ports * n_classes], likewise
    trace: Any  # trace.Trace; without tracing an array that is not used
    loss_table: Array  # int64[profiles, 2**16]: chance of loss by size, in 2**-32
    outages: Array  # int64[..., 2]: from when until when a link is down, ps


class Ends(NamedTuple):
    """Hosts and flows. Record types depend on the transport's declared fields."""

    hosts: Array
    tx: Array
    rx: Array
    timers: Array  # TIMER[...]
    heap: Array  # int64[...]: timer slots, one binary heap per host
    bits: Array  # int64[...]: bitmaps, 32 bits used of each word
    par: Array  # parameters of the (first) transport, one record ...
    par1: Array  # ... and of the other transports of the run
    par2: Array
    par3: Array
    next_flow: Array  # int64[n_flows + 1]: CSR of flows that wait for a flow ...
    next_flows: Array  # int64[...]: ... and who they are


class Clock(NamedTuple):
    """Where the run stands."""

    clock: Array  # CLOCK[1]
    next_event: Array  # int64[n_nodes]
    active: Array  # int64[n_nodes]
    status: Array  # int64[n_nodes]
    what: Array  # int64[n_nodes]
    tickets: Array  # int64[1]: active nodes that workers have taken in this window


class Scratch(NamedTuple):
    """Working memory of one step, a row per worker."""

    keys: Array  # int64[workers, 2, capacity]
    slots: Array  # int64[workers, capacity]
    outs: Array  # int32[workers, capacity]
    buckets: Array  # int64[workers, N_BUCKETS + 1]
    starts: Array  # int64[workers, max ports of a node + 2]
    undo: Array  # int64[workers, 4 * max ports]
    calendar: Array  # int64[workers, N_BUCKETS]
    later: Array  # int64[workers, max ports]
    words: Array  # int64[workers, N_BUCKETS / 32]


N_BUCKETS = 1024
"""Time slots into which one window's events are sorted."""
