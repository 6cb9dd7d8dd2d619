"""Where a packet leaves a switch: the routing table and load balancing over equal paths.

Load balancing is a property of the fabric, independent of the transport. Each
choice is a pure function of counters of the port by which the packet came in.
"""

from __future__ import annotations

from netsim.engine.packets import FIRST_CONTROL, TRIMMED
from netsim.model.arithmetic import below, mix

ECMP, SPRAY_RANDOM, SPRAY_RR, SPRAY_PERMUTATION, LEAST_LOADED = range(5)

# The fabric's features, put in place by specialise.py.
N_CLASSES: int
BALANCING: int


def permuted(key, x, n):
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


def least_loaded(wires, net, first_port, offset, n, start):
    """Index of the candidate that holds the fewest bytes, searching from ``start`` onwards."""
    best = start
    best_bytes = -1
    for j in range(n):
        k = start + j
        if k >= n:
            k -= n
        p = first_port + net.route_ports[offset + k]
        held = 0
        for c in range(N_CLASSES):
            held += wires.queues[p * N_CLASSES + c].bytes
        if best_bytes < 0 or held < best_bytes:
            best_bytes = held
            best = k
    return best


def output_port(net, wires, node, p_in, slot):
    """Local port by which switch ``node`` sends on the packet in pool slot ``slot``.

    It came in by (global) port ``p_in``.
    """
    pkt = wires.pool[slot]
    dst = int(pkt.dst)
    entry = net.route[(node - net.n_hosts) * net.n_groups + net.host_group[dst]]
    n = entry & 0xFFFF
    if n == 0:
        return int(net.host_port[dst])
    offset = entry >> 16
    if n == 1:
        return int(net.route_ports[offset])
    kind = int(pkt.kind)
    if BALANCING == ECMP:
        direction = 0
        if kind >= FIRST_CONTROL:
            direction = 1
        key = mix(int(pkt.flow) * 2 + direction) ^ int(pkt.entropy)
        return int(net.route_ports[offset + below(mix(net.node_salt[node] ^ key), n)])
    balance = wires.balance[p_in]
    if BALANCING == SPRAY_RANDOM or BALANCING == LEAST_LOADED:
        k = below(mix(balance.salt_random ^ (balance.choices & 0xFFFFFFFF)), n)
        balance.choices += 1
        if BALANCING == LEAST_LOADED:
            k = least_loaded(wires, net, net.first_port[node], offset, n, k)
        return int(net.route_ports[offset + k])
    if kind <= TRIMMED:
        count = balance.data_choices
        balance.data_choices += 1
        salt = balance.salt_data
    else:
        count = balance.other_choices
        balance.other_choices += 1
        salt = balance.salt_other
    if BALANCING == SPRAY_RR:
        k = (count + p_in - net.first_port[node]) % n
    else:
        epoch = count // n
        k = permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)
    return int(net.route_ports[offset + k])


def undo_choice(net, wires, node, p_in, slot):
    """Take back the count of a choice that could not be carried out."""
    pkt = wires.pool[slot]
    entry = net.route[(node - net.n_hosts) * net.n_groups + net.host_group[int(pkt.dst)]]
    if BALANCING == ECMP or entry & 0xFFFF <= 1:
        return
    balance = wires.balance[p_in]
    if BALANCING == SPRAY_RANDOM or BALANCING == LEAST_LOADED:
        balance.choices -= 1
    elif int(pkt.kind) <= TRIMMED:
        balance.data_choices -= 1
    else:
        balance.other_choices -= 1
