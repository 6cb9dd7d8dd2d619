"""Estimate the utilization of a switch's ports: the discounting rate estimator (DRE) of CONGA.

A port's bytes grow with each packet sent and are discounted by `dre_alpha` at every `dre_period`. A
constant rate R gives R * dre_period / dre_alpha bytes before a discount. An idle port is discounted
when its level is next read, so there are no timers.

A file that uses it has these PARAMS and this PORT_STATE, calls `on_depart`, and sets COUPLED.

Alizadeh et al., "CONGA: Distributed Congestion-Aware Load Balancing for Datacenters", SIGCOMM 2014,
section 3.2.
"""

from netsim.params import Param
from netsim.routing import egress, ps_per_byte_q20

ONE = 65536  # 1 in fixed point

CONWEAVE = "conweave-ns3, conga-routing: 50 us, 0.2"

PARAMS = [
    Param(
        "dre_period", "time", "50us", "period of a port's utilization estimate", CONWEAVE,
        minimum="1ns", maximum="10ms",
    ),
    Param(
        "dre_alpha", "fraction", 0.2, "share of the estimate discounted per period", CONWEAVE,
        minimum=0.01,
    ),
]  # fmt: skip

PORT_STATE = ("dre_bytes", "dre_periods")


def share_of(env):
    """Return dre_alpha in fixed point."""
    return int(env.par.dre_alpha * float(ONE) + 0.5)


def discount(env, now, port):
    """Discount a port's bytes for all periods that have ended."""
    periods = now // env.par.dre_period
    left = periods - port.dre_periods
    port.dre_periods = periods
    share = share_of(env)
    less = 1
    while left > 0 and less > 0:
        less = (port.dre_bytes * share) >> 16
        port.dre_bytes -= less
        left -= 1


def on_depart(env, now, port, pkt):
    discount(env, now, port)
    port.dre_bytes += int(pkt.size_bytes)


def level(env, now, p, levels):
    """Return the utilization of local port `p`, from 0 to `levels` - 1."""
    port = egress(env, p)
    discount(env, now, port)
    in_period = max(1, (env.par.dre_period << 20) // ps_per_byte_q20(env, p))
    return min(levels - 1, levels * port.dre_bytes * share_of(env) // (ONE * in_period))
