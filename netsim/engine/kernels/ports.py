"""A switch's output port: admission, service order, transmission.

Every function changes one port (its number ``p``, its record ``port``) and its class
queues only, so that ports can be served one after the other (switch.py) or in the
time order of the whole switch (coupled_switch.py). A packet's bytes are held from arrival
to the end of its transmission; the link's ring receives it when transmission starts.
"""

from __future__ import annotations

import math

from netsim.engine.kernels.faults import lost_on_wire, renew_link
from netsim.engine.kernels.fields import PortRecord, QueueRecord
from netsim.engine.kernels.holes import (
    ECN_DEQUEUE,
    ECN_ENQUEUE,
    FAULTS,
    LOSSLESS,
    N_CLASSES,
    TELEMETRY,
    TRACE,
    TRIM,
    on_forward,
)
from netsim.engine.kernels.ids import Bytes, GlobalPort, LocalPort, Ps, Slot
from netsim.engine.kernels.instructions import prefetch
from netsim.engine.kernels.layout import Wires
from netsim.engine.kernels.packets import DATA, ECN_CE, TRIMMED
from netsim.engine.kernels.places import queue_of, ring_slot
from netsim.engine.kernels.trace import ARRIVED, DROPPED, FORWARDED, LOST, MARKED, trace_packet
from netsim.engine.kernels.trace import TRIMMED as TRIMS
from netsim.model.arithmetic import PURPOSE_ECN, PURPOSE_TRIM, rand32, send_time


def set_paused(wires: Wires, port: PortRecord, p: GlobalPort, paused: int, now: Ps) -> None:
    """The neighbour's PFC frame: ``paused`` is the new bit mask of paused classes.

    Changes it, and the classes' accounts of the time that they were paused.
    """
    for cls in range(N_CLASSES):
        was = (port.paused >> cls) & 1
        becomes = (paused >> cls) & 1
        if was != becomes:
            queue = wires.queues[queue_of(p, cls)]
            if becomes == 1:
                queue.paused_since = now
            else:
                queue.paused_ps += now - queue.paused_since
    port.paused = paused


def ecn_marks(wires: Wires, port: PortRecord, p: GlobalPort, held: Bytes) -> bool:
    """Is a packet that sees a queue of ``held`` bytes marked?

    Between Kmin and Kmax, a random draw decides; the port counts it.
    """
    fabric = wires.fabric[0]
    if held <= fabric.kmin_bytes:
        return False
    if held > fabric.kmax_bytes:
        return True
    draw = rand32(fabric.seed, PURPOSE_ECN, int(p), port.ecn_draws)
    port.ecn_draws += 1
    scaled = fabric.pmax * 4294967296.0 * (held - fabric.kmin_bytes)
    return draw < math.floor(scaled / (fabric.kmax_bytes - fabric.kmin_bytes))


def choose_class(wires: Wires, port: PortRecord) -> int:
    """Class to serve next, or -1 if nothing may be sent. Counts headers in a row (trimming)."""
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
    cls = 0
    while (open_classes >> cls) & 1 == 0:
        cls += 1
    return cls


def launch(
    wires: Wires,
    port: PortRecord,
    p: GlobalPort,
    cls: int,
    waiting: Slot,
    ingress: LocalPort,
    now: Ps,
) -> None:
    """Start transmitting the packet in pool slot ``waiting``: copy it into the link's ring.

    It is of class ``cls``, whose queue counts it. ``ingress`` is the local port it came in by, to
    which PFC charges it.
    """
    queue = wires.queues[queue_of(p, cls)]
    slot = ring_slot(port.ring_off, port.ring_mask, port.tail)
    wires.pool[slot] = wires.pool[waiting]
    pkt = wires.pool[slot]
    size = Bytes(pkt.size_bytes)
    if FAULTS:
        renew_link(wires, port, p, now)
    end = now + send_time(size, port.ps_per_byte_q20)
    pkt.time = end + port.delay_ps
    pkt.hops = int(pkt.hops) + 1
    if ECN_DEQUEUE:
        if int(pkt.kind) == DATA and cls >= wires.fabric[0].ecn_from_class:
            if ecn_marks(wires, port, p, queue.bytes):
                pkt.ecn = int(pkt.ecn) | ECN_CE
                queue.marks += 1
                if TRACE:
                    trace_packet(wires, MARKED, p, slot, now, queue.bytes)
    if TELEMETRY:
        if int(pkt.kind) == DATA:
            on_forward(now, pkt, port, queue)
    if TRACE:
        trace_packet(wires, FORWARDED, p, slot, now, queue.bytes)
    arrives = True
    if FAULTS:
        arrives = not lost_on_wire(wires, p, cls, size, now, pkt.time)
    if arrives:
        port.tail += 1
    elif TRACE:
        trace_packet(wires, LOST, p, slot, now, queue.bytes)
    # Two packets share a cache line: the one after next is in the next line.
    prefetch(wires.pool, ring_slot(port.ring_off, port.ring_mask, port.tail + 1))
    port.free_at = end
    port.tx_bytes = size
    port.tx_class = cls
    if LOSSLESS:
        port.tx_ingress = ingress
    queue.sent_packets += 1
    queue.sent_bytes += size


def transmit(wires: Wires, port: PortRecord, p: GlobalPort, cls: int, now: Ps) -> None:
    """Start transmitting the head of class ``cls``, which leaves its queue."""
    queue = wires.queues[queue_of(p, cls)]
    waiting = ring_slot(queue.off, queue.mask, queue.head)
    queue.head += 1
    if queue.head == queue.tail:
        port.backlog &= ~(1 << cls)
    prefetch(wires.pool, ring_slot(queue.off, queue.mask, queue.head + 1))
    ingress = LocalPort(0)
    if LOSSLESS:
        ingress = LocalPort(wires.ingress[waiting])
    launch(wires, port, p, cls, waiting, ingress, now)


def retire(wires: Wires, port: PortRecord, p: GlobalPort) -> None:
    """The current transmission has ended: its bytes leave the port."""
    wires.queues[queue_of(p, port.tx_class)].bytes -= port.tx_bytes
    port.tx_bytes = Bytes(0)


def advance(wires: Wires, port: PortRecord, p: GlobalPort, until: Ps) -> None:
    """Complete and start transmissions up to and including time ``until``."""
    while port.tx_bytes > 0 and port.free_at <= until:
        retire(wires, port, p)
        cls = choose_class(wires, port)
        if cls >= 0:
            transmit(wires, port, p, cls, port.free_at)


def enqueue(
    wires: Wires, port: PortRecord, queue: QueueRecord, cls: int, arrived: Slot, size: Bytes
) -> Slot:
    """Append a copy of the packet in pool slot ``arrived``. Returns the slot of the copy."""
    slot = ring_slot(queue.off, queue.mask, queue.tail)
    wires.pool[slot] = wires.pool[arrived]
    queue.tail += 1
    port.backlog |= 1 << cls
    hold(queue, size)
    return slot


def enqueue_marked(
    wires: Wires, port: PortRecord, p: GlobalPort, cls: int, arrived: Slot, now: Ps
) -> None:
    """Append a packet, marked if the fabric marks at enqueue and the queue calls for it."""
    queue = wires.queues[queue_of(p, cls)]
    pkt = wires.pool[arrived]
    mark = False
    if ECN_ENQUEUE:
        if int(pkt.kind) == DATA and cls >= wires.fabric[0].ecn_from_class:
            mark = ecn_marks(wires, port, p, queue.bytes)
    slot = enqueue(wires, port, queue, cls, arrived, Bytes(pkt.size_bytes))
    if mark:
        pkt = wires.pool[slot]
        pkt.ecn = int(pkt.ecn) | ECN_CE
        queue.marks += 1
        if TRACE:
            trace_packet(wires, MARKED, p, slot, now, queue.bytes)


def hold(queue: QueueRecord, size: Bytes) -> None:
    """Account for ``size`` more bytes in a class."""
    queue.bytes += size
    if queue.bytes > queue.max_bytes:
        queue.max_bytes = queue.bytes


def drop(queue: QueueRecord, size: Bytes) -> None:
    """Count a dropped packet."""
    queue.drops += 1
    queue.drop_bytes += size


def enqueue_trimmed(wires: Wires, port: PortRecord, p: GlobalPort, arrived: Slot, now: Ps) -> None:
    """Cut a packet to its header and queue that in class 0, or drop it if it does not fit there.

    The packet in pool slot ``arrived`` itself stays as it is.
    """
    fabric = wires.fabric[0]
    header = fabric.control_bytes
    queue = wires.queues[queue_of(p, 0)]
    data = wires.queues[queue_of(p, 1)]
    data.trims += 1
    data.trim_bytes += int(wires.pool[arrived].size_bytes) - header
    if TRACE:
        trace_packet(wires, TRIMS, p, arrived, now, data.bytes)
    if queue.bytes + header > fabric.header_queue_bytes:
        drop(queue, header)
        if TRACE:
            trace_packet(wires, DROPPED, p, arrived, now, queue.bytes)
        return
    pkt = wires.pool[enqueue(wires, port, queue, 0, arrived, header)]
    pkt.kind = TRIMMED
    pkt.prio = 0
    pkt.size_bytes = header


def trim_someone(wires: Wires, port: PortRecord, p: GlobalPort, arrived: Slot, now: Ps) -> None:
    """The data queue is full: trim the arriving packet or, by a coin, the last one waiting.

    The coin breaks the phase effects by which one of several synchronised senders
    would lose always (Handley et al., NDP, SIGCOMM 2017, section 3.1).
    """
    fabric = wires.fabric[0]
    queue = wires.queues[queue_of(p, 1)]
    coin = rand32(fabric.seed, PURPOSE_TRIM, int(p), port.coins) & 1
    port.coins += 1
    if coin == 1 and queue.head < queue.tail:
        last = ring_slot(queue.off, queue.mask, queue.tail - 1)
        last_size = Bytes(wires.pool[last].size_bytes)
        size = Bytes(wires.pool[arrived].size_bytes)
        if queue.bytes - last_size + size <= fabric.queue_bytes:
            enqueue_trimmed(wires, port, p, last, now)
            queue.tail -= 1
            queue.bytes -= last_size
            enqueue_marked(wires, port, p, 1, arrived, now)
            return
    enqueue_trimmed(wires, port, p, arrived, now)


def arrive(wires: Wires, port: PortRecord, p: GlobalPort, arrived: Slot, now: Ps) -> None:
    """Admit the packet in pool slot ``arrived``; start it at once if the port is idle.

    Where PFC counts, the switch starts it (coupled_switch.py).
    """
    fabric = wires.fabric[0]
    pkt = wires.pool[arrived]
    size = Bytes(pkt.size_bytes)
    cls = int(pkt.prio)
    queue = wires.queues[queue_of(p, cls)]
    if TRACE:
        trace_packet(wires, ARRIVED, p, arrived, now, queue.bytes)
    if not LOSSLESS:
        limit = fabric.queue_bytes
        if TRIM and cls == 0:
            limit = fabric.header_queue_bytes
        if queue.bytes + size > limit:
            if TRIM and cls == 1:
                trim_someone(wires, port, p, arrived, now)
                start_if_idle(wires, port, p, now)
            else:
                drop(queue, size)
                if TRACE:
                    trace_packet(wires, DROPPED, p, arrived, now, queue.bytes)
            return
        if port.tx_bytes == 0 and port.backlog == 0:
            # Nothing to wait for: straight from the incoming ring to the outgoing one, and with
            # nothing held there is nothing to mark either.
            hold(queue, size)
            if TRIM and cls == 1:
                port.header_run = 0
            launch(wires, port, p, cls, arrived, LocalPort(0), now)
            return
    enqueue_marked(wires, port, p, cls, arrived, now)
    if not LOSSLESS:
        start_if_idle(wires, port, p, now)


def start_if_idle(wires: Wires, port: PortRecord, p: GlobalPort, now: Ps) -> None:
    """Start a transmission if the port is free and something may be sent."""
    if port.tx_bytes == 0:
        cls = choose_class(wires, port)
        if cls >= 0:
            transmit(wires, port, p, cls, now)
