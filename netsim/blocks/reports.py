"""Acknowledgments that cover several packets, in any order, and report on one of them.

A receiver acknowledges when enough bytes have come since it last did, and at once a marked
packet, a duplicate, the first, and one with which the sender asks for it; asked once, it
acknowledges again when nothing before is missing any more. An ACK says which packet caused it
(``seq``), echoes that packet's time stamp (``aux``), entropy and mark, and carries ``report``:

- above the lowest 32 bits, the next packet expected in order: all before it have arrived;
- the lowest 32 bits, which of the 32 packets around ``seq`` have arrived, those whose numbers
  differ from it in the lowest five bits only.

What falls outside both is reported later. A data packet with ``report`` 1 asks for an ACK.
When to acknowledge is as in Ultra Ethernet's simulator (uet-htsim, sim/uec.cpp); its bitmap
covers 64 packets from any number on, this one an aligned block.

    PACKET_FIELDS = reports.PACKET_FIELDS
    RX_STATE = reports.RX_STATE
"""

from netsim.blocks import selective
from netsim.transport import ACK, ECN_CE, ECN_ECHO, bit_first_clear, send

PACKET_FIELDS = ("report",)
RX_STATE = ("expected", "arrived", "unacked_bytes", "ack_owed")
ASK = 1


def on_data(env, now, rx, pkt, ack_bytes, prio):
    """Deliver a data packet's payload if it is new, and acknowledge if it is time."""
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
    """Report what has arrived, and how the packet that causes this traveled."""
    seq = int(pkt.seq)
    ack = send(env, rx, ACK, seq, int(pkt.aux), prio)
    ack.entropy = int(pkt.entropy)
    ack.report = (rx.expected << 32) | env.bits[rx.bits + (seq >> 5)]
    if int(pkt.ecn) & ECN_CE:
        ack.ecn = ECN_ECHO


def read(env, tx, pkt, oldest):
    """Note what an ACK reports; all before ``oldest`` was known. Returns how many are news."""
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
