"""Round-trip times: time stamps in packets, and the estimator of RFC 6298.

A sender writes `timestamp(now)` to a data packet's `aux`, and the receiver echoes it in the ACK.
`elapsed_ps` of the echo is the round-trip time of that transmission, including retransmissions (RFC
7323, section 3).

    TX_STATE = (*rtt.TX_STATE, ...)
"""

TX_STATE = ("srtt_ps", "rttvar_ps")
"""Smoothed round-trip time, 0 before the first sample, and its mean deviation."""

UNIT_PS = 1024  # resolution of time stamps
STAMPS = 1 << 31  # time stamps wrap around after STAMPS * UNIT_PS = 2.199 s


def timestamp(now):
    """Return the time as a value for a packet's `aux`."""
    return (now // UNIT_PS) % STAMPS


def elapsed_ps(now, stamp):
    """Return the time since `stamp`, which must be under 2.199 s; off by less than UNIT_PS."""
    return (now // UNIT_PS - stamp) % STAMPS * UNIT_PS


def sample(tx, rtt_ps):
    """Add a round-trip sample: RFC 6298, section 2.2 for the first, 2.3 for all others."""
    if tx.srtt_ps == 0:
        tx.srtt_ps = rtt_ps
        tx.rttvar_ps = rtt_ps // 2
        return
    tx.rttvar_ps += (abs(tx.srtt_ps - rtt_ps) - tx.rttvar_ps) // 4
    tx.srtt_ps += (rtt_ps - tx.srtt_ps) // 8


def timeout_ps(tx, initial_ps, margin_ps):
    """Return SRTT + max(G, 4 RTTVAR), where G is `margin_ps`; RFC 6298, sections 2.1 to 2.3."""
    if tx.srtt_ps == 0:
        return initial_ps
    return tx.srtt_ps + max(margin_ps, 4 * tx.rttvar_ps)
