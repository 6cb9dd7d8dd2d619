"""Serve the classes of a port by weight: deficit round robin, in groups (`WEIGHTED`).

Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import Bytes, PortRecord
from netsim.engine.kernels.instructions import lowest_bit
from netsim.engine.kernels.layout import LinkState, queue_of, ring_slot


def weighted_class(links: LinkState, port: PortRecord, classes: int) -> int:
    """Return the open class to serve: deficit round robin in the first group that has one."""
    best = links.class_weights[queue_of(port.number, lowest_bit(classes))]
    group = links.class_weights[queue_of(port.number, best.first)]
    cls = group.turn
    while True:
        weight = links.class_weights[queue_of(port.number, cls)]
        if (classes >> cls) & 1 == 1:
            queue = links.queues[queue_of(port.number, cls)]
            head = links.pool[ring_slot(queue.off, queue.mask, queue.head)]
            if int(head.size_bytes) <= weight.deficit_bytes:
                group.turn = cls
                return cls
        cls += 1
        if cls == weight.end:
            cls = weight.first
        if (classes >> cls) & 1 == 1:
            following = links.class_weights[queue_of(port.number, cls)]
            following.deficit_bytes += following.quantum_bytes


def charge(links: LinkState, port: PortRecord, cls: int, size: Bytes) -> None:
    """Charge a packet that has left its queue to its class."""
    queue = links.queues[queue_of(port.number, cls)]
    weight = links.class_weights[queue_of(port.number, cls)]
    weight.deficit_bytes -= size
    if weight.deficit_bytes < 0 or queue.head == queue.tail:
        weight.deficit_bytes = Bytes(0)
