"""By which of its lanes a flow goes, where hosts have several ports.

A lane is a port of this host and one of the flow's other end, in one network; the model's page says
how the next one is chosen. Data takes its lane as the flow joins a ready list, which is that of the
lane's port; a control packet as it is queued.
"""

from __future__ import annotations

from netsim.engine.kernels.env import Env
from netsim.engine.kernels.fields import FlowRecord, PortChoiceRecord, TxRecord
from netsim.engine.kernels.ids import GlobalPort, Ps
from netsim.engine.kernels.layout import (
    ENTROPY,
    HASH,
    LEAST_LOADED,
    ONE_PORT,
    PERMUTATION,
    ROUND_ROBIN,
)
from netsim.engine.kernels.specialization_constants import CARRIER, PLANE_BALANCING
from netsim.model.arithmetic import below, mix, permuted


def data_port(env: Env, tx: TxRecord) -> GlobalPort:
    """The port by which the next data packet of a flow leaves; notes its lane."""
    port_choice = env.hosts.port_choices[tx.port_choice]
    n = lanes_in_use(env, port_choice)
    lane = 0
    if PLANE_BALANCING == ROUND_ROBIN:
        lane = tx.sent_packets % n
    elif PLANE_BALANCING == PERMUTATION:
        lane = permuted_lane(port_choice.salt_data, tx.sent_packets, n)
    elif PLANE_BALANCING == ENTROPY:
        lane = tx.entropy % n
    elif PLANE_BALANCING == LEAST_LOADED:
        lane = least_loaded_pair(env, port_choice, n, True)
    port_choice.lane = lane_of(env, port_choice, lane, n)
    return GlobalPort(env.hosts.lanes[port_choice.first_lane + port_choice.lane, 0])


def control_lane(env: Env, side: FlowRecord) -> int:
    """The row of ``env.hosts.lanes`` that the next control packet from ``side`` takes."""
    port_choice = env.hosts.port_choices[side.port_choice]
    n = lanes_in_use(env, port_choice)
    count = port_choice.sent_control
    port_choice.sent_control = count + 1
    lane = 0
    if PLANE_BALANCING == ROUND_ROBIN:
        lane = count % n
    elif PLANE_BALANCING == PERMUTATION:
        lane = permuted_lane(port_choice.salt_control, count, n)
    elif PLANE_BALANCING == ENTROPY:
        lane = side.entropy % n
    elif PLANE_BALANCING == LEAST_LOADED:
        lane = least_loaded_pair(env, port_choice, n, False)
    return port_choice.first_lane + lane_of(env, port_choice, lane, n)


def has_carrier(env: Env, p: GlobalPort, at: Ps) -> bool:
    """Were both links of a host's port up at a time?"""
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


def is_up(env: Env, port_choice: PortChoiceRecord, lane: int) -> bool:
    """Have both ports of a lane carrier, as far as this host knows?"""
    hosts = env.hosts
    row = port_choice.first_lane + lane
    now = env.host.now_ps
    there = GlobalPort(int(hosts.lanes[row, 1]) % hosts.host_ports.size)
    if not has_carrier(env, GlobalPort(hosts.lanes[row, 0]), Ps(now - hosts.carrier_delays[0])):
        return False
    return has_carrier(env, there, Ps(now - hosts.carrier_delays[1]))


def lanes_in_use(env: Env, port_choice: PortChoiceRecord) -> int:
    """How many lanes a side of a flow uses now: those that are up, or all if none is."""
    if not CARRIER:
        return port_choice.n_lanes
    n = 0
    for lane in range(port_choice.n_lanes):
        if is_up(env, port_choice, lane):
            n += 1
    if n == 0:
        return port_choice.n_lanes
    return n


def lane_of(env: Env, port_choice: PortChoiceRecord, index: int, n: int) -> int:
    """The lane of that index among the ``n`` in use; with HASH that of the flow.

    LEAST_LOADED has none but lanes already.
    """
    if not CARRIER or PLANE_BALANCING == LEAST_LOADED:
        return index
    if PLANE_BALANCING == HASH:
        lane = int(below(port_choice.salt_data, port_choice.n_lanes))
        if n == port_choice.n_lanes or is_up(env, port_choice, lane):
            return lane
        index = int(below(port_choice.salt_data, n))
    if n == port_choice.n_lanes:
        return index
    before = 0
    for lane in range(port_choice.n_lanes):
        if is_up(env, port_choice, lane):
            if before == index:
                return lane
            before += 1
    return 0


def may_use(env: Env, tx: TxRecord, p: GlobalPort) -> bool:
    """Has a flow from this host a lane by port ``p`` of it?"""
    if PLANE_BALANCING == ONE_PORT:
        return True
    port_choice = env.hosts.port_choices[tx.port_choice]
    for lane in range(port_choice.first_lane, port_choice.first_lane + port_choice.n_lanes):
        if GlobalPort(env.hosts.lanes[lane, 0]) == p:
            return True
    return False


def permuted_lane(salt: int, count: int, n: int) -> int:
    """The lane of packet ``count``, of permutations of all ``n`` one after the other."""
    epoch = count // n
    return permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)


def least_loaded_pair(env: Env, port_choice: PortChoiceRecord, n: int, of_flows: bool) -> int:
    """Of the ``n`` lanes in use the one at whose port the fewest flows, or control packets, wait.

    Of several the one whose last transmission ended or ends first, then the lowest.
    """
    best = -1
    fewest = 0
    earliest = 0
    for lane in range(port_choice.n_lanes):
        if CARRIER and n < port_choice.n_lanes:
            if not is_up(env, port_choice, lane):
                continue
        p = GlobalPort(env.hosts.lanes[port_choice.first_lane + lane, 0])
        host_port = env.hosts.host_ports[p]
        waiting = host_port.ctrl_tail - host_port.ctrl_head
        if of_flows:
            waiting = host_port.n_ready
        free_at = int(env.links.ports[p].free_at)
        if best < 0 or waiting < fewest or (waiting == fewest and free_at < earliest):
            best = lane
            fewest = waiting
            earliest = free_at
    return best
