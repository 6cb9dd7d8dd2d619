"""DLB: each flowlet, or each packet, takes a port in the best of eight bands of load.

Broadcom's dynamic load balancing; SAI's adaptive routing and switching. A port's load adds moving
averages of the bytes sent per `tick` (past load) and of the bytes held at its end (future load),
both with weight `load_weight`. Bands have equal width up to twice the bytes that the link carries
in a period. Equal ports are chosen at random. With `flowlet_gap` = 0 every packet chooses, and
receivers must reorder; otherwise a flowlet keeps its port. A sender that never pauses, such as RDMA
at line rate, is a single flowlet: like ECMP, but it avoids loaded ports once, at its start.

The defaults are SAI's, which advises a gap of half a round trip; operators choose the bands. Left
out: alternate members, detection of down links by the switch itself, and a flow table per group of
ports. So flows that share a row but have different candidates move each other.

SAI, inc/saiars.h and inc/saiarsprofile.h; doc/ARS/Adaptive-Routing-and-Switching.md.
"""

from netsim.params import Param
from netsim.routing import candidate, egress, flow_row, held, ps_per_byte_q20
from netsim.routing_algorithms import letflow, spray_random

PARAMS = [
    Param(
        "flowlet_gap", "time", "256us", "longest gap within a flowlet; 0: choose per packet",
        "SAI_ARS_ATTR_IDLE_TIME",
    ),
    Param(
        "tick", "time", "16us", "period of samples of the load",
        "SAI_ARS_PROFILE_ATTR_SAMPLING_INTERVAL", minimum="1ns", maximum="10ms",
    ),
    Param(
        "load_weight", "count", 16, "samples in the average load",
        "SAI_ARS_PROFILE_ATTR_PORT_LOAD_PAST_WEIGHT", minimum=1, maximum=255,
    ),
]  # fmt: skip

PRESETS = {"packet": {"flowlet_gap": "0ns"}}

COUPLED = True
BANDS = 8
PORT_SALTS = spray_random.PORT_SALTS
PORT_STATE = ("load_bytes",)  # load_weight times the average
FLOW_TABLE = letflow.FLOW_TABLE
FLOW_ROWS = 512  # SAI_ARS_ATTR_MAX_FLOWS


def choose(env, now, port, pkt, first, n):
    row = flow_row(env, port, pkt)
    k = letflow.index_of(env, row, first, n)
    if k < 0 or env.par.flowlet_gap == 0 or now - row.last_ps > env.par.flowlet_gap:
        k = best(env, spray_random.choose(env, now, port, pkt, first, n), first, n)
    letflow.remember(env, now, row, first, k)
    return k


def best(env, start, first, n):
    """Return the candidate in the lowest band; if tied, the first from `start` on."""
    taken = start
    least = BANDS
    for j in range(n):
        k = (start + j) % n
        load = band(env, candidate(env, first, k))
        if load < least:
            least = load
            taken = k
    return taken


def band(env, p):
    """Return the band of local port `p`, 0 for the lowest load."""
    in_period = max(1, (env.par.tick << 20) // ps_per_byte_q20(env, p))
    load = BANDS // 2 * egress(env, p).load_bytes // (env.par.load_weight * in_period)
    return min(BANDS - 1, load)


def on_depart(env, now, port, pkt):
    port.load_bytes += int(pkt.size_bytes)


def on_tick(env, now, n_ticks):
    """Sample all ports; if several periods have ended, each sample has the current value."""
    for p in range(env.switch.n_ports):
        port = egress(env, p)
        n_bytes = held(env, p)
        for _ in range(n_ticks):
            less = port.load_bytes // env.par.load_weight
            port.load_bytes += n_bytes - less
            if less == n_bytes:
                break
