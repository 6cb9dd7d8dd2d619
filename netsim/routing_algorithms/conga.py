"""CONGA: each flowlet takes the least congested path, from reports between leaves.

For networks of leaves, with hosts, and spines. A packet collects the highest utilization on its
path, in 8 levels (_utilization.py). The destination's leaf stores it for that path, and returns it
in a packet to the source's leaf. The source leaf sends a new flowlet on the path with the lowest
maximum of its uplink's and the reported utilization, and keeps the old path if none is better. A
report older than `feedback_age` counts as 0. Other choices are ECMP.

Simplified: changed reports do not go first, and reports do not age gradually. Leaves above 64 and
paths above 16 share entries.

Alizadeh et al., "CONGA: Distributed Congestion-Aware Load Balancing for Datacenters", SIGCOMM 2014,
section 3.
"""

from netsim.params import Param
from netsim.routing import candidate, flow_row, group_of
from netsim.routing_algorithms import _utilization as utilization
from netsim.routing_algorithms import ecmp, spray_random

CONWEAVE = "conweave-ns3, conga-routing"

PARAMS = [
    Param("flowlet_gap", "time", "100us", "longest gap within a flowlet", f"{CONWEAVE}: 100 us"),
    Param("feedback_age", "time", "500us", "age at which a report expires", f"{CONWEAVE}: 500 us"),
    *utilization.PARAMS,
]

COUPLED = True
LEVELS_OF_PORT = 8
LEAVES, PATHS = 64, 16
ENTRIES = LEAVES * PATHS

PORT_SALTS = spray_random.PORT_SALTS
PORT_STATE = utilization.PORT_STATE
FLOW_TABLE = ("path", "last_ps")  # index + 1; 0: none yet
PACKET_FIELDS = ("origin", "path", "congestion", "feedback")
SWITCH_STATE = (
    ("from_leaf", ENTRIES),  # level + 1 of paths on which packets came in; 0: none
    ("to_leaf", ENTRIES),  # level + 1 of paths from here, as reported; 0: none
    ("reported_ps", ENTRIES),
    ("next_path", LEAVES),  # to report to a leaf
    ("n_paths", LEAVES),
)


def at_source(env, now, port, pkt):
    """Name the leaf, and report a path to the other leaf."""
    away = group_of(env, pkt)
    if away == env.switch.group:
        return
    pkt.origin = env.switch.group + 1
    leaf = away % LEAVES
    if env.switch.n_paths[leaf] > 0:
        path = env.switch.next_path[leaf]
        env.switch.next_path[leaf] = (path + 1) % env.switch.n_paths[leaf]
        found = env.switch.from_leaf[leaf * PATHS + path]
        if found > 0:
            pkt.feedback = LEVELS_OF_PORT * path + found


def at_switch(env, now, port, pkt):
    """Store a packet's measurement at its last switch."""
    if group_of(env, pkt) != env.switch.group or pkt.origin == 0:
        return
    leaf = (int(pkt.origin) - 1) % LEAVES
    if pkt.path > 0:
        path = (int(pkt.path) - 1) % PATHS
        env.switch.from_leaf[leaf * PATHS + path] = int(pkt.congestion) + 1
        env.switch.n_paths[leaf] = max(env.switch.n_paths[leaf], path + 1)
    if pkt.feedback > 0:
        at = leaf * PATHS + (int(pkt.feedback) - 1) // LEVELS_OF_PORT
        env.switch.to_leaf[at] = (int(pkt.feedback) - 1) % LEVELS_OF_PORT + 1
        env.switch.reported_ps[at] = now


def choose(env, now, port, pkt, first, n):
    if not port.from_host:
        return ecmp.choose(env, now, port, pkt, first, n)
    row = flow_row(env, port, pkt)
    k = int(row.path) - 1
    if k < 0 or k >= n or now - row.last_ps > env.par.flowlet_gap:
        leaf = group_of(env, pkt) % LEAVES
        k = least_congested(env, now, port, pkt, leaf, first, n, k)
    row.path = k + 1
    row.last_ps = now
    pkt.path = k + 1
    return k


def least_congested(env, now, port, pkt, leaf, first, n, kept):
    """Return a path with the lowest cost: `kept` if it has it, else a random one."""
    least = LEVELS_OF_PORT
    for k in range(n):
        least = min(least, cost(env, now, leaf, first, k))
    if 0 <= kept < n and cost(env, now, leaf, first, kept) == least:
        return kept
    k = spray_random.choose(env, now, port, pkt, first, n)
    while cost(env, now, leaf, first, k) > least:
        k = (k + 1) % n
    return k


def cost(env, now, leaf, first, k):
    """Return the congestion level of path `k` to a leaf."""
    own = utilization.level(env, now, candidate(env, first, k), LEVELS_OF_PORT)
    at = leaf * PATHS + k % PATHS
    if env.switch.to_leaf[at] == 0 or now - env.switch.reported_ps[at] > env.par.feedback_age:
        return own
    return max(own, env.switch.to_leaf[at] - 1)


def on_depart(env, now, port, pkt):
    utilization.on_depart(env, now, port, pkt)
    if not port.from_host:
        p = port.number - env.switch.first_port
        pkt.congestion = max(int(pkt.congestion), utilization.level(env, now, p, LEVELS_OF_PORT))
