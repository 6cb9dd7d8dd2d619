"""Where a packet leaves a switch: the routing table and load balancing over equal paths.

Load balancing is a property of the fabric, independent of the transport. Each
choice is a pure function of counters of the port by which the packet came in.
"""

from __future__ import annotations

from netsim.engine.kernels.holes import BALANCING, N_CLASSES
from netsim.engine.kernels.ids import GlobalPort, HostId, LocalPort, NodeId, Slot
from netsim.engine.kernels.layout import Net, Wires
from netsim.engine.kernels.packets import FIRST_CONTROL, TRIMMED
from netsim.engine.kernels.places import queue_of
from netsim.model.arithmetic import below, mix

ECMP, SPRAY_RANDOM, SPRAY_RR, SPRAY_PERMUTATION, LEAST_LOADED, ECMP_SYMMETRIC = range(6)


def permuted(key: int, x: int, n: int) -> int:
    """Element ``x`` of the pseudo-random permutation of 0 .. n-1 chosen by ``key``."""
    b = 1
    while (1 << b) < n:
        b += 1
    m = (1 << b) - 1
    h = (b + 1) >> 1
    while True:
        x = (x * (key | 1) + (key >> 8)) & m
        x = x ^ (x >> h)
        x = (x * ((key >> 16) | 1) + (key >> 4)) & m
        x = x ^ (x >> h)
        if x < n:
            return x


def least_loaded(wires: Wires, net: Net, first: GlobalPort, offset: int, n: int, start: int) -> int:
    """Which of ``n`` candidates holds the fewest bytes, searching from ``start`` onwards.

    They stand in ``route_ports`` from ``offset`` on; ``first`` is the switch's first port.
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
            held += wires.queues[queue_of(p, cls)].bytes
        if best_bytes < 0 or held < best_bytes:
            best_bytes = held
            best = k
    return best


def route_of(net: Net, node: NodeId, dst: HostId) -> int:
    """The entry of the routing table of switch ``node`` for packets to ``dst``."""
    return net.route[(node - net.n_hosts) * net.n_groups + net.host_group[dst]]


def output_port(net: Net, wires: Wires, node: NodeId, p_in: GlobalPort, slot: Slot) -> LocalPort:
    """Local port by which switch ``node`` sends on the packet in pool slot ``slot``.

    It came in by port ``p_in``, whose counters of choices count this one.
    """
    pkt = wires.pool[slot]
    dst = HostId(pkt.dst)
    entry = route_of(net, node, dst)
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
    balance = wires.balance[p_in]
    if BALANCING == SPRAY_RANDOM or BALANCING == LEAST_LOADED:
        k = below(mix(balance.salt_random ^ (balance.choices & 0xFFFFFFFF)), n)
        balance.choices += 1
        if BALANCING == LEAST_LOADED:
            k = least_loaded(wires, net, net.first_port[node], offset, n, k)
        return LocalPort(net.route_ports[offset + k])
    if kind <= TRIMMED:
        count = balance.data_choices
        balance.data_choices += 1
        salt = balance.salt_data
    else:
        count = balance.other_choices
        balance.other_choices += 1
        salt = balance.salt_other
    if BALANCING == SPRAY_RR:
        k = (count + (p_in - net.first_port[node])) % n
    else:
        epoch = count // n
        k = permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)
    return LocalPort(net.route_ports[offset + k])


def undo_choice(net: Net, wires: Wires, node: NodeId, p_in: GlobalPort, slot: Slot) -> None:
    """Take back the count, at ``p_in``, of a choice that could not be carried out."""
    pkt = wires.pool[slot]
    entry = route_of(net, node, HostId(pkt.dst))
    if BALANCING == ECMP or BALANCING == ECMP_SYMMETRIC or entry & 0xFFFF <= 1:
        return
    balance = wires.balance[p_in]
    if BALANCING == SPRAY_RANDOM or BALANCING == LEAST_LOADED:
        balance.choices -= 1
    elif int(pkt.kind) <= TRIMMED:
        balance.data_choices -= 1
    else:
        balance.other_choices -= 1
