"""Proportional rate reduction: how many packets to send for each ACK during loss recovery.

The sender does not wait until the packets in flight fit the reduced window. It sends `ssthresh`
packets per window delivered. With fewer than `ssthresh` in flight it refills slowly: as many as
were delivered, plus one if no new loss was found. RFC 6937, section 3, with the bound of RFC 9937.
"""

TX_STATE = ("prr_delivered", "prr_out", "prr_flight")
"""Packets delivered and sent since recovery began, and packets in flight at that moment."""


def begin(tx, flight):
    """Start recovery with `flight` packets sent and unacknowledged."""
    tx.prr_delivered = 0
    tx.prr_out = 0
    tx.prr_flight = flight


def window(tx, in_flight, ssthresh, delivered, lost):
    """Return the window after an ACK that reports `delivered` and `lost` packets."""
    tx.prr_delivered += delivered
    if in_flight > ssthresh:
        share = tx.prr_delivered * ssthresh / tx.prr_flight
        return in_flight + max(0.0, share - tx.prr_out)
    bound = tx.prr_delivered - tx.prr_out
    if lost == 0:
        bound = max(bound, delivered) + 1
    return min(ssthresh, in_flight + max(0.0, float(bound)))
