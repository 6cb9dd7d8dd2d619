"""Retransmission timeouts that are never shorter than the path's round trip.

A NIC's timeout is a constant chosen for a datacenter. On a longer path it would resend every packet
before its acknowledgment could arrive. So the default timeout is the longer of that constant and
`ROUND_TRIPS` round trips on empty links: one for the round trip and two for queues. A timeout given
in the experiment is used unchanged, and refused if shorter than a flow's round trip.

    RTO_PS = 4 * MS
    PARAMS = [rto.param(RTO_PS, "the last resort"), ...]
    set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))
"""

from netsim.params import Param
from netsim.units import format_time

ROUND_TRIPS = 3
US, MS = 10**6, 10**9


def param(shortest_ps, doc="", source="", name="rto", round_trips=ROUND_TRIPS):
    """Return the parameter of a timeout, which defaults to ``shortest_ps`` on short paths."""
    default = f"{format_time(shortest_ps)} or {round_trips} base round trips, the longer one"
    doc = f"{doc or 'retransmission timeout'} (default: {default})"
    return Param(name, "time", None, doc, source, minimum="1us", above_round_trip=True)


def of_path(given_ps, shortest_ps, tx, round_trips=ROUND_TRIPS):
    """Return a flow's timeout: the given one, or the default for its path."""
    if given_ps >= 0:
        return given_ps
    return max(shortest_ps, round_trips * tx.base_rtt_ps)
