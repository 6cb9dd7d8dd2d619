"""Go-back-N: the receiver accepts packets only in order; the sender goes back to a gap.

With `reorder_packets` the NIC places packets in any order, as NICs for adaptive routing do, and
reports a gap only when that many later packets have been sent; other losses wait for the timeout.
The sender still goes back, but skips packets that the next acknowledgment covers.

A transport that uses it adds `PARAMS`, `TX_STATE` (sender), `RX_STATE` and `RX_BITMAPS` (receiver)
to its own. An acknowledgment carries the number of the packet expected next. The rules follow RoCE
NICs (InfiniBand Architecture Specification 1.5, section 9.7.5).
"""

from netsim.blocks import rto
from netsim.params import Param
from netsim.transport import ACK, NACK, bit_first_clear, bit_set, deliver, set_timer

RTO_PS = 4 * rto.MS

PARAMS = [
    Param(
        "queue_pairs",
        "count",
        1,
        "flows that share a message, each on its own path",
        "NCCL_IB_QPS_PER_CONNECTION",
        minimum=1,
        maximum=128,
    ),
    Param("ack_every", "count", 1, "packets per acknowledgment", minimum=1),
    rto.param(
        RTO_PS,
        source="InfiniBand Architecture Specification 1.5, 9.7.6.1.3: 4.096 us * 2**n, here n = 10",
    ),
    Param("reorder_packets", "count", 0, "packets after a gap that the NIC places; 0: goes back"),
]

TX_STATE = ("next_seq", "una")  # next packet to send, and the oldest unacknowledged one

RX_STATE = ("expected", "nacked", "since_ack")
"""Next packet expected, whether the gap before it was reported, packets since the last ACK."""
RX_BITMAPS = {"reorder_packets": 1}
PLACED = 0


def has_data(tx):
    """Return whether there is a packet to send."""
    return tx.next_seq < tx.n_packets


def take(tx):
    """Return the number of the packet being sent."""
    seq = tx.next_seq
    tx.next_seq += 1
    return seq


def outstanding(tx):
    """Return how many packets are sent and unacknowledged."""
    return tx.next_seq - tx.una


def acknowledge(tx, expected, is_nack):
    """Process an ACK or NACK; return how many packets it newly acknowledges."""
    newly = max(0, expected - tx.una)
    tx.una += newly
    tx.next_seq = max(tx.next_seq, tx.una)
    if is_nack and expected == tx.una:
        tx.next_seq = tx.una
    return newly


def restart_timer(env, now, tx, k):
    """Set timer `k` to one timeout from now."""
    set_timer(env, now, tx, k, now + rto.of_path(env.par.rto, RTO_PS, tx))


def rewind(tx):
    """Go back to the oldest unacknowledged packet (a timeout)."""
    tx.next_seq = tx.una


def is_done(tx):
    """Return whether every packet is acknowledged."""
    return tx.una == tx.n_packets


def accept(env, now, rx, pkt, ack_every):
    """Process a data packet; return the reply to send with `rx.expected`: ACK, NACK or 0 (none).

    A packet in order is delivered; every `ack_every`-th and the last are acknowledged. A gap is
    reported once. A duplicate is acknowledged again.
    """
    seq = int(pkt.seq)
    if env.par.reorder_packets > 0:
        return place(env, now, rx, pkt, ack_every)
    if seq < rx.expected:
        return ACK
    if seq > rx.expected:
        if rx.nacked == 1:
            return 0
        rx.nacked = 1
        return NACK
    rx.expected += 1
    rx.nacked = 0
    rx.since_ack += 1
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    if rx.since_ack < ack_every and rx.expected < rx.n_packets:
        return 0
    rx.since_ack = 0
    return ACK


def place(env, now, rx, pkt, ack_every):
    """Like `accept`, but place data packets in any order."""
    seq = int(pkt.seq)
    if seq < rx.expected or not bit_set(env, rx, PLACED, seq):
        return ACK
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    if seq == rx.expected:
        rx.expected = bit_first_clear(env, rx, PLACED, seq)
        rx.nacked = 0
    if seq >= rx.expected + env.par.reorder_packets and rx.nacked == 0:
        rx.nacked = 1
        return NACK
    rx.since_ack += 1
    if rx.since_ack < ack_every and rx.expected < rx.n_packets:
        return 0
    rx.since_ack = 0
    return ACK
