"""Acknowledgments that cover several packets, in any order, and report on one of them.

A receiver sends an ACK when enough bytes have arrived since the last one. It sends one immediately
for a marked packet, a duplicate, the first packet, and a packet that asks for an ACK. Once asked,
it sends another ACK when no earlier packet is missing. An ACK names the packet that caused it
(``seq``), echoes that packet's time stamp (``aux``), entropy and mark, and carries ``report``:

- above the lowest 32 bits, the next packet expected in order: all before it have arrived;
- in the lowest 32 bits, which of the aligned block of 32 packets around ``seq`` have arrived.

A later ACK reports the rest. A data packet with ``report`` 1 asks for an ACK. The rules are those
of Ultra Ethernet's simulator (uet-htsim, sim/uec.cpp); its bitmap covers 64 packets, starting
anywhere.

    PACKET_FIELDS = reports.PACKET_FIELDS
    RX_STATE = reports.RX_STATE
"""

from netsim.blocks import selective
from netsim.transport import ACK, ECN_CE, ECN_ECHO, bit_first_clear, send

PACKET_FIELDS = ("report",)
RX_STATE = ("expected", "arrived", "unacked_bytes", "ack_owed")
ASK = 1


def on_data(env, now, rx, pkt, ack_bytes, prio):
    """Deliver a new data packet's payload, and send an ACK if one is due."""
    seq = int(pkt.seq)
    at_once = int(pkt.ecn) & ECN_CE != 0 or rx.arrived == 0
    if selective.accept(env, now, rx, pkt):
        rx.arrived += 1
        rx.unacked_bytes += int(pkt.size_bytes)
        if int(pkt.report) == ASK:
            at_once = True
            rx.ack_owed = 1
        if seq == rx.expected:
            rx.expected = bit_first_clear(env, rx, selective.GOT, seq)
            if rx.ack_owed == 1 and rx.arrived == rx.expected:
                at_once = True
                rx.ack_owed = 0
    else:
        at_once = True
    if at_once or rx.unacked_bytes >= ack_bytes:
        rx.unacked_bytes = 0
        acknowledge(env, rx, pkt, prio)


def acknowledge(env, rx, pkt, prio):
    """Send an ACK caused by ``pkt``."""
    seq = int(pkt.seq)
    ack = send(env, rx, ACK, seq, int(pkt.aux), prio)
    ack.entropy = int(pkt.entropy)
    ack.report = (rx.expected << 32) | env.bits[rx.bits + (seq >> 5)]
    if int(pkt.ecn) & ECN_CE:
        ack.ecn = ECN_ECHO


def read(env, tx, pkt, oldest):
    """Process an ACK; return how many packets it newly acknowledges, from ``oldest`` on."""
    seq = int(pkt.seq)
    report = int(pkt.report)
    news = 0
    for known in range(oldest, report >> 32):
        if selective.acknowledge(env, tx, known):
            news += 1
    around = report & 0xFFFFFFFF & ~env.bits[tx.bits + (seq >> 5)]
    seq = seq & ~31
    while around > 0:
        if around & 1 == 1 and selective.acknowledge(env, tx, seq):
            news += 1
        around = around >> 1
        seq += 1
    return news
