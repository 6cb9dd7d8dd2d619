"""Test transport for switches: packets at line rate, without retransmission.

A flow has the class that its traffic gives it. With `in_order`, a reordered packet ends the run;
with `max_hops`, a packet that crosses more links does.
"""

from netsim.params import Param
from netsim.transport import BLOCKED, deliver, finish

PARAMS = [
    Param("in_order", "bool", False, "packets of a flow must arrive in order"),
    Param("max_hops", "count", 255, "links that a packet may cross"),
]

RELIABLE = False

TX_STATE = ("next_seq",)
RX_STATE = ("next_seq",)


def ready(env, now, tx):
    return now if tx.next_seq < tx.n_packets else BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    if tx.next_seq == tx.n_packets:
        finish(env, now, tx)


def on_data(env, now, rx, pkt):
    assert env.par.in_order == 0 or int(pkt.seq) >= rx.next_seq
    assert int(pkt.hops) <= env.par.max_hops
    rx.next_seq = int(pkt.seq) + 1
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
