"""By which of its lanes a flow goes, where hosts have several ports.

A lane is a port of this host and one of the flow's other end, in one network; the model's page says
how the next one is chosen. Data takes its lane as the flow joins a ready list, which is that of the
lane's port; a control packet as it is queued.
"""

from __future__ import annotations

from netsim.engine.kernels.env import Env
from netsim.engine.kernels.fields import FlowRecord, SpreadRecord, TxRecord
from netsim.engine.kernels.holes import PLANES
from netsim.engine.kernels.ids import GlobalPort
from netsim.engine.kernels.layout import ENTROPY, FREE, ONE_PORT, PERMUTATION, ROUND_ROBIN
from netsim.model.arithmetic import mix, permuted


def data_port(env: Env, tx: TxRecord) -> GlobalPort:
    """The port by which the next data packet of a flow leaves; notes its lane."""
    spread = env.ends.spreads[tx.spread]
    n = spread.n_lanes
    lane = 0
    if PLANES == ROUND_ROBIN:
        lane = tx.sent_packets % n
    elif PLANES == PERMUTATION:
        lane = permuted_lane(spread.salt_data, tx.sent_packets, n)
    elif PLANES == ENTROPY:
        lane = tx.entropy % n
    elif PLANES == FREE:
        lane = freest(env, spread, True)
    spread.lane = lane
    return GlobalPort(env.ends.lanes[spread.first_lane + lane, 0])


def control_lane(env: Env, side: FlowRecord) -> int:
    """The row of ``env.ends.lanes`` that the next control packet from ``side`` takes."""
    spread = env.ends.spreads[side.spread]
    n = spread.n_lanes
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
        lane = freest(env, spread, False)
    return spread.first_lane + lane


def may_use(env: Env, tx: TxRecord, p: GlobalPort) -> bool:
    """Has a flow from this host a lane by port ``p`` of it?"""
    if PLANES == ONE_PORT:
        return True
    spread = env.ends.spreads[tx.spread]
    for lane in range(spread.first_lane, spread.first_lane + spread.n_lanes):
        if GlobalPort(env.ends.lanes[lane, 0]) == p:
            return True
    return False


def permuted_lane(salt: int, count: int, n: int) -> int:
    """The lane of packet ``count``, of permutations of all ``n`` one after the other."""
    epoch = count // n
    return permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)


def freest(env: Env, spread: SpreadRecord, of_flows: bool) -> int:
    """The lane at whose port the fewest flows, or control packets, wait.

    Of several the one whose last transmission ended or ends first, then the lowest.
    """
    best = 0
    fewest = 0
    earliest = 0
    for lane in range(spread.n_lanes):
        p = GlobalPort(env.ends.lanes[spread.first_lane + lane, 0])
        outlet = env.ends.outlets[p]
        waiting = outlet.ctrl_tail - outlet.ctrl_head
        if of_flows:
            waiting = outlet.n_ready
        free_at = int(env.wires.ports[p].free_at)
        if lane == 0 or waiting < fewest or (waiting == fewest and free_at < earliest):
            best = lane
            fewest = waiting
            earliest = free_at
    return best
