"""Pace a flow's packets at a rate.

A packet of ``n`` bytes on the wire is followed by a gap of ``gap_ps(n, rate)``. A packet that
leaves late, because its NIC was busy or paused, shortens the next gap by the delay, by at most one
gap. So waiting for other flows does not lower the rate, and a pause does not end in a burst.

    TX_STATE = (*pacing.TX_STATE, ...)

    def ready(env, now, tx):
        return tx.next_send_ps if ... else BLOCKED

    def build_packet(env, now, tx, pkt):
        ...
        pacing.sent(tx, now, wire_bytes(env, tx, seq), tx.rate_bps)
"""

from netsim.limits import PS_BITS, RATE_SHIFT

TX_STATE = ("next_send_ps",)


def line_bps(ps_per_byte_q20):
    """Return a port's line rate, given its time per byte (``tx.ps_per_byte_q20``)."""
    return (PS_BITS << RATE_SHIFT) // ps_per_byte_q20


def gap_ps(n_bytes, rate_bps):
    """Return the time of ``n_bytes`` at ``rate_bps``, rounded down. The product fits for up to 1.15
    million bytes; a packet has at most 65,535."""
    return PS_BITS * n_bytes // rate_bps


def sent(tx, now, n_bytes, rate_bps):
    """Set the next send time after a packet of ``n_bytes`` on the wire."""
    gap = gap_ps(n_bytes, rate_bps)
    tx.next_send_ps = max(tx.next_send_ps, now - gap) + gap


def change_rate(tx, n_bytes, old_bps, new_bps):
    """Update the next send time of a flow that waits after a packet of ``n_bytes``. The next packet
    may leave as if the last had been sent at the new rate."""
    tx.next_send_ps += gap_ps(n_bytes, new_bps) - gap_ps(n_bytes, old_bps)
