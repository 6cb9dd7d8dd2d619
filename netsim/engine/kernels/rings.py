"""Memory of packets: chains of blocks on links, rings of blocks in queues.

The pool is divided into blocks of slots. A link is a chain of blocks: the port that sends takes
the next block when the last is full, and the port that receives frees each block that it has read.
A worker takes first what it has freed last, which is still in its cache. So a link has as much
memory as packets, and memory that has never been needed is never touched.

A queue is a ring, because handlers may remove packets from its middle: at first a piece of a block,
since most queues are short, later neighboring blocks. A full ring moves to one twice as long; its
blocks become free, but a piece stays unused.

Every link begins with a block that is never used, as if it had been full and read. A queue begins
without a ring.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import (
    HostPortRecord,
    LinkReaderRecord,
    PortRecord,
    QueueRecord,
)
from netsim.engine.kernels.ids import Block, Slot, span
from netsim.engine.kernels.indexing import ring_slot
from netsim.engine.kernels.instructions import take_tickets
from netsim.engine.kernels.layout import LinkState

BLOCK_SLOTS = 64  # a power of two
FIRST_RING = 16  # slots; a power of two
BATCH = 64  # unused blocks that a worker takes at a time
UNEVEN = 512  # difference in free blocks at which workers share them
NO_BLOCK = Block(-1)
ANY_BLOCK = Block(0)
NO_RING = 0  # mask of a queue that has no ring yet, so that it is full; others keep a slot empty

FREE, N_FREE, FRESH, FRESH_END, CUT = range(5)
"""Columns of `free_blocks`: the first of a worker's list of free blocks, their number, the range of
unused blocks that it has taken, and the slot at which it has cut a block into rings."""


def slot_in(block: Block, position: int) -> Slot:
    """Return the slot of a link's packet number ``position``, which is in ``block``."""
    return Slot(block * BLOCK_SLOTS + (position & (BLOCK_SLOTS - 1)))


def take_unused(links: LinkState, n: int) -> Block:
    """Take ``n`` neighboring blocks that were never used; return the first, or NO_BLOCK if the pool
    has no more, which ends the run."""
    first = take_tickets(links.pool_used, n)
    if (first + n) * BLOCK_SLOTS <= links.pool.shape[0]:
        return Block(first)
    take_tickets(links.pool_used, -n)
    links.pool_full[0] = 1
    return NO_BLOCK


def take_block(links: LinkState, worker: int) -> Block:
    """Take a block; any if there is none, since the run then ends with this window."""
    own = links.free_blocks
    block = Block(own[worker, FREE])
    if block != NO_BLOCK:
        own[worker, FREE] = links.next_block[block]
        own[worker, N_FREE] -= 1
        return block
    if own[worker, FRESH] == own[worker, FRESH_END]:
        first = take_unused(links, BATCH)
        if first == NO_BLOCK:
            return ANY_BLOCK
        own[worker, FRESH] = first
        own[worker, FRESH_END] = first + BATCH
    block = Block(own[worker, FRESH])
    own[worker, FRESH] += 1
    return block


def free_block(links: LinkState, worker: int, block: Block) -> None:
    """Return a block that this worker's node no longer needs."""
    own = links.free_blocks
    links.next_block[block] = Block(own[worker, FREE])
    own[worker, FREE] = block
    own[worker, N_FREE] += 1


def next_slot(links: LinkState, worker: int, port: PortRecord) -> Slot:
    """Return the slot past the end of a port's link, for the next packet."""
    if port.tail == port.block_end:
        block = take_block(links, worker)
        links.next_block[port.block] = block
        port.block = block
        port.block_end += BLOCK_SLOTS
    return slot_in(port.block, port.tail)


def leave_block(links: LinkState, worker: int, reader: LinkReaderRecord) -> None:
    """Go to the next block of a link, and free the one that has been read."""
    block = reader.block
    reader.block = links.next_block[block]
    reader.block_end += BLOCK_SLOTS
    if block >= links.readers.shape[0]:
        free_block(links, worker, block)


def first_slot(links: LinkState, worker: int, reader: LinkReaderRecord) -> Slot:
    """Return the slot of a link's first unread packet, which must exist."""
    if reader.head == reader.block_end:
        leave_block(links, worker, reader)
    return slot_in(reader.block, reader.head)


def take_ring(links: LinkState, worker: int, n: int) -> Slot:
    """Take ``n`` neighboring slots, at most a block."""
    own = links.free_blocks
    cut = Slot(own[worker, CUT])
    if -cut & (BLOCK_SLOTS - 1) < n:  # at the end of a block nothing is left
        cut = slot_in(take_block(links, worker), 0)
    own[worker, CUT] = cut + n
    return cut


def longer_ring(
    links: LinkState, worker: int, off: Slot, mask: int, head: int, tail: int
) -> tuple[Slot, int]:
    """Copy a full ring to one twice as long; return its first slot and mask. They are unchanged if
    the pool has no room."""
    if mask == NO_RING:
        return take_ring(links, worker, FIRST_RING), FIRST_RING - 1
    n = 2 * (mask + 1)
    if n <= BLOCK_SLOTS:
        new = take_ring(links, worker, n)
    else:
        first = take_unused(links, n // BLOCK_SLOTS)
        if first == NO_BLOCK:
            return off, mask
        new = slot_in(first, 0)
    for position in range(head, tail):
        here = ring_slot(off, mask, position)
        there = ring_slot(new, n - 1, position)
        links.pool[there] = links.pool[here]
        if links.origins.shape[0] > 1:
            links.origins[there] = links.origins[here]
    old = off // BLOCK_SLOTS
    for block in span(Block(old), Block(old + (mask + 1) // BLOCK_SLOTS)):
        free_block(links, worker, block)
    return new, n - 1


def lengthen_queue(links: LinkState, worker: int, queue: QueueRecord) -> None:
    """Lengthen the full ring of a class queue."""
    queue.off, queue.mask = longer_ring(
        links, worker, queue.off, queue.mask, queue.head, queue.tail
    )


def lengthen_control(links: LinkState, worker: int, host_port: HostPortRecord) -> None:
    """Lengthen the full control FIFO of a host's port."""
    off, mask = host_port.ctrl_off, host_port.ctrl_mask
    head, tail = host_port.ctrl_head, host_port.ctrl_tail
    host_port.ctrl_off, host_port.ctrl_mask = longer_ring(links, worker, off, mask, head, tail)


def share_blocks(links: LinkState) -> None:
    """Divide free blocks evenly among workers, between windows: some free more than they take."""
    own = links.free_blocks
    most = 0
    least = 0
    for worker in range(own.shape[0]):
        if own[worker, N_FREE] > own[most, N_FREE]:
            most = worker
        if own[worker, N_FREE] < own[least, N_FREE]:
            least = worker
    surplus = own[most, N_FREE] - own[least, N_FREE]
    if surplus < UNEVEN:
        return
    for _ in range(surplus // 2):
        block = Block(own[most, FREE])
        own[most, FREE] = links.next_block[block]
        own[most, N_FREE] -= 1
        free_block(links, least, block)
