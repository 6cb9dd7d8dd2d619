"""A switch with coupled ports: arrivals and completions in time order over the whole switch.

Used if the state of one port affects another: PFC, a shared buffer, least-loaded routing.
Arrivals are sorted once per window; completions wait in a calendar. Every event leaves a consistent
state, so a step can stop before an event that needs a larger ring and resume.
"""

from __future__ import annotations

from netsim.engine.kernels.balance import count_unroutable, has_route, output_port, undo_choice
from netsim.engine.kernels.calendar import (
    WORD,
    Step,
    calendar_first,
    calendar_take,
    cancel_wakeup,
    note_event,
    open_step,
    resume_ports,
    suspend_port,
)
from netsim.engine.kernels.class_queues import count_drop
from netsim.engine.kernels.env import QueueEnv, queue_env_at, queue_env_of
from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import NO_PORT, Bytes, GlobalPort, LocalPort, NodeId, Ps, Slot
from netsim.engine.kernels.indexing import (
    PFC_FRAME,
    PFC_FRAME_PENDING,
    exclude,
    include,
    next_port,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.layout import (
    GROW_POOL,
    GROW_SCRATCH,
    INF,
    OK,
    OPPORTUNISTIC,
    Clock,
    LinkState,
    Net,
    Scratch,
)
from netsim.engine.kernels.links import end_of_transmission
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.ports import (
    admit_arrival,
    check_prio,
    finish_transmission,
    has_event,
    set_paused,
    start_next,
)
from netsim.engine.kernels.queue_handlers import IN_ON_ARRIVAL, IN_ON_DEPARTURE
from netsim.engine.kernels.queue_services import DROP
from netsim.engine.kernels.rings import lengthen_queue, ring_full
from netsim.engine.kernels.series import close_until
from netsim.engine.kernels.specialization_constants import (
    HAS_ON_ARRIVAL,
    HAS_ON_DEPARTURE,
    HAS_PFC,
    HAS_SERIES,
    INDIRECT,
    MAY_BE_UNROUTABLE,
    N_CLASSES,
    PER_PORT_SIZES,
    PORT_WAKEUPS,
    on_arrival,
    on_departure,
)
from netsim.engine.kernels.switch import (
    INDEX_MASK,
    KEY_BITS,
    gather,
    have_read,
    insertion_sort,
    settled,
    sort_roughly,
)
from netsim.engine.kernels.two_hops import after_arrival, after_completion, others_have_room
from netsim.model.fabric import PFC_FRAME_BYTES


def start_port(env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """Start local port ``out`` if it is idle; a pending PFC frame goes first."""
    links = env.links
    port = links.ports[step.first + out]
    pending = HAS_PFC and port.pause_requested >= PFC_FRAME_PENDING
    if port.tx_bytes > 0 or not (pending or port.backlog & ~port.paused != 0):
        return
    if PORT_WAKEUPS:
        cancel_wakeup(links, step, out)
    if pending:
        port.pause_requested &= ~PFC_FRAME_PENDING
        send_pfc(links, port, now)
    else:
        start_next(env, port, now)
    note_event(links, step, out)


def start_pending_pfc(env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """Start local port ``out`` if it owes a PFC frame."""
    if env.links.ports[step.first + out].pause_requested >= PFC_FRAME_PENDING:
        start_port(env, step, out, now)


def send_pfc(links: LinkState, port: PortRecord, now: Ps) -> None:
    """Transmit a PFC frame with the pause state of all classes."""
    end = end_of_transmission(links, port, Bytes(PFC_FRAME_BYTES), now)
    pkt = links.pool[ring_slot(port.ring_off, port.ring_mask, port.tail)]
    pkt.flow = -1
    pkt.seq = 0
    pkt.dst = -1
    pkt.aux = port.pause_requested
    pkt.size_bytes = PFC_FRAME_BYTES
    pkt.entropy = 0
    pkt.kind = PFC
    pkt.prio = 0
    pkt.ecn = 0
    pkt.hops = 1
    pkt.time = end + port.delay_ps
    port.tail += 1
    port.free_at = end
    port.tx_bytes = Bytes(PFC_FRAME_BYTES)
    port.tx_class = PFC_FRAME


def complete(net: Net, env: QueueEnv, step: Step, out: LocalPort) -> None:
    """Handle the end of a transmission of local port ``out``, or its wakeup, and start the next."""
    port = env.links.ports[step.first + out]
    now = port.free_at
    if HAS_PFC and port.tx_class == PFC_FRAME:
        port.tx_bytes = Bytes(0)
        start_port(env, step, out, now)
        return
    cls = port.tx_class
    size = port.tx_bytes
    finish_transmission(env, port)
    if HAS_ON_DEPARTURE and size > 0:
        owed = port.tx_ingress
        ingress = env.links.ports[step.first + owed]
        notify_departure(env, ingress, cls, size, now)
        start_port(env, step, out, now)
        if HAS_PFC:
            start_pending_pfc(env, step, owed, now)
    else:
        start_port(env, step, out, now)
    if INDIRECT == OPPORTUNISTIC:
        after_completion(net, env, step, out, now, size == 0)


def notify_departure(env: QueueEnv, ingress: PortRecord, cls: int, size: Bytes, now: Ps) -> None:
    """Call `on_departure` for a packet that came in by ``ingress``."""
    if PER_PORT_SIZES:
        env = queue_env_at(env, ingress)
    env.switch.handler = IN_ON_DEPARTURE
    on_departure(env, now, ingress, cls, size)


def admit_at_ingress(env: QueueEnv, port: PortRecord, slot: Slot, now: Ps) -> bool:
    """Call `on_arrival`; return whether the packet is admitted, else count the drop."""
    pkt = env.links.pool[slot]
    if PER_PORT_SIZES:
        env = queue_env_at(env, port)
    env.switch.handler = IN_ON_ARRIVAL
    verdict = on_arrival(env, now, port, pkt)
    check_prio(env, pkt)
    if verdict == DROP:
        if HAS_SERIES:
            close_until(env.links, port.number, now)
        queue = env.links.queues[queue_of(port.number, int(pkt.prio))]
        count_drop(env.links, port, queue, pkt, now)
        return False
    return True


def receive(
    net: Net,
    env: QueueEnv,
    step: Step,
    ingress: LocalPort,
    slot: Slot,
    now: Ps,
) -> int:
    """Handle the arrival of the packet in pool slot ``slot`` by local port ``ingress``. Returns
    GROW_POOL, with nothing changed, if there is no room."""
    links = env.links
    p_in = step.first + ingress
    came_by = links.ports[p_in]
    if ring_full(links, p_in):
        return GROW_POOL
    if HAS_PFC and int(links.pool[slot].kind) == PFC:
        set_paused(links, came_by, int(links.pool[slot].aux), now)
        start_port(env, step, ingress, now)
        return OK
    if MAY_BE_UNROUTABLE:
        if not has_route(net, step.node, links.pool[slot]):
            count_unroutable(links, p_in, slot)
            return OK
    if HAS_ON_ARRIVAL:
        # Call it once, even if lack of room interrupted the event.
        if env.switch.admitted_at_ingress == 0 and not admit_at_ingress(env, came_by, slot, now):
            if HAS_PFC:
                start_pending_pfc(env, step, ingress, now)
            return OK
        env.switch.admitted_at_ingress = 0
    out = output_port(net, links, step.node, p_in, slot)
    room = room_at(links, step.first + out)
    if INDIRECT == OPPORTUNISTIC:
        room = room and others_have_room(env, step, out, now)
    if not room:
        undo_choice(net, links, step.node, p_in, slot)
        env.switch.admitted_at_ingress = 1
        return GROW_POOL
    if admit_arrival(env, links.ports[step.first + out], slot, ingress, now):
        note_event(links, step, out)
    else:
        include(links.busy, step.first_word, out)
        start_port(env, step, out, now)
    if INDIRECT == OPPORTUNISTIC:
        after_arrival(net, env, step, out, now)
    if HAS_PFC:
        start_pending_pfc(env, step, ingress, now)
    return OK


def room_at(links: LinkState, p: GlobalPort) -> bool:
    """Make room for a packet in every class of port ``p`` and on its link; False if the pool is
    full."""
    if ring_full(links, p):
        return False
    for cls in range(N_CLASSES):
        queue = links.queues[queue_of(p, cls)]
        if queue.tail - queue.head > queue.mask and not lengthen_queue(links, queue, 0):
            return False
    return True


def may_complete(links: LinkState, step: Step, out: LocalPort) -> bool:
    """Return whether there is room for what a completion on local port ``out`` may start."""
    p = step.first + out
    if ring_full(links, p):
        return False
    if HAS_ON_DEPARTURE and HAS_PFC:
        port = links.ports[p]
        if port.tx_bytes > 0 and port.tx_class != PFC_FRAME:
            return not ring_full(links, step.first + port.tx_ingress)
    return True


def run_events(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId, n: int
) -> int:
    """Merge the ``n`` sorted arrivals with the completions of the window. Returns OK, or GROW_POOL
    before an event for which there is no room."""
    links = env.links
    step = open_step(net, clock, scratch, worker, node)
    first = step.first
    if PORT_WAKEUPS:
        resume_ports(net, links, node, step.w1)
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        note_event(links, step, out)
        out = next_port(net, links.busy, node, out)
    keys = scratch.keys[worker, 1]
    slots = scratch.slots[worker]
    ins = scratch.ins[worker]
    word = 0
    i = 0
    while True:
        t_arrival = INF
        if i < n:
            t_arrival = step.w0 + (keys[i] >> KEY_BITS)
        entry = calendar_first(step, word)
        if entry >= 0:
            out = step.heads[entry]
            if links.ports[first + out].free_at <= t_arrival:
                if not may_complete(links, step, out):
                    return GROW_POOL
                # No later event can precede this one.
                word = entry // WORD
                calendar_take(step, entry)
                complete(net, env, step, out)
                continue
        if i == n:
            return OK
        k = keys[i] & INDEX_MASK
        ingress = LocalPort(ins[k])
        status = receive(net, env, step, ingress, slots[k], t_arrival)
        if status != OK:
            return status
        links.readers[first + ingress].head += 1
        i += 1


def switch_step(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Advance switch ``node`` to the end of the window. Returns a status of layout.py."""
    env = queue_env_of(links.switches[node - net.n_hosts], links)
    n, following = gather(net, links, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    sort_roughly(clock, scratch, worker, n)
    insertion_sort(scratch.keys[worker, 1], 0, n)
    status = run_events(net, env, clock, scratch, worker, node, n)
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        have_read(net, links, node, port)
        port = next_port(net, links.unread, node, port)
    end = wind_up(net, env, clock, node, following)
    if status == OK:
        return end
    return status


def wind_up(net: Net, env: QueueEnv, clock: Clock, node: NodeId, following: Ps) -> int:
    """Publish what a switch sent in a step and when its next event is; return the step's status.
    ``following`` is the time of the next arrival."""
    links = env.links
    next_event = following
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        port = links.ports[net.first_port[node] + out]
        include(links.dirty_ports, net.first_word[node], out)
        if has_event(port):
            next_event = min(next_event, port.free_at)
            if PORT_WAKEUPS:
                suspend_port(links, env.switch, port, out, clock.clock[0].w1)
        elif port.backlog == 0:
            exclude(links.busy, net.first_word[node], out)
        out = next_port(net, links.busy, node, out)
    if PORT_WAKEUPS:
        next_event = min(next_event, env.switch.next_wakeup_ps)
    clock.next_event[node] = next_event
    return settled(env)
