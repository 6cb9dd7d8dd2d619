"""MRC: multipath reliable connection, a table of paths per flow with NSCC's window.

A packet takes one of the flow's entropy values (EVs), each a path: the least loaded port, and in
its plane the next EV in a pseudo-random order. The EV of a packet that was marked, or trimmed
before the last hop, is skipped once; the EV of a lost packet is assumed bad until a probe is
answered (`netsim/blocks/entropy_values.py`). The window, retransmissions of trimmed packets, and
the times of acknowledgments follow NSCC (`netsim/blocks/ultra_ethernet.py`).

Lost packets: while a packet is missing although packets sent `reordering` bandwidth-delay products
later have arrived, acknowledgments cycle through the blocks with such gaps, oldest first. The
sender resends missing packets, oldest first, except those that it resent less than half that time
before it sent the packet that caused the report. After silence of `reordering` base round trips, as
at the end of a message, the sender asks for such reports, up to four at once; a timeout is the last
resort. At most `psn_range` packets, counted from the oldest missing one, are in flight.

Control packets and trimmed headers have a separate class, above data. Ports to hosts do not mark,
so a mark means that some paths are busier than others. Acknowledgments and answers return with the
EV of their packet, by the port where it arrived. With `routing.carrier_delay`, ports that are down,
here or at the peer, are not used.

OCP Multipath Reliable Connection (2026). Its interface, which sets the gains of NSCC, is in the
repository opencomputeproject/OCP-Multipath-Reliable-Connection (mrc.h, mrc_ctl.h). Its rules for
losses, probes, and acknowledgments are not published; the rules here are netsim's.
"""

from netsim.blocks import (
    bdp_queues,
    entropy_values,
    paths,
    reports,
    rtt,
    selective,
    ultra_ethernet,
)
from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    ECN_ECHO,
    NACK,
    TRIMMED_AT_LAST_HOP,
    armed,
    bit_first_clear,
    cancel_timer,
    full_packet_bytes,
    send,
    set_timer,
)

PARAMS = [
    *entropy_values.PARAMS,
    *ultra_ethernet.WINDOW_PARAMS,
    ultra_ethernet.ack_report_param("all"),
    Param("reordering", "ratio", 1.5,
          "a packet is lost when packets sent this many bandwidth-delay products later arrive; "
          "no published value", minimum=0.1, maximum=10.0),
    Param("psn_range", "count", 1024, "packets from the oldest missing one to the newest",
          minimum=128, maximum=entropy_values.RANGE,
          source="mrc.h: mpr, in units of 128, up to 32,640"),
]  # fmt: skip
FABRIC = {**bdp_queues.FABRIC, "ecn": {**bdp_queues.FABRIC["ecn"], "last_hop": False}}

# Kinds of packets: an acknowledgment that reports on a block with lost packets, a request for such
# reports, and such a report.
GAPS, ASK, ANSWER = 12, 3, 14
ANSWERS = 4
FEWEST = 8  # packets of reordering
SILENCE = 2  # timer

TX_STATE = (*ultra_ethernet.WINDOW_STATE, "sent_ps", *entropy_values.TX_STATE)
RX_STATE = (
    *ultra_ethernet.RX_STATE,
    "highest",  # newest packet that arrived, or its header
    "reordering",  # in packets
    "gap",  # missing packet, reported on last
)
PACKET_FIELDS = ultra_ethernet.PACKET_FIELDS
TX_TIMERS = 3
TX_BITMAPS = ultra_ethernet.TX_BITMAPS
RX_BITMAPS = ultra_ethernet.RX_BITMAPS
TRACE = ("next_seq", "cwnd_bytes", "n_acked", "n_rtx", "n_bad", "n_active", "expected", "highest")


def setup(env, tx, rx):
    ultra_ethernet.setup(env, tx)
    tx.period_ps = max(int(env.par.reordering * tx.base_rtt_ps) // 2, 1)
    rx.reordering = max(int(env.par.reordering * tx.bdp_bytes / full_packet_bytes(env)), FEWEST)


# The sender.


def on_start(env, now, tx):
    ultra_ethernet.start(now, tx)
    entropy_values.start(env, tx)


def ready(env, now, tx):
    within = tx.n_rtx > 0 or tx.next_seq < tx.oldest + env.par.psn_range
    return now if within and ultra_ethernet.fits(env, tx) else BLOCKED


def build_packet(env, now, tx, pkt):
    ultra_ethernet.take(env, now, tx, pkt)
    pkt.entropy = entropy_values.next_entropy(env, now, tx, int(pkt.seq))
    if ultra_ethernet.is_full(env, tx):
        pkt.report = reports.ASK
    tx.sent_ps = now
    if not armed(env, tx, SILENCE):
        set_timer(env, now, tx, SILENCE, now + 2 * tx.period_ps)


def on_control(env, now, tx, pkt):
    kind = int(pkt.kind)
    entropy = int(pkt.entropy)
    if kind == entropy_values.PROBED:
        entropy_values.answered(env, tx, entropy)
    elif kind == NACK:
        at_last_hop = int(pkt.ecn) & TRIMMED_AT_LAST_HOP != 0
        if ultra_ethernet.refused(env, now, tx, pkt, True, True) and not at_last_hop:
            entropy_values.skip(tx, entropy)
    else:
        if int(pkt.ecn) & ECN_ECHO:
            entropy_values.skip(tx, entropy)
        if kind == ANSWER:
            ultra_ethernet.learn(env, now, tx, pkt)
        else:
            ultra_ethernet.acknowledged(env, now, tx, pkt, True)
        if selective.is_done(tx):
            cancel_timer(env, tx, entropy_values.TIMER)
            cancel_timer(env, tx, SILENCE)
        elif kind != ACK:
            repair(env, now, tx, pkt)


def repair(env, now, tx, pkt):
    """Resend packets missing in the block that an acknowledgment reports on."""
    sent_ps = now - rtt.elapsed_ps(now, int(pkt.aux))
    first = int(pkt.seq)
    for seq in range(first, min(first + block_packets(env), tx.next_seq)):
        arrived = (int(pkt.report) >> seq - first) & 1 == 1
        if arrived or not entropy_values.is_older(now, tx, seq, sent_ps):
            continue
        if selective.lose(env, tx, seq):
            entropy_values.lost(env, now, tx, seq)
            tx.heard_bytes += full_packet_bytes(env)
            tx.lost = 1


def on_timer(env, now, tx, k):
    if k == entropy_values.TIMER:
        entropy_values.on_timer(env, now, tx)
    elif k == SILENCE:
        if now >= tx.sent_ps + 2 * tx.period_ps:
            send(env, tx, ASK, 0, rtt.timestamp(now), ultra_ethernet.CONTROL)
            tx.sent_ps = now
        set_timer(env, now, tx, SILENCE, tx.sent_ps + 2 * tx.period_ps)
    else:
        # It is not known which of the other packets have arrived.
        entropy_values.lost(env, now, tx, tx.oldest)
        ultra_ethernet.repair_all(env, now, tx)


# The receiver.


def on_data(env, now, rx, pkt):
    paths.answer(env, rx, pkt)
    rx.highest = max(rx.highest, int(pkt.seq))
    if reports.on_data(env, now, rx, pkt, env.par.ack_bytes):
        acknowledge(env, rx, pkt)


def on_trimmed(env, now, rx, pkt):
    rx.highest = max(rx.highest, int(pkt.seq))
    ultra_ethernet.on_trimmed(env, rx, pkt)


def on_request(env, now, rx, pkt):
    paths.answer(env, rx, pkt)
    if int(pkt.kind) == entropy_values.PROBE:
        entropy_values.answer_probe(env, rx, pkt)
        return
    gap = min(rx.expected, rx.n_packets - 1)
    report(env, rx, pkt, ANSWER, gap)
    for _ in range(1, ANSWERS):
        gap = next_gap(env, rx, gap)
        if gap < rx.n_packets:
            report(env, rx, pkt, ANSWER, gap)


def acknowledge(env, rx, pkt):
    """Report on the next block with a lost packet, or else on the block around ``pkt``."""
    end = rx.highest - rx.reordering - block_packets(env)
    if first_of_block(env, rx.expected) > end:
        report(env, rx, pkt, ACK, int(pkt.seq))
        return
    rx.gap = next_gap(env, rx, rx.gap)
    if rx.gap < rx.expected or first_of_block(env, rx.gap) > end:
        rx.gap = rx.expected
    report(env, rx, pkt, GAPS, rx.gap)


def report(env, rx, pkt, kind, seq):
    """Report on the block of packet ``seq``, because of ``pkt``."""
    first = first_of_block(env, seq)
    reports.report(env, rx, pkt, kind, first, ultra_ethernet.CONTROL, env.par.ack_report)


def next_gap(env, rx, gap):
    """Return the next missing packet after the block of another; ``n_packets`` if there is none."""
    after = first_of_block(env, gap) + block_packets(env)
    if after >= rx.n_packets:
        return rx.n_packets
    return bit_first_clear(env, rx, selective.GOT, after)


def block_packets(env):
    """Return how many packets an acknowledgment reports on."""
    return 16 if env.par.ack_report == ultra_ethernet.ALL else 32


def first_of_block(env, seq):
    return seq // block_packets(env) * block_packets(env)
