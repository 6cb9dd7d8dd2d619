"""Swift: a window that keeps the measured delay at a target.

Every packet is acknowledged with its time stamp. While the round trip is below the target, the
window grows by ``ai`` packets per round trip. Above it, the window shrinks in proportion to the
excess, at most once per round trip. The target is a base, plus a part per switch on the path, plus
a part that grows as the window shrinks, so many flows share a longer queue and their windows
converge. A window below one packet means one packet in more than a round trip. A gap in the
acknowledgments is a loss.

Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter",
SIGCOMM 2020, section 3 (algorithm 1 and the scaling of the target). The paper's second window, for
delay inside hosts, is left out, as simulated hosts have none. Delays have no noise and are not
filtered.
"""

import math

from netsim.blocks import rto, rtt, selective
from netsim.params import Param
from netsim.transport import ACK, BLOCKED, cancel_timer, finish, full_packet_bytes, send, set_timer

GUESS = "csg-htsim, sim/swift.cpp, which calls it a guess"

PARAMS = [
    Param("base_target", "time", "20us",
          "target round trip, without the parts for switches and small windows",
          source="csg-htsim, sim/swift.cpp"),
    Param("hop_scaling", "time", "3.053us", "added to the target per switch on the path",
          source="csg-htsim, sim/swift.cpp: base target / 6.55"),
    Param("fs_range", "time", "100us", "maximum that a small window adds to the target",
          source="csg-htsim, sim/swift.cpp: 5 base targets"),
    Param("fs_min_window", "ratio", 0.1,
          "window, in packets, at and below which the target is longest", source=GUESS,
          minimum=1e-6, maximum=1.0),
    Param("fs_max_window", "ratio", 100.0,
          "window, in packets, at and above which nothing is added", source=GUESS, minimum=1.1),
    Param("ai", "ratio", 1.0, "packets added to the window per round trip", source=GUESS),
    Param("beta", "ratio", 0.8, "strength of the decrease", source=GUESS),
    Param("max_decrease", "fraction", 0.5, "maximum reduction by one decrease", source=GUESS),
    Param("initial_window", "count", 0,
          "packets; 0: the path's bandwidth-delay product, rounded up",
          source="a choice of ours; csg-htsim's main_swift.cpp starts with 15", products="1bdp"),
    Param("min_window", "ratio", 0.001, "packets", source="SIGCOMM 2020, section 3", minimum=1e-6),
    Param("max_window", "count", 1000, "packets", source=GUESS, minimum=1),
    Param("reordering", "count", 0, "packets that may overtake a packet before it counts as lost; "
          "0 suits fabrics with one path per flow"),
    Param("min_rto", "time", "100us",
          "minimum retransmission timeout; before the first measurement, ten times that or "
          "three base round trips, the longer one", source="csg-htsim, sim/swift.cpp"),
    Param("reset_after", "count", 4, "timeouts in a row after which the window is min_window",
          source="SIGCOMM 2020, section 3.6", minimum=1),
]  # fmt: skip

PRESETS = {
    # At 100 Gbps the default target allows 59 queued packets of 4160 bytes on a path of four links
    # of 1 us. The presets allow as many at their rate; no parameters are published for these rates.
    "scaled-400g": {"base_target": "6.7us", "hop_scaling": "2.2us", "fs_range": "25us"},
    "scaled-800g": {"base_target": "4.3us", "hop_scaling": "2.1us", "fs_range": "12.5us"},
}

# 35 bandwidth-delay products are 1000 packets at 100 Gbps. A queue of 1000 packets at any rate is
# shorter than the target delay at 800 Gbps, so drops would end an incast's flows at timeouts.
FABRIC = {
    "queue_discipline": "drop_tail",
    "routing": "ecmp",
    "n_traffic_classes": 1,
    "queue_bytes": "35bdp",
}
PRESET_FABRIC = {name: {"queue_bytes": "1000pkt"} for name in PRESETS}

TX_STATE = (
    *selective.TX_STATE,
    *rtt.TX_STATE,
    ("window", float),  # packets
    ("fs_alpha", float),  # ps
    "delay_ps",  # the latest round trip
    "sent_ps",
    "decreased_ps",
    "timeouts",
    "checked",  # packets below were acknowledged or found lost
)
TX_BITMAPS = selective.TX_BITMAPS
RX_BITMAPS = selective.RX_BITMAPS
TX_TIMERS = 1
RTO = 0


def setup(env, tx, rx):
    par = env.par
    tx.fs_alpha = par.fs_range / (
        1 / math.sqrt(par.fs_min_window) - 1 / math.sqrt(par.fs_max_window)
    )
    full = full_packet_bytes(env)
    tx.window = float(par.initial_window)
    if par.initial_window == 0:
        tx.window = float((tx.bdp_bytes + full - 1) // full)
    tx.delay_ps = tx.base_rtt_ps


def target_ps(par, fs_alpha, window, switches):
    """Return the target round trip for a window, in packets, and a number of switches."""
    small = fs_alpha / math.sqrt(window) - fs_alpha / math.sqrt(par.fs_max_window)
    return par.base_target + switches * par.hop_scaling + max(0.0, min(small, float(par.fs_range)))


def ready(env, now, tx):
    if not selective.has_data(tx):
        return BLOCKED
    if tx.window < 1.0:
        return tx.sent_ps + int(tx.delay_ps / tx.window)
    if selective.outstanding(tx) + 1 <= tx.window:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    if selective.outstanding(tx) == 0:
        set_timer(env, now, tx, RTO, now + rto_ps(env, tx))
    pkt.seq = selective.take(env, tx)
    pkt.aux = rtt.timestamp(now)
    tx.sent_ps = now


def on_data(env, now, rx, pkt):
    selective.accept(env, now, rx, pkt)
    send(env, rx, ACK, int(pkt.seq), int(pkt.aux), rx.prio)


def on_control(env, now, tx, pkt):
    seq = int(pkt.seq)
    is_new = selective.acknowledge(env, tx, seq)
    if selective.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)
        return
    delay_ps = rtt.elapsed_ps(now, int(pkt.aux))
    rtt.sample(tx, delay_ps)
    lost = lose_holes(env, tx, seq)
    # An ACK crosses as many links as its data packet.
    react(env.par, now, tx, delay_ps, int(pkt.hops) - 1, is_new, lost)
    if selective.outstanding(tx) == 0:
        cancel_timer(env, tx, RTO)
    else:
        set_timer(env, now, tx, RTO, now + rto_ps(env, tx))


def react(par, now, tx, delay_ps, switches, is_new, lost):
    """Set the window after an acknowledgment."""
    target = target_ps(par, tx.fs_alpha, tx.window, switches)
    may_decrease = now - tx.decreased_ps >= tx.delay_ps
    tx.delay_ps = delay_ps
    tx.timeouts = 0
    if lost:
        if may_decrease:
            decrease(par, now, tx, 1.0 - par.max_decrease)
    elif delay_ps < target:
        if is_new:
            tx.window = min(tx.window + par.ai / max(tx.window, 1.0), float(par.max_window))
    elif may_decrease:
        excess = (delay_ps - target) / delay_ps
        decrease(par, now, tx, max(1.0 - par.beta * excess, 1.0 - par.max_decrease))


def decrease(par, now, tx, factor):
    tx.window = max(tx.window * factor, par.min_window)
    tx.decreased_ps = now


def lose_holes(env, tx, seq):
    """Record gaps before ``seq``, except the last ``reordering`` packets, as lost."""
    first = tx.checked
    tx.checked = max(first, seq - env.par.reordering)
    return selective.lose_range(env, tx, first, tx.checked) > 0


def rto_ps(env, tx):
    """Return RFC 6298's timeout, doubled for each consecutive timeout."""
    initial_ps = max(10 * env.par.min_rto, rto.ROUND_TRIPS * tx.base_rtt_ps)
    return max(env.par.min_rto, rtt.timeout_ps(tx, initial_ps, 0)) << min(tx.timeouts, 10)


def on_timer(env, now, tx, k):
    tx.timeouts += 1
    if tx.timeouts >= env.par.reset_after:
        tx.window = env.par.min_window
    elif now - tx.decreased_ps >= tx.delay_ps:
        decrease(env.par, now, tx, 1.0 - env.par.max_decrease)
    selective.lose_outstanding(env, tx)
    tx.checked = tx.next_seq
