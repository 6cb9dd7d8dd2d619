"""A switch whose ports are coupled: arrivals and completions in the time order of the whole switch.

Used where one port's state decides at another (PFC's ingress counters, a shared
buffer, least-loaded routing). Arrivals are sorted once per window; completions wait
in a calendar, an array of time slots with at most one entry per port. Every event
leaves consistent state behind, so a step can stop before an event that needs a
larger ring and be called again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from netsim.engine.balance import output_port, undo_choice
from netsim.engine.layout import GROW_RING, GROW_SCRATCH, INF, N_BUCKETS, OK
from netsim.engine.packets import PFC
from netsim.engine.ports import (
    arrive,
    choose_class,
    drop,
    hold,
    launch,
    retire,
    set_paused,
    transmit,
)
from netsim.engine.switch import KEY_BITS, KEY_MASK, gather, sort_by_time
from netsim.engine.trace import ARRIVED, DROPPED, trace_packet
from netsim.model.fabric import PFC_FRAME_BYTES

N_CLASSES: int
LOSSLESS: bool
DYNAMIC: bool
TRACE: bool
WORD = 32
GROWTH = 4  # by which a full ring grows; each time costs a step of the switch


class Step(NamedTuple):
    """The switch and the window of one step, and the calendar of completions in it."""

    node: int
    first: int  # the switch's first port
    w0: int
    w1: int
    shift: int  # (time - w0) >> shift is a slot of the calendar
    heads: Any  # int64[N_BUCKETS]: first port of each slot
    later: Any  # int64[ports]: the port after a port in its slot, or -1
    words: Any  # int64[N_BUCKETS / 32]: a bit for each slot that is not empty


def open_step(net, clock, scratch, worker, node):
    """A step with an empty calendar."""
    w0 = clock.clock[0].w0
    w1 = clock.clock[0].w1
    shift = 0
    while ((w1 - w0) >> shift) >= N_BUCKETS:
        shift += 1
    words = scratch.words[worker]
    words[:] = 0
    heads = scratch.calendar[worker]
    return Step(node, net.first_port[node], w0, w1, shift, heads, scratch.later[worker], words)


def calendar_add(wires, step, o):
    """Enter the completion of local port ``o``, in the order of (time, port)."""
    at = wires.ports[step.first + o].free_at
    slot = (at - step.w0) >> step.shift
    head = step.heads
    later = step.later
    words = step.words
    bit = 1 << (slot & (WORD - 1))
    if words[slot // WORD] & bit == 0:
        words[slot // WORD] |= bit
        head[slot] = o
        later[o] = -1
        return
    before = -1
    other = head[slot]
    while other >= 0:
        time = wires.ports[step.first + other].free_at
        if time > at or (time == at and other > o):
            break
        before = other
        other = later[other]
    later[o] = other
    if before < 0:
        head[slot] = o
    else:
        later[before] = o


def calendar_first(step, word):
    """Slot of the earliest entry, looking from ``word`` on, or -1."""
    words = step.words
    while word < N_BUCKETS // WORD:
        w = words[word]
        if w != 0:
            slot = word * WORD
            if w & 0xFFFF == 0:
                w >>= 16
                slot += 16
            if w & 0xFF == 0:
                w >>= 8
                slot += 8
            while w & 1 == 0:
                w >>= 1
                slot += 1
            return slot
        word += 1
    return -1


def calendar_take(step, slot):
    """Remove the first entry of ``slot``."""
    head = step.heads
    o = head[slot]
    following = step.later[o]
    head[slot] = following
    if following < 0:
        step.words[slot // WORD] &= ~(1 << (slot & (WORD - 1)))
    return o


def begin(wires, step, o, t):
    """Start what local port ``o`` should send at ``t``, if it is free; a due PFC frame first."""
    p = step.first + o
    port = wires.ports[p]
    if port.tx_bytes > 0:
        return
    if LOSSLESS and port.pfc_due == 1:
        port.pfc_due = 0
        send_pfc(wires, port, t)
    else:
        c = choose_class(wires, port)
        if c < 0:
            return
        transmit(wires, port, p, c, t)
    if port.free_at < step.w1:
        calendar_add(wires, step, o)


def begin_if_due(wires, step, o, t):
    """Start local port ``o`` if it owes its neighbour a PFC frame."""
    if wires.ports[step.first + o].pfc_due == 1:
        begin(wires, step, o, t)


def send_pfc(wires, port, t):
    """Transmit a PFC frame with the pause state of all classes."""
    slot = port.ring_off + (port.tail & port.ring_mask)
    pkt = wires.pool[slot]
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
    end = t + ((PFC_FRAME_BYTES * port.ps_per_byte_q20) >> 20)
    pkt.time = end + port.delay_ps
    port.tail += 1
    port.free_at = end
    port.tx_bytes = PFC_FRAME_BYTES
    port.tx_class = -1


def xoff_threshold(wires, node):
    """Bytes of an ingress class above which its sender is paused.

    The fraction that the model cuts off makes no difference to whole numbers compared with it.
    """
    fabric = wires.fabric[0]
    if DYNAMIC:
        free = max(0, fabric.shared_buffer_bytes - wires.used_bytes[node])
        return fabric.alpha * free
    return fabric.xoff_bytes


def overruns(wires, p_in, c, size):
    """Does an arrival exceed the headroom for what comes in after the sender was paused?"""
    if (wires.ports[p_in].xoff >> c) & 1 == 0:
        return False
    used = wires.charges[p_in * N_CLASSES + c].headroom_used
    return used + size > wires.fabric[0].headroom_bytes


def account_arrival(wires, node, p_in, c, size):
    """Charge an arrival to its ingress class; pause the sender above XOFF."""
    charge = wires.charges[p_in * N_CLASSES + c]
    charge.bytes += size
    wires.used_bytes[node] += size
    port = wires.ports[p_in]
    if (port.xoff >> c) & 1 == 1:
        charge.headroom_used += size
    elif charge.bytes > xoff_threshold(wires, node):
        port.xoff |= 1 << c
        port.pfc_due = 1
        charge.headroom_used = 0
        wires.queues[p_in * N_CLASSES + c].pauses += 1


def account_departure(wires, node, p_in, c, size):
    """Give back an ingress class's bytes; un-pause the sender below XON."""
    charge = wires.charges[p_in * N_CLASSES + c]
    charge.bytes -= size
    wires.used_bytes[node] -= size
    port = wires.ports[p_in]
    if (port.xoff >> c) & 1 == 0:
        return
    # An empty class must not stay paused: no later event would look at it again.
    resume = charge.bytes == 0
    if DYNAMIC:
        room = xoff_threshold(wires, node) - wires.fabric[0].xon_gap_bytes
        resume = resume or charge.bytes <= room
    else:
        resume = resume or charge.bytes < wires.fabric[0].xon_bytes
    if resume:
        port.xoff &= ~(1 << c)
        port.pfc_due = 1


def complete(wires, step, o):
    """The transmission of local port ``o`` ends: free its bytes, go on with the next."""
    p = step.first + o
    port = wires.ports[p]
    t = port.free_at
    c = port.tx_class
    owed = -1
    if c < 0:
        port.tx_bytes = 0
    else:
        size = port.tx_bytes
        retire(wires, port, p)
        if LOSSLESS:
            owed = port.tx_ingress
            account_departure(wires, step.node, step.first + owed, c, size)
    begin(wires, step, o, t)
    if owed >= 0:
        begin_if_due(wires, step, owed, t)


def ring_full(wires, p):
    """Could a packet and a PFC frame, sent by port ``p`` in one event, overrun its link's ring?"""
    port = wires.ports[p]
    if port.tail - wires.head_seen[p] + 2 > port.ring_mask + 1:
        wires.link_need[p] = GROWTH * (port.ring_mask + 1)
        return True
    return False


def admit(net, wires, step, i, slot, t):
    """A packet arrives at time ``t`` by local port ``i``.

    Returns GROW_RING, and nothing has changed, if there is no room for it.
    """
    p_in = step.first + i
    pkt = wires.pool[slot]
    if ring_full(wires, p_in):
        return GROW_RING
    if LOSSLESS and int(pkt.kind) == PFC:
        set_paused(wires, wires.ports[p_in], p_in, int(pkt.aux), t)
        begin(wires, step, i, t)
        return OK
    size = int(pkt.size_bytes)
    c = int(pkt.prio)
    if LOSSLESS and overruns(wires, p_in, c, size):
        drop(wires.queues[p_in * N_CLASSES + c], size)
        if TRACE:
            held = wires.charges[p_in * N_CLASSES + c].bytes
            trace_packet(wires, DROPPED, p_in, slot, t, held)
        return OK
    o = output_port(net, wires, step.node, p_in, slot)
    if not room_at(wires, step.first + o):
        undo_choice(net, wires, step.node, p_in, slot)
        return GROW_RING
    port = wires.ports[step.first + o]
    if not LOSSLESS:
        idle = port.tx_bytes == 0
        arrive(wires, port, step.first + o, slot, t)
        if idle and port.tx_bytes > 0 and port.free_at < step.w1:
            calendar_add(wires, step, o)
        return OK
    account_arrival(wires, step.node, p_in, c, size)
    queue = wires.queues[(step.first + o) * N_CLASSES + c]
    if port.tx_bytes == 0 and port.pfc_due == 0 and port.backlog == 0:
        if (port.paused >> c) & 1 == 0:
            # Nothing to wait for: straight from the incoming ring to the outgoing one (and with
            # nothing held there is nothing to mark).
            if TRACE:
                trace_packet(wires, ARRIVED, step.first + o, slot, t, queue.bytes)
            hold(queue, size)
            launch(wires, port, step.first + o, queue, c, slot, i, t)
            if port.free_at < step.w1:
                calendar_add(wires, step, o)
            begin_if_due(wires, step, i, t)
            return OK
    wires.ingress[queue.off + (queue.tail & queue.mask)] = i
    arrive(wires, port, step.first + o, slot, t)
    begin(wires, step, o, t)
    begin_if_due(wires, step, i, t)
    return OK


def room_at(wires, p):
    """Is there room for one more packet in every class of port ``p`` and on its link?"""
    if ring_full(wires, p):
        return False
    for c in range(N_CLASSES):
        queue = wires.queues[p * N_CLASSES + c]
        if queue.tail - queue.head > queue.mask:
            wires.queue_need[p * N_CLASSES + c] = GROWTH * (queue.mask + 1)
            return False
    return True


def may_complete(wires, first, o):
    """Is there room for what the completion on local port ``o`` may start?"""
    if ring_full(wires, first + o):
        return False
    if LOSSLESS:
        port = wires.ports[first + o]
        if port.tx_class >= 0:
            return not ring_full(wires, first + port.tx_ingress)
    return True


def run_events(net, wires, clock, scratch, worker, node, n):
    """Merge the ``n`` sorted arrivals with the completions of the window."""
    step = open_step(net, clock, scratch, worker, node)
    first = step.first
    for o in range(net.first_port[node + 1] - first):
        port = wires.ports[first + o]
        if port.tx_bytes > 0 and port.free_at < step.w1:
            calendar_add(wires, step, o)
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
            o = step.heads[entry]
            if wires.ports[first + o].free_at <= t_arrival:
                if not may_complete(wires, first, o):
                    return GROW_RING
                # No later event can enter the calendar before this one.
                word = entry // WORD
                calendar_take(step, entry)
                complete(wires, step, o)
                continue
        if i == n:
            return OK
        k = keys[i] & KEY_MASK
        local = ins[k]
        status = admit(net, wires, step, local, slots[k], t_arrival)
        if status != OK:
            return status
        wires.inbox[first + local].head += 1
        i += 1


def switch_step(net, wires, clock, scratch, worker, node):
    """Advance switch ``node`` to the end of the window. Returns a status of layout.py."""
    n, next_event = gather(net, wires, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    sort_by_time(clock, scratch, worker, n)
    status = run_events(net, wires, clock, scratch, worker, node, n)
    for p in range(net.first_port[node], net.first_port[node + 1]):
        port = wires.ports[p]
        if port.tx_bytes > 0:
            next_event = min(next_event, port.free_at)
        if port.tail > wires.new_tail[p]:
            if wires.first_new[p] == INF:
                slot = port.ring_off + (wires.new_tail[p] & port.ring_mask)
                wires.first_new[p] = wires.pool[slot].time
            wires.new_tail[p] = port.tail
    clock.next_event[node] = next_event
    return status
