"""By which of its lanes a flow goes, where hosts have several ports.

A lane is a port of this host and one of the flow's other end, in one network; the model's page says
how the next one is chosen. Data takes its lane as the flow joins a ready list, which is that of the
lane's port; a control packet as it is queued.
"""

from __future__ import annotations

from netsim.engine.kernels.env import Env
from netsim.engine.kernels.fields import FlowRecord, SpreadRecord, TxRecord
from netsim.engine.kernels.ids import GlobalPort, Ps
from netsim.engine.kernels.layout import ENTROPY, FREE, HASH, ONE_PORT, PERMUTATION, ROUND_ROBIN
from netsim.engine.kernels.specialization_constants import CARRIER, PLANES
from netsim.model.arithmetic import below, mix, permuted


def data_port(env: Env, tx: TxRecord) -> GlobalPort:
    """The port by which the next data packet of a flow leaves; notes its lane."""
    spread = env.hosts.spreads[tx.spread]
    n = lanes_in_use(env, spread)
    lane = 0
    if PLANES == ROUND_ROBIN:
        lane = tx.sent_packets % n
    elif PLANES == PERMUTATION:
        lane = permuted_lane(spread.salt_data, tx.sent_packets, n)
    elif PLANES == ENTROPY:
        lane = tx.entropy % n
    elif PLANES == FREE:
        lane = freest(env, spread, n, True)
    spread.lane = lane_of(env, spread, lane, n)
    return GlobalPort(env.hosts.lanes[spread.first_lane + spread.lane, 0])


def control_lane(env: Env, side: FlowRecord) -> int:
    """The row of ``env.hosts.lanes`` that the next control packet from ``side`` takes."""
    spread = env.hosts.spreads[side.spread]
    n = lanes_in_use(env, spread)
    count = spread.sent_control
    spread.sent_control = count + 1
    lane = 0
    if PLANES == ROUND_ROBIN:
        lane = count % n
    elif PLANES == PERMUTATION:
        lane = permuted_lane(spread.salt_control, count, n)
    elif PLANES == ENTROPY:
        lane = side.entropy % n
    elif PLANES == FREE:
        lane = freest(env, spread, n, False)
    return spread.first_lane + lane_of(env, spread, lane, n)


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


def is_up(env: Env, spread: SpreadRecord, lane: int) -> bool:
    """Have both ports of a lane carrier, as far as this host knows?"""
    hosts = env.hosts
    row = spread.first_lane + lane
    now = env.host.now_ps
    there = GlobalPort(int(hosts.lanes[row, 1]) % hosts.outlets.size)
    if not has_carrier(env, GlobalPort(hosts.lanes[row, 0]), Ps(now - hosts.carrier_delays[0])):
        return False
    return has_carrier(env, there, Ps(now - hosts.carrier_delays[1]))


def lanes_in_use(env: Env, spread: SpreadRecord) -> int:
    """How many lanes a side of a flow uses now: those that are up, or all if none is."""
    if not CARRIER:
        return spread.n_lanes
    n = 0
    for lane in range(spread.n_lanes):
        if is_up(env, spread, lane):
            n += 1
    if n == 0:
        return spread.n_lanes
    return n


def lane_of(env: Env, spread: SpreadRecord, index: int, n: int) -> int:
    """The lane of that index among the ``n`` in use; with HASH that of the flow.

    FREE has none but lanes already.
    """
    if not CARRIER or PLANES == FREE:
        return index
    if PLANES == HASH:
        lane = int(below(spread.salt_data, spread.n_lanes))
        if n == spread.n_lanes or is_up(env, spread, lane):
            return lane
        index = int(below(spread.salt_data, n))
    if n == spread.n_lanes:
        return index
    before = 0
    for lane in range(spread.n_lanes):
        if is_up(env, spread, lane):
            if before == index:
                return lane
            before += 1
    return 0


def may_use(env: Env, tx: TxRecord, p: GlobalPort) -> bool:
    """Has a flow from this host a lane by port ``p`` of it?"""
    if PLANES == ONE_PORT:
        return True
    spread = env.hosts.spreads[tx.spread]
    for lane in range(spread.first_lane, spread.first_lane + spread.n_lanes):
        if GlobalPort(env.hosts.lanes[lane, 0]) == p:
            return True
    return False


def permuted_lane(salt: int, count: int, n: int) -> int:
    """The lane of packet ``count``, of permutations of all ``n`` one after the other."""
    epoch = count // n
    return permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)


def freest(env: Env, spread: SpreadRecord, n: int, of_flows: bool) -> int:
    """Of the ``n`` lanes in use the one at whose port the fewest flows, or control packets, wait.

    Of several the one whose last transmission ended or ends first, then the lowest.
    """
    best = -1
    fewest = 0
    earliest = 0
    for lane in range(spread.n_lanes):
        if CARRIER and n < spread.n_lanes:
            if not is_up(env, spread, lane):
                continue
        p = GlobalPort(env.hosts.lanes[spread.first_lane + lane, 0])
        outlet = env.hosts.outlets[p]
        waiting = outlet.ctrl_tail - outlet.ctrl_head
        if of_flows:
            waiting = outlet.n_ready
        free_at = int(env.links.ports[p].free_at)
        if best < 0 or waiting < fewest or (waiting == fewest and free_at < earliest):
            best = lane
            fewest = waiting
            earliest = free_at
    return best
