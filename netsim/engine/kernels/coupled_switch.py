"""A switch whose ports are coupled: arrivals and completions in the time order of the whole switch.

Used where one port's state decides at another (PFC's ingress counters, a shared
buffer, least-loaded routing). Arrivals are sorted once per window; completions wait
in a calendar (calendar.py). Every event leaves consistent state behind, so a step can
stop before an event that needs a larger ring and be called again.
"""

from __future__ import annotations

from netsim.engine.kernels.balance import has_route, lose_way, output_port, undo_choice
from netsim.engine.kernels.calendar import (
    WORD,
    Step,
    calendar_add,
    calendar_first,
    calendar_take,
    open_step,
)
from netsim.engine.kernels.faults import renew_link
from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.holes import DYNAMIC, FAULTS, LOSSLESS, N_CLASSES, TRACE
from netsim.engine.kernels.ids import NO_PORT, Bytes, GlobalPort, LocalPort, NodeId, Ps, Slot
from netsim.engine.kernels.layout import (
    GROW_POOL,
    GROW_SCRATCH,
    INF,
    OK,
    Clock,
    Net,
    Scratch,
    Wires,
)
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.places import queue_of, ring_slot
from netsim.engine.kernels.port_sets import exclude, include, next_port
from netsim.engine.kernels.ports import (
    arrive,
    choose_class,
    drop,
    hold,
    launch,
    retire,
    set_paused,
    transmit,
)
from netsim.engine.kernels.rings import lengthen_link, lengthen_queue
from netsim.engine.kernels.switch import (
    KEY_BITS,
    KEY_MASK,
    gather,
    settle_reading,
    sort_by_time,
)
from netsim.engine.kernels.trace import ARRIVED, DROPPED, trace_packet
from netsim.model.arithmetic import send_time
from netsim.model.fabric import PFC_FRAME_BYTES


def begin(wires: Wires, step: Step, out: LocalPort, now: Ps) -> None:
    """Start what local port ``out`` should send, if it is free; a due PFC frame first."""
    p = step.first + out
    port = wires.ports[p]
    if port.tx_bytes > 0:
        return
    if LOSSLESS and port.pfc_due == 1:
        port.pfc_due = 0
        send_pfc(wires, port, p, now)
    else:
        cls = choose_class(wires, port)
        if cls < 0:
            return
        transmit(wires, port, p, cls, now)
    started(wires, step, out)


def started(wires: Wires, step: Step, out: LocalPort) -> None:
    """Note that local port ``out`` transmits, and if that ends in this window, when."""
    include(wires.busy, step.first_word, out)
    if wires.ports[step.first + out].free_at < step.w1:
        calendar_add(wires, step, out)


def begin_if_due(wires: Wires, step: Step, out: LocalPort, now: Ps) -> None:
    """Start local port ``out`` if it owes its neighbour a PFC frame."""
    if wires.ports[step.first + out].pfc_due == 1:
        begin(wires, step, out, now)


def send_pfc(wires: Wires, port: PortRecord, p: GlobalPort, now: Ps) -> None:
    """Transmit a PFC frame with the pause state of all classes."""
    if FAULTS:
        renew_link(wires, port, p, now)
    pkt = wires.pool[ring_slot(port.ring_off, port.ring_mask, port.tail)]
    pkt.flow = -1
    pkt.seq = 0
    pkt.dst = -1
    pkt.aux = port.xoff
    pkt.size_bytes = PFC_FRAME_BYTES
    pkt.entropy = 0
    pkt.kind = PFC
    pkt.prio = 0
    pkt.ecn = 0
    pkt.hops = 1
    end = now + send_time(PFC_FRAME_BYTES, port.ps_per_byte_q20)
    pkt.time = end + port.delay_ps
    port.tail += 1
    port.free_at = end
    port.tx_bytes = Bytes(PFC_FRAME_BYTES)
    port.tx_class = -1


def xoff_threshold(wires: Wires, node: NodeId) -> float:
    """Bytes of an ingress class above which its sender is paused.

    The fraction that the model cuts off makes no difference to whole numbers compared with it.
    """
    fabric = wires.fabric[0]
    if DYNAMIC:
        free = max(0, fabric.shared_buffer_bytes - wires.used_bytes[node])
        return fabric.alpha * free
    return fabric.xoff_bytes


def overruns(wires: Wires, p_in: GlobalPort, cls: int, size: Bytes) -> bool:
    """Does an arrival exceed the headroom for what comes in after the sender was paused?"""
    if (wires.ports[p_in].xoff >> cls) & 1 == 0:
        return False
    used = wires.charges[queue_of(p_in, cls)].headroom_used
    return used + size > wires.fabric[0].headroom_bytes


def account_arrival(wires: Wires, node: NodeId, p_in: GlobalPort, cls: int, size: Bytes) -> None:
    """Charge an arrival to its ingress class; pause the sender above XOFF."""
    charge = wires.charges[queue_of(p_in, cls)]
    charge.bytes += size
    wires.used_bytes[node] += size
    port = wires.ports[p_in]
    if (port.xoff >> cls) & 1 == 1:
        charge.headroom_used += size
    elif charge.bytes > xoff_threshold(wires, node):
        port.xoff |= 1 << cls
        port.pfc_due = 1
        charge.headroom_used = Bytes(0)
        wires.queues[queue_of(p_in, cls)].pauses += 1


def account_departure(wires: Wires, node: NodeId, p_in: GlobalPort, cls: int, size: Bytes) -> None:
    """Give back an ingress class's bytes; un-pause the sender below XON."""
    charge = wires.charges[queue_of(p_in, cls)]
    charge.bytes -= size
    wires.used_bytes[node] -= size
    port = wires.ports[p_in]
    if (port.xoff >> cls) & 1 == 0:
        return
    # An empty class must not stay paused: no later event would look at it again.
    resume = charge.bytes == 0
    if DYNAMIC:
        room = xoff_threshold(wires, node) - wires.fabric[0].xon_gap_bytes
        resume = resume or charge.bytes <= room
    else:
        resume = resume or charge.bytes < wires.fabric[0].xon_bytes
    if resume:
        port.xoff &= ~(1 << cls)
        port.pfc_due = 1


def complete(wires: Wires, step: Step, out: LocalPort) -> None:
    """The transmission of local port ``out`` ends: free its bytes, go on with the next."""
    p = step.first + out
    port = wires.ports[p]
    now = port.free_at
    cls = port.tx_class
    owed = NO_PORT
    if cls < 0:
        port.tx_bytes = Bytes(0)
    else:
        size = port.tx_bytes
        retire(wires, port, p)
        if LOSSLESS:
            owed = port.tx_ingress
            account_departure(wires, step.node, step.first + owed, cls, size)
    begin(wires, step, out, now)
    if owed >= 0:
        begin_if_due(wires, step, owed, now)


def ring_full(wires: Wires, p: GlobalPort) -> bool:
    """Make room on the link of port ``p`` for a packet and a PFC frame, sent in one event.

    True if there is none, and the pool is used up.
    """
    port = wires.ports[p]
    need = port.tail - wires.head_seen[p] + 2
    return need > port.ring_mask + 1 and not lengthen_link(wires, port, p, need)


def admit(net: Net, wires: Wires, step: Step, ingress: LocalPort, slot: Slot, now: Ps) -> int:
    """The packet in pool slot ``slot`` arrives by local port ``ingress``.

    Returns GROW_POOL, and nothing has changed, if there is no room for it.
    """
    p_in = step.first + ingress
    pkt = wires.pool[slot]
    if ring_full(wires, p_in):
        return GROW_POOL
    if LOSSLESS and int(pkt.kind) == PFC:
        set_paused(wires, wires.ports[p_in], p_in, int(pkt.aux), now)
        begin(wires, step, ingress, now)
        return OK
    if FAULTS:
        if not has_route(net, step.node, pkt):
            lose_way(wires, p_in, slot)
            return OK
    size = Bytes(pkt.size_bytes)
    cls = int(pkt.prio)
    if LOSSLESS and overruns(wires, p_in, cls, size):
        drop(wires.queues[queue_of(p_in, cls)], size)
        if TRACE:
            held = wires.charges[queue_of(p_in, cls)].bytes
            trace_packet(wires, DROPPED, p_in, slot, now, held)
        return OK
    out = output_port(net, wires, step.node, p_in, slot)
    p = step.first + out
    if not room_at(wires, p):
        undo_choice(net, wires, step.node, p_in, slot)
        return GROW_POOL
    port = wires.ports[p]
    if not LOSSLESS:
        idle = port.tx_bytes == 0
        arrive(wires, port, p, slot, now)
        if idle and port.tx_bytes > 0:
            started(wires, step, out)
        return OK
    account_arrival(wires, step.node, p_in, cls, size)
    queue = wires.queues[queue_of(p, cls)]
    if port.tx_bytes == 0 and port.pfc_due == 0 and port.backlog == 0:
        if (port.paused >> cls) & 1 == 0:
            # Nothing to wait for: straight from the incoming ring to the outgoing one (and with
            # nothing held there is nothing to mark).
            if TRACE:
                trace_packet(wires, ARRIVED, p, slot, now, queue.bytes)
            hold(queue, size)
            launch(wires, port, p, cls, slot, ingress, now)
            started(wires, step, out)
            begin_if_due(wires, step, ingress, now)
            return OK
    wires.ingress[ring_slot(queue.off, queue.mask, queue.tail)] = ingress
    arrive(wires, port, p, slot, now)
    begin(wires, step, out, now)
    begin_if_due(wires, step, ingress, now)
    return OK


def room_at(wires: Wires, p: GlobalPort) -> bool:
    """Make room for one more packet in every class of port ``p`` and on its link.

    False if the pool is used up.
    """
    if ring_full(wires, p):
        return False
    for cls in range(N_CLASSES):
        queue = wires.queues[queue_of(p, cls)]
        if queue.tail - queue.head > queue.mask and not lengthen_queue(wires, queue, 0):
            return False
    return True


def may_complete(wires: Wires, step: Step, out: LocalPort) -> bool:
    """Is there room for what the completion on local port ``out`` may start?"""
    p = step.first + out
    if ring_full(wires, p):
        return False
    if LOSSLESS:
        port = wires.ports[p]
        if port.tx_class >= 0:
            return not ring_full(wires, step.first + port.tx_ingress)
    return True


def run_events(
    net: Net, wires: Wires, clock: Clock, scratch: Scratch, worker: int, node: NodeId, n: int
) -> int:
    """Merge the ``n`` sorted arrivals with the completions of the window.

    Returns OK, or GROW_POOL before an event for which there is no room.
    """
    step = open_step(net, clock, scratch, worker, node)
    first = step.first
    out = next_port(net, wires.busy, node, NO_PORT)
    while out >= 0:
        if wires.ports[first + out].free_at < step.w1:
            calendar_add(wires, step, out)
        out = next_port(net, wires.busy, node, out)
    keys = scratch.keys[worker, 1]
    slots = scratch.slots[worker]
    ins = scratch.outs[worker]
    word = 0
    i = 0
    while True:
        t_arrival = INF
        if i < n:
            t_arrival = step.w0 + (keys[i] >> KEY_BITS)
        entry = calendar_first(step, word)
        if entry >= 0:
            out = step.heads[entry]
            if wires.ports[first + out].free_at <= t_arrival:
                if not may_complete(wires, step, out):
                    return GROW_POOL
                # No later event can enter the calendar before this one.
                word = entry // WORD
                calendar_take(step, entry)
                complete(wires, step, out)
                continue
        if i == n:
            return OK
        k = keys[i] & KEY_MASK
        ingress = LocalPort(ins[k])
        status = admit(net, wires, step, ingress, slots[k], t_arrival)
        if status != OK:
            return status
        wires.inbox[first + ingress].head += 1
        i += 1


def switch_step(
    net: Net, wires: Wires, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Advance switch ``node`` to the end of the window. Returns a status of layout.py."""
    n, next_event = gather(net, wires, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    sort_by_time(clock, scratch, worker, n)
    status = run_events(net, wires, clock, scratch, worker, node, n)
    settle_reading(net, wires, node)
    out = next_port(net, wires.busy, node, NO_PORT)
    while out >= 0:
        p = net.first_port[node] + out
        port = wires.ports[p]
        include(wires.touched, net.first_word[node], out)
        if port.tx_bytes > 0:
            next_event = min(next_event, port.free_at)
        else:
            exclude(wires.busy, net.first_word[node], out)
        if port.tail > wires.new_tail[p]:
            if wires.first_new[p] == INF:
                slot = ring_slot(port.ring_off, port.ring_mask, wires.new_tail[p])
                wires.first_new[p] = wires.pool[slot].time
            wires.new_tail[p] = port.tail
        out = next_port(net, wires.busy, node, out)
    clock.next_event[node] = next_event
    return status
