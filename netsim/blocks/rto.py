"""Retransmission timeouts that are never shorter than the round trip of the path.

A NIC's timeout is a constant, made for a datacenter. Where a round trip takes longer than that,
every packet would be sent again before its acknowledgment can be there. So a timeout that is not
given is that constant, or `ROUND_TRIPS` of the flow's round trips on empty links if that is longer:
one, and as much again twice over for queues. One that is given is taken as it is; an experiment
refuses it if it is shorter than the round trip of a flow.

    RTO_PS = 4 * MS
    PARAMS = [rto.param(RTO_PS, "the last resort"), ...]
    set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))
"""

from netsim.params import Param
from netsim.units import format_time

ROUND_TRIPS = 3
US, MS = 10**6, 10**9


def param(shortest_ps, doc="", source="", name="rto", round_trips=ROUND_TRIPS):
    """A timeout as a parameter; without a value it is ``shortest_ps`` on short paths."""
    doc = doc or "retransmission timeout"
    default = f"{format_time(shortest_ps)} or {round_trips} base round trips, the longer one"
    return Param(
        name,
        "time",
        None,
        f"{doc}; none is {default}",
        source,
        minimum="1us",
        above_round_trip=True,
    )


def of_path(given_ps, shortest_ps, tx, round_trips=ROUND_TRIPS):
    """The timeout of a flow: what is given, or what suits its path."""
    if given_ps >= 0:
        return given_ps
    return max(shortest_ps, round_trips * tx.base_rtt_ps)
