"""A switch with independent ports, served port by port.

A step gathers the window's arrivals from the links of all ingress ports, sorts them by output port
and time, and runs each port through the window while its state is in cache.

An arrival's sort key has the time since the window's start from bit KEY_BITS on, the ingress's rank
in the order of simultaneous arrivals from INDEX_BITS on, and the arrival's number below. Only
simultaneous arrivals that meet get a rank (`sort_arrivals`), from 1 on.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import (
    NO_PORT,
    GlobalPort,
    LinkReaderRecord,
    LocalPort,
    NodeId,
    Numbers,
    PortRecord,
    Ps,
    SwitchRecord,
)
from netsim.engine.kernels.handlers import NOTHING as NO_HANDLER
from netsim.engine.kernels.handlers import QueueEnv, queue_env_of, routing_env_of
from netsim.engine.kernels.instructions import prefetch
from netsim.engine.kernels.layout import (
    BROKEN,
    GROW_SCRATCH,
    INF,
    N_BUCKETS,
    OK,
    WAITS,
    Clock,
    LinkState,
    Net,
    Scratch,
    exclude,
    include,
    includes,
    next_port,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.link_retry import has_work
from netsim.engine.kernels.links import BLOCK_SLOTS, first_slot, leave_block, slot_in
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.ports import advance, arrive, has_event
from netsim.engine.kernels.routing import count_unroutable, has_route, output_port
from netsim.engine.kernels.specialization_constants import (
    COUPLED,
    HAS_ON_MESSAGE,
    HAS_PFC,
    MAY_BE_UNROUTABLE,
    N_CLASSES,
    PORT_WAKEUPS,
    ROUTES_AHEAD,
)
from netsim.model.arithmetic import mix

KEY_BITS, INDEX_BITS = 36, 23
INDEX_MASK = (1 << INDEX_BITS) - 1

CIRCLE_BITS = 13
CIRCLE = 1 << CIRCLE_BITS  # number of positions on the circle


def order_at(reader: LinkReaderRecord, time: Ps) -> int:
    """Return the rank of a port at a time: how far its position on a circle, random for each four
    packet times, is from a point that moves a quarter circle per packet time."""
    number = time // reader.packet_ps
    position = mix(reader.order_salt ^ ((number >> 2) & 0xFFFFFFFF)) >> (32 - CIRCLE_BITS)
    ahead = (position - ((number & 3) << (CIRCLE_BITS - 2))) & (CIRCLE - 1)
    rank: int = 1 + min(ahead, CIRCLE - ahead)
    return rank


MIN_BUCKETS = 64  # fewest buckets for arrivals by time; there are twice as many buckets as arrivals
FEW_ARRIVALS = 24  # at most this many are sorted without buckets
AHEAD = 4  # arrivals of an output port are prefetched this far ahead


def prefetch_link(links: LinkState, reader: LinkReaderRecord) -> None:
    """Prefetch the first unread packets of a link, a block's worth."""
    last = min(reader.tail, reader.head + BLOCK_SLOTS)
    for position in range(reader.head, min(last, reader.block_end), 2):
        prefetch(links.pool, slot_in(reader.block, position))  # two packets share a cache line
    if last > reader.block_end:
        block = links.next_block[reader.block]
        for position in range(reader.block_end, last, 2):
            prefetch(links.pool, slot_in(block, position))


def gather(
    env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> tuple[int, Ps]:
    """Collect the arrivals of the window in the worker's scratch, port by port in ascending order.

    Arrival k gets its pool slot ``slots[k]``, its ingress ``ins[k]``, a sort key without a rank
    ``keys[k]`` and, if it is routed now, its output ``outs[k]``. Returns the number of arrivals and
    the time of the first one after the window, or (-needed, INF) if scratch is too small.
    """
    net = env.net
    links = env.links
    routing_env = routing_env_of(env)
    first = net.first_port[node]
    w0 = clock.clock[0].w0
    w1 = clock.clock[0].w1
    keys = scratch.keys[worker, 0]
    slots = scratch.slots[worker]
    outs = scratch.outs[worker]
    ins = scratch.ins[worker]
    read_to = scratch.read_to[worker]
    n_unroutable = scratch.n_unroutable[worker]
    waiting = 0
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        waiting += links.readers[first + port].tail - links.readers[first + port].head
        prefetch(links.next_block, links.readers[first + port].block)
        port = next_port(net, links.unread, node, port)
    if waiting > slots.shape[0]:
        return -waiting, INF
    k = 0
    following = INF
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        beside = next_port(net, links.unread, node, port)
        p = first + port
        reader = links.readers[p]
        n_unroutable[port] = 0
        if beside >= 0:
            prefetch_link(links, links.readers[first + beside])
        head = reader.head
        block = reader.block
        end = reader.block_end
        while head < reader.tail:
            if head == end:
                block = links.next_block[block]
                end += BLOCK_SLOTS
            slot = slot_in(block, head)
            time = links.pool[slot].time
            if time >= w1:
                following = min(following, time)
                break
            keys[k] = ((time - w0) << KEY_BITS) | k
            slots[k] = slot
            ins[k] = port
            if ROUTES_AHEAD:
                frames = HAS_PFC or HAS_ON_MESSAGE
                routable = not frames or int(links.pool[slot].kind) < PFC
                if MAY_BE_UNROUTABLE:
                    routable = routable and has_route(net, node, links.pool[slot])
                if routable:
                    outs[k] = output_port(routing_env, p, slot, time)
                elif COUPLED:
                    outs[k] = NO_PORT
                else:
                    n_unroutable[port] += 1
                    head += 1
                    continue
            k += 1
            head += 1
        read_to[port] = head
        port = beside
    return k, following


def count_unroutable_arrivals(
    net: Net, links: LinkState, worker: int, node: NodeId, p: GlobalPort, end: int
) -> None:
    """Count unroutable packets that came in by port ``p``, up to position ``end`` of its link."""
    reader = links.readers[p]
    while reader.head < end:
        slot = first_slot(links, worker, reader)
        if not has_route(net, node, links.pool[slot]):
            count_unroutable(links, p, slot)
        reader.head += 1


def sort_roughly(clock: Clock, scratch: Scratch, worker: int, n: int) -> None:
    """Copy the keys to ``scratch.keys[worker, 1]``; if many, in nearly ascending order of time."""
    src = scratch.keys[worker, 0]
    dst = scratch.keys[worker, 1]
    if n <= FEW_ARRIVALS:
        for i in range(n):
            dst[i] = src[i]
        return
    starts = scratch.buckets[worker]
    n_buckets = MIN_BUCKETS
    while n_buckets < min(2 * n, N_BUCKETS):
        n_buckets *= 2
    width = clock.clock[0].w1 - clock.clock[0].w0
    shift = KEY_BITS
    while (width >> (shift - KEY_BITS)) >= n_buckets:
        shift += 1
    starts[: n_buckets + 1] = 0
    for i in range(n):
        starts[(src[i] >> shift) + 1] += 1
    for b in range(n_buckets):
        starts[b + 1] += starts[b]
    for i in range(n):
        b = src[i] >> shift
        dst[starts[b]] = src[i]
        starts[b] += 1


def insertion_sort(keys: Numbers[int, int], lo: int, hi: int) -> None:
    """Sort ``keys[lo:hi]``, nearly sorted or few, in place."""
    for i in range(lo + 1, hi):
        key = keys[i]
        j = i - 1
        while j >= lo and keys[j] > key:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key


def sort_arrivals(
    links: LinkState,
    keys: Numbers[int, int],
    ins: Numbers[int, LocalPort],
    first: GlobalPort,
    w0: Ps,
    lo: int,
    hi: int,
) -> None:
    """Sort nearly sorted ``keys[lo:hi]`` in place; only equal times need ranks."""
    insertion_sort(keys, lo, hi)
    i = lo + 1
    while i < hi:
        if keys[i] >> KEY_BITS != keys[i - 1] >> KEY_BITS:
            i += 1
            continue
        tied = i - 1
        while i < hi and keys[i] >> KEY_BITS == keys[tied] >> KEY_BITS:
            i += 1
        for j in range(tied, i):
            reader = links.readers[first + ins[keys[j] & INDEX_MASK]]
            keys[j] |= order_at(reader, w0 + (keys[j] >> KEY_BITS)) << INDEX_BITS
        insertion_sort(keys, tied, i)
        i += 1


def count_by_output(
    net: Net, links: LinkState, scratch: Scratch, worker: int, n: int, node: NodeId
) -> None:
    """Count the arrivals of each output port in ``ends``; ports with arrivals become busy."""
    first_word = net.first_word[node]
    outs = scratch.outs[worker]
    ends = scratch.ends[worker]
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        ends[out] = 0
        out = next_port(net, links.busy, node, out)
    for i in range(n):
        out = LocalPort(outs[i])
        if not includes(links.busy, first_word, out):
            include(links.busy, first_word, out)
            ends[out] = 0
        ends[out] += 1


def group_by_output(scratch: Scratch, worker: int, n: int) -> None:
    """Move nearly sorted keys to keys[worker, 0], in groups of one output port. On entry ``ends``
    has the first position of each port's arrivals, on return the position past the last."""
    src = scratch.keys[worker, 1]
    dst = scratch.keys[worker, 0]
    outs = scratch.outs[worker]
    ends = scratch.ends[worker]
    for i in range(n):
        key = src[i]
        out = LocalPort(outs[key & INDEX_MASK])
        dst[ends[out]] = key
        ends[out] += 1


def have_read(
    net: Net, links: LinkState, worker: int, node: NodeId, port: LocalPort, end: int
) -> None:
    """Record that packets of a port were read up to position ``end``; free their blocks. The port
    stays unread if it has more."""
    reader = links.readers[net.first_port[node] + port]
    while reader.block_end < end:
        leave_block(links, worker, reader)
    reader.head = end
    if end == reader.tail:
        exclude(links.unread, net.first_word[node], port)


def have_read_all(net: Net, links: LinkState, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Record that all ports have read what `gather` found, unroutable packets included."""
    first = net.first_port[node]
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        end = scratch.read_to[worker][port]
        if MAY_BE_UNROUTABLE:
            if scratch.n_unroutable[worker][port] > 0:
                count_unroutable_arrivals(net, links, worker, node, first + port, end)
        have_read(net, links, worker, node, port, end)
        port = next_port(net, links.unread, node, port)


def serve(
    env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, p: GlobalPort, lo: int, hi: int
) -> None:
    """Run output port ``p`` through the window with arrivals ``lo .. hi`` of the sorted keys."""
    links = env.links
    port = links.ports[p]
    keys = scratch.keys[worker, 0]
    slots = scratch.slots[worker]
    w0 = clock.clock[0].w0
    sort_arrivals(links, keys, scratch.ins[worker], env.switch.first_port, w0, lo, hi)
    for i in range(lo, hi):
        prefetch(links.pool, slots[keys[min(i + AHEAD, hi - 1)] & INDEX_MASK])
        key = keys[i]
        now = w0 + (key >> KEY_BITS)
        advance(env, port, now)
        arrive(env, port, slots[key & INDEX_MASK], now)
    advance(env, port, clock.clock[0].w1 - 1)


def resume_ports(net: Net, links: LinkState, node: NodeId, w1: Ps) -> None:
    """Resume the ports of switch ``node`` whose wakeup is before ``w1``."""
    switch = links.switches[node - net.n_hosts]
    if switch.next_wakeup_ps >= w1:
        return
    first_word = net.first_word[node]
    earliest = INF
    out = next_port(net, links.waiting_ports, node, NO_PORT)
    while out >= 0:
        port = links.ports[net.first_port[node] + out]
        if port.tx_class != WAITS:  # active again, or nothing to wait for
            exclude(links.waiting_ports, first_word, out)
        elif port.free_at < w1:
            exclude(links.waiting_ports, first_word, out)
            include(links.busy, first_word, out)
        else:
            earliest = min(earliest, port.free_at)
        out = next_port(net, links.waiting_ports, node, out)
    switch.next_wakeup_ps = earliest


def suspend_port(
    links: LinkState, switch: SwitchRecord, port: PortRecord, out: LocalPort, w1: Ps
) -> bool:
    """Suspend port ``out`` if it waits for a time from ``w1`` on; return whether it was."""
    if port.tx_class != WAITS or port.free_at < w1:
        return False
    include(links.waiting_ports, switch.first_word, out)
    exclude(links.busy, switch.first_word, out)
    switch.next_wakeup_ps = min(switch.next_wakeup_ps, port.free_at)
    return True


def settled(env: QueueEnv) -> int:
    """Return the status of a completed step."""
    switch = env.switch
    if switch.rule_broken != 0:
        return BROKEN
    switch.handler = NO_HANDLER
    return OK


def switch_step(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Advance switch ``node`` to the end of the window; return a status of layout.py."""
    env = queue_env_of(links.switches[node - net.n_hosts], links, net)
    env.switch.worker = worker
    first = net.first_port[node]
    n, next_event = gather(env, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    if PORT_WAKEUPS:
        resume_ports(net, links, node, clock.clock[0].w1)
    count_by_output(net, links, scratch, worker, n, node)
    ends = scratch.ends[worker]
    start = 0
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        prefetch(links.ports, int(first + out))
        for cls in range(N_CLASSES):
            prefetch(links.queues, queue_of(first + out, cls))
        arrivals = ends[out]
        ends[out] = start
        start += arrivals
        out = next_port(net, links.busy, node, out)
    sort_roughly(clock, scratch, worker, n)
    group_by_output(scratch, worker, n)
    start = 0
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        end = ends[out]
        following = next_port(net, links.busy, node, out)
        if following >= 0:
            after = links.ports[first + following]
            prefetch(links.pool, slot_in(after.block, after.tail))
            for cls in range(N_CLASSES):
                queue = links.queues[queue_of(first + following, cls)]
                prefetch(links.pool, ring_slot(queue.off, queue.mask, queue.head))
        serve(env, clock, scratch, worker, first + out, start, end)
        start = end
        include(links.dirty_ports, net.first_word[node], out)
        port = links.ports[first + out]
        if not PORT_WAKEUPS or not suspend_port(links, env.switch, port, out, clock.clock[0].w1):
            if has_work(links, port) and has_event(port):
                next_event = min(next_event, port.free_at)
            else:
                exclude(links.busy, net.first_word[node], out)
        out = following
    have_read_all(net, links, scratch, worker, node)
    if PORT_WAKEUPS:
        next_event = min(next_event, env.switch.next_wakeup_ps)
    clock.next_event[node] = next_event
    return settled(env)
