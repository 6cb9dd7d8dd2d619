"""A switch with independent ports, served port by port.

A step gathers the window's arrivals from all ingress rings, sorts them by output port and time, and
runs each port through the window while its state is in cache.

An arrival's sort key has the time since the window's start from bit KEY_BITS on, the ingress's rank
in the order of simultaneous arrivals from INDEX_BITS on, and the arrival's number below. Only
simultaneous arrivals that meet get a rank (`sort_arrivals`), from 1 on.
"""

from __future__ import annotations

from netsim.engine.kernels.balance import count_unroutable, has_route, output_port
from netsim.engine.kernels.calendar import resume_ports, suspend_port
from netsim.engine.kernels.env import QueueEnv, queue_env_of
from netsim.engine.kernels.fields import LinkReaderRecord
from netsim.engine.kernels.handlers import NOTHING as NO_HANDLER
from netsim.engine.kernels.ids import NO_PORT, GlobalPort, LocalPort, NodeId, Numbers, Ps
from netsim.engine.kernels.indexing import (
    exclude,
    include,
    includes,
    next_port,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.instructions import prefetch
from netsim.engine.kernels.layout import (
    BROKEN,
    GROW_POOL,
    GROW_SCRATCH,
    INF,
    N_BUCKETS,
    OK,
    UNDO,
    Clock,
    LinkState,
    Net,
    Scratch,
)
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.ports import advance, arrive, has_event
from netsim.engine.kernels.rings import lengthen_link, lengthen_queue
from netsim.engine.kernels.specialization_constants import (
    COUPLED,
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
    """Return the rank of a port at a time: where it stands on the circle for the group of four
    packet times, seen from a place that moves on by a quarter with each packet time."""
    number = time // reader.packet_ps
    position = mix(reader.order_salt ^ ((number >> 2) & 0xFFFFFFFF)) >> (32 - CIRCLE_BITS)
    ahead = (position - ((number & 3) << (CIRCLE_BITS - 2))) & (CIRCLE - 1)
    rank: int = 1 + min(ahead, CIRCLE - ahead)
    return rank


PREFETCHED = 16  # packets of the next ring that are prefetched
MIN_BUCKETS = 64  # fewest buckets for arrivals by time; there are twice as many buckets as arrivals
FEW_ARRIVALS = 24  # so many are sorted without buckets


def gather(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> tuple[int, Ps]:
    """Collect the arrivals of the window in the worker's scratch.

    Arrival k gets its pool slot ``slots[k]``, its ingress ``ins[k]``, a sort key without a rank
    (switch.py) and, if it is routed now, its output ``outs[k]``. Ports are visited in ascending
    order. Returns the number of arrivals and the first
    arrival after the window, or (-needed, INF) if scratch is too small.
    """
    first = net.first_port[node]
    w0 = clock.clock[0].w0
    w1 = clock.clock[0].w1
    keys = scratch.keys[worker, 0]
    slots = scratch.slots[worker]
    outs = scratch.outs[worker]
    ins = scratch.ins[worker]
    undo = scratch.undo[worker]
    waiting = 0
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        waiting += links.readers[first + port].tail - links.readers[first + port].head
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
        balance = links.balance[p]
        u = UNDO * port
        undo[u] = balance.choices
        undo[u + 1] = balance.data_choices
        undo[u + 2] = balance.other_choices
        undo[u + 4] = 0
        if beside >= 0:
            ring = links.readers[first + beside]
            behind = min(ring.tail, ring.head + PREFETCHED)
            for position in range(ring.head, behind, 2):  # two packets share a cache line
                prefetch(links.pool, ring_slot(ring.ring_off, ring.ring_mask, position))
        head = reader.head
        while head < reader.tail:
            slot = ring_slot(reader.ring_off, reader.ring_mask, head)
            time = links.pool[slot].time
            if time >= w1:
                following = min(following, time)
                break
            keys[k] = ((time - w0) << KEY_BITS) | k
            slots[k] = slot
            ins[k] = port
            if ROUTES_AHEAD:
                routable = not HAS_PFC or int(links.pool[slot].kind) != PFC
                if MAY_BE_UNROUTABLE:
                    routable = routable and has_route(net, node, links.pool[slot])
                if routable:
                    outs[k] = output_port(net, links, node, p, slot)
                elif COUPLED:
                    outs[k] = NO_PORT
                else:
                    undo[u + 4] += 1
                    head += 1
                    continue
            k += 1
            head += 1
        undo[u + 3] = head
        port = beside
    return k, following


def count_unroutable_arrivals(
    net: Net, links: LinkState, node: NodeId, p: GlobalPort, end: int
) -> None:
    """Count unroutable packets that came in by port ``p``, up to position ``end`` of its ring."""
    reader = links.readers[p]
    for position in range(reader.head, end):
        slot = ring_slot(reader.ring_off, reader.ring_mask, position)
        if not has_route(net, node, links.pool[slot]):
            count_unroutable(links, p, slot)


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
    """Sort nearly sorted ``keys[lo:hi]`` in place; only where times are equal, ranks are needed."""
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
    """Count the arrivals of each output port in ``ends``; those with any join the busy ports."""
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
    """Move nearly sorted keys to keys[worker, 0], in groups of one output port. Before, ``ends``
    has the first position of each port's arrivals, after that the position past the last."""
    src = scratch.keys[worker, 1]
    dst = scratch.keys[worker, 0]
    outs = scratch.outs[worker]
    ends = scratch.ends[worker]
    for i in range(n):
        key = src[i]
        out = LocalPort(outs[key & INDEX_MASK])
        dst[ends[out]] = key
        ends[out] += 1


def has_room(links: LinkState, p: GlobalPort, n: int) -> bool:
    """Make room for ``n`` arrivals at port ``p``, and on its link for all that it may send; return
    False if the pool is full."""
    port = links.ports[p]
    enough = True
    waiting = n
    for cls in range(N_CLASSES):
        queue = links.queues[queue_of(p, cls)]
        length = queue.tail - queue.head
        waiting += length
        if length + n > queue.mask + 1:
            enough = lengthen_queue(links, queue, length + n) and enough
    under_way = port.tail - links.published_head[p]
    if under_way + waiting > port.ring_mask + 1:
        enough = lengthen_link(links, port, p, under_way + waiting) and enough
    return enough


def undo_choices(net: Net, links: LinkState, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Undo the load-balancing choices of a step that could not be carried out."""
    first = net.first_port[node]
    undo = scratch.undo[worker]
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        balance = links.balance[first + port]
        u = UNDO * port
        balance.choices = undo[u]
        balance.data_choices = undo[u + 1]
        balance.other_choices = undo[u + 2]
        port = next_port(net, links.unread, node, port)


def have_read(net: Net, links: LinkState, node: NodeId, port: LocalPort) -> None:
    """Record that packets of a port were read; it stays unread if it has more."""
    reader = links.readers[net.first_port[node] + port]
    include(links.dirty_ports, net.first_word[node], port)
    if reader.head == reader.tail:
        exclude(links.unread, net.first_word[node], port)


def have_read_all(net: Net, links: LinkState, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Record that all ports have read what `gather` found, unroutable packets included."""
    first = net.first_port[node]
    undo = scratch.undo[worker]
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        end = undo[UNDO * port + 3]
        if MAY_BE_UNROUTABLE:
            if undo[UNDO * port + 4] > 0:
                count_unroutable_arrivals(net, links, node, first + port, end)
        links.readers[first + port].head = end
        have_read(net, links, node, port)
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
        key = keys[i]
        now = w0 + (key >> KEY_BITS)
        advance(env, port, now)
        arrive(env, port, slots[key & INDEX_MASK], now)
    advance(env, port, clock.clock[0].w1 - 1)


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
    env = queue_env_of(links.switches[node - net.n_hosts], links)
    first = net.first_port[node]
    n, next_event = gather(net, links, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    if PORT_WAKEUPS:
        resume_ports(net, links, node, clock.clock[0].w1)
    count_by_output(net, links, scratch, worker, n, node)
    ends = scratch.ends[worker]
    enough = True
    start = 0
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        arrivals = ends[out]
        enough = has_room(links, first + out, arrivals) and enough
        ends[out] = start
        start += arrivals
        out = next_port(net, links.busy, node, out)
    if not enough:
        undo_choices(net, links, scratch, worker, node)
        return GROW_POOL
    sort_roughly(clock, scratch, worker, n)
    group_by_output(scratch, worker, n)
    start = 0
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        end = ends[out]
        serve(env, clock, scratch, worker, first + out, start, end)
        start = end
        include(links.dirty_ports, net.first_word[node], out)
        port = links.ports[first + out]
        if not PORT_WAKEUPS or not suspend_port(links, env.switch, port, out, clock.clock[0].w1):
            if port.backlog != 0 and has_event(port):
                next_event = min(next_event, port.free_at)
            else:
                exclude(links.busy, net.first_word[node], out)
        out = next_port(net, links.busy, node, out)
    have_read_all(net, links, scratch, worker, node)
    if PORT_WAKEUPS:
        next_event = min(next_event, env.switch.next_wakeup_ps)
    clock.next_event[node] = next_event
    return settled(env)
