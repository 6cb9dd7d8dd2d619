"""A host: arrivals, timers and transmissions in exact time order.

A handler sees one NIC (`env.host`): that of the flow, the timer or the sending port. With
``ONE_PORT`` every host has one NIC with one port, and the loops over both disappear.
"""

from __future__ import annotations

from netsim.engine.kernels.env import Env, env_of
from netsim.engine.kernels.fields import RxRecord
from netsim.engine.kernels.handlers import (
    IN_ON_CONTROL,
    IN_ON_DATA,
    IN_ON_HOST_TIMER,
    IN_ON_REQUEST,
    IN_ON_RX_TIMER,
    IN_ON_START,
    IN_ON_TIMER,
    IN_ON_TRIMMED,
    NOTHING,
)
from netsim.engine.kernels.ids import (
    NO_TIMER,
    FlowId,
    GlobalPort,
    HostId,
    NicId,
    Ps,
    Slot,
    TaskId,
    TimerSlot,
)
from netsim.engine.kernels.indexing import (
    first_nic_of,
    first_port_of,
    nic_of,
    nic_of_port,
    nics_of,
    ports_of_host,
)
from netsim.engine.kernels.layout import (
    BROKEN,
    BY_ROUTING,
    INF,
    OK,
    ONE_PORT,
    TIMER_RX,
    TIMER_START,
    TIMER_TASK,
    TIMER_TX,
    Clock,
    HostState,
    LinkState,
    Net,
)
from netsim.engine.kernels.nic import (
    check_control,
    make_room_for_control,
    may_send,
    next_take,
    start_to_send,
    wake,
)
from netsim.engine.kernels.packets import ACK, DATA, FIRST_CONTROL, NACK, PFC, PULL, TRIMMED
from netsim.engine.kernels.ports import set_paused
from netsim.engine.kernels.rings import first_slot
from netsim.engine.kernels.rules import ENDLESS, MAX_FIRINGS, MAX_FIRINGS_OF_A_TIMER, broken
from netsim.engine.kernels.series import look_at_host
from netsim.engine.kernels.specialization_constants import (
    CARRIER,
    HAS_SERIES,
    N_LEVELS,
    PLANE_BALANCING,
    PROGRAM,
    SETS_FLOW_SIZE,
    TASKS,
    TRACE,
    on_control,
    on_data,
    on_host_timer,
    on_request,
    on_rx_timer,
    on_start,
    on_timer,
    on_trimmed,
)
from netsim.engine.kernels.tasks import program_timer, task_timer
from netsim.engine.kernels.timers import first_key, surface
from netsim.engine.kernels.trace import (
    HANDLER,
    RECEIVED,
    trace_created,
    trace_packet,
    trace_pause,
    trace_rx,
    trace_timer,
    trace_tx,
)


def receive(env: Env, p: GlobalPort, slot: Slot, now: Ps) -> None:
    """Handle the arrival, at the host's port ``p``, of the packet in pool slot ``slot``."""
    host = env.host
    links = env.links
    pkt = links.pool[slot]
    kind = int(pkt.kind)
    if kind == PFC:
        if TRACE:
            trace_pause(links, env, int(pkt.aux), p, now)
        set_paused(links, links.ports[p], int(pkt.aux), now)
        return
    host.received_packets += 1
    host.received_hops += int(pkt.hops)
    host.received_bytes += int(pkt.size_bytes)
    flow = FlowId(pkt.flow)
    if TRACE:
        trace_packet(links, RECEIVED, p, slot, now, 0)
    if N_LEVELS > 1:
        pkt.prio = int(pkt.prio) // N_LEVELS
    if kind < FIRST_CONTROL:
        rx = env.rx[flow]
        if SETS_FLOW_SIZE:
            if rx.received_bytes == 0:
                learn_size(env, rx)
        if kind == DATA:
            host.handler = IN_ON_DATA
            on_data(env, now, rx, pkt)
        elif kind == TRIMMED:
            host.handler = IN_ON_TRIMMED
            on_trimmed(env, now, rx, pkt)
        else:
            host.handler = IN_ON_REQUEST
            on_request(env, now, rx, pkt)
        if TRACE:
            trace_rx(links, env, flow, p, now, HANDLER)
    else:
        if kind == ACK:
            host.received_acks += 1
        elif kind == NACK:
            host.received_nacks += 1
        elif kind == PULL:
            host.received_pulls += 1
        tx = env.tx[flow]
        if tx.finished == 0:
            host.handler = IN_ON_CONTROL
            on_control(env, now, tx, pkt)
            wake(env, tx)
        if TRACE:
            trace_tx(links, env, flow, p, now, HANDLER)


def learn_size(env: Env, rx: RxRecord) -> None:
    """Copy a flow's size from its sender when the first packet arrives.

    The sender's record belongs to another host, which wrote it before the flow started: in an
    earlier window, and never since.
    """
    tx = env.tx[rx.flow]
    rx.size_bytes = tx.size_bytes
    rx.n_packets = tx.n_packets
    rx.last_bytes = tx.last_bytes


def fire(env: Env, slot: TimerSlot, now: Ps) -> int:
    """Run the handler of a timer that is due. Return 1, or 0 for timers of tasks and programs.

    Those are not counted: a task's fires at most twice, and a program's calls have a limit of their
    own.
    """
    host = env.host
    timer = env.hosts.timers[slot]
    code = timer.code
    if PROGRAM:
        if code <= TIMER_TASK and program_timer(env, now, timer):
            return 0
    if TASKS:
        if code == TIMER_TASK:
            task_timer(env, now, TaskId(timer.owner))
            return 0
    if code >= TIMER_RX:
        host.handler = IN_ON_RX_TIMER
        on_rx_timer(env, now, env.rx[FlowId(timer.owner)], code - TIMER_RX)
        return 1
    if code < TIMER_TX:
        host.handler = IN_ON_HOST_TIMER
        on_host_timer(env, now, code)
        return 1
    tx = env.tx[FlowId(timer.owner)]
    if tx.finished == 1:
        return 1
    if code != TIMER_START:
        host.handler = IN_ON_TIMER
        on_timer(env, now, tx, code - TIMER_TX)
    elif tx.start_ps == now:
        host.handler = IN_ON_START
        on_start(env, now, tx)
    wake(env, tx)
    return 1


def host_step(
    net: Net, links: LinkState, hosts: HostState, clock: Clock, worker: int, host_id: HostId
) -> int:
    """Advance a host to the end of the window; return a status of layout.py."""
    w1 = clock.clock[0].w1
    now = clock.next_event[host_id]  # a port that became free earlier sends from now on
    nic = first_nic_of(hosts, host_id)
    first = hosts.nics[nic]  # the host's NICs share its heap of timers
    last = first.now_ps  # of an event
    firings = 0  # timer firings at this instant
    for each in nics_of(hosts, host_id):
        hosts.nics[each].worker = worker
    while True:
        t_arrival, p_in = first_arrival(net, links, worker, host_id)
        t_timer = max(first_key(hosts.timers, hosts.heap, first), now)
        t_send, p_out = first_sender(net, links, hosts, host_id, now)
        t_next = min(t_arrival, t_timer, t_send)
        if t_next >= w1 or hosts.nics[nic].rule_broken != 0:
            break
        if t_next > now:
            firings = 0
        now = last = t_next
        if HAS_SERIES:
            look_at_host(links, hosts, host_id, now)
        for p in ports_of_host(net, host_id):
            make_room_for_control(links, worker, hosts.host_ports[p])
        arrives = t_arrival == now
        sends = not arrives and now < t_timer
        slot = Slot(0)
        timer = NO_TIMER
        if sends:
            nic = nic_of_port(hosts, p_out)
        elif arrives:
            slot = first_slot(links, worker, links.readers[p_in])
            nic = nic_of_arrival(links, hosts, p_in, slot)
        else:
            timer = surface(hosts.timers, hosts.heap, first)
            if timer < 0:
                continue
            nic = nic_of_timer(hosts, host_id, timer)
        env = env_of(hosts.nics[nic], hosts.pars[0].transport0, hosts, links)
        if CARRIER or PLANE_BALANCING == BY_ROUTING:
            env.host.now_ps = now
        if sends:
            start_to_send(env, p_out, now)
        elif arrives:
            receive(env, p_in, slot, now)
            links.readers[p_in].head += 1
        else:
            firings += fire(env, timer, now)
            if firings > MAX_FIRINGS + MAX_FIRINGS_OF_A_TIMER * env.host.n_timers:
                broken(env.host, ENDLESS, firings)
            if TRACE:
                trace_timer(links, env, hosts.timers[timer], env.host.port, now)
        for p in ports_of_host(net, host_id):
            if TRACE:
                trace_created(links, hosts.host_ports[p], p, now)
            check_control(env, p)
            if not sends:
                hosts.host_ports[p].stuck = 0
    clock.next_event[host_id] = t_next
    first.now_ps = last
    if hosts.nics[nic].rule_broken != 0:
        return BROKEN
    for each in nics_of(hosts, host_id):
        hosts.nics[each].handler = NOTHING
    return OK


def first_arrival(
    net: Net, links: LinkState, worker: int, host_id: HostId
) -> tuple[Ps, GlobalPort]:
    """Return when the next packet reaches a host, and the port (the lowest of several)."""
    earliest = INF
    at = first_port_of(net, host_id)
    for p in ports_of_host(net, host_id):
        reader = links.readers[p]
        if reader.head < reader.tail:
            time = links.pool[first_slot(links, worker, reader)].time
            if time < earliest:
                earliest = time
                at = p
    return earliest, at


def first_sender(
    net: Net, links: LinkState, hosts: HostState, host_id: HostId, now: Ps
) -> tuple[Ps, GlobalPort]:
    """Return when a port can next send, and the port (the lowest of several)."""
    earliest = INF
    at = first_port_of(net, host_id)
    for p in ports_of_host(net, host_id):
        takes_ps = max(next_take(links, hosts, p), now)
        if takes_ps < earliest and may_send(links, hosts, p):
            earliest = takes_ps
            at = p
    return earliest, at


def nic_of_timer(hosts: HostState, host_id: HostId, slot: TimerSlot) -> NicId:
    """Return the NIC of a timer; the first NIC for tasks' timers."""
    if PLANE_BALANCING != ONE_PORT:
        for nic in nics_of(hosts, host_id):
            host = hosts.nics[nic]
            if host.first_timer <= slot and slot - host.first_timer < host.n_timers:
                return nic
    return first_nic_of(hosts, host_id)


def nic_of_arrival(links: LinkState, hosts: HostState, p: GlobalPort, slot: Slot) -> NicId:
    """Return the NIC that the packet in pool slot ``slot``, which came in by port ``p``, is for."""
    kind = int(links.pool[slot].kind)
    if PLANE_BALANCING == ONE_PORT or kind == PFC:
        return nic_of_port(hosts, p)
    flow = FlowId(links.pool[slot].flow)
    if kind < FIRST_CONTROL:
        return nic_of(hosts, hosts.rx[flow])
    return nic_of(hosts, hosts.tx[flow])
