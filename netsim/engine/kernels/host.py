"""A host: arrivals, timers and NICs in exact time order.

A host with several ports has a step of its own, port by port and NIC by NIC.
"""

from __future__ import annotations

from netsim.engine.kernels.env import Env, env_of
from netsim.engine.kernels.fields import HostPortRecord, PortRecord, RxRecord
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
from netsim.engine.kernels.indexing import nic_of, nics_of, ports_of, ring_slot
from netsim.engine.kernels.layout import (
    BROKEN,
    GROW_POOL,
    INF,
    OK,
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
    first_open,
    pick,
    transmit_control,
    transmit_data,
    wake,
)
from netsim.engine.kernels.packets import CONTROL_BURST, DATA, FIRST_CONTROL, PFC, TRIMMED
from netsim.engine.kernels.ports import set_paused
from netsim.engine.kernels.rings import lengthen_control, lengthen_link
from netsim.engine.kernels.rules import ENDLESS, MAX_FIRINGS, MAX_FIRINGS_OF_A_TIMER, broken
from netsim.engine.kernels.series import look_at_host
from netsim.engine.kernels.specialization_constants import (
    CARRIER,
    HAS_SERIES,
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


def receive(env: Env, links: LinkState, p: GlobalPort, slot: Slot, now: Ps) -> None:
    """Handle the arrival, at the host's port ``p``, of the packet in pool slot ``slot``."""
    host = env.host
    pkt = links.pool[slot]
    kind = int(pkt.kind)
    if kind == PFC:
        if TRACE:
            trace_pause(links, env, int(pkt.aux), p, now)
        set_paused(links, links.ports[p], int(pkt.aux), now)
        return
    host.received_packets += 1
    host.received_bytes += int(pkt.size_bytes)
    flow = FlowId(pkt.flow)
    if TRACE:
        trace_packet(links, RECEIVED, p, slot, now, 0)
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


def room_for_control(links: LinkState, host_port: HostPortRecord) -> bool:
    """Make room in a port's FIFO for what a handler may send; return whether there is."""
    if host_port.ctrl_tail - host_port.ctrl_head + CONTROL_BURST > host_port.ctrl_mask + 1:
        return lengthen_control(links, host_port)
    return True


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


def host_step(_: Net, links: LinkState, hosts: HostState, clock: Clock, host_id: HostId) -> int:
    """Advance a host of one port to the end of the window; return a status of layout.py."""
    host = hosts.nics[NicId(host_id)]
    p = host.port
    port = links.ports[p]
    host_port = hosts.host_ports[p]
    reader = links.readers[p]
    env = env_of(host, hosts.pars[0].transport0, hosts, links)
    w1 = clock.clock[0].w1
    # Resume at the event at which a step stopped for lack of room.
    now = clock.next_event[host_id]
    stuck = False  # everything on the ready list is paused
    firings = 0  # timer firings at this instant
    checked = host_port.ctrl_tail
    status = OK
    while True:
        check_control(env, host_port, checked)
        checked = host_port.ctrl_tail
        t_arrival = waiting_at(links, p)
        t_timer = max(first_key(hosts.timers, hosts.heap, host), now)
        control = sends_control(links, host_port, port)
        t_send = INF
        if control or (host_port.ready_head >= 0 and not stuck):
            t_send = max(port.free_at, now)
        t_next = min(t_arrival, t_timer, t_send)
        if t_next >= w1 or host.rule_broken != 0:
            break
        if t_next > now:
            firings = 0
        now = t_next
        if HAS_SERIES:
            look_at_host(links, hosts, host_id, now)
        if now == t_send and now < t_arrival and now < t_timer:
            if port.tail - links.published_head[p] > port.ring_mask:
                if not lengthen_link(links, port, p, 0):
                    status = GROW_POOL
                    break
            if control:
                transmit_control(links, host, host_port, port, now)
            elif not room_for_control(links, host_port):
                status = GROW_POOL
                break
            else:
                flow = pick(env, host_port, port, now)
                if flow >= 0:
                    created = host_port.ctrl_tail
                    transmit_data(env, links, port, flow, now)
                    if TRACE:
                        trace_created(links, host_port, created, p, now)
                else:
                    stuck = host_port.ready_head >= 0
            continue
        if not room_for_control(links, host_port):
            status = GROW_POOL
            break
        created = host_port.ctrl_tail
        if now == t_arrival:
            slot = ring_slot(reader.ring_off, reader.ring_mask, reader.head)
            receive(env, links, p, slot, now)
            reader.head += 1
        else:
            timer = surface(hosts.timers, hosts.heap, host)
            if timer >= 0:
                firings += fire(env, timer, now)
                if firings > MAX_FIRINGS + MAX_FIRINGS_OF_A_TIMER * host.n_timers:
                    broken(host, ENDLESS, firings)
                if TRACE:
                    trace_timer(links, env, hosts.timers[timer], p, now)
        if TRACE:
            trace_created(links, host_port, created, p, now)
        stuck = False
    clock.next_event[host_id] = min(t_arrival, t_timer, t_send)
    if host.rule_broken != 0:
        return BROKEN
    host.handler = NOTHING
    return status


def waiting_at(links: LinkState, p: GlobalPort) -> Ps:
    """Return when the next packet reaches port ``p``, or INF."""
    reader = links.readers[p]
    if reader.head == reader.tail:
        return INF
    return links.pool[ring_slot(reader.ring_off, reader.ring_mask, reader.head)].time


def sends_control(links: LinkState, host_port: HostPortRecord, port: PortRecord) -> bool:
    """Return whether an unpaused control packet waits."""
    return first_open(links, host_port, port) < host_port.ctrl_tail


def first_arrival(net: Net, links: LinkState, host_id: HostId) -> tuple[Ps, GlobalPort]:
    """Return when the next packet reaches a host, and the port (the lowest of several)."""
    earliest = INF
    at = net.first_port[host_id]
    for p in ports_of(net, host_id):
        time = waiting_at(links, p)
        if time < earliest:
            earliest = time
            at = p
    return earliest, at


def nic_of_timer(hosts: HostState, host_id: HostId, slot: TimerSlot) -> NicId:
    """Return the NIC of a timer; the first NIC for tasks' timers."""
    for nic in nics_of(hosts, host_id):
        host = hosts.nics[nic]
        if host.first_timer <= slot and slot - host.first_timer < host.n_timers:
            return nic
    return hosts.first_nic[host_id]


def first_sender(
    net: Net, links: LinkState, hosts: HostState, host_id: HostId, now: Ps
) -> tuple[Ps, GlobalPort]:
    """Return when a port can next send, and the port (the lowest of several)."""
    earliest = INF
    at = net.first_port[host_id]
    for p in ports_of(net, host_id):
        host_port = hosts.host_ports[p]
        port = links.ports[p]
        free_at = max(port.free_at, now)
        if free_at < earliest:
            listed = host_port.ready_head >= 0 and host_port.stuck == 0
            if listed or sends_control(links, host_port, port):
                earliest = free_at
                at = p
    return earliest, at


def start_to_send(
    env: Env, links: LinkState, host_port: HostPortRecord, port: PortRecord, now: Ps
) -> None:
    """Send a packet by a free port, or find that everything waiting is paused."""
    if sends_control(links, host_port, port):
        transmit_control(links, env.host, host_port, port, now)
        return
    flow = pick(env, host_port, port, now)
    if flow >= 0:
        transmit_data(env, links, port, flow, now)
    elif host_port.ready_head >= 0:
        host_port.stuck = 1


def nic_of_arrival(links: LinkState, hosts: HostState, p: GlobalPort, slot: Slot) -> NicId:
    """Return the NIC that the packet in pool slot ``slot``, which came in by port ``p``, is for."""
    kind = int(links.pool[slot].kind)
    if kind == PFC:
        return hosts.host_ports[p].nic
    flow = FlowId(links.pool[slot].flow)
    if kind < FIRST_CONTROL:
        return nic_of(hosts, hosts.rx[flow])
    return nic_of(hosts, hosts.tx[flow])


def room_at_all_ports(net: Net, links: LinkState, hosts: HostState, host_id: HostId) -> bool:
    """Make room in the FIFOs of all ports for what a handler may send; return whether there is."""
    for p in ports_of(net, host_id):
        host_port = hosts.host_ports[p]
        if not room_for_control(links, host_port):
            return False
    return True


def look_at_control(env: Env, net: Net, links: LinkState, host_id: HostId, now: Ps) -> None:
    """Check, and trace, what a handler has put into the FIFOs."""
    for p in ports_of(net, host_id):
        host_port = env.hosts.host_ports[p]
        if TRACE:
            trace_created(links, host_port, host_port.checked, p, now)
        check_control(env, host_port, host_port.checked)
        host_port.checked = host_port.ctrl_tail


def multi_port_step(
    net: Net, links: LinkState, hosts: HostState, clock: Clock, host_id: HostId
) -> int:
    """Advance a host of several ports to the end of the window; return a status of layout.py."""
    w1 = clock.clock[0].w1
    # Resume at the event at which a step stopped for lack of room.
    now = clock.next_event[host_id]
    firings = 0  # timer firings at this instant
    status = OK
    nic = hosts.first_nic[host_id]
    first = hosts.nics[nic]
    while True:
        t_arrival, p_in = first_arrival(net, links, host_id)
        t_timer = max(first_key(hosts.timers, hosts.heap, first), now)
        t_send, p_out = first_sender(net, links, hosts, host_id, now)
        t_next = min(t_arrival, t_timer, t_send)
        if t_next >= w1 or hosts.nics[nic].rule_broken != 0:
            break
        if t_next > now:
            firings = 0
        now = t_next
        if HAS_SERIES:
            look_at_host(links, hosts, host_id, now)
        if not room_at_all_ports(net, links, hosts, host_id):
            status = GROW_POOL
            break
        if now == t_send and now < t_arrival and now < t_timer:
            port = links.ports[p_out]
            if port.tail - links.published_head[p_out] > port.ring_mask:
                if not lengthen_link(links, port, p_out, 0):
                    status = GROW_POOL
                    break
            host_port = hosts.host_ports[p_out]
            nic = host_port.nic
            env = env_of(hosts.nics[nic], hosts.pars[0].transport0, hosts, links)
            if CARRIER:
                hosts.nics[nic].now_ps = now
            start_to_send(env, links, host_port, port, now)
            look_at_control(env, net, links, host_id, now)
            continue
        arrives = now == t_arrival
        slot = Slot(0)
        timer = NO_TIMER
        if arrives:
            reader = links.readers[p_in]
            slot = ring_slot(reader.ring_off, reader.ring_mask, reader.head)
            nic = nic_of_arrival(links, hosts, p_in, slot)
        else:
            timer = surface(hosts.timers, hosts.heap, first)
            if timer < 0:
                continue
            nic = nic_of_timer(hosts, host_id, timer)
        host = hosts.nics[nic]
        env = env_of(host, hosts.pars[0].transport0, hosts, links)
        if CARRIER:
            host.now_ps = now
        if arrives:
            receive(env, links, p_in, slot, now)
            links.readers[p_in].head += 1
        else:
            firings += fire(env, timer, now)
            if firings > MAX_FIRINGS + MAX_FIRINGS_OF_A_TIMER * host.n_timers:
                broken(host, ENDLESS, firings)
            if TRACE:
                trace_timer(links, env, hosts.timers[timer], host.port, now)
        look_at_control(env, net, links, host_id, now)
        for p in ports_of(net, host_id):
            hosts.host_ports[p].stuck = 0
    clock.next_event[host_id] = min(t_arrival, t_timer, t_send)
    if hosts.nics[nic].rule_broken != 0:
        return BROKEN
    for each in nics_of(hosts, host_id):
        hosts.nics[each].handler = NOTHING
    return status
