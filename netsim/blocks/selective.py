"""Selective repeat: packets are acknowledged individually, in any order.

Lost packets are sent again before new ones, lowest number first. A transport that uses it adds
`TX_STATE` and `TX_BITMAPS` (sender) and `RX_BITMAPS` (receiver) to its own.
"""

from netsim.transport import bit_clear, bit_first, bit_get, bit_set, deliver, full_packet_bytes

TX_STATE = ("next_seq", "n_acked", "n_rtx", "rtx_from")
"""Next new packet; number of acknowledged packets; number to retransmit, none below `rtx_from`."""

TX_BITMAPS = 2
RX_BITMAPS = 1
ACKED, RTX = 0, 1
GOT = 0


def unsent(tx):
    """Return how many packets wait to be sent or retransmitted."""
    return tx.n_rtx + tx.n_packets - tx.next_seq


def has_data(tx):
    """Return whether there is a packet to send."""
    return tx.n_rtx > 0 or tx.next_seq < tx.n_packets


def outstanding(tx):
    """Return how many packets are sent, neither acknowledged nor known to be lost."""
    return tx.next_seq - tx.n_acked - tx.n_rtx


def fits(env, tx, window_bytes):
    """Return whether there is a packet to send that fits a window of bytes on the wire."""
    return has_data(tx) and (outstanding(tx) + 1) * full_packet_bytes(env) <= window_bytes


def take(env, tx):
    """Return the number of the packet being sent."""
    if tx.n_rtx == 0:
        seq = tx.next_seq
        tx.next_seq += 1
        return seq
    seq = bit_first(env, tx, RTX, tx.rtx_from)
    bit_clear(env, tx, RTX, seq)
    tx.rtx_from = seq + 1
    tx.n_rtx -= 1
    return seq


def acknowledge(env, tx, seq):
    """Record that packet `seq` has arrived. Return whether that is new."""
    if not bit_set(env, tx, ACKED, seq):
        return False
    tx.n_acked += 1
    if bit_clear(env, tx, RTX, seq):
        tx.n_rtx -= 1
    return True


def lose(env, tx, seq):
    """Record that packet `seq` is lost. Return whether it now needs a retransmission."""
    if bit_get(env, tx, ACKED, seq) == 1 or not bit_set(env, tx, RTX, seq):
        return False
    tx.n_rtx += 1
    tx.rtx_from = min(tx.rtx_from, seq)
    return True


def lose_range(env, tx, first, end):
    """Record packets `first` to `end` - 1 that are in flight as lost. Return how many."""
    lost = 0
    for seq in range(first, end):
        if lose(env, tx, seq):
            lost += 1
    return lost


def lose_outstanding(env, tx):
    """Record every packet in flight as lost (a timeout). Return how many."""
    return lose_range(env, tx, 0, tx.next_seq)


def is_done(tx):
    """Return whether every packet is acknowledged."""
    return tx.n_acked == tx.n_packets


def accept(env, now, rx, pkt):
    """Deliver a data packet's payload if it is new. Return whether it is."""
    if not bit_set(env, rx, GOT, int(pkt.seq)):
        return False
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    return True
