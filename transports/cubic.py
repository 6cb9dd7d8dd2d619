"""TCP CUBIC: the window is a cubic function of the time since the last loss.

A loss at window W_max reduces the window to beta W_max. Then it follows

    W_cubic(t) = C (t - K)^3 + W_max,    K = ((W_max - cwnd) / C)^(1/3)

which is fast at first, flat around W_max, then ever faster, independent of the round-trip time, and
never slower than Reno. Slow start ends when delay grows (HyStart++), when the ACKs of a round
arrive over a whole round trip (HyStart's ACK train), at `initial_ssthresh`, or when a packet is
lost.

The RFC's delay thresholds of 4 and 16 ms never end slow start in a datacenter, where a full queue
adds less than 1 ms. So here the lower threshold is half the path's round trip: 7 us at a round trip
of 14 us. The preset `rfc9406` has the RFC's thresholds and no ACK train.

RFC 9438 (window), RFC 9406 (HyStart++), Linux's tcp_cubic.c (ACK train), RFC 6937 (sending in
recovery); `netsim.blocks.tcp` describes loss detection. Windows count packets of payload_bytes. ECN
marks are ignored.
"""

from netsim.blocks import prr, rto, rtt, tcp
from netsim.params import Param
from netsim.transport import BLOCKED, INF, or_default

PARAMS = [
    *tcp.PARAMS,
    Param("c", "ratio", 0.4, "growth, packets per second cubed", "RFC 9438, section 5.1",
          minimum=1e-6),
    Param("beta", "fraction", 0.7, "window after a loss, as a fraction", "RFC 9438, section 4.6"),
    Param("fast_convergence", "bool", True,
          "lower W_max after a loss below the last W_max, to make room for new flows",
          "RFC 9438, section 4.7"),
    Param("hystart", "bool", True, "end slow start when delay grows", "RFC 9406"),
    Param("hystart_min", "time", None,
          "minimum threshold of delay growth; default: half the path's round trip, at most 4 ms",
          "RFC 9406, 4.3: MIN_RTT_THRESH, 4 ms"),
    Param("hystart_max", "time", "16ms", "maximum threshold of delay growth",
          "RFC 9406, 4.3: MAX_RTT_THRESH"),
    Param("hystart_divisor", "count", 8,
          "threshold between them: the last round's least round trip over this",
          "RFC 9406, 4.3: MIN_RTT_DIVISOR", minimum=1),
    Param("hystart_samples", "count", 8, "round trips measured in a round before it is judged",
          "RFC 9406, 4.3: N_RTT_SAMPLE", minimum=1),
    Param("hystart_burst", "count", 8,
          "packets of an ACK that count at most", "RFC 9406, 4.3: L, infinite with pacing",
          minimum=1),
    Param("css_divisor", "count", 4, "conservative slow start grows slower by this factor",
          "RFC 9406, 4.3: CSS_GROWTH_DIVISOR", minimum=1),
    Param("css_rounds", "count", 5, "rounds of conservative slow start, the first one partial",
          "RFC 9406, 4.3: CSS_ROUNDS", minimum=1),
    Param("hystart_train", "ratio", 1.0,
          "end slow start when the ACKs of a round arrive over this many round trips: the path is "
          "full; 0: never; only on paths under 8 ms, where RFC 9406's least delay comes too late",
          "Linux, tcp_cubic.c, hystart_update: 1 with pacing, 1/2 without"),
    Param("initial_ssthresh", "bytes", None,
          "window at which the first slow start ends; then HyStart++ and the ACK train are off",
          "RFC 5681, 3.1: arbitrarily high", minimum="1B"),
]  # fmt: skip

PRESETS: dict[str, dict[str, object]] = {"rfc9406": {"hystart_min": "4ms", "hystart_train": 0.0}}

FABRIC = {
    "queue_discipline": "drop_tail",
    "routing": "ecmp",
    "n_traffic_classes": 1,
    "queue_bytes": "1000pkt",
}

TX_STATE = (
    *tcp.TX_STATE,
    *prr.TX_STATE,
    ("ssthresh", float),  # slow start below this window
    ("w_max", float),  # 0 until a loss, and after a timeout
    ("cwnd_prior", float),  # window before the last reduction
    ("k_s", float),
    ("w_est", float),  # Reno's window
    "epoch_ps",  # start of the current congestion avoidance stage, or -1
    "css_rounds",  # rounds of conservative slow start; 0: not in it
    "css_baseline_ps",
    "round_samples",
    "round_min_ps",
    "last_min_ps",
)
RX_STATE = tcp.RX_STATE
PACKET_FIELDS = tcp.PACKET_FIELDS
TX_TIMERS = tcp.TX_TIMERS
TX_BITMAPS = tcp.TX_BITMAPS
RX_BITMAPS = tcp.RX_BITMAPS

LONG_PS = 8 * rto.MS  # base round trip from which only the delay ends slow start

FAST = 1
MIN_WINDOW = 2.0
UNLIMITED = 1e18


def setup(env, tx, rx):
    tcp.setup(env, tx, rx)
    tx.ssthresh = UNLIMITED
    if env.par.initial_ssthresh > 0:
        tx.ssthresh = max(env.par.initial_ssthresh / env.par.payload_bytes, MIN_WINDOW)
    tx.epoch_ps = -1
    tx.round_min_ps = INF
    tx.last_min_ps = INF


def ready(env, now, tx):
    if tcp.may_send(tx):
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    tcp.take(env, now, tx, pkt)
    tx.prr_out += 1


def on_data(env, now, rx, pkt):
    tcp.on_data(env, now, rx, pkt)


def on_control(env, now, tx, pkt):
    recovery = tx.in_recovery
    events = tcp.acknowledge(env, now, tx, pkt)
    if events & tcp.DONE:
        return
    if events & tcp.EXIT and recovery == FAST:
        tx.cwnd = tx.ssthresh
        tx.epoch_ps = -1
    if events & tcp.ENTER:
        reduce_window(env, tx)
    if tx.in_recovery == FAST:
        pace_recovery(tx, tx.newly_acked)
    elif tx.cwnd < tx.ssthresh:
        slow_start(env, now, tx, events & tcp.ROUND)
    elif tx.newly_acked > 0:
        avoid_congestion(env, now, tx)


def on_timer(env, now, tx, k):
    recovery = tx.in_recovery
    events = tcp.on_timer(env, now, tx, k)
    if events & tcp.ENTER or (events & tcp.TIMEOUT and recovery == 0):
        reduce_window(env, tx)
    if events & tcp.TIMEOUT:
        tx.cwnd = 1.0
        tx.w_max = 0.0
        tx.epoch_ps = -1
    elif events & tcp.LOSS and tx.in_recovery == FAST:
        pace_recovery(tx, 0)


def reduce_window(env, tx):
    """Reduce the window after a loss: section 4.6, and 4.7 for w_max."""
    flight = min(tx.cwnd, float(tx.next_seq - tx.una))
    if env.par.fast_convergence == 1 and flight < tx.w_max:
        tx.w_max = flight * (1.0 + env.par.beta) / 2.0
    else:
        tx.w_max = flight
    tx.cwnd_prior = flight
    tx.ssthresh = max(flight * env.par.beta, MIN_WINDOW)
    prr.begin(tx, tx.next_seq - tx.una)


def pace_recovery(tx, delivered):
    """Set the window in recovery from the packets delivered and sent since it began."""
    tx.cwnd = prr.window(tx, tcp.in_flight(tx), tx.ssthresh, delivered, tx.newly_lost)


def slow_start(env, now, tx, new_round):
    """Add one packet per packet acknowledged; in the first slow start, less when delay grows, and
    none once acknowledgments fill a round trip."""
    if new_round:
        tx.last_min_ps = tx.round_min_ps
        tx.round_min_ps = INF
        tx.round_samples = 0
        if tx.css_rounds > 0:
            tx.css_rounds += 1
    tx.round_samples += 1
    tx.round_min_ps = min(tx.round_min_ps, tx.last_rtt_ps)
    if not tcp.is_window_limited(tx):
        return
    if env.par.hystart == 0 or tx.ssthresh < UNLIMITED:
        tx.cwnd = min(tx.cwnd + tx.newly_acked, tx.ssthresh)
        return
    if env.par.hystart_train > 0 and fills_path(env, now, tx):
        tx.ssthresh = tx.cwnd
        return
    growth = float(min(tx.newly_acked, env.par.hystart_burst))
    if tx.css_rounds > 0:
        growth = growth / env.par.css_divisor
    tx.cwnd += growth
    if tx.css_rounds > env.par.css_rounds:
        tx.ssthresh = tx.cwnd
    elif tx.round_samples >= env.par.hystart_samples:
        watch_delay(env, tx)


def fills_path(env, now, tx):
    """Return whether packets sent before this round are acknowledged a base round trip later."""
    if tx.base_rtt_ps >= LONG_PS or tx.acked_sent_ps + rtt.UNIT_PS >= tx.round_ps:
        return False
    return now - tx.round_ps >= env.par.hystart_train * tx.base_rtt_ps


def watch_delay(env, tx):
    """Enter conservative slow start when the round trip grows; leave it if it shrinks again."""
    if tx.css_rounds > 0:
        if tx.round_min_ps < tx.css_baseline_ps:
            tx.css_rounds = 0
    elif tx.last_min_ps < INF:
        least = or_default(env.par.hystart_min, min(4 * rto.MS, tx.base_rtt_ps // 2))
        growth = max(least, min(tx.last_min_ps // env.par.hystart_divisor, env.par.hystart_max))
        if tx.round_min_ps >= tx.last_min_ps + growth:
            tx.css_baseline_ps = tx.round_min_ps
            tx.css_rounds = 1


def avoid_congestion(env, now, tx):
    """Grow toward the cubic function, or Reno's window if that is larger."""
    if not tcp.is_window_limited(tx):
        tx.epoch_ps = -1
        return
    if tx.epoch_ps < 0:
        begin_epoch(env, now, tx)
    c, beta = env.par.c, env.par.beta
    t_s = (now - tx.epoch_ps) * 1e-12
    alpha = 1.0
    if tx.w_est < tx.cwnd_prior:
        alpha = 3.0 * (1.0 - beta) / (1.0 + beta)
    tx.w_est += alpha * tx.newly_acked / tx.cwnd
    if cubic_window(c, t_s, tx) < tx.w_est:
        tx.cwnd = max(tx.cwnd, tx.w_est)
        return
    target = cubic_window(c, t_s + tx.srtt_ps * 1e-12, tx)
    target = max(tx.cwnd, min(target, 1.5 * tx.cwnd))
    tx.cwnd += (target - tx.cwnd) / tx.cwnd * tx.newly_acked


def begin_epoch(env, now, tx):
    """Start a stage of congestion avoidance; sections 4.2, and 4.8 and 4.10 without w_max."""
    tx.epoch_ps = now
    tx.w_est = tx.cwnd
    tx.k_s = 0.0
    if tx.cwnd < tx.w_max:
        tx.k_s = cube_root((tx.w_max - tx.cwnd) / env.par.c)
    else:
        tx.w_max = tx.cwnd


def cubic_window(c, t_s, tx):
    """Return W_cubic, `t_s` seconds after the stage began."""
    since = t_s - tx.k_s
    return c * since * since * since + tx.w_max


def cube_root(a):
    """Return the cube root by Newton's method, from above: the same on every machine."""
    x = 1.0
    while x * x * x < a:
        x = 2.0 * x
    for _ in range(60):
        lower = (2.0 * x + a / (x * x)) / 3.0
        if lower >= x:
            break
        x = lower
    return x
