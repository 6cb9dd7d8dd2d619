"""Selective repeat: packets are acknowledged one by one, in any order.

What is lost is sent again before anything new, lowest number first. State of a transport that
uses it: `TX_STATE` and `TX_BITMAPS` at the sender, `RX_BITMAPS` at the receiver.
"""

from netsim.transport import bit_clear, bit_first, bit_get, bit_set, deliver, full_packet_bytes

TX_STATE = ("next_seq", "n_acked", "n_rtx", "rtx_from")
"""Next new packet; packets acknowledged; packets to send again, none of them before `rtx_from`."""

TX_BITMAPS = 2
RX_BITMAPS = 1
ACKED, RTX = 0, 1
GOT = 0


def unsent(tx):
    """Packets that wait to be sent, for the first time or again."""
    return tx.n_rtx + tx.n_packets - tx.next_seq


def has_data(tx):
    """Is there a packet to send?"""
    return tx.n_rtx > 0 or tx.next_seq < tx.n_packets


def outstanding(tx):
    """Packets sent, neither acknowledged nor known to be lost."""
    return tx.next_seq - tx.n_acked - tx.n_rtx


def fits(env, tx, window_bytes):
    """Is there a packet to send, and room for it in a window of so many bytes on the wire?"""
    return has_data(tx) and (outstanding(tx) + 1) * full_packet_bytes(env) <= window_bytes


def take(env, tx):
    """The number of the packet that is sent now."""
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
    """Packet `seq` has arrived. Returns whether that is news."""
    if not bit_set(env, tx, ACKED, seq):
        return False
    tx.n_acked += 1
    if bit_clear(env, tx, RTX, seq):
        tx.n_rtx -= 1
    return True


def lose(env, tx, seq):
    """Packet `seq` is lost. Returns whether it has to be sent again and was not known to."""
    if bit_get(env, tx, ACKED, seq) == 1 or not bit_set(env, tx, RTX, seq):
        return False
    tx.n_rtx += 1
    tx.rtx_from = min(tx.rtx_from, seq)
    return True


def lose_range(env, tx, first, end):
    """Of the packets from `first` to before `end`, those under way are lost. Returns how many."""
    lost = 0
    for seq in range(first, end):
        if lose(env, tx, seq):
            lost += 1
    return lost


def lose_outstanding(env, tx):
    """Every packet under way counts as lost (a timeout). Returns how many."""
    return lose_range(env, tx, 0, tx.next_seq)


def is_done(tx):
    """Is every packet acknowledged?"""
    return tx.n_acked == tx.n_packets


def accept(env, now, rx, pkt):
    """A data packet arrived: deliver its payload if it is new. Returns whether it is."""
    if not bit_set(env, rx, GOT, int(pkt.seq)):
        return False
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    return True
