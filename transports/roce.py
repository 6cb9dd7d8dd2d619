"""RoCEv2 without congestion control: line rate, go-back-N, one path per flow.

The receiver accepts packets in order only. At the first gap it sends a NACK with the
number it expects, and the sender goes back to it. Meant for a lossless fabric (PFC).
"""

from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    NACK,
    armed,
    cancel_timer,
    deliver,
    finish,
    send,
    set_timer,
)

PARAMS = [
    Param("ack_every", "count", 1, "packets per acknowledgement", minimum=1),
    Param(
        "rto",
        "time",
        "4ms",
        "retransmission timeout",
        source="InfiniBand Architecture Specification 1.5, 9.7.6.1.3: 4.096 us * 2**n, here n = 10",
    ),
    Param("data_class", "count", 0, "traffic class of data", maximum=7),
    Param("ack_class", "count", None, "class of ACK and NACK; none is the data's class", maximum=7),
]

FABRIC = {
    "model": "lossless",
    "load_balancing": "ecmp",
    "n_classes": 1,
    "xoff_bytes": "15pkt",
    "xon_bytes": "12pkt",
}

TX_STATE = ("next_seq", "una")
RX_STATE = ("expected", "nacked", "since_ack", "ack_class")
TX_TIMERS = 1
RTO = 0


def setup(env, tx, rx):
    tx.prio = env.par.data_class
    rx.ack_class = env.par.ack_class
    if rx.ack_class < 0:
        rx.ack_class = env.par.data_class


def ready(env, now, tx):
    if tx.next_seq < tx.n_packets:
        return now
    return BLOCKED


def fill(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    if not armed(env, tx, RTO):
        set_timer(env, now, tx, RTO, now + env.par.rto)


def on_data(env, now, rx, pkt):
    seq = int(pkt.seq)
    if seq == rx.expected:
        rx.expected += 1
        rx.nacked = 0
        rx.since_ack += 1
        deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
        if rx.since_ack == env.par.ack_every or rx.expected == rx.n_packets:
            rx.since_ack = 0
            send(env, rx, ACK, rx.expected, 0, rx.ack_class)
    elif seq < rx.expected:
        send(env, rx, ACK, rx.expected, 0, rx.ack_class)
    elif rx.nacked == 0:
        rx.nacked = 1
        send(env, rx, NACK, rx.expected, 0, rx.ack_class)


def on_control(env, now, tx, pkt):
    expected = int(pkt.seq)
    is_nack = int(pkt.kind) == NACK
    grew = expected > tx.una
    tx.una = max(tx.una, expected)
    tx.next_seq = max(tx.next_seq, tx.una)
    if is_nack and expected == tx.una:
        tx.next_seq = tx.una
    if tx.una == tx.n_packets:
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)
    elif grew or is_nack:
        set_timer(env, now, tx, RTO, now + env.par.rto)


def on_timer(env, now, tx, k):
    tx.next_seq = tx.una
    set_timer(env, now, tx, RTO, now + env.par.rto)
