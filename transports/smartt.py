"""SMaRTT: a window set by ECN and delay at every ACK; trimming reports losses immediately.

Each acknowledgment reports whether its packet was marked, and its round-trip time. There are four
cases. Unmarked and below the target round trip: increase toward the target, plus a little for
fairness. Unmarked but late: only the fair increase, as congestion is ending or elsewhere. Marked
but early: a gentle decrease in proportion to the window. Marked and late: a decrease by how late it
is. After a whole window without a queue, the window grows fast. After a loss (a trimmed header,
refused by a NACK) the window becomes the bytes delivered in the last target round trip (quick
adapt). It stays so until the packets in flight at that time are acknowledged or lost. After a
timeout it is one packet. Packets take one path, all paths in round-robin order, or the paths that
REPS found free.

Bonato et al., "SMaRTT: Sender-based Marked Rapidly-adapting Trimmed & Timed Transport", arXiv
2404.01630; the rules are from its simulator, repository spcl/HTSIM, sim/uec.cpp, except that
timeouts count as feedback and a late end of a period is allowed for.

On hosts with several ports, queues hold fewer packets, and random paths fill them more often: a
permutation of 16 MB ends 11 % later on eight ports of 100 Gbps than on one of 800 Gbps, and 15 %
later with ``paths = "oblivious"``.

Presets 100g and 800g have the authors' gains, and queues of one bandwidth-delay product of four
links of 1 us at these rates, 29 and 197 packets, marked from 20 % to 80 %.
"""

from netsim.blocks import bdp_queues, paths, rto, rtt, selective, timeouts
from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    ECN_CE,
    ECN_ECHO,
    NACK,
    finish,
    full_packet_bytes,
    send,
    serialization_ps,
)

GAINS = "x, y, w and z_gain in run scripts of SMaRTT's simulator, 800 Gbps"

RTO_PS, RTO_ROUND_TRIPS = 100 * rto.US, 6

PARAMS = [
    *paths.PARAMS,
    Param("target_rtt", "ratio", 1.5, "target round trip, in base round trips", minimum=1),
    Param("initial_window", "ratio", 1.0, "first and largest window, in bandwidth-delay products"),
    Param("fair_increase", "ratio", 1.6, "packets added per window without marks", source=GAINS),
    Param("multiplicative_increase", "ratio", 8.0,
          "packets added per unmarked window, times how early packets are", source=GAINS),
    Param("multiplicative_decrease", "ratio", 1.25,
          "packets removed per marked one, times how late it is", source=GAINS),
    Param("fair_decrease", "ratio", 1.0,
          "packets removed per marked one, times the window in bandwidth-delay products",
          source=GAINS),
    Param("fast_increase", "ratio", 2.0, "packets added per ACK and 100 Gbps without queueing"),
    Param("wait_to_decrease", "fraction", 0.25,
          "with many paths: up to this fraction of marked packets, marks only change the path",
          source="arXiv 2404.01630, versions of 2024: wait to decrease"),
    Param("ignored_feedback", "ratio", 1.0,
          "feedback ignored after quick adapt, per packet then in flight",
          source="the authors' simulator: 1.25, which presets keep"),
    rto.param(RTO_PS, source="repository uet-htsim, sim/uec.h; main_uec.cpp",
              round_trips=RTO_ROUND_TRIPS),
]  # fmt: skip

# With queues that scale with the rate, the gains for 800 Gbps also suit 10 to 400 Gbps. A flow
# whose window quick adapt sets to two packets needs many round trips for the feedback that presets
# ignore, long after the queue has drained: incasts of 32 x 500 KB at 800 Gbps end 65 % later.
PRESETS = {
    "100g": {
        "fair_increase": 0.25,
        "multiplicative_increase": 1.25,
        "multiplicative_decrease": 2.0,
        "fair_decrease": 0.8,
        "ignored_feedback": 1.25,
    },
    "800g": {
        "fair_increase": 1.6,
        "multiplicative_increase": 8.0,
        "multiplicative_decrease": 1.25,
        "fair_decrease": 1.0,
        "ignored_feedback": 1.25,
    },
}

# The authors' queues hold one product. Half of one serves permutations and open arrivals equally
# well, and short incasts at 1600 Gbps end twice as soon.
FABRIC = {
    **bdp_queues.FABRIC,
    "queue_bytes": "0.5bdp+8pkt",
    "ecn": {**bdp_queues.FABRIC["ecn"], "kmin_bytes": "0.1bdp+2pkt", "kmax_bytes": "0.4bdp+6pkt"},
}
PRESET_FABRIC = bdp_queues.PRESET_FABRIC

CONTROL, DATA_CLASS = 0, 1
MARKED_GAIN = 0.125  # weight of the newest packet in the average of marks
PORT_HOLDS = 2  # packets in a host's port that entropies choose
QUEUE_SEEN = 3  # packet times above the base round trip that indicate a queue

TX_STATE = (
    *selective.TX_STATE,
    *timeouts.TX_STATE,
    *paths.TX_STATE,
    ("cwnd_bytes", float),
    ("marked_share", float),
    "free_bytes",  # acknowledged in a row without queueing
    "window_then",  # window when that sequence began
    "growing",  # 1 during the fast increase
    "acked_bytes",  # in the current period of quick adapt
    "period_end_ps",
    "heard",  # packets acknowledged, refused or timed out since the last quick adapt
    "ignored",  # feedback still to come of packets sent before it
    "lost",  # 1 after a NACK since then
)
TX_TIMERS = 1
TX_BITMAPS = selective.TX_BITMAPS
RX_BITMAPS = selective.RX_BITMAPS


def setup(env, tx, rx):
    tx.prio = DATA_CLASS
    tx.rto_ps = rto.of_path(env.par.rto, RTO_PS, tx, RTO_ROUND_TRIPS)
    tx.cwnd_bytes = largest_window(env, tx)
    tx.window_then = int(tx.cwnd_bytes)


def ready(env, now, tx):
    if selective.fits(env, tx, tx.cwnd_bytes):
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = selective.take(env, tx)
    pkt.aux = rtt.timestamp(now)
    pkt.entropy = paths.next_entropy(env, tx)
    timeouts.on_send(env, now, tx)


def on_data(env, now, rx, pkt):
    selective.accept(env, now, rx, pkt)
    paths.answer(env, rx, pkt)
    ack = send(env, rx, ACK, int(pkt.seq), int(pkt.aux), CONTROL)
    ack.entropy = int(pkt.entropy)
    if int(pkt.ecn) & ECN_CE:
        ack.ecn = ECN_ECHO


def on_trimmed(env, now, rx, pkt):
    paths.answer(env, rx, pkt)
    nack = send(env, rx, NACK, int(pkt.seq), int(pkt.aux), CONTROL)
    nack.entropy = int(pkt.entropy)


def on_control(env, now, tx, pkt):
    seq = int(pkt.seq)
    tx.heard += 1
    if int(pkt.kind) == NACK:
        timeouts.on_refused(env, now, tx, seq)
        paths.trimmed(env, now, tx, int(pkt.entropy), False)
        if selective.lose(env, tx, seq):
            after_loss(env, now, tx)
        return
    marked = int(pkt.ecn) & ECN_ECHO != 0
    paths.acknowledged(env, now, tx, int(pkt.entropy), marked)
    if selective.acknowledge(env, tx, seq):
        tx.acked_bytes += full_packet_bytes(env)
        timeouts.on_acknowledged(env, now, tx)
    if selective.is_done(tx):
        finish(env, now, tx)
        return
    adjust_window(env, now, tx, marked, rtt.elapsed_ps(now, int(pkt.aux)))


def adjust_window(env, now, tx, marked, rtt_ps):
    """Apply the four cases, unless the window grows fast or quick adapt has yet to take effect."""
    packet = float(full_packet_bytes(env))
    target_ps = env.par.target_rtt * tx.base_rtt_ps
    tx.marked_share += MARKED_GAIN * ((1.0 if marked else 0.0) - tx.marked_share)
    seen_ps = QUEUE_SEEN * serialization_ps(full_packet_bytes(env), tx.ps_per_byte_q20)
    met_queue = rtt_ps > tx.base_rtt_ps + seen_ps
    if marked or met_queue:
        tx.free_bytes = 0
        tx.window_then = int(tx.cwnd_bytes)
        tx.growing = 0
    else:
        tx.free_bytes += full_packet_bytes(env)
    if tx.heard >= tx.ignored:
        quick_adapt(env, now, tx)
    if tx.heard < tx.ignored or (marked and waits(env, tx)):
        return
    share = packet / tx.cwnd_bytes
    late = (rtt_ps - target_ps) / rtt_ps
    fair_decrease = env.par.fair_decrease * tx.cwnd_bytes / tx.bdp_bytes * packet
    change = env.par.fair_increase * share * packet
    if tx.growing or tx.free_bytes > tx.window_then:
        tx.growing = 1
        change = env.par.fast_increase * packet * (80 << 20) / tx.ps_per_byte_q20
    elif marked and late > 0:
        change = -min(env.par.multiplicative_decrease * late * packet + fair_decrease, packet)
    elif marked:
        change = -fair_decrease
    elif late < 0:
        change += min(env.par.multiplicative_increase * -late * share * packet, packet)
    set_window(env, tx, tx.cwnd_bytes + change)


def waits(env, tx):
    """Return whether REPS or spraying can avoid the few queues that mark."""
    return env.par.paths != paths.ECMP and tx.marked_share < env.par.wait_to_decrease


def set_window(env, tx, cwnd_bytes):
    tx.cwnd_bytes = min(max(cwnd_bytes, float(full_packet_bytes(env))), largest_window(env, tx))


def largest_window(env, tx):
    """Return the largest window: it also covers packets in ports that entropies choose."""
    packet = full_packet_bytes(env)
    held = PORT_HOLDS * env.par.pair_by_entropy * packet
    return max(env.par.initial_window * tx.bdp_bytes + held, float(packet))


def after_loss(env, now, tx):
    """Reduce the window by a packet, or by quick adapt."""
    tx.free_bytes = 0
    tx.growing = 0
    if tx.heard < tx.ignored:
        return
    tx.lost = 1
    if not quick_adapt(env, now, tx):
        set_window(env, tx, tx.cwnd_bytes - full_packet_bytes(env))


def quick_adapt(env, now, tx):
    """Once per target round trip with losses, set the window to the bytes delivered."""
    if now < tx.period_end_ps:
        return False
    target_ps = int(env.par.target_rtt * tx.base_rtt_ps)
    first = tx.period_end_ps == 0
    got_through = tx.acked_bytes * target_ps / (now - tx.period_end_ps + target_ps)
    tx.acked_bytes = 0
    tx.period_end_ps = now + target_ps
    if first or tx.lost == 0:
        return False
    set_window(env, tx, got_through)
    tx.ignored = int(env.par.ignored_feedback * selective.outstanding(tx))
    tx.heard = 0
    tx.lost = 0
    return True


def on_timer(env, now, tx, k):
    paths.timed_out(env, now, tx)
    lost = timeouts.on_timer(env, now, tx)
    tx.heard += lost
    if lost > 0:
        tx.free_bytes = 0
        tx.growing = 0
        tx.cwnd_bytes = float(full_packet_bytes(env))
