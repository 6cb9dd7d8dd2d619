"""Estimate a flow's delivery rate: samples, and their maximum over ten rounds.

Cheng et al., draft-cheng-iccrg-delivery-rate-estimation-00. A packet carries the count of packets
delivered when it was sent; its acknowledgment returns it. A sample is the number delivered since
then, divided by the longer of the send and acknowledgment intervals. A round ends when a packet
sent after its start is acknowledged. A flow always has data until its end, so samples are
application-limited only if the transport says so (`limit`).

    PACKET_FIELDS = delivery_rate.PACKET_FIELDS     TX_STATE = (*delivery_rate.TX_STATE, ...)
"""

PACKET_FIELDS = ("prior_delivered", "prior_delivered_ps", "prior_first_sent_ps", "was_limited")
FILTER_ROUNDS = 10
TX_STATE = (
    "delivered_ps",  # when a packet was last acknowledged
    "first_sent_ps",  # send time of the packet acknowledged last
    "limited_until",  # samples are limited until more packets are delivered; 0: no limit
    "round_count",
    "round_start",  # 1 if the latest acknowledgment began a round
    "next_round_delivered",
    "max_bps",  # largest sample of the last FILTER_ROUNDS rounds, then of each round
    ("round_max_bps", FILTER_ROUNDS),
    "filter_round",
)


def stamp(tx, now, pkt, delivered, in_flight):
    """Record the delivered bytes in a data packet, not yet counted in flight."""
    if in_flight == 0:
        tx.first_sent_ps = now
        tx.delivered_ps = now
    pkt.prior_delivered = delivered
    pkt.prior_delivered_ps = tx.delivered_ps
    pkt.prior_first_sent_ps = tx.first_sent_ps
    pkt.was_limited = 1 if 0 < tx.limited_until >= delivered else 0


def echo(pkt, ack):
    """Copy a data packet's delivery record into its acknowledgment."""
    ack.prior_delivered = pkt.prior_delivered
    ack.prior_delivered_ps = pkt.prior_delivered_ps
    ack.prior_first_sent_ps = pkt.prior_first_sent_ps
    ack.was_limited = pkt.was_limited


def limit(tx, delivered, in_flight):
    """Mark samples as limited until all packets now in flight are delivered."""
    tx.limited_until = max(delivered + in_flight, 1)


def start_round(tx, delivered):
    """Start a round."""
    tx.next_round_delivered = delivered


def update(tx, now, ack, n_bytes, delivered, rtt_ps, min_rtt_ps):
    """Take the sample of an acknowledged packet of ``n_bytes``, which ``delivered`` counts."""
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
    """Add a sample to the maximum filter."""
    while tx.filter_round < tx.round_count:
        tx.filter_round += 1
        tx.round_max_bps[tx.filter_round % FILTER_ROUNDS] = 0
    latest = tx.round_count % FILTER_ROUNDS
    tx.round_max_bps[latest] = max(tx.round_max_bps[latest], bps)
    tx.max_bps = 0
    for i in range(FILTER_ROUNDS):
        tx.max_bps = max(tx.max_bps, tx.round_max_bps[i])
