"""The queues of a port's classes: packets in and out, the bytes that they hold, marks and drops.

``bytes`` of a queue are those held, from where a packet is put in to the end of its
transmission (ports.py); ``backlog`` of its port has a bit for each class with packets waiting.
"""

from __future__ import annotations

import math

from netsim.engine.kernels.fields import PacketRecord, PortRecord, QueueRecord
from netsim.engine.kernels.ids import Bytes, LocalPort, Ps
from netsim.engine.kernels.indexing import queue_of, ring_slot
from netsim.engine.kernels.layout import LinkState
from netsim.engine.kernels.packets import DATA, ECN_CE
from netsim.engine.kernels.series import change
from netsim.engine.kernels.specialization_constants import (
    ECN_ENQUEUE,
    HAS_ON_DEPARTURE,
    HAS_SERIES,
    N_CLASSES,
    PER_PORT_SIZES,
    TRACE,
)
from netsim.engine.kernels.trace import DROPPED, MARKED, trace_record
from netsim.model.arithmetic import PURPOSE_ECN, rand32


def ecn_marks(links: LinkState, port: PortRecord, held: Bytes) -> bool:
    """Is a packet that sees a queue of ``held`` bytes marked?

    Between Kmin and Kmax, a random draw decides; the port counts it.
    """
    kind = 0
    if PER_PORT_SIZES:
        kind = links.size_kind[port.number]
    fabric = links.fabric[kind]
    if held <= fabric.kmin_bytes:
        return False
    if held > fabric.kmax_bytes:
        return True
    draw = rand32(fabric.seed, PURPOSE_ECN, int(port.number), port.ecn_draws)
    port.ecn_draws += 1
    scaled = fabric.pmax * 4294967296.0 * (held - fabric.kmin_bytes)
    return draw < math.floor(scaled / (fabric.kmax_bytes - fabric.kmin_bytes))


def mark_packet(
    links: LinkState, port: PortRecord, queue: QueueRecord, pkt: PacketRecord, now: Ps
) -> None:
    """Set a packet's CE bit; its queue counts it."""
    pkt.ecn = int(pkt.ecn) | ECN_CE
    queue.ecn_marks += 1
    if TRACE:
        trace_record(links, MARKED, port.number, pkt, now, queue.bytes)


def hold(links: LinkState, port: PortRecord, cls: int, size: Bytes, now: Ps) -> None:
    """Account for ``size`` more bytes in a class."""
    if HAS_SERIES:
        change(links, port.number, cls, int(size), now)
    queue = links.queues[queue_of(port.number, cls)]
    queue.bytes += size
    if queue.bytes > queue.max_bytes:
        queue.max_bytes = queue.bytes


def enqueue_packet(
    links: LinkState, port: PortRecord, cls: int, pkt: PacketRecord, ingress: LocalPort, now: Ps
) -> None:
    """Append a copy of a packet, marked if the fabric marks at enqueue and the queue calls for it.

    It came in by local port ``ingress``. There must be room for it.
    """
    queue = links.queues[queue_of(port.number, cls)]
    mark = False
    if ECN_ENQUEUE:
        if int(pkt.kind) == DATA and cls >= links.fabric[0].ecn_from_class:
            mark = ecn_marks(links, port, queue.bytes)
    slot = ring_slot(queue.off, queue.mask, queue.tail)
    links.pool[slot] = pkt
    if HAS_ON_DEPARTURE:
        links.ingress[slot] = ingress
    queue.tail += 1
    port.backlog |= 1 << cls
    hold(links, port, cls, Bytes(pkt.size_bytes), now)
    if mark:
        mark_packet(links, port, queue, links.pool[slot], now)


def count_drop(
    links: LinkState, port: PortRecord, queue: QueueRecord, pkt: PacketRecord, now: Ps
) -> None:
    """A packet is dropped at a port; its queue counts it."""
    queue.drops += 1
    queue.drop_bytes += int(pkt.size_bytes)
    if TRACE:
        trace_record(links, DROPPED, port.number, pkt, now, queue.bytes)


def close_gap(links: LinkState, queue: QueueRecord, index: int) -> None:
    """Take the packet at ``index`` out of a queue's ring: the shorter part of the rest moves up."""
    n = queue.tail - queue.head
    if 2 * index < n:
        for k in range(index, 0, -1):
            move_packet(links, queue, k - 1, k)
        queue.head += 1
    else:
        for k in range(index, n - 1):
            move_packet(links, queue, k + 1, k)
        queue.tail -= 1


def move_packet(links: LinkState, queue: QueueRecord, source: int, index: int) -> None:
    """Copy what is at index ``source`` of a queue's ring to ``index``."""
    here = ring_slot(queue.off, queue.mask, queue.head + source)
    there = ring_slot(queue.off, queue.mask, queue.head + index)
    links.pool[there] = links.pool[here]
    if HAS_ON_DEPARTURE:
        links.ingress[there] = links.ingress[here]


def note_empty_queues(links: LinkState, port: PortRecord) -> None:
    """Clear the bits of classes of which nothing waits any more."""
    for cls in range(N_CLASSES):
        queue = links.queues[queue_of(port.number, cls)]
        if queue.head == queue.tail:
            port.backlog &= ~(1 << cls)
