"""Lengthen rings that are full.

A ring moves to the unused end of the pool, from which all workers take without waiting for each
other. A link's reader uses the old entries until the window ends, and then gets the new location
(`show_moved_links`). If the pool is full nothing changes, and the step ends.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import HostPortRecord, PortRecord, QueueRecord
from netsim.engine.kernels.ids import NO_SLOT, GlobalPort, NodeId, Slot
from netsim.engine.kernels.indexing import ports_of, ring_slot
from netsim.engine.kernels.instructions import take_tickets
from netsim.engine.kernels.layout import Clock, LinkState, Net

FACTOR = 2  # growth of a full ring; so abandoned rings take as much as the last one


def take_stretch(links: LinkState, n_slots: int) -> Slot:
    """Take ``n_slots`` unused slots of the pool; return the first, or NO_SLOT."""
    first = take_tickets(links.pool_used, n_slots)
    if first + n_slots <= links.pool.shape[0]:
        return Slot(first)
    take_tickets(links.pool_used, -n_slots)
    return NO_SLOT


def slots_for(mask: int, need: int) -> int:
    """Return the new length of a ring of ``mask + 1`` slots that needs ``need``."""
    slots = FACTOR * (mask + 1)
    while slots < need:
        slots *= 2
    return slots


def moved(links: LinkState, off: Slot, mask: int, head: int, tail: int, n_slots: int) -> Slot:
    """Copy entries ``head .. tail`` of a ring to one of ``n_slots``; return its first slot."""
    new = take_stretch(links, n_slots)
    if new < 0:
        return NO_SLOT
    for position in range(head, tail):
        here = ring_slot(off, mask, position)
        there = ring_slot(new, n_slots - 1, position)
        links.pool[there] = links.pool[here]
        if links.ingress.shape[0] > 1:
            links.ingress[there] = links.ingress[here]
    return new


def lengthen_link(links: LinkState, port: PortRecord, p: GlobalPort, need: int) -> bool:
    """Give the link of port ``p`` a ring of at least ``need`` slots; False if the pool is full.
    Entries that its reader may not have read move with it."""
    slots = slots_for(port.ring_mask, need)
    new = moved(links, port.ring_off, port.ring_mask, links.published_head[p], port.tail, slots)
    if new < 0:
        return False
    port.ring_off = new
    port.ring_mask = slots - 1
    take_tickets(links.moved_links, 1)
    return True


def ring_full(links: LinkState, p: GlobalPort) -> bool:
    """Make room on the link of port ``p`` for a packet and a PFC frame of one event. Returns True
    if the pool is full."""
    port = links.ports[p]
    need = port.tail - links.published_head[p] + 2
    return need > port.ring_mask + 1 and not lengthen_link(links, port, p, need)


def lengthen_queue(links: LinkState, queue: QueueRecord, need: int) -> bool:
    """Lengthen the ring of a switch's class queue; False if the pool is full."""
    slots = slots_for(queue.mask, need)
    new = moved(links, queue.off, queue.mask, queue.head, queue.tail, slots)
    if new < 0:
        return False
    queue.off = new
    queue.mask = slots - 1
    return True


def lengthen_control(links: LinkState, host_port: HostPortRecord) -> bool:
    """Lengthen the control FIFO of a host's port; False if the pool is full."""
    slots = slots_for(host_port.ctrl_mask, 0)
    new = moved(
        links,
        host_port.ctrl_off,
        host_port.ctrl_mask,
        host_port.ctrl_head,
        host_port.ctrl_tail,
        slots,
    )
    if new < 0:
        return False
    host_port.ctrl_off = new
    host_port.ctrl_mask = slots - 1
    return True


def show_moved_links(net: Net, links: LinkState, clock: Clock) -> None:
    """Update readers of moved links, between windows."""
    if links.moved_links[0] == 0:
        return
    links.moved_links[0] = 0
    for i in range(clock.clock[0].n_active):
        for p in ports_of(net, NodeId(clock.active[i])):
            port = links.ports[p]
            reader = links.readers[net.port_peer[p]]
            reader.ring_off = port.ring_off
            reader.ring_mask = port.ring_mask
