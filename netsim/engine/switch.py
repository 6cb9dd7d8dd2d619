"""A switch whose ports do not influence each other: served port by port.

A step gathers the window's arrivals from all incoming rings, sorts them by output
port and time, and then runs each output port through the window while its state is
in the nearest cache.
"""

from __future__ import annotations

from netsim.engine.balance import output_port
from netsim.engine.instructions import prefetch
from netsim.engine.layout import GROW_RING, GROW_SCRATCH, INF, N_BUCKETS, OK
from netsim.engine.ports import advance, arrive

N_CLASSES: int
COUPLED: bool

KEY_BITS = 32
KEY_MASK = (1 << KEY_BITS) - 1
UNDO = 4  # per ingress port: three load-balancing counters to restore, and the new head


def gather(net, wires, clock, scratch, worker, node):
    """Collect the arrivals of the window.

    Arrival k gets ``slots[k]`` (where it lies), ``outs[k]`` (the local port it leaves by, or
    comes in by if ports are coupled: then it is routed when its time comes) and the sort key
    (time - w0) << 32 | k: ingress ports are visited in ascending order, so keys
    order arrivals by (time, ingress port, position). Returns how many there are
    and the first arrival after the window, or (-needed, INF) if scratch is too small.
    """
    first = net.first_port[node]
    last = net.first_port[node + 1]
    w0 = clock.clock[0].w0
    w1 = clock.clock[0].w1
    keys = scratch.keys[worker, 0]
    slots = scratch.slots[worker]
    outs = scratch.outs[worker]
    undo = scratch.undo[worker]
    waiting = 0
    for p in range(first, last):
        waiting += wires.inbox[p].tail - wires.inbox[p].head
    if waiting > slots.shape[0]:
        return -waiting, INF
    k = 0
    following = INF
    for p in range(first, last):
        inbox = wires.inbox[p]
        balance = wires.balance[p]
        u = UNDO * (p - first)
        undo[u] = balance.choices
        undo[u + 1] = balance.data_choices
        undo[u + 2] = balance.other_choices
        if p + 1 < last:
            following_inbox = wires.inbox[p + 1]
            prefetch(
                wires.pool,
                following_inbox.ring_off + (following_inbox.head & following_inbox.ring_mask),
            )
        head = inbox.head
        while head < inbox.tail:
            slot = inbox.ring_off + (head & inbox.ring_mask)
            time = wires.pool[slot].time
            if time >= w1:
                following = min(following, time)
                break
            keys[k] = ((time - w0) << KEY_BITS) | k
            slots[k] = slot
            if COUPLED:
                outs[k] = p - first
            else:
                outs[k] = output_port(net, wires, node, p, slot)
            k += 1
            head += 1
        undo[u + 3] = head
    return k, following


def sort_by_time(clock, scratch, worker, n):
    """Sort the keys into ``scratch.keys[worker, 1]``: one bucket pass, then insertion."""
    src = scratch.keys[worker, 0]
    dst = scratch.keys[worker, 1]
    if n > 64:
        starts = scratch.buckets[worker]
        width = clock.clock[0].w1 - clock.clock[0].w0
        shift = KEY_BITS
        while (width >> (shift - KEY_BITS)) >= N_BUCKETS:
            shift += 1
        starts[:] = 0
        for i in range(n):
            starts[(src[i] >> shift) + 1] += 1
        for b in range(N_BUCKETS):
            starts[b + 1] += starts[b]
        for i in range(n):
            b = src[i] >> shift
            dst[starts[b]] = src[i]
            starts[b] += 1
    else:
        for i in range(n):
            dst[i] = src[i]
    insertion_sort(dst, 0, n)


def insertion_sort(keys, lo, hi):
    """Sort nearly sorted ``keys[lo:hi]`` in place."""
    for i in range(lo + 1, hi):
        key = keys[i]
        j = i - 1
        while j >= lo and keys[j] > key:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key


def group_by_output(scratch, worker, n, n_ports):
    """Stable counting sort of the time-ordered keys by output port, back into keys[worker, 0].

    Afterwards the arrivals for local port o are ``starts[o] .. starts[o + 1]``.
    """
    src = scratch.keys[worker, 1]
    dst = scratch.keys[worker, 0]
    outs = scratch.outs[worker]
    starts = scratch.starts[worker]
    starts[: n_ports + 2] = 0
    for i in range(n):
        starts[outs[i] + 2] += 1
    for o in range(n_ports):
        starts[o + 2] += starts[o + 1]
    for i in range(n):
        key = src[i]
        o = outs[key & KEY_MASK] + 1
        dst[starts[o]] = key
        starts[o] += 1


def has_room(wires, p, n):
    """Is there room for ``n`` arrivals at port ``p``, and on its link for all that it may send?"""
    port = wires.ports[p]
    enough = True
    waiting = n
    for c in range(N_CLASSES):
        queue = wires.queues[p * N_CLASSES + c]
        length = queue.tail - queue.head
        waiting += length
        if length + n > queue.mask + 1:
            wires.queue_need[p * N_CLASSES + c] = length + n
            enough = False
    under_way = port.tail - wires.head_seen[p]
    if under_way + waiting > port.ring_mask + 1:
        wires.link_need[p] = under_way + waiting
        enough = False
    return enough


def undo_choices(net, wires, scratch, worker, node):
    """Take back the load-balancing choices of a step that could not be carried out."""
    first = net.first_port[node]
    undo = scratch.undo[worker]
    for p in range(first, net.first_port[node + 1]):
        u = UNDO * (p - first)
        wires.balance[p].choices = undo[u]
        wires.balance[p].data_choices = undo[u + 1]
        wires.balance[p].other_choices = undo[u + 2]


def serve(wires, clock, scratch, worker, p, lo, hi):
    """Run output port ``p`` through the window with arrivals ``lo .. hi`` of the sorted keys."""
    port = wires.ports[p]
    keys = scratch.keys[worker, 0]
    slots = scratch.slots[worker]
    w0 = clock.clock[0].w0
    tail_before = port.tail
    for i in range(lo, hi):
        key = keys[i]
        t = w0 + (key >> KEY_BITS)
        advance(wires, port, p, t)
        arrive(wires, port, p, slots[key & KEY_MASK], t)
    advance(wires, port, p, clock.clock[0].w1 - 1)
    if port.tail > tail_before:
        wires.new_tail[p] = port.tail
        slot = port.ring_off + (tail_before & port.ring_mask)
        wires.first_new[p] = wires.pool[slot].time


def switch_step(net, wires, clock, scratch, worker, node):
    """Advance switch ``node`` to the end of the window. Returns a status of layout.py."""
    first = net.first_port[node]
    n_ports = net.first_port[node + 1] - first
    n, next_event = gather(net, wires, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    sort_by_time(clock, scratch, worker, n)
    group_by_output(scratch, worker, n, n_ports)
    starts = scratch.starts[worker]
    enough = True
    for o in range(n_ports):
        arrivals = starts[o + 1] - starts[o]
        if arrivals > 0 or wires.ports[first + o].backlog != 0:
            enough = has_room(wires, first + o, arrivals) and enough
    if not enough:
        undo_choices(net, wires, scratch, worker, node)
        return GROW_RING
    for o in range(n_ports):
        port = wires.ports[first + o]
        lo = starts[o]
        hi = starts[o + 1]
        if hi > lo or port.backlog != 0:
            serve(wires, clock, scratch, worker, first + o, lo, hi)
            if port.backlog != 0:
                next_event = min(next_event, port.free_at)
    undo = scratch.undo[worker]
    for o in range(n_ports):
        wires.inbox[first + o].head = undo[UNDO * o + 3]
    clock.next_event[node] = next_event
    return OK
