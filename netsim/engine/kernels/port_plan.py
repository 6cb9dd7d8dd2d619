"""Plan in advance what a port of a lossless switch sends in a window.

The plan logs departures of packets from ``candidate_ingresses`` (pause_prediction.py). It uses only
times, sizes and ingresses, and changes only the log. decoupled_switch.py has the same rules and
executes the plan.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import Bytes, GlobalPort, LocalPort, NodeId, Ps
from netsim.engine.kernels.indexing import (
    PFC_FRAME,
    PFC_FRAME_PENDING,
    includes,
    local_ports_of,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.layout import (
    INF,
    MAX_PENDING_PFC,
    SLICES,
    Clock,
    LinkState,
    Net,
    Scratch,
)
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.ports import lowest
from netsim.engine.kernels.specialization_constants import N_CLASSES
from netsim.engine.kernels.switch import INDEX_MASK, KEY_BITS, KEY_MASK
from netsim.model.arithmetic import send_time
from netsim.model.fabric import PFC_FRAME_BYTES

# Bits of ``log_what``: ingress, output port, class and size of a departure.
INGRESS_AT, OUT_AT, CLASS_AT = 40, 20, 16
PORT_MASK, CLASS_MASK, SIZE_MASK = (1 << 20) - 1, (1 << 4) - 1, (1 << 16) - 1

WINDOW_ENDS, PFC_PENDING, ARRIVAL = range(3)


def clear_tallies(net: Net, clock: Clock, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Clear the tallies: bytes in and out per ingress, class and slice of the window."""
    n = (net.first_port[node + 1] - net.first_port[node]) * N_CLASSES
    half = scratch.tallies.shape[1] // 2
    scratch.tallies[worker][:n] = 0
    scratch.tallies[worker][half : half + n] = 0
    shift = 0
    while (clock.clock[0].w1 - clock.clock[0].w0) >> shift >= SLICES:
        shift += 1
    scratch.slice_shift[worker] = shift


def tally(scratch: Scratch, worker: int, entry: int, time: Ps, size: int) -> None:
    """Add ``size`` bytes at a time since the window's start to an entry of the tallies. An entry is
    an ingress and class, of arrivals or departures (`account_of`)."""
    scratch.tallies[worker][entry, time >> scratch.slice_shift[worker]] += size


def account_of(scratch: Scratch, ingress: LocalPort, cls: int) -> int:
    """Return the tally entry for departures of packets from an ingress and class."""
    half: int = scratch.tallies.shape[1] // 2
    return half + int(ingress) * N_CLASSES + cls


def from_outside(
    scratch: Scratch, worker: int, pending: int, pending_end: int, i: int, end: int, span: Ps
) -> tuple[int, int]:
    """Return a port's next external event and its sort key, from its pending frames and arrivals.

    At one time a completion, with its port's number in the lower bits, precedes any arrival.
    ``span`` is the window's length.
    """
    event = WINDOW_ENDS
    key = span << KEY_BITS
    if i < end:
        key = scratch.keys[worker, 0][i]
        event = ARRIVAL
    if pending < pending_end and scratch.pending_pfc_keys[worker][pending] <= key:
        key = scratch.pending_pfc_keys[worker][pending]
        event = PFC_PENDING
    return event, key


def enqueue_planned(scratch: Scratch, worker: int, cls: int, k: int) -> None:
    """Append arrival ``k`` to the planned queue of class ``cls``."""
    planned_queues = scratch.planned_queues[worker]
    scratch.next_in_line[worker][k] = -1
    if planned_queues[cls, 1] < 0:
        planned_queues[cls, 1] = k
    else:
        scratch.next_in_line[worker][planned_queues[cls, 2]] = k
    planned_queues[cls, 2] = k


def dequeue_planned(
    links: LinkState, scratch: Scratch, worker: int, p: GlobalPort, cls: int
) -> tuple[LocalPort, Bytes, bool]:
    """Remove the next packet of class ``cls``; return its ingress, size, and if it was the last."""
    planned_queues = scratch.planned_queues[worker]
    queue = links.queues[queue_of(p, cls)]
    if planned_queues[cls, 0] < queue.tail:
        slot = ring_slot(queue.off, queue.mask, planned_queues[cls, 0])
        ingress = LocalPort(links.ingress[slot])
        planned_queues[cls, 0] += 1
    else:
        k = planned_queues[cls, 1]
        slot = scratch.slots[worker][k]
        ingress = LocalPort(scratch.ins[worker][k])
        planned_queues[cls, 1] = scratch.next_in_line[worker][k]
    empty = planned_queues[cls, 0] == queue.tail and planned_queues[cls, 1] < 0
    return ingress, Bytes(links.pool[slot].size_bytes), empty


def log_departure(
    scratch: Scratch, worker: int, at: int, time: Ps, ingress: LocalPort, out: LocalPort, sent: int
) -> None:
    """Log, at index ``at`` and in the tallies, what port ``out`` completes at ``time``. ``sent`` is
    its class and size: cls << CLASS_AT | size."""
    scratch.log_time[worker][at] = time
    scratch.log_what[worker][at] = int(ingress) << INGRESS_AT | int(out) << OUT_AT | sent
    entry = account_of(scratch, ingress, sent >> CLASS_AT)
    tally(scratch, worker, entry, time, sent & SIZE_MASK)


def undisturbed(scratch: Scratch, worker: int, port: PortRecord, out: LocalPort) -> bool:
    """Return whether no PFC frame concerns a port in this window."""
    if port.paused != 0 or port.tx_class == PFC_FRAME or scratch.n_pending_pfc[worker][out] > 0:
        return False
    owes = scratch.pause_requested[worker][out] >= PFC_FRAME_PENDING
    return not (owes or includes(scratch.pfc_received_ports[worker], 0, out))


def plan_single_class(
    links: LinkState, clock: Clock, scratch: Scratch, worker: int, port: PortRecord, out: LocalPort
) -> int:
    """Plan a port of one class without PFC frames, like `plan_port`."""
    pool = links.pool
    slots = scratch.slots[worker]
    ins = scratch.ins[worker]
    candidate_ingresses = scratch.candidate_ingresses[worker]
    keys = scratch.keys[worker, 0]
    q20 = port.ps_per_byte_q20
    span = clock.clock[0].w1 - clock.clock[0].w0
    at = scratch.log_first[worker][out]
    limit = scratch.log_limit[worker][out]
    free_in = Ps(0)
    size = port.tx_bytes
    ingress = port.tx_ingress
    if size > 0:
        free_in = port.free_at - clock.clock[0].w0
    queue = links.queues[queue_of(port.number, 0)]
    position = queue.head
    i = scratch.starts[worker][out]
    end = scratch.starts[worker][out + 1]
    while free_in < span:
        if size > 0 and includes(candidate_ingresses, 0, ingress):
            if at == limit:
                return -1
            log_departure(scratch, worker, at, free_in, ingress, out, size)
            at += 1
        if position < queue.tail:
            slot = ring_slot(queue.off, queue.mask, position)
            ingress = LocalPort(links.ingress[slot])
            position += 1
        elif i < end:
            k = keys[i] & INDEX_MASK
            free_in = Ps(max(free_in, keys[i] >> KEY_BITS))
            slot = slots[k]
            ingress = LocalPort(ins[k])
            i += 1
        else:
            return at
        size = Bytes(pool[slot].size_bytes)
        free_in += send_time(size, q20)
    return at


def plan_port(
    net: Net,
    links: LinkState,
    clock: Clock,
    scratch: Scratch,
    worker: int,
    node: NodeId,
    out: LocalPort,
) -> int:
    """Log port ``out``'s departures of packets from candidate ingresses. They begin at index
    ``log_first[out]``. Return the index past the last, or -1 if that exceeds ``log_limit[out]``."""
    p = net.first_port[node] + out
    port = links.ports[p]
    w0 = clock.clock[0].w0
    span = clock.clock[0].w1 - w0
    if N_CLASSES == 1 and undisturbed(scratch, worker, port, out):
        return plan_single_class(links, clock, scratch, worker, port, out)
    for c in range(N_CLASSES):
        scratch.planned_queues[worker][c, 0] = links.queues[queue_of(p, c)].head
        scratch.planned_queues[worker][c, 1] = -1
    backlog = port.backlog
    paused = port.paused
    owed = scratch.pause_requested[worker][out] >= PFC_FRAME_PENDING
    free_in = INF
    if port.tx_bytes > 0:
        free_in = port.free_at - w0
    cls = port.tx_class
    size = port.tx_bytes
    ingress = port.tx_ingress
    pending = MAX_PENDING_PFC * out
    pending_end = pending + scratch.n_pending_pfc[worker][out]
    i = scratch.starts[worker][out]
    end = scratch.starts[worker][out + 1]
    candidate_ingresses = scratch.candidate_ingresses[worker]
    at = scratch.log_first[worker][out]
    limit = scratch.log_limit[worker][out]
    while True:
        event, key = from_outside(scratch, worker, pending, pending_end, i, end, span)
        now = key >> KEY_BITS
        if free_in < now or (free_in == now and (key & KEY_MASK) > out):
            now = free_in
            free_in = INF
            if cls != PFC_FRAME and includes(candidate_ingresses, 0, ingress):
                if at == limit:
                    return -1
                log_departure(scratch, worker, at, now, ingress, out, cls << CLASS_AT | size)
                at += 1
        elif event == WINDOW_ENDS:
            return at
        elif event == PFC_PENDING:
            owed = True
            pending += 1
        else:
            k = scratch.keys[worker, 0][i] & INDEX_MASK
            pkt = links.pool[scratch.slots[worker][k]]
            if int(pkt.kind) == PFC:
                paused = int(pkt.aux)
            else:
                enqueue_planned(scratch, worker, int(pkt.prio), k)
                backlog |= 1 << int(pkt.prio)
            i += 1
        if free_in == INF:
            if owed:
                owed = False
                cls = PFC_FRAME
                free_in = Ps(now + send_time(PFC_FRAME_BYTES, port.ps_per_byte_q20))
            elif backlog & ~paused != 0:
                cls = lowest(backlog & ~paused)
                ingress, size, empty = dequeue_planned(links, scratch, worker, p, cls)
                free_in = Ps(now + send_time(size, port.ps_per_byte_q20))
                if empty:
                    backlog &= ~(1 << cls)


def plan_all(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> bool:
    """Plan every active port, without PFC frames; return False if the log is full."""
    at = 0
    for out in local_ports_of(net, node):
        scratch.log_first[worker][out] = at
        scratch.log_limit[worker][out] = scratch.log_time.shape[1]
        arrivals = scratch.starts[worker][out + 1] - scratch.starts[worker][out]
        if arrivals > 0 or includes(links.busy, net.first_word[node], out):
            at = plan_port(net, links, clock, scratch, worker, node, out)
            if at < 0:
                return False
        scratch.log_end[worker][out] = at
        # With frames there are fewer departures. (If there are more, the prediction is
        # discarded.)
        scratch.log_limit[worker][out] = at
    return True
