"""Queues of a port's classes: enqueue, byte counts, marks and drops.

A queue's ``bytes`` counts packets until their transmission ends (ports.py); bit c of a port's
``backlog`` means that packets of class c wait.
"""

from __future__ import annotations

import math

from netsim.engine.kernels.env import QueueEnv
from netsim.engine.kernels.fields import PacketRecord, PortRecord, QueueRecord
from netsim.engine.kernels.ids import Bytes, Origin, Ps
from netsim.engine.kernels.indexing import queue_of, ring_slot
from netsim.engine.kernels.instructions import prefetch
from netsim.engine.kernels.layout import LinkState
from netsim.engine.kernels.packets import DATA, ECN_CE
from netsim.engine.kernels.rings import lengthen_queue
from netsim.engine.kernels.series import change
from netsim.engine.kernels.specialization_constants import (
    ECN_ENQUEUE,
    HAS_ON_DEPARTURE,
    HAS_SERIES,
    N_CLASSES,
    N_LEVELS,
    PER_PORT_SIZES,
    TRACE,
)
from netsim.engine.kernels.trace import DROPPED, MARKED, trace_record
from netsim.model.arithmetic import PURPOSE_ECN, rand32


def ecn_marks(links: LinkState, port: PortRecord, held: Bytes) -> bool:
    """Return whether a packet that finds ``held`` bytes is marked. Between Kmin and Kmax a random
    draw decides; the port counts it."""
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
    """Set a packet's CE bit and count the mark."""
    pkt.ecn = int(pkt.ecn) | ECN_CE
    queue.ecn_marks += 1
    if TRACE:
        trace_record(links, MARKED, port.number, pkt, now, queue.bytes)


def hold(links: LinkState, port: PortRecord, cls: int, size: Bytes, now: Ps) -> None:
    """Add ``size`` bytes to the bytes held in a class."""
    if HAS_SERIES:
        change(links, port.number, cls, int(size), now)
    queue = links.queues[queue_of(port.number, cls)]
    queue.bytes += size
    if queue.bytes > queue.max_bytes:
        queue.max_bytes = queue.bytes


def make_room(env: QueueEnv, port: PortRecord) -> None:
    """Make room for a packet in each class of a port, so that no packet moves during a handler."""
    for cls in range(N_CLASSES):
        queue = env.links.queues[queue_of(port.number, cls)]
        if queue.tail - queue.head >= queue.mask:
            lengthen_queue(env.links, env.switch.worker, queue)


def enqueue_packet(
    env: QueueEnv, port: PortRecord, cls: int, pkt: PacketRecord, origin: Origin, now: Ps
) -> None:
    """Append a copy of a packet, with an ECN mark if needed."""
    links = env.links
    queue = links.queues[queue_of(port.number, cls)]
    if queue.tail - queue.head >= queue.mask:
        lengthen_queue(links, env.switch.worker, queue)
    mark = False
    if ECN_ENQUEUE:
        if int(pkt.kind) == DATA and cls // N_LEVELS >= links.fabric[0].ecn_from_class:
            mark = ecn_marks(links, port, queue.bytes)
    slot = ring_slot(queue.off, queue.mask, queue.tail)
    links.pool[slot] = pkt
    if HAS_ON_DEPARTURE:
        links.origins[slot] = origin
    queue.tail += 1
    prefetch(links.pool, ring_slot(queue.off, queue.mask, queue.tail + 1))
    port.backlog |= 1 << cls
    hold(links, port, cls, Bytes(pkt.size_bytes), now)
    if mark:
        mark_packet(links, port, queue, links.pool[slot], now)


def count_drop(
    links: LinkState, port: PortRecord, queue: QueueRecord, pkt: PacketRecord, now: Ps
) -> None:
    """Count a packet dropped at a port."""
    queue.drops += 1
    queue.drop_bytes += int(pkt.size_bytes)
    if TRACE:
        trace_record(links, DROPPED, port.number, pkt, now, queue.bytes)


def close_gap(links: LinkState, queue: QueueRecord, index: int) -> None:
    """Remove index ``index`` from a queue's ring by moving the shorter part of the rest."""
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
    """Copy a packet within a queue's ring, from index ``source`` to ``index``."""
    here = ring_slot(queue.off, queue.mask, queue.head + source)
    there = ring_slot(queue.off, queue.mask, queue.head + index)
    links.pool[there] = links.pool[here]
    if HAS_ON_DEPARTURE:
        links.origins[there] = links.origins[here]


def note_empty_queues(links: LinkState, port: PortRecord) -> None:
    """Clear the backlog bits of classes without waiting packets."""
    for cls in range(N_CLASSES):
        queue = links.queues[queue_of(port.number, cls)]
        if queue.head == queue.tail:
            port.backlog &= ~(1 << cls)
