"""A retransmission timeout for transports with selective acknowledgments.

The timer watches the oldest missing packet. If no news of it arrives for ``rto_ps``, all packets
sent before the watch began count as lost. The watch starts with the first packet sent. It restarts
when the oldest missing packet changes or is refused.

    TX_STATE = (*selective.TX_STATE, *timeouts.TX_STATE, ...)
    TX_TIMERS = 1

The transport sets ``tx.rto_ps`` before the flow's first packet; the timer is number 0.
"""

from netsim.blocks import selective
from netsim.transport import armed, bit_first_clear, cancel_timer, set_timer

TX_STATE = ("rto_ps", "oldest", "sent_before")
"""The timeout, the oldest missing packet, and packets sent when the watch began."""

TIMER = 0


def watch(env, now, tx):
    """Restart the watch on the oldest missing packet."""
    tx.sent_before = tx.next_seq
    set_timer(env, now, tx, TIMER, now + tx.rto_ps)


def on_send(env, now, tx):
    """Start the watch if it is not running."""
    if not armed(env, tx, TIMER):
        watch(env, now, tx)


def on_acknowledged(env, now, tx):
    """Update the watch after packets were acknowledged."""
    seq = bit_first_clear(env, tx, selective.ACKED, tx.oldest)
    if seq == tx.oldest:
        return
    tx.oldest = seq
    if seq == tx.n_packets:
        cancel_timer(env, tx, TIMER)
    else:
        watch(env, now, tx)


def on_refused(env, now, tx, seq):
    """Restart the watch if packet ``seq``, reported missing, is the oldest."""
    if seq == tx.oldest:
        watch(env, now, tx)


def on_timer(env, now, tx):
    """Queue the lost packets for retransmission. Return how many."""
    lost = selective.lose_range(env, tx, tx.oldest, tx.sent_before)
    watch(env, now, tx)
    return lost
