"""A switch's output port: admission, service order, transmission.

Every function touches one port (index ``p``, record ``port``) and its class
queues only, so that ports can be served one after the other (switch.py) or in the
time order of the whole switch (exact.py). A packet's bytes are held from arrival
to the end of its transmission; the link's ring receives it when transmission starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from netsim.engine.instructions import prefetch
from netsim.engine.packets import DATA, ECN_CE, TRIMMED
from netsim.engine.trace import ARRIVED, DROPPED, FORWARDED, LOST, MARKED, trace_packet
from netsim.engine.trace import TRIMMED as TRIMS
from netsim.model.arithmetic import PURPOSE_ECN, PURPOSE_LOSS, PURPOSE_TRIM, rand32

# The fabric's features, put in place by specialise.py.
N_CLASSES: int
TRIM: bool
LOSSLESS: bool
ECN_ENQUEUE: bool
ECN_DEQUEUE: bool
TRACE: bool
FAULTS: bool
TELEMETRY: bool
on_forward: Callable[..., Any]


def set_paused(wires, port, p, paused, now):
    """The neighbour's PFC frame: ``paused`` is the new bit mask of paused classes."""
    for c in range(N_CLASSES):
        was = (port.paused >> c) & 1
        becomes = (paused >> c) & 1
        if was != becomes:
            queue = wires.queues[p * N_CLASSES + c]
            if becomes == 1:
                queue.paused_since = now
            else:
                queue.paused_ps += now - queue.paused_since
    port.paused = paused


def ecn_marks(wires, port, p, q_bytes):
    """Is a packet that sees ``q_bytes`` marked? Between Kmin and Kmax, a random draw decides."""
    fabric = wires.fabric[0]
    if q_bytes <= fabric.kmin_bytes:
        return False
    if q_bytes > fabric.kmax_bytes:
        return True
    draw = rand32(fabric.seed, PURPOSE_ECN, p, port.ecn_draws)
    port.ecn_draws += 1
    scaled = fabric.pmax * 4294967296.0 * (q_bytes - fabric.kmin_bytes)
    return draw < math.floor(scaled / (fabric.kmax_bytes - fabric.kmin_bytes))


def choose_class(wires, port):
    """Class to serve next, or -1 if nothing may be sent."""
    open_classes = port.backlog & ~port.paused
    if open_classes == 0:
        return -1
    if N_CLASSES == 1:
        return 0
    if TRIM:
        if open_classes == 1:
            return 0
        if open_classes == 3 and port.header_run < wires.fabric[0].header_ratio:
            port.header_run += 1
            return 0
        port.header_run = 0
        return 1
    c = 0
    while (open_classes >> c) & 1 == 0:
        c += 1
    return c


def lost_on_wire(wires, p, c, size, begin, end):
    """Does the link of port ``p`` lose a packet that is sent from ``begin`` to ``end``?

    It does if it is down in that time; otherwise a random draw decides, by the packet's size.
    """
    fault = wires.faults[p]
    lost = False
    for i in range(fault.first_outage, fault.last_outage):
        if wires.outages[i, 0] < end and begin < wires.outages[i, 1]:
            lost = True
    chance = wires.loss_table[fault.profile, size]
    if not lost and chance > 0:
        lost = rand32(wires.fabric[0].seed, PURPOSE_LOSS, p, fault.draws) < chance
        fault.draws += 1
    if lost:
        loss = wires.losses[p * N_CLASSES + c]
        loss.packets += 1
        loss.bytes += size
    return lost


def launch(wires, port, p, queue, c, src, ingress, t):
    """Start transmitting the packet in pool slot ``src``: copy it into the link's ring.

    ``ingress`` is the local port it came in by, to which PFC charges it.
    """
    slot = port.ring_off + (port.tail & port.ring_mask)
    wires.pool[slot] = wires.pool[src]
    pkt = wires.pool[slot]
    size = int(pkt.size_bytes)
    end = t + ((size * port.ps_per_byte_q20) >> 20)
    pkt.time = end + port.delay_ps
    pkt.hops = int(pkt.hops) + 1
    if ECN_DEQUEUE:
        if int(pkt.kind) == DATA and c >= wires.fabric[0].ecn_from_class:
            if ecn_marks(wires, port, p, queue.bytes):
                pkt.ecn = int(pkt.ecn) | ECN_CE
                queue.marks += 1
                if TRACE:
                    trace_packet(wires, MARKED, p, slot, t, queue.bytes)
    if TELEMETRY:
        if int(pkt.kind) == DATA:
            on_forward(t, pkt, port, queue)
    if TRACE:
        trace_packet(wires, FORWARDED, p, slot, t, queue.bytes)
    arrives = True
    if FAULTS:
        arrives = not lost_on_wire(wires, p, c, size, t, end)
    if arrives:
        port.tail += 1
    elif TRACE:
        trace_packet(wires, LOST, p, slot, t, queue.bytes)
    # Two packets share a cache line: the one after next is in the next line.
    prefetch(wires.pool, port.ring_off + ((port.tail + 1) & port.ring_mask))
    port.free_at = end
    port.tx_bytes = size
    port.tx_class = c
    if LOSSLESS:
        port.tx_ingress = ingress
    queue.sent_packets += 1
    queue.sent_bytes += size


def transmit(wires, port, p, c, t):
    """Start transmitting the head of class ``c``."""
    queue = wires.queues[p * N_CLASSES + c]
    src = queue.off + (queue.head & queue.mask)
    queue.head += 1
    if queue.head == queue.tail:
        port.backlog &= ~(1 << c)
    prefetch(wires.pool, queue.off + ((queue.head + 1) & queue.mask))
    ingress = 0
    if LOSSLESS:
        ingress = wires.ingress[src]
    launch(wires, port, p, queue, c, src, ingress, t)


def retire(wires, port, p):
    """The current transmission has ended: its bytes leave the port."""
    wires.queues[p * N_CLASSES + port.tx_class].bytes -= port.tx_bytes
    port.tx_bytes = 0


def advance(wires, port, p, t):
    """Complete and start transmissions up to and including time ``t``."""
    while port.tx_bytes > 0 and port.free_at <= t:
        retire(wires, port, p)
        c = choose_class(wires, port)
        if c >= 0:
            transmit(wires, port, p, c, port.free_at)


def enqueue(wires, port, queue, c, src, size):
    """Append a copy of the packet in pool slot ``src``. Returns the slot of the copy."""
    slot = queue.off + (queue.tail & queue.mask)
    wires.pool[slot] = wires.pool[src]
    queue.tail += 1
    port.backlog |= 1 << c
    hold(queue, size)
    return slot


def enqueue_marked(wires, port, p, queue, c, src, size, t):
    """Append a packet, marked if the fabric marks at enqueue and the queue calls for it."""
    mark = False
    if ECN_ENQUEUE:
        if int(wires.pool[src].kind) == DATA and c >= wires.fabric[0].ecn_from_class:
            mark = ecn_marks(wires, port, p, queue.bytes)
    slot = enqueue(wires, port, queue, c, src, size)
    if mark:
        pkt = wires.pool[slot]
        pkt.ecn = int(pkt.ecn) | ECN_CE
        queue.marks += 1
        if TRACE:
            trace_packet(wires, MARKED, p, slot, t, queue.bytes)


def hold(queue, size):
    """Account for ``size`` more bytes in a class."""
    queue.bytes += size
    if queue.bytes > queue.max_bytes:
        queue.max_bytes = queue.bytes


def drop(queue, size):
    """Count a dropped packet."""
    queue.drops += 1
    queue.drop_bytes += size


def enqueue_trimmed(wires, port, p, src, t):
    """Cut the packet in pool slot ``src`` to its header and queue that in class 0."""
    fabric = wires.fabric[0]
    header = fabric.control_bytes
    queue = wires.queues[p * N_CLASSES]
    data = wires.queues[p * N_CLASSES + 1]
    data.trims += 1
    data.trim_bytes += int(wires.pool[src].size_bytes) - header
    if TRACE:
        trace_packet(wires, TRIMS, p, src, t, data.bytes)
    if queue.bytes + header > fabric.header_queue_bytes:
        drop(queue, header)
        if TRACE:
            trace_packet(wires, DROPPED, p, src, t, queue.bytes)
        return
    pkt = wires.pool[enqueue(wires, port, queue, 0, src, header)]
    pkt.kind = TRIMMED
    pkt.prio = 0
    pkt.size_bytes = header


def trim_someone(wires, port, p, queue, src, size, t):
    """The data queue is full: trim the arriving packet or, by a coin, the last one waiting.

    The coin breaks the phase effects by which one of several synchronised senders
    would lose always (Handley et al., NDP, SIGCOMM 2017, section 3.1).
    """
    fabric = wires.fabric[0]
    coin = rand32(fabric.seed, PURPOSE_TRIM, p, port.coins) & 1
    port.coins += 1
    if coin == 1 and queue.head < queue.tail:
        last = queue.off + ((queue.tail - 1) & queue.mask)
        last_size = int(wires.pool[last].size_bytes)
        if queue.bytes - last_size + size <= fabric.queue_bytes:
            enqueue_trimmed(wires, port, p, last, t)
            queue.tail -= 1
            queue.bytes -= last_size
            enqueue_marked(wires, port, p, queue, 1, src, size, t)
            return
    enqueue_trimmed(wires, port, p, src, t)


def arrive(wires, port, p, src, t):
    """Admit the packet in pool slot ``src`` at time ``t``; start it at once if the port is idle."""
    fabric = wires.fabric[0]
    pkt = wires.pool[src]
    size = int(pkt.size_bytes)
    c = int(pkt.prio)
    queue = wires.queues[p * N_CLASSES + c]
    if TRACE:
        trace_packet(wires, ARRIVED, p, src, t, queue.bytes)
    if not LOSSLESS:
        limit = fabric.queue_bytes
        if TRIM and c == 0:
            limit = fabric.header_queue_bytes
        if queue.bytes + size > limit:
            if TRIM and c == 1:
                trim_someone(wires, port, p, queue, src, size, t)
                start_if_idle(wires, port, p, t)
            else:
                drop(queue, size)
                if TRACE:
                    trace_packet(wires, DROPPED, p, src, t, queue.bytes)
            return
        if port.tx_bytes == 0 and port.backlog == 0:
            # Nothing to wait for: straight from the incoming ring to the outgoing one, and with
            # nothing held there is nothing to mark either.
            hold(queue, size)
            if TRIM and c == 1:
                port.header_run = 0
            launch(wires, port, p, queue, c, src, 0, t)
            return
    enqueue_marked(wires, port, p, queue, c, src, size, t)
    if not LOSSLESS:
        start_if_idle(wires, port, p, t)


def start_if_idle(wires, port, p, t):
    """Start a transmission at ``t`` if the port is free and something may be sent."""
    if port.tx_bytes == 0:
        c = choose_class(wires, port)
        if c >= 0:
            transmit(wires, port, p, c, t)
