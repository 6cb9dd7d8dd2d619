"""Choose a packet's output port: routing tables, the algorithm's handlers, and services for them.

`netsim.routing` exports the services. Ports are local numbers of the switch, groups numbers in its
network. An invalid argument breaks a rule; the function returns a harmless value.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.fields import (
    Address,
    Bytes,
    GlobalPort,
    LocalPort,
    NodeId,
    PacketRecord,
    PortChoiceRecord,
    Ps,
    RoutingPortRecord,
    Slot,
)
from netsim.engine.kernels.handlers import (
    IN_AT_SOURCE,
    IN_AT_SWITCH,
    IN_CHOOSE,
    IN_ON_DEPART,
    IN_ON_ROUTE,
    IN_ON_TICK,
    NO_CANDIDATE,
    NO_GROUP,
    NO_KEY,
    NO_LEVEL,
    NO_LOCAL_PORT,
    PlaneEnv,
    QueueEnv,
    RoutingEnv,
    at_source,
    at_switch,
    broken,
    choose,
    on_depart,
    on_route,
    on_tick,
    routing_env_of,
)
from netsim.engine.kernels.layout import VLB, LinkState, Net, queue_of
from netsim.engine.kernels.packets import FIRST_CONTROL
from netsim.engine.kernels.port_pairs import pair_of, pairs_in_use
from netsim.engine.kernels.specialization_constants import (
    FAULTS,
    FLOW_ROWS,
    HAS_AT_SOURCE,
    HAS_AT_SWITCH,
    HAS_ON_ROUTE,
    HAS_ON_TICK,
    INDIRECT,
    N_CLASSES,
    N_LEVELS,
    N_PUBLISHED,
    ONE_FLOW_TABLE,
    TIME_SLOT_ROUTING,
    TRACE,
    VIA,
)
from netsim.engine.kernels.trace import UNROUTABLE, trace_packet
from netsim.model.arithmetic import PURPOSE_THIRD_SWITCH, below, mix, rand32
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
        trace_packet(links, UNROUTABLE, p_in, pkt, pkt.time, 0)


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
    """Return the local port by which a packet that came in by ``port`` leaves."""
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


# --- services -------------------------------------------------------------------------------------


def _port(env: RoutingEnv, p: int) -> GlobalPort:
    """Return local port ``p`` as a global port; if there is none, break a rule and return port
    0."""
    if p < 0 or p >= env.switch.n_ports:
        broken(env.home, NO_LOCAL_PORT, p)
        p = 0
    return env.switch.first_port + LocalPort(p)


KEPT = 4
"""Periods of which each published number's last value is kept. Readers take a value at least two
periods old, and a window spans at most two periods, so a window never overwrites a value that may
be read in it."""


def _key(env: RoutingEnv, switch: int, key: int) -> int:
    """Return the row of a number that a switch publishes; for an unknown key, break a rule and
    return the row of key 0."""
    if key < 0 or key >= N_PUBLISHED:
        broken(env.home, NO_KEY, key)
        key = 0
    return switch * N_PUBLISHED + key


def _group(env: RoutingEnv, group: int) -> int:
    """Return a group; if it does not exist, break a rule and return group 0."""
    if 0 <= group < env.switch.n_groups:
        return group
    broken(env.home, NO_GROUP, group)
    return 0


def candidates(env: RoutingEnv, now: Ps, group: int) -> tuple[int, int]:
    """Return ``first`` and the number of candidates for the edge switch of ``group``; none if that
    is this switch or has no route."""
    return _listed(env, now, env.switch.node, group)


def candidates_at(env: RoutingEnv, now: Ps, at: int, group: int) -> tuple[int, int]:
    """Like `candidates`, for the edge switch of group ``at`` and its local ports."""
    return _listed(env, now, env.links.routers[_switch(env, at)].node, group)


def _listed(env: RoutingEnv, now: Ps, node: NodeId, group: int) -> tuple[int, int]:
    """Return ``first`` and the number of a switch's candidates for a group."""
    entry = env.net.route[row_of(env.net, node, now) + _group(env, group)]
    if entry == NO_ROUTE:
        return 0, 0
    return entry >> 16, entry & 0xFFFF


def _switch(env: RoutingEnv, group: int) -> int:
    """Return the edge switch of a group."""
    return env.net.group_switch[env.switch.first_group + _group(env, group)]


def candidate(env: RoutingEnv, first: int, k: int) -> LocalPort:
    """Return the local port of candidate ``k`` from ``first`` on."""
    at = first + k
    if at < 0 or at >= env.net.route_ports.shape[0]:
        broken(env.home, NO_CANDIDATE, k)
        at = 0
    return LocalPort(env.net.route_ports[at])


def group_of(env: RoutingEnv, pkt: PacketRecord) -> int:
    """Return the group of a packet's destination."""
    group = int(env.net.host_group[Address(pkt.dst)])
    if group >= env.switch.n_groups:  # by another routing table than the first
        group %= env.switch.n_groups
    return group


def n_groups(env: RoutingEnv) -> int:
    """Return the number of groups of the switch's network."""
    return env.switch.n_groups


def set_via(env: RoutingEnv, pkt: Any, group: int) -> None:
    """Send a packet via a group's edge switch; -1: straight to its destination. Requires VIA."""
    if group != -1:
        group = _group(env, group)
    pkt.via = group + 1


def via_of(pkt: Any) -> int:
    """Return the group that a packet goes via, or -1. Requires VIA."""
    return int(pkt.via) - 1


def level_of(env: RoutingEnv, pkt: PacketRecord) -> int:  # noqa: ARG001 # like set_level
    """Return a packet's level, from 0 on; 0 without PFC."""
    if N_LEVELS == 1:
        return 0
    return N_LEVELS - 1 - int(pkt.prio) % N_LEVELS


def set_level(env: RoutingEnv, pkt: PacketRecord, level: int) -> None:
    """Change a packet's level on its remaining links; without PFC, do nothing. Requires LEVELS."""
    if N_LEVELS > 1:
        if level < 0 or level >= N_LEVELS:
            broken(env.home, NO_LEVEL, level)
        else:
            pkt.prio = int(pkt.prio) // N_LEVELS * N_LEVELS + N_LEVELS - 1 - level


def held(env: RoutingEnv, p: int) -> Bytes:
    """Return the bytes held at local port ``p`` in all classes, including the packet in
    transmission. Requires COUPLED."""
    port = _port(env, p)
    n_bytes = Bytes(0)
    for cls in range(N_CLASSES):
        n_bytes += env.links.queues[queue_of(port, cls)].bytes
    return n_bytes


def is_up(env: RoutingEnv, now: Ps, p: int) -> bool:
    """Return whether the link that leaves by local port ``p`` has no outage now."""
    port = _port(env, p)
    if FAULTS:
        outages = env.links.outages
        fault = env.links.faults[port]
        k = fault.outage  # none before it ends after now
        while k < fault.last_outage and outages[k, 0] <= now:
            if now < outages[k, 1]:
                return False
            k += 1
    return True


def hops_to(env: RoutingEnv, group: int) -> int:
    """Return the links from this switch to a group's edge switch, by routes without failures; 255
    if there is none."""
    return int(env.net.hops[env.home.number, _group(env, group)])


def dimension_of(env: RoutingEnv, p: int) -> int:
    """Return the dimension that the topology has given to the cable at local port ``p``, or 0."""
    return env.net.port_dimension[_port(env, p)]


def far_group(env: RoutingEnv, p: int) -> int:
    """Return the group at the other end of the cable at local port ``p``; -1 if that is a host or a
    switch without hosts."""
    return _far_group(env, _port(env, p))


def far_group_at(env: RoutingEnv, at: int, p: int) -> int:
    """Like `far_group`, for a local port of the edge switch of group ``at``."""
    router = env.links.routers[_switch(env, at)]
    if p < 0 or p >= router.n_ports:
        broken(env.home, NO_LOCAL_PORT, p)
        p = 0
    return _far_group(env, router.first_port + LocalPort(p))


def _far_group(env: RoutingEnv, port: GlobalPort) -> int:
    """Return the group at the other end of a port's cable, or -1."""
    node = env.net.port_node[env.net.port_peer[port]]
    if node < env.net.n_hosts:
        return -1
    return int(env.links.routers[node - env.net.n_hosts].group)


def publish(env: RoutingEnv, now: Ps, key: int, value: int) -> None:
    """Publish a value of this switch. Requires COUPLED, PUBLISHED and a parameter publish_delay."""
    kept = env.links.published
    row = _key(env, env.home.number, key)
    period = now // env.links.routing[0].publish_delay + 1
    at = 0
    for k in range(KEPT):
        if kept[row, 0, k] == period:
            at = k
            break
        if kept[row, 0, k] < kept[row, 0, at]:
            at = k
    kept[row, 0, at] = period
    kept[row, 1, at] = value


def published(env: RoutingEnv, now: Ps, group: int, key: int) -> int:
    """Return the last value that a group's edge switch published before the previous period of
    ``publish_delay``, or 0."""
    kept = env.links.published
    row = _key(env, _switch(env, group), key)
    latest = 0
    value = 0
    for k in range(KEPT):
        period = kept[row, 0, k]
        if latest < period < now // env.links.routing[0].publish_delay:
            latest = period
            value = kept[row, 1, k]
    return value


def ps_per_byte_q20(env: RoutingEnv, p: int) -> int:
    """Return the ps that a byte takes at local port ``p``, in units of 2**-20, without faults."""
    return env.net.port_q20[_port(env, p)]


def egress(env: RoutingEnv, p: int) -> Any:
    """Return the record of local port ``p``. Its state requires COUPLED."""
    return env.links.routing_ports[_port(env, p)]


def flow_row(env: RoutingEnv, port: RoutingPortRecord, pkt: PacketRecord) -> Any:
    """Return the row of the flow table for a packet that came in by ``port``."""
    direction = 0
    if int(pkt.kind) >= FIRST_CONTROL:
        direction = 1
    key = mix(mix(int(pkt.flow) * 2 + direction) ^ int(pkt.entropy))
    table = int(port.number) - int(env.net.first_port[NodeId(env.net.n_hosts)])
    if ONE_FLOW_TABLE:
        table = env.home.number
    return env.links.flow_rows[table * FLOW_ROWS + below(key, FLOW_ROWS)]


def _port_of_pair(env: PlaneEnv, side: PortChoiceRecord, k: int) -> GlobalPort:
    """Return this host's port of the ``k``-th port pair in use."""
    n = pairs_in_use(env.engine, side)
    if k < 0 or k >= n:
        broken(env.engine.host, NO_CANDIDATE, k)
        k = 0
    pair = side.first_pair + pair_of(env.engine, side, k, n)
    return GlobalPort(env.engine.hosts.port_pairs[pair, 0])


def waiting(env: PlaneEnv, side: PortChoiceRecord, k: int) -> int:
    """Return how many flows wait for the port of port pair ``k``; for a control packet, how many
    control packets wait."""
    port = env.engine.hosts.host_ports[_port_of_pair(env, side, k)]
    if env.is_data == 1:
        return port.n_ready
    return port.ctrl_tail - port.ctrl_head


def free_at(env: PlaneEnv, side: PortChoiceRecord, k: int) -> Ps:
    """Return when the last transmission at the port of port pair ``k`` ended, or ends."""
    return env.engine.links.ports[_port_of_pair(env, side, k)].free_at
