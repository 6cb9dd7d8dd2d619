"""DCTCP: cuts its window in proportion to the fraction of marked packets.

Switches mark every packet that finds more than K bytes queued. Each packet is acknowledged with an
echo of its mark. Once per window the sender updates its estimate alpha of the fraction F of marked
packets,

    alpha = (1 - g) alpha + g F,

and at the first echo in a window it cuts: cwnd = cwnd (1 - alpha / 2). The rest is TCP: slow start,
one more packet per round trip in congestion avoidance, half the window after a loss. A packet is
lost when three later ones have arrived; only lost packets are retransmitted.

Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.1. A link of capacity C stays
busy if K > C * RTT / 7 (section 3.4), without a margin for packets in transmission. FABRIC's K is
0.35 of each port's bandwidth-delay product: 1 to 8 flows then keep 99.7 % of a link busy at 10, 100
and 800 Gbps. The preset 10g has the paper's switch, with a K of 65 packets of 1500 bytes and up to
700 KB of buffer per port.
"""

from netsim.blocks import rto, rtt, selective, traffic_classes
from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    ECN_CE,
    ECN_ECHO,
    armed,
    cancel_timer,
    finish,
    or_default,
    send,
    set_timer,
)

RTO_PS = 10 * rto.MS

PARAMS = [
    Param("g", "fraction", 1 / 16, "gain of alpha", source="SIGCOMM 2010, section 3.4"),
    Param("initial_alpha", "fraction", 1.0, "alpha at the start", source="RFC 8257"),
    Param("initial_window", "count", 10, "packets in the first window", minimum=1,
          source="RFC 6928"),
    Param("min_window", "count", 2, "minimum window after a cut, in packets", minimum=1,
          source="RFC 5681, equation 4"),
    Param("reordering", "count", 3, "later packets that must arrive before a packet counts as lost",
          minimum=1, source="RFC 5681, section 3.2"),
    rto.param(
        RTO_PS,
        "minimum margin of the retransmission timeout over the smoothed round trip (RFC 6298), and "
        "the timeout before the first measurement",
        "SIGCOMM 2010, section 4: the least timeout in the experiments",
    ),
    traffic_classes.DATA_CLASS,
    traffic_classes.ack_param("ACKs"),
]  # fmt: skip

FABRIC = {
    "queue_discipline": "drop_tail",
    "routing": "ecmp",
    "n_traffic_classes": 1,
    "queue_bytes": "500pkt",
    "ecn": {"kmin_bytes": "0.35bdp", "at": "enqueue"},
}

PRESETS: dict[str, dict[str, object]] = {"10g": {}}
PRESET_FABRIC = {"10g": {"queue_bytes": "700KB", "ecn": {"kmin_bytes": "97500B"}}}

TX_STATE = (
    *selective.TX_STATE,
    *rtt.TX_STATE,
    ("cwnd", float),
    ("ssthresh", float),
    ("alpha", float),
    "window_end",
    "window_acked",
    "window_marked",
    "cut_until",
    "checked",
    "timeouts",  # in a row
)
RX_STATE = traffic_classes.RX_STATE
TX_TIMERS = 1
RTO = 0
TX_BITMAPS = selective.TX_BITMAPS
RX_BITMAPS = selective.RX_BITMAPS


def setup(env, tx, rx):
    traffic_classes.setup(env, tx, rx)
    tx.cwnd = 1.0 * env.par.initial_window
    tx.alpha = env.par.initial_alpha


def on_start(env, now, tx):
    tx.ssthresh = 1.0 * tx.n_packets


def ready(env, now, tx):
    if selective.has_data(tx) and selective.outstanding(tx) + 1.0 <= tx.cwnd:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = selective.take(env, tx)
    pkt.aux = rtt.timestamp(now)
    if not armed(env, tx, RTO):
        restart_timer(env, now, tx)


def restart_timer(env, now, tx):
    """Set the timeout of RFC 6298, doubled for each consecutive timeout."""
    initial_ps = rto.of_path(env.par.rto, RTO_PS, tx)
    timeout_ps = rtt.timeout_ps(tx, initial_ps, or_default(env.par.rto, RTO_PS))
    set_timer(env, now, tx, RTO, now + (timeout_ps << min(tx.timeouts, 10)))


def on_data(env, now, rx, pkt):
    selective.accept(env, now, rx, pkt)
    ack = send(env, rx, ACK, int(pkt.seq), int(pkt.aux), rx.ack_class)
    if int(pkt.ecn) & ECN_CE != 0:
        ack.ecn = ECN_ECHO


def on_control(env, now, tx, pkt):
    seq = int(pkt.seq)
    if not selective.acknowledge(env, tx, seq):
        return
    if selective.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)
        return
    tx.timeouts = 0
    rtt.sample(tx, rtt.elapsed_ps(now, int(pkt.aux)))
    restart_timer(env, now, tx)
    marked = int(pkt.ecn) & ECN_ECHO != 0
    estimate(env, tx, seq, marked)
    if marked:
        cut(env, tx, seq, tx.alpha)
    elif tx.cwnd < tx.ssthresh:
        tx.cwnd += 1.0
    else:
        tx.cwnd += 1.0 / tx.cwnd
    if find_losses(env, tx, seq):
        cut(env, tx, seq, 1.0)


def estimate(env, tx, seq, marked):
    """Count an acknowledgment; at the end of a window update alpha."""
    tx.window_acked += 1
    if marked:
        tx.window_marked += 1
    if seq >= tx.window_end:
        fraction = tx.window_marked / tx.window_acked
        tx.alpha = (1.0 - env.par.g) * tx.alpha + env.par.g * fraction
        tx.window_end = tx.next_seq
        tx.window_acked = 0
        tx.window_marked = 0


def cut(env, tx, seq, alpha):
    """Reduce the window by alpha / 2, once per window."""
    if seq >= tx.cut_until:
        tx.cwnd = max(tx.cwnd * (1.0 - alpha / 2.0), 1.0 * env.par.min_window)
        tx.ssthresh = tx.cwnd
        tx.cut_until = tx.next_seq


def find_losses(env, tx, seq):
    """Record packets sent long enough before ``seq`` as lost; return whether there are any. Checks
    each packet once; the timeout finds lost retransmissions."""
    first = tx.checked
    tx.checked = max(first, seq - env.par.reordering + 1)
    return selective.lose_range(env, tx, first, tx.checked) > 0


def on_timer(env, now, tx, k):
    """Restart slow start, up to half the window before the first consecutive timeout (RFC 5681)."""
    if tx.timeouts == 0:
        tx.ssthresh = max(tx.cwnd / 2.0, 1.0 * env.par.min_window)
    tx.cwnd = 1.0
    tx.cut_until = tx.next_seq
    selective.lose_outstanding(env, tx)
    tx.timeouts += 1
    restart_timer(env, now, tx)
