"""A host with one port: arrivals, timers and NIC in exact time order.

several_ports.py has the step of other hosts.
"""

from __future__ import annotations

from netsim.engine.kernels.env import Env, env_of
from netsim.engine.kernels.fields import HostPortRecord, RxRecord
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
    FlowId,
    GlobalPort,
    HostId,
    NicId,
    Ps,
    Slot,
    TaskId,
    TimerSlot,
)
from netsim.engine.kernels.indexing import ring_slot
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
from netsim.engine.kernels.programs import program_timer
from netsim.engine.kernels.rings import lengthen_control, lengthen_link
from netsim.engine.kernels.rules import ENDLESS, MAX_FIRINGS, MAX_FIRINGS_OF_A_TIMER, broken
from netsim.engine.kernels.series import look_at_host
from netsim.engine.kernels.specialization_constants import (
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
from netsim.engine.kernels.tasks import task_timer
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
    tail_before = links.new_tail[p]
    # Not before the event at which a step stopped for lack of room.
    now = clock.next_event[host_id]
    stuck = False  # everything on the ready list is paused
    firings = 0  # timer firings at this instant
    checked = host_port.ctrl_tail
    status = OK
    while True:
        check_control(env, host_port, checked)
        checked = host_port.ctrl_tail
        t_arrival = INF
        if reader.head < reader.tail:
            t_arrival = links.pool[ring_slot(reader.ring_off, reader.ring_mask, reader.head)].time
        t_timer = max(first_key(hosts.timers, hosts.heap, host), now)
        control = first_open(links, host_port, port) < host_port.ctrl_tail
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
                transmit_control(links, host, host_port, port, p, now)
            elif not room_for_control(links, host_port):
                status = GROW_POOL
                break
            else:
                flow = pick(env, host_port, port, now)
                if flow >= 0:
                    created = host_port.ctrl_tail
                    transmit_data(env, links, port, p, flow, now)
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
    if port.tail > tail_before:
        # Read the slot back from the ring: the first of the new packets.
        if links.first_new[p] == INF:
            slot = ring_slot(port.ring_off, port.ring_mask, tail_before)
            links.first_new[p] = links.pool[slot].time
        links.new_tail[p] = port.tail
    if host.rule_broken != 0:
        return BROKEN
    host.handler = NOTHING
    return status
