"""Sending at a rate: when the next packet of a flow may leave.

A packet of ``n`` bytes on the wire takes its flow ``gap_ps(n, rate)`` of time, and the next
one may leave when that has passed. A packet that leaves late (its NIC was busy, or paused)
lets the next one leave as much earlier, by at most one gap: waiting for the packet of another
flow does not lower the rate, and a pause does not end in a burst.

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
    """The line rate of a port, given by the time that a byte takes (``tx.ps_per_byte_q20``)."""
    return (PS_BITS << RATE_SHIFT) // ps_per_byte_q20


def gap_ps(n_bytes, rate_bps):
    """Time that ``n_bytes`` take at ``rate_bps``, rounded down.

    The product holds 1.15 million bytes; a packet has at most 65,535.
    """
    return PS_BITS * n_bytes // rate_bps


def sent(tx, now, n_bytes, rate_bps):
    """A packet of ``n_bytes`` on the wire leaves now; sets when the next one may."""
    gap = gap_ps(n_bytes, rate_bps)
    tx.next_send_ps = max(tx.next_send_ps, now - gap) + gap


def change_rate(tx, n_bytes, old_bps, new_bps):
    """The rate changes while the flow waits after a packet of ``n_bytes``.

    The next packet may leave when it could have if the last one had been sent at the new rate.
    """
    tx.next_send_ps += gap_ps(n_bytes, new_bps) - gap_ps(n_bytes, old_bps)
