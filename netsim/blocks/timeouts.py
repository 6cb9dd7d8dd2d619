"""A retransmission timeout for transports with selective acknowledgments.

Of the packets that have not arrived, the oldest is watched. When nothing is known of it for
``rto_ps``, all packets that were sent before the watch began are taken for lost. The watch
begins with the first packet sent, and anew whenever the oldest missing packet is another one,
or is reported not to have arrived.

    TX_STATE = (*selective.TX_STATE, *timeouts.TX_STATE, ...)
    TX_TIMERS = 1

``tx.rto_ps`` is for the transport to set, before the flow's first packet; the timer is number 0.
"""

from netsim.blocks import selective
from netsim.transport import armed, bit_first_clear, cancel_timer, set_timer

TX_STATE = ("rto_ps", "oldest", "sent_before")
"""The timeout, the oldest missing packet, and how many had been sent when the watch began."""

TIMER = 0


def watch(env, now, tx):
    """From now on wait for the oldest missing packet."""
    tx.sent_before = tx.next_seq
    set_timer(env, now, tx, TIMER, now + tx.rto_ps)


def on_send(env, now, tx):
    """A packet is sent."""
    if not armed(env, tx, TIMER):
        watch(env, now, tx)


def on_acknowledged(env, now, tx):
    """Packets have been acknowledged, the oldest missing one perhaps among them."""
    seq = bit_first_clear(env, tx, selective.ACKED, tx.oldest)
    if seq == tx.oldest:
        return
    tx.oldest = seq
    if seq == tx.n_packets:
        cancel_timer(env, tx, TIMER)
    else:
        watch(env, now, tx)


def on_refused(env, now, tx, seq):
    """Packet ``seq`` is known not to have arrived, and will be sent again."""
    if seq == tx.oldest:
        watch(env, now, tx)


def on_timer(env, now, tx):
    """The timeout has come: queues packets to be sent again. Returns how many."""
    lost = selective.lose_range(env, tx, tx.oldest, tx.sent_before)
    watch(env, now, tx)
    return lost
