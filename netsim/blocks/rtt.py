"""Round-trip times: time stamps that travel with packets, and the estimator of RFC 6298.

A sender writes `timestamp(now)` into a data packet's `aux`, the receiver returns it with the
acknowledgment, and `elapsed_ps` of it is the round-trip time of exactly that transmission,
a retransmission included (RFC 7323, section 3).

    TX_STATE = (*rtt.TX_STATE, ...)
"""

TX_STATE = ("srtt_ps", "rttvar_ps")
"""Smoothed round-trip time, 0 before the first sample, and its smoothed deviation."""

UNIT_PS = 1024
"""Resolution of time stamps."""

STAMPS = 1 << 31
"""Time stamps wrap around after STAMPS * UNIT_PS = 2.199 s."""


def timestamp(now):
    """The time as a number that fits a packet's `aux`."""
    return (now // UNIT_PS) % STAMPS


def elapsed_ps(now, stamp):
    """Time since `timestamp` gave `stamp`, less than 2.199 s ago; off by less than UNIT_PS."""
    return (now // UNIT_PS - stamp) % STAMPS * UNIT_PS


def sample(tx, rtt_ps):
    """A round trip took `rtt_ps`: RFC 6298, section 2.2 for the first, 2.3 for all others."""
    if tx.srtt_ps == 0:
        tx.srtt_ps = rtt_ps
        tx.rttvar_ps = rtt_ps // 2
        return
    tx.rttvar_ps += (abs(tx.srtt_ps - rtt_ps) - tx.rttvar_ps) // 4
    tx.srtt_ps += (rtt_ps - tx.srtt_ps) // 8


def timeout_ps(tx, initial_ps, margin_ps):
    """Retransmission timeout: SRTT + max(G, 4 RTTVAR), G being `margin_ps`; sections 2.1 to 2.3."""
    if tx.srtt_ps == 0:
        return initial_ps
    return tx.srtt_ps + max(margin_ps, 4 * tx.rttvar_ps)
