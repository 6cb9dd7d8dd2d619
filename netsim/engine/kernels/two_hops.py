"""Packets that ports send for each other, by way of a third switch.

Behind ``INDIRECT``, if it is OFFLOAD. A port whose circuit is there and that has nothing to send
takes a packet that waits at another port of its switch. Of a switch's ports that feed circuits no
more may start now than it has fibers, so that these are gone through in place of the ports
(`turn_at`). A port that opens with nothing to send has to be looked at as well, while others have
packets to give: of each fiber the one that opens next (`await_turn`), again after each event that
may have changed which one that is.
"""

from __future__ import annotations

from netsim.engine.kernels.calendar import Step, forget_look, note_event
from netsim.engine.kernels.circuits import first_ending, may_start
from netsim.engine.kernels.class_queues import hold
from netsim.engine.kernels.env import QueueEnv
from netsim.engine.kernels.fields import FiberRecord, PortRecord
from netsim.engine.kernels.ids import NO_PORT, Bytes, LocalPort, Ps
from netsim.engine.kernels.layout import LinkState, Net
from netsim.engine.kernels.places import WAITS, queue_of, ring_slot
from netsim.engine.kernels.port_sets import exclude, include, next_port
from netsim.engine.kernels.ports import launch, lowest
from netsim.engine.kernels.rings import ring_full
from netsim.engine.kernels.series import change, close_until
from netsim.engine.kernels.specialization_constants import (
    HAS_ON_DEPARTURE,
    HAS_SERIES,
    IS_SHAPED,
    TRACE,
)
from netsim.engine.kernels.trace import GIVEN, trace_packet
from netsim.limits import HORIZON_PS

NO_FIBER = -1


def offers(links: LinkState, port: PortRecord) -> bool:
    """Does a packet wait at the port that another one may send?"""
    return port.backlog >> (links.fabric[0].relayed_class + 1) != 0


def nothing_offered(net: Net, links: LinkState, step: Step) -> bool:
    """Does no port of the switch offer anything? (Some that have ceased to may be taken for it.)"""
    for word in range(net.first_word[step.node], net.first_word[step.node + 1]):
        if links.giving[word] != 0:
            return False
    return True


def turn_at(links: LinkState, fiber: FiberRecord, now: Ps) -> None:
    """Have a fiber know whose turn it is, or is next."""
    if now < fiber.shuts_ps:
        return
    row, past = first_ending(links, fiber.first_turn, fiber.last_turn, fiber.period_ps, now)
    fiber.turn = row
    fiber.past_ps = past
    fiber.port = links.turns[row]
    fiber.opens_ps = links.days[row, 0] + past
    fiber.shuts_ps = links.days[row, 1] + past


def opens_now(links: LinkState, step: Step, out: LocalPort, now: Ps) -> bool:
    """Does the circuit of local port ``out`` open at this instant?"""
    fiber = links.fibers[links.circuits[step.first + out].fiber]
    turn_at(links, fiber, now)
    return fiber.port == out and fiber.opens_ps == now


def giver(net: Net, env: QueueEnv, step: Step, out: LocalPort) -> LocalPort:
    """The port whose packet local port ``out`` takes, or NO_PORT."""
    links = env.links
    by_way_of = net.edge[net.port_node[net.port_peer[step.first + out]]]
    last = env.switch.gave_last
    for before in (last, NO_PORT):
        other = next_port(net, links.giving, step.node, before)
        while other >= 0 and (before == last or other <= last):
            port = links.ports[step.first + other]
            if not offers(links, port):
                exclude(links.giving, step.first_word, other)
            elif other != out:
                away = net.edge[net.port_node[net.port_peer[port.number]]]
                if net.reached[by_way_of, away] != 0:
                    return other
            other = next_port(net, links.giving, step.node, other)
    return NO_PORT


def take(net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """Have local port ``out`` send a packet of another port, if it can and there is one.

    There is room for it on its link.
    """
    links = env.links
    port = links.ports[step.first + out]
    if port.tx_bytes > 0 or port.backlog != 0 or not may_start(links, port, now):
        return
    other = giver(net, env, step, out)
    if other < 0:
        return
    env.switch.gave_last = other
    env.switch.took_last = out
    env.switch.n_taken += 1
    source = links.ports[step.first + other]
    relayed = links.fabric[0].relayed_class
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
        trace_packet(links, GIVEN, source.number, slot, now, queue.bytes)
    ingress = LocalPort(0)
    if HAS_ON_DEPARTURE:
        ingress = LocalPort(links.ingress[slot])
    queue.bytes -= size
    queue.head += 1
    if queue.head == queue.tail:
        source.backlog &= ~(1 << cls)
    pkt.prio = relayed
    forget_look(links, step, out)
    hold(links, port, relayed, size, now)
    launch(env, port, relayed, pkt, ingress, now)
    note_event(links, step, out)
    if IS_SHAPED:  # the other one may have been told to wait for what is gone
        await_turn(net, links, step, links.circuits[source.number].fiber, now)


def await_turn(net: Net, links: LinkState, step: Step, number: int, now: Ps) -> None:
    """While anything is offered, have the port of a fiber looked at that opens next.

    Not one that is busy then, or has packets of its own and waits for something else.
    """
    if nothing_offered(net, links, step):
        return
    fiber = links.fibers[number]
    turn_at(links, fiber, now)
    row = fiber.turn
    past = fiber.past_ps
    if fiber.opens_ps <= now:
        row += 1
    for _ in range(fiber.first_turn, fiber.last_turn):
        if row == fiber.last_turn:
            row = fiber.first_turn
            past += fiber.period_ps
        opens = links.days[row, 0] + past
        if opens >= HORIZON_PS:
            return
        out = links.turns[row]
        port = links.ports[step.first + out]
        if port.tx_bytes > 0:
            if port.free_at < opens:
                return
        elif port.tx_class == WAITS and port.free_at <= opens:
            return
        elif port.backlog == 0:
            forget_look(links, step, out)
            port.tx_class = WAITS
            port.free_at = opens
            note_event(links, step, out)
            return
        row += 1


def after_completion(
    net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps, waited: bool
) -> None:
    """A transmission of local port ``out`` has ended, or a wait; it has started what it had to."""
    number = env.links.circuits[step.first + out].fiber
    if number == NO_FIBER:
        return
    if not waited or opens_now(env.links, step, out, now):
        take(net, env, step, out, now)
    await_turn(net, env.links, step, number, now)


def after_arrival(net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """A packet has come to local port ``out``, which has started or not."""
    links = env.links
    switch = env.switch
    number = links.circuits[step.first + out].fiber
    if number == NO_FIBER:
        return
    if not offers(links, links.ports[step.first + out]):
        await_turn(net, links, step, number, now)
        return
    alone = nothing_offered(net, links, step)
    include(links.giving, step.first_word, out)
    others_take(net, env, step, out, now)
    for one in range(switch.first_fiber, switch.last_fiber):
        if alone or one == number:
            await_turn(net, links, step, one, now)


def others_take(net: Net, env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> None:
    """While local port ``out`` offers something, each port that can takes, once."""
    links = env.links
    switch = env.switch
    n = net.first_port[step.node + 1] - step.first
    behind = switch.took_last + 1
    done = -1
    while offers(links, links.ports[step.first + out]):
        nearest = n
        fiber_of_nearest = NO_FIBER
        for number in range(switch.first_fiber, switch.last_fiber):
            fiber = links.fibers[number]
            turn_at(links, fiber, now)
            port = links.ports[step.first + fiber.port]
            if fiber.opens_ps <= now and port.tx_bytes == 0 and port.backlog == 0:
                away = LocalPort((fiber.port - behind) % n)
                if done < away < nearest:
                    nearest = away
                    fiber_of_nearest = number
        if fiber_of_nearest == NO_FIBER:
            return
        done = nearest
        take(net, env, step, links.fibers[fiber_of_nearest].port, now)
        await_turn(net, links, step, fiber_of_nearest, now)


def others_have_room(env: QueueEnv, step: Step, out: LocalPort, now: Ps) -> bool:
    """Make room on the links of all ports that may take what comes to local port ``out``.

    False if the pool is used up.
    """
    links = env.links
    if links.circuits[step.first + out].fiber == NO_FIBER:
        return True
    for number in range(env.switch.first_fiber, env.switch.last_fiber):
        fiber = links.fibers[number]
        turn_at(links, fiber, now)
        if fiber.opens_ps <= now and ring_full(links, step.first + fiber.port):
            return False
    return True
