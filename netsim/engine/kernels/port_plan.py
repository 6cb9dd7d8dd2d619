"""What a port of a lossless switch will have sent by when in a window, before it does it.

Of that are logged departures of packets whose ingress may matter (pause_plan.py).

Nothing but times, sizes and who a packet came in by are looked at, and nothing is changed but the
log of departures. How a port gets there is as in loose_switch.py, which does it then.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import Bytes, GlobalPort, LocalPort, NodeId, Ps
from netsim.engine.kernels.layout import INF, MOST_DUES, SLICES, Clock, LinkState, Net, Scratch
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.places import FRAME_DUE, PFC_FRAME, local_ports_of, queue_of, ring_slot
from netsim.engine.kernels.port_sets import includes
from netsim.engine.kernels.ports import lowest
from netsim.engine.kernels.specialization_constants import N_CLASSES
from netsim.engine.kernels.turns import INDEX_MASK, KEY_BITS, KEY_MASK
from netsim.model.arithmetic import send_time
from netsim.model.fabric import PFC_FRAME_BYTES

# What the log has of a departure besides its time: ingress, output port, class and size.
INGRESS_AT, OUT_AT, CLASS_AT = 40, 20, 16
PORT_MASK, CLASS_MASK, SIZE_MASK = (1 << 20) - 1, (1 << 4) - 1, (1 << 16) - 1

WINDOW_ENDS, FRAME_OWED, ARRIVAL = range(3)


def clear_tallies(net: Net, clock: Clock, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Begin to add up what comes and leaves by each ingress in each part of the window."""
    n = (net.first_port[node + 1] - net.first_port[node]) * N_CLASSES
    half = scratch.tallies.shape[1] // 2
    scratch.tallies[worker][:n] = 0
    scratch.tallies[worker][half : half + n] = 0
    shift = 0
    while (clock.clock[0].w1 - clock.clock[0].w0) >> shift >= SLICES:
        shift += 1
    scratch.slice_shift[worker] = shift


def tally(scratch: Scratch, worker: int, entry: int, time: Ps, size: int) -> None:
    """Add ``size`` bytes, at a time since the window's beginning, to an entry of the tallies.

    That is for what comes in by an ingress in a class, or for what leaves again (`account_of`).
    """
    scratch.tallies[worker][entry, time >> scratch.slice_shift[worker]] += size


def account_of(scratch: Scratch, ingress: LocalPort, cls: int) -> int:
    """The entry of the tallies for what leaves that came in by an ingress in a class."""
    half: int = scratch.tallies.shape[1] // 2
    return half + int(ingress) * N_CLASSES + cls


def from_outside(
    scratch: Scratch, worker: int, due: int, dues_end: int, i: int, end: int, span: Ps
) -> tuple[int, int]:
    """What comes next to a port that has the dues and arrivals from ``due`` and ``i`` on, and when.

    That is a sort key, whose lower part gives the order at one time: a completion has the number of
    its port there, which is less than that of any arrival. The window is ``span`` long.
    """
    event = WINDOW_ENDS
    key = span << KEY_BITS
    if i < end:
        key = scratch.keys[worker, 0][i]
        event = ARRIVAL
    if due < dues_end and scratch.due_keys[worker][due] <= key:
        key = scratch.due_keys[worker][due]
        event = FRAME_OWED
    return event, key


def join_line(scratch: Scratch, worker: int, cls: int, k: int) -> None:
    """Arrival ``k`` is queued in class ``cls`` of the port that is being planned."""
    lines = scratch.lines[worker]
    scratch.behind[worker][k] = -1
    if lines[cls, 1] < 0:
        lines[cls, 1] = k
    else:
        scratch.behind[worker][lines[cls, 2]] = k
    lines[cls, 2] = k


def leave_line(
    links: LinkState, scratch: Scratch, worker: int, p: GlobalPort, cls: int
) -> tuple[LocalPort, Bytes, bool]:
    """Ingress and size of the packet that leaves class ``cls``; and whether none is behind it."""
    lines = scratch.lines[worker]
    queue = links.queues[queue_of(p, cls)]
    if lines[cls, 0] < queue.tail:
        slot = ring_slot(queue.off, queue.mask, lines[cls, 0])
        ingress = LocalPort(links.ingress[slot])
        lines[cls, 0] += 1
    else:
        k = lines[cls, 1]
        slot = scratch.slots[worker][k]
        ingress = LocalPort(scratch.ins[worker][k])
        lines[cls, 1] = scratch.behind[worker][k]
    empty = lines[cls, 0] == queue.tail and lines[cls, 1] < 0
    return ingress, Bytes(links.pool[slot].size_bytes), empty


def log_departure(
    scratch: Scratch, worker: int, at: int, time: Ps, ingress: LocalPort, out: LocalPort, sent: int
) -> None:
    """Note, at place ``at`` of the log and in the tallies, what port ``out`` completes at ``time``.

    ``sent`` is its class and size: cls << CLASS_AT | size.
    """
    scratch.log_time[worker][at] = time
    scratch.log_what[worker][at] = int(ingress) << INGRESS_AT | int(out) << OUT_AT | sent
    entry = account_of(scratch, ingress, sent >> CLASS_AT)
    tally(scratch, worker, entry, time, sent & SIZE_MASK)


def undisturbed(scratch: Scratch, worker: int, port: PortRecord, out: LocalPort) -> bool:
    """Does a port have nothing to do with PFC frames in this window?"""
    if port.paused != 0 or port.tx_class == PFC_FRAME or scratch.n_dues[worker][out] > 0:
        return False
    owes = scratch.asked[worker][out] >= FRAME_DUE
    return not (owes or includes(scratch.framed[worker], 0, out))


def plan_line(
    links: LinkState, clock: Clock, scratch: Scratch, worker: int, port: PortRecord, out: LocalPort
) -> int:
    """`plan_port` for a port of one class that neither gets, sends nor owes a PFC frame."""
    pool = links.pool
    slots = scratch.slots[worker]
    ins = scratch.ins[worker]
    mattering = scratch.mattering[worker]
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
        if size > 0 and includes(mattering, 0, ingress):
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
    """Log what port ``out`` completes in the window of what came in by ingresses that may matter.

    From place ``log_first[out]`` on. Returns the place behind it, or -1 if that would be beyond
    ``log_limit[out]``.
    """
    p = net.first_port[node] + out
    port = links.ports[p]
    w0 = clock.clock[0].w0
    span = clock.clock[0].w1 - w0
    if N_CLASSES == 1 and undisturbed(scratch, worker, port, out):
        return plan_line(links, clock, scratch, worker, port, out)
    for c in range(N_CLASSES):
        scratch.lines[worker][c, 0] = links.queues[queue_of(p, c)].head
        scratch.lines[worker][c, 1] = -1
    backlog = port.backlog
    paused = port.paused
    owed = scratch.asked[worker][out] >= FRAME_DUE
    free_in = INF
    if port.tx_bytes > 0:
        free_in = port.free_at - w0
    cls = port.tx_class
    size = port.tx_bytes
    ingress = port.tx_ingress
    due = MOST_DUES * out
    dues_end = due + scratch.n_dues[worker][out]
    i = scratch.starts[worker][out]
    end = scratch.starts[worker][out + 1]
    mattering = scratch.mattering[worker]
    at = scratch.log_first[worker][out]
    limit = scratch.log_limit[worker][out]
    while True:
        event, key = from_outside(scratch, worker, due, dues_end, i, end, span)
        now = key >> KEY_BITS
        if free_in < now or (free_in == now and (key & KEY_MASK) > out):
            now = free_in
            free_in = INF
            if cls != PFC_FRAME and includes(mattering, 0, ingress):
                if at == limit:
                    return -1
                log_departure(scratch, worker, at, now, ingress, out, cls << CLASS_AT | size)
                at += 1
        elif event == WINDOW_ENDS:
            return at
        elif event == FRAME_OWED:
            owed = True
            due += 1
        else:
            k = scratch.keys[worker, 0][i] & INDEX_MASK
            pkt = links.pool[scratch.slots[worker][k]]
            if int(pkt.kind) == PFC:
                paused = int(pkt.aux)
            else:
                join_line(scratch, worker, int(pkt.prio), k)
                backlog |= 1 << int(pkt.prio)
            i += 1
        if free_in == INF:
            if owed:
                owed = False
                cls = PFC_FRAME
                free_in = Ps(now + send_time(PFC_FRAME_BYTES, port.ps_per_byte_q20))
            elif backlog & ~paused != 0:
                cls = lowest(backlog & ~paused)
                ingress, size, empty = leave_line(links, scratch, worker, p, cls)
                free_in = Ps(now + send_time(size, port.ps_per_byte_q20))
                if empty:
                    backlog &= ~(1 << cls)


def plan_all(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> bool:
    """Plan every port that has something to do, without dues; False if the log is full."""
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
        # With frames there are fewer; if there were more, small ones of a class that goes first,
        # they would not be taken.
        scratch.log_limit[worker][out] = at
    return True
