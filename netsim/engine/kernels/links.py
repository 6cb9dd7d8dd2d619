"""Links: memory of packets, transmissions, faults (`FAULTS`) and circuits (`CIRCUITS`).

The pool is divided into blocks of slots. A link is a chain of blocks: the port that sends takes
the next block when the last is full, and the port that receives frees each block that it has read.
A worker takes the block that it freed last, which is still in its cache. So a link has as much
memory as packets, and memory that has never been needed is never touched.

A queue is a ring, because handlers may remove packets from its middle: at first a piece of a block,
since most queues are short, later neighboring blocks. A full ring moves to one twice as long; its
blocks become free, but a piece stays unused.

Every link begins with a block that is never used, as if it had been full and read. A queue begins
without a ring.

A port's transmissions start in time order, so its position in its intervals, outages and days
only moves forward.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import (
    Block,
    Bytes,
    GlobalPort,
    HostPortRecord,
    LinkReaderRecord,
    PacketRecord,
    PortRecord,
    Ps,
    QueueRecord,
    Slot,
    span,
)
from netsim.engine.kernels.handlers import use_credit
from netsim.engine.kernels.instructions import take_tickets
from netsim.engine.kernels.layout import INF, NOT_QUEUED, WAITS, LinkState, queue_of, ring_slot
from netsim.engine.kernels.link_retry import (
    DAMAGED,
    NOTHING,
    WHOLE,
    accepts,
    has_replay,
    has_room,
    kept_packet,
    wait_for_answer,
)
from netsim.engine.kernels.packets import CNP, FIRST_CONTROL, PAUSE_END
from netsim.engine.kernels.specialization_constants import (
    CIRCUITS,
    CUT_THROUGH,
    FAULTS,
    HAS_CREDIT,
    LINK_RETRY,
    NIC,
    PHASE_DRIVEN,
    REORDERS,
    TRACE,
)
from netsim.engine.kernels.trace import HELD, LOST, REPLAYED, trace_packet
from netsim.limits import HORIZON_PS
from netsim.model.arithmetic import PURPOSE_LOSS, rand32, send_time

BLOCK_SLOTS = 64  # a power of two
FIRST_RING = 16  # slots; a power of two
BATCH = 64  # unused blocks that a worker takes at a time
UNEVEN = 512  # difference in free blocks at which workers share them
NO_BLOCK = Block(-1)
ANY_BLOCK = Block(0)
NO_RING = 0  # mask of a queue that has no ring yet, so that it is full; others keep a slot empty

DATA_SERVER, ACK_SERVER, CNP_SERVER, N_SERVERS = range(4)
"""Columns of `nic_busy`, and their number."""

FREE, N_FREE, FRESH, FRESH_END, CUT, MADE = range(6)
"""Columns of `free_blocks`: the first of a worker's list of free blocks, their number, the range of
unused blocks that it has taken, the slot at which it has cut a block into rings, and the block for
packets that switches make."""


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
    """Take a block. If none is left, take any, since the run then ends with this window."""
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
    """Go to the next block of a link, and free the block that has been read."""
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


def sort_new(links: LinkState, reader: LinkReaderRecord, tail: int) -> int:
    """Move the packets from the reader's tail up to ``tail`` forward, to where they arrive in order
    of time; return the number of entries that are ends of pauses, not packets."""
    ends = 0
    for new in range(reader.tail, tail):
        slot = slot_at(links, reader, new)
        if int(links.pool[slot].kind) == PAUSE_END:
            ends += 1
        for position in range(new - 1, reader.head - 1, -1):
            before = slot_at(links, reader, position)
            if links.pool[before].time <= links.pool[slot].time:
                break
            links.zero_packet[1] = links.pool[before]
            links.pool[before] = links.pool[slot]
            links.pool[slot] = links.zero_packet[1]
            slot = before
    return ends


def slot_at(links: LinkState, reader: LinkReaderRecord, position: int) -> Slot:
    """Return the slot of a link's unread packet number ``position``."""
    block, end = reader.block, reader.block_end
    while position >= end:
        block = links.next_block[block]
        end += BLOCK_SLOTS
    return slot_in(block, position)


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


# --- transmissions --------------------------------------------------------------------------------


def end_of_transmission(links: LinkState, port: PortRecord, size: Bytes, now: Ps) -> Ps:
    """Return the end of a transmission of ``size`` bytes that starts now."""
    if FAULTS:
        renew_link(links, port, port.number, now)
    return now + send_time(size, port.ps_per_byte_q20)


def header_end(links: LinkState, port: PortRecord, size: Bytes, now: Ps, end: Ps) -> Ps:
    """Return when a packet sent from ``now`` to ``end`` counts as sent, one delay before it
    arrives: after its header if the next switch cuts through, else after its end."""
    if CUT_THROUGH:
        if port.ps_per_byte_q20 <= links.cut_through_q20[port.number]:
            header = min(size, links.fabric[0].cut_through_bytes)
            return now + send_time(header, port.ps_per_byte_q20)
    return end


def reaches_end(
    links: LinkState, port: PortRecord, cls: int, slot: Slot, size: Bytes, now: Ps, end: Ps
) -> bool:
    """Return whether the packet in ``slot``, sent until ``end``, arrives: the link does not lose
    it, and with LLR the other end accepts it. Adds a host's processing time to its arrival."""
    brings = WHOLE
    arrival = links.pool[slot].time
    if CUT_THROUGH:  # of the last bit
        arrival += end - header_end(links, port, size, now, end)
    if CIRCUITS:
        if misses_circuit(links, port.number, cls, size, now, end):
            brings = NOTHING
    if FAULTS:
        if brings == WHOLE:
            brings = brought(links, port.number, size, now, arrival)
            if brings != WHOLE and not LINK_RETRY:
                count_loss(links, port.number, cls, size)
    arrives = brings == WHOLE
    if LINK_RETRY:
        arrives = accepts(links, port, links.pool[slot], brings, end, arrival)
    if NIC:
        if arrives and links.readers[port.number].from_host == 1:
            process(links, port, links.pool[slot])
    return arrives


def process(links: LinkState, port: PortRecord, pkt: PacketRecord) -> None:
    """Delay the arrival of a packet that the port sends to a host until the host's port has
    processed it."""
    fabric = links.fabric[0]
    kind = int(pkt.kind)
    server, interval_ps, delay_ps = DATA_SERVER, fabric.data_interval_ps, fabric.data_delay_ps
    if kind == CNP:
        server, interval_ps, delay_ps = CNP_SERVER, fabric.cnp_interval_ps, fabric.cnp_delay_ps
    elif kind >= FIRST_CONTROL:
        server, interval_ps, delay_ps = ACK_SERVER, fabric.ack_interval_ps, fabric.ack_delay_ps
    busy_ps = Ps(max(pkt.time, links.nic_busy[port.number, server]) + interval_ps)
    links.nic_busy[port.number, server] = busy_ps
    pkt.time = Ps(busy_ps + delay_ps)


def depart(
    links: LinkState,
    port: PortRecord,
    queue: QueueRecord,
    slot: Slot,
    size: Bytes,
    now: Ps,
    end: Ps,
    arrives: bool,
) -> None:
    """Transmit the packet in ``slot``, past the end of the link, until ``end``: count it and append
    it to the link, unless it is lost."""
    if arrives:
        append(links, port, links.pool[slot].time)
    elif TRACE:
        event = HELD if LINK_RETRY else LOST
        trace_packet(links, event, port.number, links.pool[slot], now, queue.bytes)
    if HAS_CREDIT:
        if (arrives or LINK_RETRY) and links.readers[port.number].from_host == 0:
            use_credit(links.discipline[0], queue, size)
    port.free_at = end
    queue.sent_packets += 1
    queue.sent_bytes += size


def copy_kept(links: LinkState, worker: int, port: PortRecord) -> Slot:
    """Copy the next packet to be sent again past the end of a port's link; return its slot."""
    retry = links.retries[port.number]
    slot = next_slot(links, worker, port)
    links.pool[slot] = kept_packet(links, retry, retry.cursor)
    return slot


def send_again(links: LinkState, port: PortRecord, slot: Slot, now: Ps, end: Ps) -> None:
    """Transmit the packet in ``slot`` once more, like `depart`."""
    pkt = links.pool[slot]
    size = Bytes(pkt.size_bytes)
    cls = int(pkt.prio)
    loss = links.losses[queue_of(port.number, cls)]
    loss.replays += 1
    loss.replay_bytes += size
    if reaches_end(links, port, cls, slot, size, now, end):
        append(links, port, pkt.time)
        if TRACE:
            trace_packet(links, REPLAYED, port.number, pkt, now, 0)
    port.free_at = end


def retries(links: LinkState, worker: int, port: PortRecord, waiting: bool, now: Ps) -> bool:
    """Resend a packet by an idle switch port, or wait for room in its replay buffer; return whether
    the port does either. ``waiting``: a class is open."""
    port.tx_class = 0
    if has_replay(links, port, now):
        slot = copy_kept(links, worker, port)
        size = Bytes(links.pool[slot].size_bytes)
        end = end_of_transmission(links, port, size, now)
        links.pool[slot].time = header_end(links, port, size, now, end) + port.delay_ps
        send_again(links, port, slot, now, end)
        port.tx_bytes = size
        port.tx_class = NOT_QUEUED
        return True
    if has_room(links, port.number, now):
        return False
    wait_for_answer(links, port, waiting)
    return True


def append(links: LinkState, port: PortRecord, arrival: Ps) -> None:
    """Append the packet in the next slot to a port's link, where it arrives at ``arrival``."""
    if REORDERS:
        links.first_new[port.number] = min(links.first_new[port.number], arrival)
    elif links.first_new[port.number] == INF:
        links.first_new[port.number] = arrival
    port.tail += 1


def renew_link(links: LinkState, port: PortRecord, p: GlobalPort, now: Ps) -> None:
    """Update the rate and loss probability of port ``p``'s link to their values at ``now``."""
    fault = links.faults[p]
    after = fault.interval + 1
    while after < fault.last_interval and links.fault_intervals[after].start_ps <= now:
        fault.interval = after
        interval = links.fault_intervals[after]
        after += 1
        fault.profile = interval.profile
        port.ps_per_byte_q20 = interval.ps_per_byte_q20


def brought(links: LinkState, p: GlobalPort, size: Bytes, begin: Ps, arrival: Ps) -> int:
    """Return whether a packet crosses the link of port ``p`` whole, damaged or not at all: not at
    all if the link is down between ``begin`` and ``arrival``; otherwise a random draw decides."""
    fault = links.faults[p]
    while fault.outage < fault.last_outage and links.outages[fault.outage, 1] <= begin:
        fault.outage += 1
    if fault.outage < fault.last_outage and links.outages[fault.outage, 0] < arrival:
        return NOTHING
    chance = links.loss_table[fault.profile, size]
    if chance > 0:
        draw = rand32(links.fabric[0].seed, PURPOSE_LOSS, int(p), fault.draws)
        fault.draws += 1
        if draw < chance:
            return DAMAGED
    return WHOLE


def count_loss(links: LinkState, p: GlobalPort, cls: int, size: Bytes) -> None:
    """Count a packet that the link of port ``p`` loses."""
    loss = links.losses[queue_of(p, cls)]
    loss.packets += 1
    loss.bytes += size


def next_day(links: LinkState, first: int, last: int, period: Ps, now: Ps) -> tuple[Ps, Ps]:
    """Return the day in rows ``first`` to ``last`` of `days` that first ends after ``now``. The
    rows repeat with ``period``; without rows both times are INF."""
    if first == last:
        return INF, INF
    row, past = first_ending(links, first, last, period, now)
    return links.days[row, 0] + past, links.days[row, 1] + past


def first_ending(links: LinkState, first: int, last: int, period: Ps, now: Ps) -> tuple[int, Ps]:
    """Return the row that `next_day` reads, and the time of whole periods to add to it."""
    days = links.days
    # First period whose last day ends after now, and the first such day in it.
    past = ((now - days[last - 1, 1]) // period + 1) * period
    lo = first
    hi = last - 1
    while lo < hi:
        middle = (lo + hi) >> 1
        if days[middle, 1] + past > now:
            hi = middle
        else:
            lo = middle + 1
    return lo, Ps(past)


def may_start(links: LinkState, port: PortRecord, now: Ps) -> bool:
    """Return whether a port's circuit lets it start; if not, ``opens_ps`` is when it will."""
    circuit = links.circuits[port.number]
    if now >= circuit.closes_ps:
        circuit.opens_ps, circuit.closes_ps = next_day(
            links, circuit.first_start, circuit.last_start, circuit.period_ps, now
        )
    return now >= circuit.opens_ps


def waits_for_circuit(links: LinkState, port: PortRecord, now: Ps) -> bool:
    """Return whether an idle port waits for its circuit; schedule its wakeup."""
    if may_start(links, port, now):
        return False
    opens_ps = links.circuits[port.number].opens_ps
    port.tx_class = 0
    if opens_ps < HORIZON_PS:
        port.free_at = opens_ps
        port.tx_class = WAITS
    elif PHASE_DRIVEN:  # a day may still be added (loop.py)
        port.free_at = INF
        port.tx_class = WAITS
    return True


def misses_circuit(
    links: LinkState, p: GlobalPort, cls: int, size: Bytes, begin: Ps, end: Ps
) -> bool:
    """Return whether a packet sent from ``begin`` to ``end`` meets no circuit; count it."""
    circuit = links.circuits[p]
    if begin >= circuit.down_ps:
        circuit.up_ps, circuit.down_ps = next_day(
            links, circuit.first_up, circuit.last_up, circuit.period_ps, begin
        )
    if circuit.up_ps <= begin and end <= circuit.down_ps:
        return False
    count_loss(links, p, cls, size)
    loss = links.losses[queue_of(p, cls)]
    loss.no_circuit_packets += 1
    loss.no_circuit_bytes += size
    return True
