"""Choose a packet's output port: routing tables and load balancing over equal paths.

Each choice is a pure function of counters of the ingress port.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PacketRecord
from netsim.engine.kernels.ids import Address, Bytes, GlobalPort, LocalPort, NodeId, Ps, Slot
from netsim.engine.kernels.indexing import queue_of
from netsim.engine.kernels.layout import VLB, LinkState, Net
from netsim.engine.kernels.packets import FIRST_CONTROL, TRIMMED
from netsim.engine.kernels.specialization_constants import (
    BALANCING,
    FAULTS,
    INDIRECT,
    N_CLASSES,
    TIME_SLOT_ROUTING,
    TRACE,
)
from netsim.engine.kernels.trace import UNROUTABLE, trace_packet
from netsim.model.arithmetic import PURPOSE_THIRD_SWITCH, below, mix, permuted, rand32
from netsim.model.routing import NO_ROUTE

ECMP, SPRAY_RANDOM, SPRAY_ROUND_ROBIN, SPRAY_PERMUTATION, LEAST_LOADED, ECMP_SYMMETRIC = range(6)

NO_DETOUR = -1  # the packet is not routed indirectly
MAX_HOPS = 255  # most links that a packet may cross


def least_loaded(
    links: LinkState, net: Net, first: GlobalPort, offset: int, n: int, start: int
) -> int:
    """Return the candidate with the fewest bytes held, searching from ``start`` cyclically.

    Candidates are ``n`` entries of ``route_ports`` from ``offset``; ``first`` is the switch's first
    port.
    """
    best = start
    best_bytes = -1
    for j in range(n):
        k = start + j
        if k >= n:
            k -= n
        p = first + net.route_ports[offset + k]
        held = 0
        for cls in range(N_CLASSES):
            held += links.queues[queue_of(p, cls)].bytes
        if best_bytes < 0 or held < best_bytes:
            best_bytes = held
            best = k
    return best


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


def drawn_port(net: Net, links: LinkState, p_in: GlobalPort, detour: int) -> LocalPort:
    """Draw a port from a list of ``detour_ports``; count the draw at ``p_in``."""
    balance = links.balance[p_in]
    first = net.detour_first[detour]
    n = net.detour_first[detour + 1] - first
    draw = rand32(links.fabric[0].seed, PURPOSE_THIRD_SWITCH, int(p_in), balance.choices)
    balance.choices += 1
    return LocalPort(net.detour_ports[first + below(draw, n)])


def output_port(
    net: Net, links: LinkState, node: NodeId, p_in: GlobalPort, slot: Slot
) -> LocalPort:
    """Choose the local port by which switch ``node`` forwards the packet in pool slot ``slot``.
    Counts the choice at ingress ``p_in``."""
    pkt = links.pool[slot]
    if INDIRECT == VLB:
        detour = detour_of(net, links, node, p_in, pkt)
        if detour != NO_DETOUR:
            return drawn_port(net, links, p_in, detour)
    dst = Address(pkt.dst)
    entry = route_of(net, node, pkt)
    n = entry & 0xFFFF
    if n == 0:
        return LocalPort(net.host_port[dst])
    offset = entry >> 16
    if n == 1:
        return LocalPort(net.route_ports[offset])
    kind = int(pkt.kind)
    if BALANCING == ECMP or BALANCING == ECMP_SYMMETRIC:
        direction = 0
        if BALANCING == ECMP and kind >= FIRST_CONTROL:
            direction = 1
        key = mix(int(pkt.flow) * 2 + direction) ^ int(pkt.entropy)
        return LocalPort(net.route_ports[offset + below(mix(net.node_salt[node] ^ key), n)])
    balance = links.balance[p_in]
    if BALANCING == SPRAY_RANDOM or BALANCING == LEAST_LOADED:
        k = below(mix(balance.salt_random ^ (balance.choices & 0xFFFFFFFF)), n)
        balance.choices += 1
        if BALANCING == LEAST_LOADED:
            k = least_loaded(links, net, net.first_port[node], offset, n, k)
        return LocalPort(net.route_ports[offset + k])
    if kind <= TRIMMED:
        count = balance.data_choices
        balance.data_choices += 1
        salt = balance.salt_data
    else:
        count = balance.other_choices
        balance.other_choices += 1
        salt = balance.salt_other
    epoch = count // n
    key = mix(salt ^ (epoch & 0xFFFFFFFF))
    if BALANCING == SPRAY_ROUND_ROBIN:
        k = (count + below(key, n)) % n
    else:
        k = permuted(key, count - epoch * n, n)
    return LocalPort(net.route_ports[offset + k])
