"""Acknowledgments that cover several packets, in any order, and report on one of them.

A receiver sends an ACK when enough bytes have arrived since the last one. It sends one immediately
for a marked packet, a duplicate, the first packet, and a packet that asks for an ACK. Once asked,
it sends another ACK when no earlier packet is missing. An ACK names the packet that caused it
(``seq``), echoes that packet's time stamp (``aux``), entropy and mark, and carries ``report``:

- above the lowest 32 bits, the next packet expected in order: all before it have arrived;
- in the lowest 32 bits, which of the aligned block of 32 packets around ``seq`` have arrived.

A transport with a sender's field ``n_arrived`` may count instead (``counts``, 1 or 0). Then the
lowest 16 bits report on a block of 16 packets, and the higher bits count packets that have arrived
beyond the next expected packet.

A later ACK reports the rest. The lowest bit of a data packet's ``report`` asks for an ACK. The
rules are from Ultra Ethernet's simulator (uet-htsim, sim/uec.cpp); its bitmap covers 64 packets,
starting anywhere.

    PACKET_FIELDS = reports.PACKET_FIELDS
    RX_STATE = reports.RX_STATE
"""

from netsim.blocks import selective
from netsim.transport import ACK, ECN_CE, ECN_ECHO, bit_first_clear, send

PACKET_FIELDS = ("report",)
RX_STATE = ("expected", "arrived", "unacked_bytes", "ack_owed")
ASK = 1


def on_data(env, now, rx, pkt, ack_bytes):
    """Deliver a new data packet's payload. Return whether an ACK is due."""
    seq = int(pkt.seq)
    at_once = int(pkt.ecn) & ECN_CE != 0 or rx.arrived == 0
    if selective.accept(env, now, rx, pkt):
        rx.arrived += 1
        rx.unacked_bytes += int(pkt.size_bytes)
        if int(pkt.report) & ASK:
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
        return True
    return False


def acknowledge(env, rx, pkt, prio, counts=0):
    """Send an ACK caused by ``pkt``."""
    report(env, rx, pkt, ACK, int(pkt.seq), prio, counts)


def report(env, rx, pkt, kind, seq, prio, counts=0):
    """Send an ACK of a kind, caused by ``pkt``, that reports on the block around ``seq``."""
    ack = send(env, rx, kind, seq, int(pkt.aux), prio)
    ack.entropy = int(pkt.entropy)
    block = env.bits[rx.bits + (seq >> 5)]
    if counts == 1:
        beyond = min(rx.arrived - rx.expected, 0xFFFF)
        block = (beyond << 16) | ((block >> (seq & 16)) & 0xFFFF)
    ack.report = (rx.expected << 32) | block
    if int(pkt.ecn) & ECN_CE:
        ack.ecn = ECN_ECHO


def count_arrived(tx, pkt):
    """Process an ACK's count; return how many more packets have arrived."""
    report = int(pkt.report)
    arrived = (report >> 32) + ((report >> 16) & 0xFFFF)
    news = max(arrived - tx.n_arrived, 0)
    tx.n_arrived += news
    return news


def read(env, tx, pkt, oldest, counts=0):
    """Process an ACK; return how many packets it newly acknowledges, from ``oldest`` on."""
    seq = int(pkt.seq)
    report = int(pkt.report)
    news = 0
    for known in range(oldest, report >> 32):
        if selective.acknowledge(env, tx, known):
            news += 1
    around = report & 0xFFFFFFFF
    if counts == 1:
        around = (report & 0xFFFF) << (seq & 16)
    around = around & ~env.bits[tx.bits + (seq >> 5)]
    seq = seq & ~31
    while around > 0:
        if around & 1 == 1 and selective.acknowledge(env, tx, seq):
            news += 1
        around = around >> 1
        seq += 1
    return news
