"""Opportunistic indirect packets (`INDIRECT`): sent by another port, over an intermediate switch.

At most one port per fiber may start at a time, so kernels visit fibers instead of ports
(`find_day`). While packets are offered, a port must be visited when its circuit opens even if it
has no packets: `await_day` schedules the next port to open on each fiber.
"""

from __future__ import annotations

from netsim.engine.kernels.calendar import Step, cancel_wakeup, note_event
from netsim.engine.kernels.class_queues import hold
from netsim.engine.kernels.env import QueueEnv
from netsim.engine.kernels.fields import FiberRecord, PortRecord
from netsim.engine.kernels.ids import NO_PORT, Bytes, LocalPort, Origin, Ps
from netsim.engine.kernels.indexing import WAITS, exclude, include, next_port, queue_of, ring_slot
from netsim.engine.kernels.layout import LinkState, Net
from netsim.engine.kernels.links import first_ending, may_start
from netsim.engine.kernels.ports import lowest, start_transmission
from netsim.engine.kernels.series import change, close_until
from netsim.engine.kernels.specialization_constants import (
    HAS_ON_DEPARTURE,
    HAS_SERIES,
    IS_SHAPED,
    TRACE,
)
from netsim.engine.kernels.trace import SENT_INDIRECT, trace_packet
from netsim.limits import HORIZON_PS

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
    cls = relayed + 1 + lowest(source.backlog >> (relayed + 1))
    queue = links.queues[queue_of(source.number, cls)]
    slot = ring_slot(queue.off, queue.mask, queue.head)
    pkt = links.pool[slot]
    size = Bytes(pkt.size_bytes)
    if HAS_SERIES:
        close_until(links, source.number, now)
        change(links, source.number, cls, -int(size), now)
        close_until(links, port.number, now)
    if TRACE:
        trace_packet(links, SENT_INDIRECT, source.number, slot, now, queue.bytes)
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
    note_event(links, step, out)
    if IS_SHAPED:  # the other port may have waited for this packet
        await_day(net, links, step, links.circuits[source.number].fiber, now)


def await_day(net: Net, links: LinkState, step: Step, number: int, now: Ps) -> None:
    """Schedule a visit of the fiber's next port to open, while packets are offered. No visit if it
    is busy then, or has packets of its own and waits for something else."""
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
    """Let each other port that can send one packet of local port ``out``, while it offers any."""
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
