"""Choose a packet's output port: routing tables, and the routing algorithm's handlers."""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.env import QueueEnv, RoutingEnv, routing_env_of
from netsim.engine.kernels.fields import PacketRecord
from netsim.engine.kernels.ids import Address, Bytes, GlobalPort, LocalPort, NodeId, Ps, Slot
from netsim.engine.kernels.indexing import queue_of
from netsim.engine.kernels.layout import VLB, LinkState, Net
from netsim.engine.kernels.routing_fields import RoutingPortRecord
from netsim.engine.kernels.routing_handlers import (
    IN_AT_SOURCE,
    IN_AT_SWITCH,
    IN_CHOOSE,
    IN_ON_DEPART,
    IN_ON_ROUTE,
    IN_ON_TICK,
)
from netsim.engine.kernels.rules import NO_CANDIDATE, broken
from netsim.engine.kernels.specialization_constants import (
    FAULTS,
    HAS_AT_SOURCE,
    HAS_AT_SWITCH,
    HAS_ON_ROUTE,
    HAS_ON_TICK,
    INDIRECT,
    TIME_SLOT_ROUTING,
    TRACE,
    VIA,
    at_source,
    at_switch,
    choose,
    on_depart,
    on_route,
    on_tick,
)
from netsim.engine.kernels.trace import UNROUTABLE, trace_packet
from netsim.model.arithmetic import PURPOSE_THIRD_SWITCH, below, rand32
from netsim.model.routing import NO_ROUTE

NO_DETOUR = -1  # the packet is not routed indirectly
MAX_HOPS = 255  # most links that a packet may cross


def slot_of_routes(net: Net, now: Ps) -> int:
    """Return the routing slot at a time."""
    last = net.slot_ends.size - 1
    past = (now - net.slots_from) % net.slot_ends[last]
    lo = 0
    hi = last
    while lo < hi:
        middle = (lo + hi) >> 1
        if net.slot_ends[middle] > past:
            hi = middle
        else:
            lo = middle + 1
    return lo


def row_of(net: Net, node: NodeId, now: Ps) -> int:
    """Return where the routing-table row of switch ``node`` begins at a time."""
    if TIME_SLOT_ROUTING:
        return net.slot_row_first[slot_of_routes(net, now), node - net.n_hosts]
    if not FAULTS:
        return net.route_first[node]
    switch = node - net.n_hosts
    lo = net.row_ptr[switch]
    hi = net.row_ptr[switch + 1]
    while hi - lo > 1:
        middle = (lo + hi) >> 1
        if net.row_from[middle] <= now:
            lo = middle
        else:
            hi = middle
    return net.row_first[lo]


def route_of(net: Net, node: NodeId, pkt: PacketRecord) -> int:
    """Return the routing-table entry of a packet that has arrived at switch ``node``."""
    return net.route[row_of(net, node, pkt.time) + net.host_group[Address(pkt.dst)]]


def has_route(net: Net, node: NodeId, pkt: PacketRecord) -> bool:
    """Return whether a packet at switch ``node`` has a route and has not crossed MAX_HOPS links."""
    return int(pkt.hops) < MAX_HOPS and route_of(net, node, pkt) != NO_ROUTE


def count_unroutable(links: LinkState, p_in: GlobalPort, slot: Slot) -> None:
    """Count as unroutable the packet in pool slot ``slot``, which came in by ``p_in``."""
    pkt = links.pool[slot]
    size = Bytes(pkt.size_bytes)
    loss = links.losses[queue_of(p_in, int(pkt.prio))]
    loss.unroutable_packets += 1
    loss.unroutable_bytes += size
    if TRACE:
        trace_packet(links, UNROUTABLE, p_in, slot, pkt.time, 0)


def detour_of(net: Net, links: LinkState, node: NodeId, p_in: GlobalPort, pkt: PacketRecord) -> int:
    """Return the list in ``detour_ports`` for an indirect packet, or NO_DETOUR."""
    if net.port_node[net.port_peer[p_in]] >= net.n_hosts:
        return NO_DETOUR
    entry = route_of(net, node, pkt)
    if entry & 0xFFFF == 0:
        return NO_DETOUR
    listed = net.first_port[node] + net.route_ports[entry >> 16]
    n_host_ports = int(net.first_port[NodeId(net.n_hosts)])
    to = GlobalPort(int(pkt.dst) % n_host_ports)
    there = net.edge[net.port_node[net.port_peer[to]]]
    if links.circuits[listed].fiber < 0 or there < 0:
        return NO_DETOUR
    return net.detour[net.edge[node], there]


def drawn_port(net: Net, links: LinkState, port: RoutingPortRecord, detour: int) -> LocalPort:
    """Draw a port from a list of ``detour_ports`` for a packet that came in by ``port``."""
    first = net.detour_first[detour]
    n = net.detour_first[detour + 1] - first
    draw = rand32(links.fabric[0].seed, PURPOSE_THIRD_SWITCH, int(port.number), port.draws)
    port.draws += 1
    return LocalPort(net.detour_ports[first + below(draw, n)])


def entry_of(env: RoutingEnv, pkt: Any, now: Ps) -> int:
    """Return the routing-table entry of a packet's target. Its via ends here if this is the via's
    edge switch or has no route to it."""
    net = env.net
    row = row_of(net, env.switch.node, now)
    if VIA:
        if pkt.via > 0:
            if pkt.via <= env.switch.n_groups:  # a damaged checkpoint may name any
                entry: int = net.route[row + pkt.via - 1]
                if entry > 0:
                    return entry
            pkt.via = 0
    return net.route[row + net.host_group[Address(int(pkt.dst))]]


def chosen_port(env: RoutingEnv, port: RoutingPortRecord, pkt: PacketRecord, now: Ps) -> LocalPort:
    """Return the local port by which a packet leaves that came in by ``port``."""
    net = env.net
    if INDIRECT == VLB:
        detour = detour_of(net, env.links, env.switch.node, port.number, pkt)
        if detour != NO_DETOUR:
            return drawn_port(net, env.links, port, detour)
    entry = entry_of(env, pkt, now)
    n = entry & 0xFFFF
    if n == 0:
        return LocalPort(net.host_port[Address(pkt.dst)])
    first = entry >> 16
    if n == 1:
        return LocalPort(net.route_ports[first])
    env.home.handler = IN_CHOOSE
    k: int = choose(env, now, port, pkt, first, n)
    if k < 0 or k >= n:
        broken(env.home, NO_CANDIDATE, k)
        k = 0
    return LocalPort(net.route_ports[first + k])


def end_ticks(env: RoutingEnv, now: Ps) -> None:
    """Call `on_tick` for the periods that have ended since the last call."""
    if HAS_ON_TICK:
        switch = env.switch
        tick: Ps = env.links.routing[0].tick
        n = now // tick - switch.ticks
        if n > 0:
            switch.ticks += n
            env.home.handler = IN_ON_TICK
            on_tick(env, switch.ticks * tick, n)


def output_port(env: RoutingEnv, p_in: GlobalPort, slot: Slot, now: Ps) -> LocalPort:
    """Choose the local port by which a switch forwards the packet in pool slot ``slot``, which came
    in by port ``p_in`` and has a route."""
    links = env.links
    pkt = links.pool[slot]
    port = links.routing_ports[p_in]
    end_ticks(env, now)
    if HAS_AT_SOURCE:
        if port.from_host == 1:
            env.home.handler = IN_AT_SOURCE
            at_source(env, now, port, pkt)
    if HAS_AT_SWITCH:
        if port.from_host == 0:
            env.home.handler = IN_AT_SWITCH
            at_switch(env, now, port, pkt)
    out = chosen_port(env, port, pkt, now)
    if HAS_ON_ROUTE:
        env.home.handler = IN_ON_ROUTE
        on_route(env, now, port, links.routing_ports[env.switch.first_port + out], pkt)
    return out


def departs(queue_env: QueueEnv, p: GlobalPort, pkt: PacketRecord, now: Ps) -> None:
    """Let the algorithm see a packet whose transmission starts at port ``p``."""
    env = routing_env_of(queue_env)
    end_ticks(env, now)
    env.home.handler = IN_ON_DEPART
    on_depart(env, now, env.links.routing_ports[p], pkt)
