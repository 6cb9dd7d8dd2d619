"""A flow's choice of port pairs, for hosts with several ports.

A port pair is a port of this host and a port of the other host in the same network. MODEL.md has
the rules. Data chooses when the flow joins a ready list, a control packet when it is queued.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import FlowRecord, GlobalPort, PortChoiceRecord, Ps, TxRecord
from netsim.engine.kernels.handlers import (
    IN_CHOOSE_PLANE,
    NO_CANDIDATE,
    Env,
    broken,
    choose_plane,
    plane_env_of,
)
from netsim.engine.kernels.layout import (
    BY_ROUTING,
    ENTROPY,
    HASH,
    LEAST_LOADED,
    ONE_PORT,
    PERMUTATION,
    ROUND_ROBIN,
)
from netsim.engine.kernels.specialization_constants import CARRIER, PLANE_BALANCING
from netsim.model.arithmetic import below, mix, permuted

MAX_ENTROPY = 0xFFFF


def data_port(env: Env, tx: TxRecord) -> GlobalPort:
    """Choose the port of a flow's next data packet and record the port pair."""
    port_choice = env.hosts.port_choices[tx.port_choice]
    n = pairs_in_use(env, port_choice)
    if PLANE_BALANCING == ENTROPY:
        if tx.entropy < 0:
            tx.entropy = least_loaded_entropy(env, port_choice, n, -1 - tx.entropy)
    index = index_in_use(env, port_choice, tx, n, tx.sent_packets, 1)
    port_choice.port_pair = pair_of(env, port_choice, index, n)
    return GlobalPort(env.hosts.port_pairs[port_choice.first_pair + port_choice.port_pair, 0])


def control_pair(env: Env, side: FlowRecord) -> int:
    """Choose the row of ``env.hosts.port_pairs`` for the next control packet from ``side``."""
    port_choice = env.hosts.port_choices[side.port_choice]
    n = pairs_in_use(env, port_choice)
    count = port_choice.sent_control
    port_choice.sent_control = count + 1
    index = index_in_use(env, port_choice, side, n, count, 0)
    return port_choice.first_pair + pair_of(env, port_choice, index, n)


def index_in_use(
    env: Env, port_choice: PortChoiceRecord, side: FlowRecord, n: int, count: int, is_data: int
) -> int:
    """Choose among the ``n`` port pairs in use for packet number ``count``, of data or control;
    return its index."""
    if PLANE_BALANCING == ROUND_ROBIN:
        return count % n
    if PLANE_BALANCING == PERMUTATION:
        salt = port_choice.salt_control
        if is_data == 1:
            salt = port_choice.salt_data
        return permuted_pair(salt, count, n)
    if PLANE_BALANCING == ENTROPY:
        return side.entropy % n
    if PLANE_BALANCING == LEAST_LOADED:
        return least_loaded_pair(env, port_choice, n, is_data == 1)
    if PLANE_BALANCING == BY_ROUTING:
        return chosen_pair(env, port_choice, n, is_data)
    return 0


def has_carrier(env: Env, p: GlobalPort, at: Ps) -> bool:
    """Return whether both links of a host's port were up at a time."""
    hosts = env.hosts
    lo = hosts.carrier_first[p]
    last = hosts.carrier_first[GlobalPort(int(p) + 1)]
    hi = last
    while lo < hi:
        middle = (lo + hi) >> 1
        if hosts.carrier_lost[middle, 1] > at:
            hi = middle
        else:
            lo = middle + 1
    return lo == last or at < hosts.carrier_lost[lo, 0]


def is_up(env: Env, port_choice: PortChoiceRecord, port_pair: int) -> bool:
    """Return whether both ports of a pair have carrier, as far as this host knows."""
    hosts = env.hosts
    row = port_choice.first_pair + port_pair
    now = env.host.now_ps
    there = GlobalPort(int(hosts.port_pairs[row, 1]) % hosts.host_ports.size)
    if not has_carrier(
        env, GlobalPort(hosts.port_pairs[row, 0]), Ps(now - hosts.carrier_delays[0])
    ):
        return False
    return has_carrier(env, there, Ps(now - hosts.carrier_delays[1]))


def pairs_in_use(env: Env, port_choice: PortChoiceRecord) -> int:
    """Return the number of port pairs in use: all that are up, or all if none is."""
    if not CARRIER:
        return port_choice.n_pairs
    n = 0
    for port_pair in range(port_choice.n_pairs):
        if is_up(env, port_choice, port_pair):
            n += 1
    if n == 0:
        return port_choice.n_pairs
    return n


def pair_of(env: Env, port_choice: PortChoiceRecord, index: int, n: int) -> int:
    """Return the port pair at an index among the ``n`` in use; with HASH the flow's own.
    LEAST_LOADED has no index and chooses directly."""
    if not CARRIER or PLANE_BALANCING == LEAST_LOADED:
        return index
    if PLANE_BALANCING == HASH:
        port_pair = int(below(port_choice.salt_data, port_choice.n_pairs))
        if n == port_choice.n_pairs or is_up(env, port_choice, port_pair):
            return port_pair
        index = int(below(port_choice.salt_data, n))
    if n == port_choice.n_pairs:
        return index
    before = 0
    for port_pair in range(port_choice.n_pairs):
        if is_up(env, port_choice, port_pair):
            if before == index:
                return port_pair
            before += 1
    return 0


def may_use(env: Env, tx: TxRecord, p: GlobalPort) -> bool:
    """Return whether a flow has a port pair by port ``p`` of this host."""
    if PLANE_BALANCING == ONE_PORT:
        return True
    port_choice = env.hosts.port_choices[tx.port_choice]
    for port_pair in range(port_choice.first_pair, port_choice.first_pair + port_choice.n_pairs):
        if GlobalPort(env.hosts.port_pairs[port_pair, 0]) == p:
            return True
    return False


def chosen_pair(env: Env, port_choice: PortChoiceRecord, n: int, is_data: int) -> int:
    """Return the routing algorithm's choice among the ``n`` port pairs in use."""
    host = env.host
    handler = host.handler
    host.handler = IN_CHOOSE_PLANE
    k: int = choose_plane(plane_env_of(env, is_data), host.now_ps, port_choice, n)
    if k < 0 or k >= n:
        broken(host, NO_CANDIDATE, k)
        k = 0
    host.handler = handler
    return k


def permuted_pair(salt: int, count: int, n: int) -> int:
    """Return the port pair of packet ``count`` in consecutive permutations of ``n``."""
    epoch = count // n
    return permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)


def least_loaded_entropy(env: Env, port_choice: PortChoiceRecord, n: int, entropy: int) -> int:
    """Return an entropy like this one that selects the least loaded of ``n`` port pairs in use."""
    last = least_loaded_pair(env, port_choice, n, True)
    index = last
    if CARRIER and n < port_choice.n_pairs:
        index = 0
        for port_pair in range(last):
            if is_up(env, port_choice, port_pair):
                index += 1
    moved = entropy - entropy % n + index
    if moved > MAX_ENTROPY:
        moved -= n
    return moved


def least_loaded_pair(env: Env, port_choice: PortChoiceRecord, n: int, of_flows: bool) -> int:
    """Return the pair in use at whose port the fewest flows or packets wait. Ties go to the
    earliest end of the last transmission, then the next port after the last one chosen."""
    last = env.host.control_port
    if of_flows:
        last = env.host.data_port
    best = -1
    chosen = last
    fewest = 0
    earliest = 0
    for port_pair in range(port_choice.n_pairs):
        if CARRIER and n < port_choice.n_pairs:
            if not is_up(env, port_choice, port_pair):
                continue
        p = GlobalPort(env.hosts.port_pairs[port_choice.first_pair + port_pair, 0])
        host_port = env.hosts.host_ports[p]
        waiting = host_port.ctrl_tail - host_port.ctrl_head
        if of_flows:
            waiting = host_port.n_ready
        free_at = int(env.links.ports[p].free_at)
        better = best < 0 or waiting < fewest or (waiting == fewest and free_at < earliest)
        if not better and waiting == fewest and free_at == earliest:
            better = int(p) < int(chosen)
            if (int(p) <= int(last)) != (int(chosen) <= int(last)):
                better = int(p) > int(last)
        if better:
            best = port_pair
            chosen = p
            fewest = waiting
            earliest = free_at
    if of_flows:
        env.host.data_port = chosen
    else:
        env.host.control_port = chosen
    return best
