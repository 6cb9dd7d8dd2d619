"""How fast the network delivers a flow's packets: samples, and the largest of ten rounds.

Cheng et al., draft-cheng-iccrg-delivery-rate-estimation-00. A packet carries what had been
delivered when it was sent, and the acknowledgment brings it back. A sample is what has been
delivered since, over the time that it took to send or to acknowledge it, whichever is longer.
A round ends when a packet is acknowledged that was sent after its beginning. A flow has data
until its end, so its samples are limited only when the transport says so (`limit`).

    PACKET_FIELDS = delivery_rate.PACKET_FIELDS     TX_STATE = (*delivery_rate.TX_STATE, ...)
"""

PACKET_FIELDS = ("prior_delivered", "prior_delivered_ps", "prior_first_sent_ps", "was_limited")
FILTER_ROUNDS = 10
TX_STATE = (
    "delivered_ps",  # when the latest packet was acknowledged
    "first_sent_ps",  # when the packet was sent that was acknowledged latest
    "limited_until",  # what is sent until more packets are delivered tells no rate; or 0
    "round_count",
    "round_start",  # the latest acknowledgment began a round
    "next_round_delivered",
    "max_bps",  # the largest sample of the last rounds that had any, and each round's largest
    ("round_max_bps", FILTER_ROUNDS),
    "filter_round",
)


def stamp(tx, now, pkt, delivered, in_flight):
    """Note in a data packet what has been delivered; it is not yet counted as in flight."""
    if in_flight == 0:
        tx.first_sent_ps = now
        tx.delivered_ps = now
    pkt.prior_delivered = delivered
    pkt.prior_delivered_ps = tx.delivered_ps
    pkt.prior_first_sent_ps = tx.first_sent_ps
    pkt.was_limited = 1 if 0 < tx.limited_until >= delivered else 0


def echo(pkt, ack):
    """Copy a data packet's notes into its acknowledgment."""
    ack.prior_delivered = pkt.prior_delivered
    ack.prior_delivered_ps = pkt.prior_delivered_ps
    ack.prior_first_sent_ps = pkt.prior_first_sent_ps
    ack.was_limited = pkt.was_limited


def limit(tx, delivered, in_flight):
    """What is sent until all that is in flight now is delivered tells no rate."""
    tx.limited_until = max(delivered + in_flight, 1)


def start_round(tx, delivered):
    """A round begins now."""
    tx.next_round_delivered = delivered


def update(tx, now, ack, n_bytes, delivered, rtt_ps, min_rtt_ps):
    """A packet of ``n_bytes`` is acknowledged, ``delivered`` counts it: take the sample."""
    tx.round_start = 0
    if int(ack.prior_delivered) >= tx.next_round_delivered:
        start_round(tx, delivered)
        tx.round_start = 1
        tx.round_count += 1
    sent_ps = now - rtt_ps
    interval_ps = max(sent_ps - int(ack.prior_first_sent_ps), now - int(ack.prior_delivered_ps))
    tx.first_sent_ps = sent_ps
    tx.delivered_ps = now
    if interval_ps < min_rtt_ps:
        return
    bps = int(8e12 * n_bytes * (delivered - int(ack.prior_delivered)) / interval_ps)
    if bps >= tx.max_bps or int(ack.was_limited) == 0:
        take(tx, bps)


def take(tx, bps):
    """Take a sample into the filter."""
    while tx.filter_round < tx.round_count:
        tx.filter_round += 1
        tx.round_max_bps[tx.filter_round % FILTER_ROUNDS] = 0
    latest = tx.round_count % FILTER_ROUNDS
    tx.round_max_bps[latest] = max(tx.round_max_bps[latest], bps)
    tx.max_bps = 0
    for i in range(FILTER_ROUNDS):
        tx.max_bps = max(tx.max_bps, tx.round_max_bps[i])
