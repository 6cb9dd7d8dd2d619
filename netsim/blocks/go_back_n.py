"""Go-back-N: the receiver takes packets in order only, the sender goes back to a gap.

State of a transport that uses it: `TX_STATE` at the sender, `RX_STATE` at the receiver. Its
parameters: `PARAMS`.
Packets are numbered from 0; an acknowledgment carries the number that is expected next.
As RoCE network cards do it (InfiniBand Architecture Specification 1.5, section 9.7.5).
"""

from netsim.blocks import rto
from netsim.params import Param
from netsim.transport import ACK, NACK, deliver, set_timer

RTO_PS = 4 * rto.MS

PARAMS = [
    Param("ack_every", "count", 1, "packets per acknowledgment", minimum=1),
    rto.param(
        RTO_PS,
        source="InfiniBand Architecture Specification 1.5, 9.7.6.1.3: 4.096 us * 2**n, here n = 10",
    ),
]

TX_STATE = ("next_seq", "una")
"""Next packet to send, and the oldest that is not acknowledged."""

RX_STATE = ("expected", "nacked", "since_ack")
"""Next packet to take, whether the gap in front of it was reported, packets since the last ACK."""


def has_data(tx):
    """Is there a packet to send?"""
    return tx.next_seq < tx.n_packets


def take(tx):
    """The number of the packet that is sent now."""
    seq = tx.next_seq
    tx.next_seq += 1
    return seq


def outstanding(tx):
    """Packets sent and not acknowledged."""
    return tx.next_seq - tx.una


def acknowledge(tx, expected, is_nack):
    """The receiver expects packet `expected`. Returns how many packets that acknowledges anew."""
    newly = max(0, expected - tx.una)
    tx.una += newly
    tx.next_seq = max(tx.next_seq, tx.una)
    if is_nack and expected == tx.una:
        tx.next_seq = tx.una
    return newly


def restart_timer(env, now, tx, k):
    """Timer `k` fires when nothing is acknowledged from now on."""
    set_timer(env, now, tx, k, now + rto.of_path(env.par.rto, RTO_PS, tx))


def rewind(tx):
    """Send everything again that is not acknowledged (a timeout)."""
    tx.next_seq = tx.una


def is_done(tx):
    """Is every packet acknowledged?"""
    return tx.una == tx.n_packets


def accept(env, now, rx, pkt, ack_every):
    """A data packet arrived. Returns what to answer with `rx.expected`: ACK, NACK or 0 (nothing).

    A packet in order is delivered; every `ack_every`-th, and the last, is acknowledged. A gap is
    reported once. A packet that was taken before is acknowledged again.
    """
    seq = int(pkt.seq)
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
