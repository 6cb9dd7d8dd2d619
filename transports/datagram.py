"""Datagrams at line rate or a given rate, without acknowledgments.

For queueing theory and background load. A lost packet stays lost.
"""

from netsim.blocks import traffic_classes
from netsim.limits import PS_BITS, RATE_SHIFT
from netsim.params import Param
from netsim.transport import BLOCKED, deliver, finish, full_packet_bytes, serialization_ps

PARAMS = [
    Param("rate", "rate", None, "rate of each flow on the wire (default: line rate)"),
    traffic_classes.DATA_CLASS,
]

CONTROL_PER_DATA = 0

RELIABLE = False

FABRIC = {
    "queue_discipline": "drop_tail",
    "routing": "ecmp",
    "n_traffic_classes": 1,
    "queue_bytes": "1000pkt",
}

TX_STATE = ("next_seq", "gap_ps")


def setup(env, tx, rx):
    tx.prio = env.par.data_class
    if env.par.rate > 0:
        tx.gap_ps = serialization_ps(
            full_packet_bytes(env), ((PS_BITS << RATE_SHIFT) + env.par.rate // 2) // env.par.rate
        )


def ready(env, now, tx):
    if tx.next_seq == tx.n_packets:
        return BLOCKED
    return tx.start_ps + tx.next_seq * tx.gap_ps


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    if tx.next_seq == tx.n_packets:
        finish(env, now, tx)


def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
