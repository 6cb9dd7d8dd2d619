"""A host with several ports: arrivals, timers and NICs in exact time order.

Like host.py, but each port has its own FIFO and ready list, and each NIC its own timers.
"""

from __future__ import annotations

from netsim.engine.kernels.env import Env, env_of
from netsim.engine.kernels.fields import HostPortRecord, PortRecord
from netsim.engine.kernels.handlers import NOTHING
from netsim.engine.kernels.host import fire, receive, room_for_control
from netsim.engine.kernels.ids import (
    NO_TIMER,
    FlowId,
    GlobalPort,
    HostId,
    NicId,
    Ps,
    Slot,
    TimerSlot,
)
from netsim.engine.kernels.indexing import nic_of, nics_of, ports_of, ring_slot
from netsim.engine.kernels.layout import (
    BROKEN,
    GROW_POOL,
    INF,
    OK,
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
)
from netsim.engine.kernels.packets import FIRST_CONTROL, PFC
from netsim.engine.kernels.rings import lengthen_link
from netsim.engine.kernels.rules import ENDLESS, MAX_FIRINGS, MAX_FIRINGS_OF_A_TIMER, broken
from netsim.engine.kernels.series import look_at_host
from netsim.engine.kernels.specialization_constants import CARRIER, HAS_SERIES, TRACE
from netsim.engine.kernels.timers import first_key, surface
from netsim.engine.kernels.trace import trace_created, trace_timer

NO_NEED = 0
"""Lengthen a ring by the usual factor."""


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
    env: Env, links: LinkState, host_port: HostPortRecord, port: PortRecord, p: GlobalPort, now: Ps
) -> None:
    """Send a packet by the free port ``p``, or find that everything waiting is paused."""
    if sends_control(links, host_port, port):
        transmit_control(links, env.host, host_port, port, p, now)
        return
    flow = pick(env, host_port, port, now)
    if flow >= 0:
        transmit_data(env, links, port, p, flow, now)
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


def note_sent(links: LinkState, p: GlobalPort) -> None:
    """Publish what port ``p`` has sent in this step."""
    port = links.ports[p]
    if port.tail > links.new_tail[p]:
        # Read the slot back from the ring: the first of the new packets.
        if links.first_new[p] == INF:
            slot = ring_slot(port.ring_off, port.ring_mask, links.new_tail[p])
            links.first_new[p] = links.pool[slot].time
        links.new_tail[p] = port.tail


def host_step(net: Net, links: LinkState, hosts: HostState, clock: Clock, host_id: HostId) -> int:
    """Advance a host of several ports to the end of the window; return a status of layout.py."""
    w1 = clock.clock[0].w1
    # Not before the event at which a step stopped for lack of room.
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
                if not lengthen_link(links, port, p_out, NO_NEED):
                    status = GROW_POOL
                    break
            host_port = hosts.host_ports[p_out]
            nic = host_port.nic
            env = env_of(hosts.nics[nic], hosts.pars[0].transport0, hosts, links)
            if CARRIER:
                hosts.nics[nic].now_ps = now
            start_to_send(env, links, host_port, port, p_out, now)
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
    for p in ports_of(net, host_id):
        note_sent(links, p)
    if hosts.nics[nic].rule_broken != 0:
        return BROKEN
    for each in nics_of(hosts, host_id):
        hosts.nics[each].handler = NOTHING
    return status
