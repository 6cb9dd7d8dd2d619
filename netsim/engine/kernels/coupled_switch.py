"""A switch with coupled ports: arrivals and completions in time order over the whole switch.

Used if the state of one port affects another: PFC, a shared buffer, routing by queues,
opportunistic indirect packets. Arrivals are sorted once per window. Completions wait in a calendar:
an array of buckets by time, each a list of ports in the order of (time, port), with at most one
entry per port. Their times are kept next to the lists, so that no comparison waits for a port's
record.

Opportunistic indirect packets (`INDIRECT`) are sent by another port, over an intermediate switch.
At most one port per fiber may start at a time, so kernels visit fibers instead of ports
(`find_day`). While packets are offered, a port must be visited when its circuit opens even if it
has no packets: `await_day` schedules the next port to open on each fiber.
"""

from __future__ import annotations

from typing import NamedTuple

from netsim.engine.kernels.class_weights import charge
from netsim.engine.kernels.fields import (
    NO_PORT,
    Block,
    Bytes,
    FiberRecord,
    GlobalPort,
    LocalPort,
    NodeId,
    Numbers,
    Origin,
    PortRecord,
    Ps,
    Slot,
)
from netsim.engine.kernels.handlers import (
    IN_ON_ARRIVAL,
    IN_ON_DEPARTURE,
    IN_ON_PORT_TIMER,
    QueueEnv,
    on_arrival,
    on_departure,
    on_port_timer,
    queue_env_at,
    queue_env_of,
    routing_env_of,
)
from netsim.engine.kernels.instructions import lowest_bit
from netsim.engine.kernels.layout import (
    GROW_SCRATCH,
    INF,
    N_BUCKETS,
    NOT_QUEUED,
    OPPORTUNISTIC,
    PFC_FRAME_PENDING,
    WAITS,
    Clock,
    LinkState,
    Net,
    Scratch,
    exclude,
    include,
    next_port,
    ports_of,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.link_retry import has_work, is_incomplete
from netsim.engine.kernels.links import MADE, first_ending, may_start, slot_in
from netsim.engine.kernels.packets import DROP, PFC
from netsim.engine.kernels.ports import (
    CLASS_BITS,
    admit_arrival,
    check_prio,
    count_drop,
    finish_transmission,
    has_event,
    hold,
    open_classes,
    start_next,
    start_transmission,
    take_frame,
)
from netsim.engine.kernels.routing import count_unroutable, has_route, output_port
from netsim.engine.kernels.series import change, close_until
from netsim.engine.kernels.specialization_constants import (
    HAS_ON_ARRIVAL,
    HAS_ON_DEPARTURE,
    HAS_ON_DROP,
    HAS_ON_MESSAGE,
    HAS_PFC,
    HAS_SERIES,
    INDIRECT,
    IS_SHAPED,
    LINK_RETRY,
    MAKES_PACKETS,
    MAY_BE_UNROUTABLE,
    N_LEVELS,
    N_PORT_TIMERS,
    PER_PORT_SIZES,
    PORT_WAKEUPS,
    REORDERS,
    ROUTES_AHEAD,
    TRACE,
    WEIGHTED,
)
from netsim.engine.kernels.switch import (
    INDEX_MASK,
    KEY_BITS,
    gather,
    have_read_all,
    resume_ports,
    settled,
    sort_arrivals,
    sort_roughly,
    suspend_port,
)
from netsim.engine.kernels.trace import SENT_INDIRECT, trace_packet
from netsim.limits import CLASSES, HORIZON_PS

WORD = 32


class Step(NamedTuple):
    """Switch, window and calendar of one step."""

    node: NodeId
    first: GlobalPort  # the switch's first port
    first_word: int  # first word of its port sets
    w0: Ps
    w1: Ps
    shift: int  # (time - w0) >> shift is a bucket of the calendar
    heads: Numbers[int, LocalPort]  # int64[N_BUCKETS]: first port of each bucket
    next_in_bucket: Numbers[LocalPort, LocalPort]  # int64[ports]: the next port in the same bucket
    words: Numbers[int, int]  # int64[N_BUCKETS / 32]: a bit for each nonempty bucket
    due: Numbers[LocalPort, Ps]  # int64[ports]: when a port that is in a list completes


def open_step(net: Net, clock: Clock, scratch: Scratch, worker: int, node: NodeId) -> Step:
    """Return a step with an empty calendar."""
    w0 = clock.clock[0].w0
    w1 = clock.clock[0].w1
    shift = 0
    while ((w1 - w0) >> shift) >= N_BUCKETS:
        shift += 1
    words = scratch.words[worker]
    words[:] = 0
    heads = scratch.calendar[worker]
    return Step(
        node,
        net.first_port[node],
        net.first_word[node],
        w0,
        w1,
        shift,
        heads,
        scratch.next_in_bucket[worker],
        words,
        scratch.due[worker],
    )


def calendar_add(step: Step, out: LocalPort, at: Ps) -> None:
    """Add the completion of local port ``out`` in the order of (time, port)."""
    entry = (at - step.w0) >> step.shift
    heads = step.heads
    next_in_bucket = step.next_in_bucket
    words = step.words
    step.due[out] = at
    bit = 1 << (entry & (WORD - 1))
    if words[entry // WORD] & bit == 0:
        words[entry // WORD] |= bit
        heads[entry] = out
        next_in_bucket[out] = NO_PORT
        return
    before = NO_PORT
    other = heads[entry]
    while other >= 0 and is_before(step, other, out):
        before = other
        other = next_in_bucket[other]
    next_in_bucket[out] = other
    if before < 0:
        heads[entry] = out
    else:
        next_in_bucket[before] = out


def is_before(step: Step, one: LocalPort, other: LocalPort) -> bool:
    """Return whether port ``one`` completes before ``other``; the lower port wins ties."""
    if step.due[one] == step.due[other]:
        return one < other
    return step.due[one] < step.due[other]


def earlier(step: Step, one: LocalPort, other: LocalPort) -> LocalPort:
    """Return the port that completes first; ``other`` may be NO_PORT."""
    if other < 0 or is_before(step, one, other):
        return one
    return other


def calendar_first(step: Step, now: Ps) -> LocalPort:
    """Return the port that completes first, or NO_PORT. None does before ``now``."""
    words = step.words
    word = ((now - step.w0) >> step.shift) // WORD
    while word < N_BUCKETS // WORD:
        bits = words[word]
        if bits != 0:
            return step.heads[word * WORD + lowest_bit(bits)]
        word += 1
    return NO_PORT


def calendar_remove(step: Step, out: LocalPort) -> None:
    """Remove the entry of local port ``out``."""
    entry = (step.due[out] - step.w0) >> step.shift
    following = step.next_in_bucket[out]
    before = step.heads[entry]
    if before == out:
        step.heads[entry] = following
        if following < 0:
            step.words[entry // WORD] &= ~(1 << (entry & (WORD - 1)))
        return
    while step.next_in_bucket[before] != out:
        before = step.next_in_bucket[before]
    step.next_in_bucket[before] = following


def note_event(links: LinkState, step: Step, out: LocalPort) -> bool:
    """Schedule the next event of local port ``out`` if it is in this window; return whether it
    is."""
    port = links.ports[step.first + out]
    include(links.busy, step.first_word, out)
    if has_event(port) and port.free_at < step.w1:
        calendar_add(step, out, port.free_at)
        return True
    return False


def cancel_wakeup(links: LinkState, step: Step, out: LocalPort) -> None:
    """Cancel the wakeup of local port ``out``, which is idle."""
    port = links.ports[step.first + out]
    if port.tx_class == WAITS:
        if port.free_at < step.w1:
            calendar_remove(step, out)
        port.tx_class = 0


# --- events of a port -----------------------------------------------------------------------------


def start_port(env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> bool:
    """Start local port ``out`` if it is idle and has something to send; return whether it was."""
    port = env.links.ports[step.first + out]
    owes = HAS_PFC and port.pause_requested >= PFC_FRAME_PENDING
    owes = owes or (LINK_RETRY and is_incomplete(env.links, port.number))
    if port.tx_bytes > 0 or not (owes or open_classes(env.links, port) != 0):
        return False
    if PORT_WAKEUPS:
        cancel_wakeup(env.links, step, out)
    start_next(env, port, now)
    return True


def complete(env: QueueEnv, step: Step, out: LocalPort) -> LocalPort:
    """Handle the end of a transmission of local port ``out``, or its wakeup. Returns the ingress of
    the packet that left, if the discipline counts by ingress, or NO_PORT."""
    port = env.links.ports[step.first + out]
    cls = port.tx_class
    size = port.tx_bytes
    finish_transmission(env, port)
    if HAS_ON_DEPARTURE:
        if size > 0 and cls != NOT_QUEUED:
            came_by = LocalPort(port.tx_origin >> CLASS_BITS)
            ingress = env.links.ports[step.first + came_by]
            if N_LEVELS > 1:
                cls = port.tx_origin & (CLASSES - 1)
            if PER_PORT_SIZES:
                env = queue_env_at(env, ingress)
            env.switch.handler = IN_ON_DEPARTURE
            on_departure(env, port.free_at, ingress, cls, size)
            return came_by
    return NO_PORT


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


def output_of(
    net: Net, env: QueueEnv, step: Step, ingress: LocalPort, slot: Slot, ahead: LocalPort, now: Ps
) -> LocalPort:
    """Return the output port of the packet in pool slot ``slot``, which came in by local port
    ``ingress``; NO_PORT if the packet is lost here. ``ahead`` is the port if it was chosen ahead of
    time."""
    links = env.links
    p_in = step.first + ingress
    if MAY_BE_UNROUTABLE:
        routable = ahead >= 0
        if not ROUTES_AHEAD:
            routable = has_route(net, step.node, links.pool[slot])
        if not routable:
            count_unroutable(links, p_in, slot)
            return NO_PORT
    if HAS_ON_ARRIVAL:
        if not admit_at_ingress(env, links.ports[p_in], slot, now):
            return NO_PORT
    if ROUTES_AHEAD:
        return ahead
    return output_port(routing_env_of(env), p_in, slot, now)


def take_in(
    net: Net, env: QueueEnv, step: Step, scratch: Scratch, worker: int, k: int, now: Ps
) -> tuple[LocalPort, bool]:
    """Handle arrival ``k``. Returns the port that it concerns (NO_PORT for a lost packet), and
    whether that port has started to send it."""
    links = env.links
    slot = Slot(scratch.slots[worker][k])
    ingress = LocalPort(scratch.ins[worker][k])
    if (HAS_PFC or HAS_ON_MESSAGE) and int(links.pool[slot].kind) >= PFC:
        if REORDERS:
            env.switch.late_ps = now
        if take_frame(env, links.ports[step.first + ingress], links.pool[slot], now):
            return ingress, False
        return NO_PORT, False
    return take_packet(net, env, step, ingress, slot, LocalPort(scratch.outs[worker][k]), now)


def take_packet(
    net: Net, env: QueueEnv, step: Step, ingress: LocalPort, slot: Slot, ahead: LocalPort, now: Ps
) -> tuple[LocalPort, bool]:
    """Handle the packet in pool slot ``slot``, like `take_in`; ``ahead`` is as in `output_of`."""
    links = env.links
    origin = Origin(ingress << CLASS_BITS | int(links.pool[slot].prio))
    out = output_of(net, env, step, ingress, slot, ahead, now)
    started = False
    if out >= 0:
        include(links.busy, step.first_word, out)
        started = admit_arrival(env, links.ports[step.first + out], slot, origin, now)
    return out, started


def start_ports(
    env: QueueEnv,
    step: Step,
    out: LocalPort,
    ingress: LocalPort,
    started: bool,
    soonest: LocalPort,
    now: Ps,
) -> LocalPort:
    """Start ports after an event: local port ``out``, unless it has ``started`` already, then
    ``ingress`` if it owes a PFC frame. Returns the port that completes first; ``soonest`` did
    before."""
    while True:
        if out >= 0 and (started or start_port(env, step, out, now)):
            if note_event(env.links, step, out):
                soonest = earlier(step, out, soonest)
        if not HAS_PFC or ingress < 0:
            return soonest
        if env.links.ports[step.first + ingress].pause_requested < PFC_FRAME_PENDING:
            return soonest
        out = ingress
        ingress = NO_PORT
        started = False


def run_events(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId, n: int
) -> None:
    """Merge the ``n`` sorted arrivals with the completions of the window."""
    links = env.links
    step = open_step(net, clock, scratch, worker, node)
    if PORT_WAKEUPS:
        resume_ports(net, links, node, step.w1)
    out = next_port(net, links.busy, node, NO_PORT)
    while out >= 0:
        note_event(links, step, out)
        out = next_port(net, links.busy, node, out)
    keys = scratch.keys[worker, 1]
    i = 0
    now = step.w0
    # The next completion is looked up before the current event is handled, so that the choice
    # between it and the next arrival does not wait for memory.
    soonest = calendar_first(step, now)
    while True:
        t_arrival = INF
        if i < n:
            t_arrival = step.w0 + (keys[i] >> KEY_BITS)
        completes = soonest >= 0 and step.due[soonest] <= t_arrival
        if N_PORT_TIMERS > 0:
            timer = min(env.switch.next_timer_ps, step.w1)
            if timer < step.w1 and timer <= t_arrival:
                if not completes or timer < step.due[soonest]:
                    fire_timers(net, env, step, timer)
                    soonest = calendar_first(step, timer)
                    continue
        started = False
        waited = False
        if completes:
            out = soonest
            now = step.due[out]
            calendar_remove(step, out)
            soonest = calendar_first(step, now)
            waited = links.ports[step.first + out].tx_bytes == 0
            ingress = complete(env, step, out)
        elif i == n:
            return
        else:
            now = t_arrival
            k = keys[i] & INDEX_MASK
            out, started = take_in(net, env, step, scratch, worker, k, now)
            ingress = LocalPort(scratch.ins[worker][k])
            i += 1
        soonest = start_ports(env, step, out, ingress, started, soonest, now)
        if INDIRECT == OPPORTUNISTIC:
            if completes:
                after_completion(net, env, step, out, now, waited)
            elif out >= 0:
                after_arrival(net, env, step, out, now)
        if MAKES_PACKETS:
            take_made(net, env, step, now)
        if HAS_ON_DROP:
            start_owing(net, env, step, now)
        if PORT_WAKEUPS or HAS_ON_DROP or MAKES_PACKETS:  # ports may have been added and removed
            soonest = calendar_first(step, now)


def fire_timers(net: Net, env: QueueEnv, step: Step, now: Ps) -> None:
    """Fire the timers of ports that are due now, and find the earliest of the others."""
    switch = env.switch
    switch.next_timer_ps = INF
    switch.late_ps = now
    for p in ports_of(net, step.node):
        port = env.links.ports[p]
        for k in range(N_PORT_TIMERS):
            if port.timers_ps[k] == now:
                port.timers_ps[k] = Ps(0)
                at = env
                if PER_PORT_SIZES:
                    at = queue_env_at(env, port)
                switch.handler = IN_ON_PORT_TIMER
                on_port_timer(at, now, port, k)
                if start_port(env, step, p - step.first, now):
                    note_event(env.links, step, p - step.first)
                if MAKES_PACKETS:
                    take_made(net, env, step, now)
                if HAS_ON_DROP:
                    start_owing(net, env, step, now)
    for p in ports_of(net, step.node):
        port = env.links.ports[p]
        for k in range(N_PORT_TIMERS):
            if port.timers_ps[k] != 0:
                switch.next_timer_ps = min(switch.next_timer_ps, port.timers_ps[k])


def take_made(net: Net, env: QueueEnv, step: Step, now: Ps) -> None:
    """Handle the arrival of packets that the switch has made."""
    switch = env.switch
    k = 0
    while k < switch.n_made:
        slot = slot_in(Block(env.links.free_blocks[switch.worker, MADE]), k)
        pkt = env.links.pool[slot]
        ingress = LocalPort(pkt.time)
        pkt.time = now
        out, started = take_packet(net, env, step, ingress, slot, NO_PORT, now)
        start_ports(env, step, out, ingress, started, NO_PORT, now)
        if INDIRECT == OPPORTUNISTIC and out >= 0:
            after_arrival(net, env, step, out, now)
        k += 1
    switch.n_made = 0


def start_owing(net: Net, env: QueueEnv, step: Step, now: Ps) -> None:
    """After drops, start the idle ports that owe a PFC frame."""
    if env.switch.dropped == 0:
        return
    env.switch.dropped = 0
    for p in ports_of(net, step.node):
        if env.links.ports[p].pause_requested >= PFC_FRAME_PENDING:
            if start_port(env, step, p - step.first, now):
                note_event(env.links, step, p - step.first)


def switch_step(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Advance switch ``node`` to the end of the window. Returns a status of layout.py."""
    env = queue_env_of(links.switches[node - net.n_hosts], links, net)
    env.switch.worker = worker
    n, following = gather(env, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    sort_roughly(clock, scratch, worker, n)
    w0 = clock.clock[0].w0
    keys = scratch.keys[worker, 1]
    sort_arrivals(links, keys, scratch.ins[worker], env.switch.first_port, w0, 0, n)
    run_events(net, env, clock, scratch, worker, node, n)
    have_read_all(net, links, scratch, worker, node)
    return wind_up(net, env, clock, node, following)


def wind_up(net: Net, env: QueueEnv, clock: Clock, node: NodeId, following: Ps) -> int:
    """Note the ports that may have sent and the switch's next event; return the step's status.
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
        elif not has_work(links, port):
            exclude(links.busy, net.first_word[node], out)
        out = next_port(net, links.busy, node, out)
    if PORT_WAKEUPS:
        next_event = min(next_event, env.switch.next_wakeup_ps)
    if N_PORT_TIMERS > 0:
        next_event = min(next_event, env.switch.next_timer_ps)
    clock.next_event[node] = next_event
    return settled(env)


# --- opportunistic indirect packets ---------------------------------------------------------------

NO_FIBER = -1


def offers(links: LinkState, port: PortRecord) -> bool:
    """Return whether the port has a packet that another port may send."""
    return port.backlog >> (links.fabric[0].indirect_class + 1) != 0


def nothing_offered(net: Net, links: LinkState, step: Step) -> bool:
    """Return whether no port of the switch is marked as offering packets (marks may be stale)."""
    for word in range(net.first_word[step.node], net.first_word[step.node + 1]):
        if links.indirect_ready[word] != 0:
            return False
    return True


def find_day(links: LinkState, fiber: FiberRecord, now: Ps) -> None:
    """Update the fiber's current or next day."""
    if now < fiber.closes_ps:
        return
    row, past = first_ending(links, fiber.first_day, fiber.last_day, fiber.period_ps, now)
    fiber.day = row
    fiber.period_offset_ps = past
    fiber.port = links.day_ports[row]
    fiber.opens_ps = links.days[row, 0] + past
    fiber.closes_ps = links.days[row, 1] + past


def opens_now(links: LinkState, step: Step, out: LocalPort, now: Ps) -> bool:
    """Return whether the circuit of local port ``out`` opens at this instant."""
    fiber = links.fibers[links.circuits[step.first + out].fiber]
    find_day(links, fiber, now)
    return fiber.port == out and fiber.opens_ps == now


def indirect_source(net: Net, env: QueueEnv, step: Step, out: LocalPort) -> LocalPort:
    """Return the port whose packet local port ``out`` sends, or NO_PORT."""
    links = env.links
    by_way_of = net.edge[net.port_node[net.port_peer[step.first + out]]]
    last = env.switch.indirect_from
    for before in (last, NO_PORT):
        other = next_port(net, links.indirect_ready, step.node, before)
        while other >= 0 and (before == last or other <= last):
            port = links.ports[step.first + other]
            if not offers(links, port):
                exclude(links.indirect_ready, step.first_word, other)
            elif other != out:
                away = net.edge[net.port_node[net.port_peer[port.number]]]
                if net.reached[by_way_of, away] != 0:
                    return other
            other = next_port(net, links.indirect_ready, step.node, other)
    return NO_PORT


def send_indirect(net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """Send another port's packet by local port ``out``, if it is idle and there is one."""
    links = env.links
    port = links.ports[step.first + out]
    if port.tx_bytes > 0 or port.backlog != 0 or not may_start(links, port, now):
        return
    other = indirect_source(net, env, step, out)
    if other < 0:
        return
    env.switch.indirect_from = other
    env.switch.indirect_by = out
    env.switch.n_indirect += 1
    source = links.ports[step.first + other]
    relayed = links.fabric[0].indirect_class
    cls = relayed + 1 + lowest_bit(source.backlog >> (relayed + 1))
    queue = links.queues[queue_of(source.number, cls)]
    slot = ring_slot(queue.off, queue.mask, queue.head)
    pkt = links.pool[slot]
    size = Bytes(pkt.size_bytes)
    if HAS_SERIES:
        close_until(links, source.number, now)
        change(links, source.number, cls, 0 - int(size), now)  # -size would be unsigned
        close_until(links, port.number, now)
    if TRACE:
        trace_packet(links, SENT_INDIRECT, source.number, pkt, now, queue.bytes)
    origin = Origin(0)
    if HAS_ON_DEPARTURE:
        origin = Origin(links.origins[slot])
    queue.bytes -= size
    queue.head += 1
    if queue.head == queue.tail:
        source.backlog &= ~(1 << cls)
    pkt.prio = relayed
    cancel_wakeup(links, step, out)
    hold(links, port, relayed, size, now)
    start_transmission(env, port, relayed, pkt, origin, now)
    if WEIGHTED:
        charge(links, port, relayed, size)
    note_event(links, step, out)
    if IS_SHAPED:  # the other port may have waited for this packet
        await_day(net, links, step, links.circuits[source.number].fiber, now)


def await_day(net: Net, links: LinkState, step: Step, number: int, now: Ps) -> None:
    """Schedule a visit of the fiber's next port to open, while packets are offered. No visit if it
    is busy then, or has its own packets and waits for something else."""
    if nothing_offered(net, links, step):
        return
    fiber = links.fibers[number]
    find_day(links, fiber, now)
    row = fiber.day
    past = fiber.period_offset_ps
    if fiber.opens_ps <= now:
        row += 1
    for _ in range(fiber.first_day, fiber.last_day):
        if row == fiber.last_day:
            row = fiber.first_day
            past += fiber.period_ps
        opens = links.days[row, 0] + past
        if opens >= HORIZON_PS:
            return
        out = links.day_ports[row]
        port = links.ports[step.first + out]
        if port.tx_bytes > 0:
            if port.free_at < opens:
                return
        elif port.tx_class == WAITS and port.free_at <= opens:
            return
        elif port.backlog == 0:
            cancel_wakeup(links, step, out)
            port.tx_class = WAITS
            port.free_at = opens
            note_event(links, step, out)
            return
        row += 1


def after_completion(
    net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps, waited: bool
) -> None:
    """Handle the end of a transmission or wait of local port ``out``, after its next start."""
    number = env.links.circuits[step.first + out].fiber
    if number == NO_FIBER:
        return
    if not waited or opens_now(env.links, step, out, now):
        send_indirect(net, env, step, out, now)
    await_day(net, env.links, step, number, now)


def after_arrival(net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """Handle an arrival at local port ``out``, which may have started to send."""
    links = env.links
    switch = env.switch
    number = links.circuits[step.first + out].fiber
    if number == NO_FIBER:
        return
    if not offers(links, links.ports[step.first + out]):
        await_day(net, links, step, number, now)
        return
    alone = nothing_offered(net, links, step)
    include(links.indirect_ready, step.first_word, out)
    others_send(net, env, step, out, now)
    for one in range(switch.first_fiber, switch.last_fiber):
        if alone or one == number:
            await_day(net, links, step, one, now)


def others_send(net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """While local port ``out`` offers packets, let other ports that can send them do so."""
    links = env.links
    switch = env.switch
    n = net.first_port[step.node + 1] - step.first
    behind = switch.indirect_by + 1
    done = -1
    while offers(links, links.ports[step.first + out]):
        nearest = n
        fiber_of_nearest = NO_FIBER
        for number in range(switch.first_fiber, switch.last_fiber):
            fiber = links.fibers[number]
            find_day(links, fiber, now)
            port = links.ports[step.first + fiber.port]
            if fiber.opens_ps <= now and port.tx_bytes == 0 and port.backlog == 0:
                away = LocalPort((fiber.port - behind) % n)
                if done < away < nearest:
                    nearest = away
                    fiber_of_nearest = number
        if fiber_of_nearest == NO_FIBER:
            return
        done = nearest
        send_indirect(net, env, step, links.fibers[fiber_of_nearest].port, now)
        await_day(net, links, step, fiber_of_nearest, now)
