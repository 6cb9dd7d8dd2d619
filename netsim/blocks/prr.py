"""Proportional rate reduction: how many packets to send for each ACK during loss recovery.

Instead of falling silent until the packets under way fit the reduced window, the sender sends
`ssthresh` packets for every window that is delivered, and when fewer are under way than
`ssthresh` it refills carefully: as many as were delivered, one more if nothing new was lost.
RFC 6937, section 3, with the choice of bound that RFC 9937 makes.
"""

TX_STATE = ("prr_delivered", "prr_out", "prr_flight")
"""Packets delivered and sent since recovery began, and the packets under way at that moment."""


def begin(tx, flight):
    """Recovery begins with `flight` packets sent and not acknowledged."""
    tx.prr_delivered = 0
    tx.prr_out = 0
    tx.prr_flight = flight


def window(tx, in_flight, ssthresh, delivered, lost):
    """The window after an ACK that told of `delivered` and of `lost` packets."""
    tx.prr_delivered += delivered
    if in_flight > ssthresh:
        share = tx.prr_delivered * ssthresh / tx.prr_flight
        return in_flight + max(0.0, share - tx.prr_out)
    bound = tx.prr_delivered - tx.prr_out
    if lost == 0:
        bound = max(bound, delivered) + 1
    return min(ssthresh, in_flight + max(0.0, float(bound)))
