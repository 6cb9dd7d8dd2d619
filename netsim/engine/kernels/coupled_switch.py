"""A switch with coupled ports: arrivals and completions in time order over the whole switch.

Used if the state of one port affects another: PFC, a shared buffer, routing by queues,
opportunistic indirect packets. Arrivals are sorted once per window; completions wait in a calendar.
"""

from __future__ import annotations

from netsim.engine.kernels.calendar import (
    Step,
    calendar_first,
    calendar_remove,
    cancel_wakeup,
    earlier,
    note_event,
    open_step,
    resume_ports,
    suspend_port,
)
from netsim.engine.kernels.class_queues import count_drop
from netsim.engine.kernels.env import QueueEnv, queue_env_at, queue_env_of, routing_env_of
from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import NO_PORT, LocalPort, NodeId, Origin, Ps, Slot
from netsim.engine.kernels.indexing import (
    PFC_FRAME,
    PFC_FRAME_PENDING,
    exclude,
    include,
    next_port,
    queue_of,
)
from netsim.engine.kernels.layout import (
    GROW_SCRATCH,
    INF,
    OPPORTUNISTIC,
    Clock,
    LinkState,
    Net,
    Scratch,
)
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
from netsim.engine.kernels.routing import count_unroutable, has_route, output_port
from netsim.engine.kernels.series import close_until
from netsim.engine.kernels.specialization_constants import (
    HAS_ON_ARRIVAL,
    HAS_ON_DEPARTURE,
    HAS_PFC,
    HAS_SERIES,
    INDIRECT,
    MAY_BE_UNROUTABLE,
    N_LEVELS,
    PER_PORT_SIZES,
    PORT_WAKEUPS,
    ROUTES_AHEAD,
    on_arrival,
    on_departure,
)
from netsim.engine.kernels.switch import (
    INDEX_MASK,
    KEY_BITS,
    gather,
    have_read_all,
    settled,
    sort_arrivals,
    sort_roughly,
)
from netsim.engine.kernels.two_hops import after_arrival, after_completion
from netsim.limits import CLASSES

CLASS_BITS = (CLASSES - 1).bit_length()  # of an `Origin`


def start_port(env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> bool:
    """Start local port ``out`` if it is idle and has something to send; return whether it was."""
    port = env.links.ports[step.first + out]
    owes = HAS_PFC and port.pause_requested >= PFC_FRAME_PENDING
    if port.tx_bytes > 0 or not (owes or port.backlog & ~port.paused != 0):
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
        if size > 0 and cls != PFC_FRAME:
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
    slot = scratch.slots[worker][k]
    ingress = LocalPort(scratch.ins[worker][k])
    if HAS_PFC and int(links.pool[slot].kind) == PFC:
        set_paused(links, links.ports[step.first + ingress], int(links.pool[slot].aux), now)
        return ingress, False
    ahead = LocalPort(scratch.outs[worker][k])
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
    """Start what an event allows: local port ``out``, unless it has ``started`` already, then
    ``ingress`` if it owes a PFC frame. Returns the port that completes first, until now
    ``soonest``."""
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
        if PORT_WAKEUPS:  # ports may have been added and removed
            soonest = calendar_first(step, now)


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
        elif port.backlog == 0:
            exclude(links.busy, net.first_word[node], out)
        out = next_port(net, links.busy, node, out)
    if PORT_WAKEUPS:
        next_event = min(next_event, env.switch.next_wakeup_ps)
    clock.next_event[node] = next_event
    return settled(env)
