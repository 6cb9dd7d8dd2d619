"""DCQCN: rate control for RoCEv2 from ECN marks, over a lossless fabric.

Switches mark packets as their queue grows (congestion point). A receiver that sees marks sends a
CNP to the sender, at most one per flow in each ``cnp_interval`` (notification point). The sender
paces the flow at a rate R_C, initially line rate (reaction point). On a CNP

    R_T = R_C,  R_C = R_C (1 - alpha / 2),  alpha = (1 - g) alpha + g

and alpha = (1 - g) alpha in every ``alpha_interval`` without one. The rate increases every
``rate_interval`` and every ``byte_counter`` bytes; T and B count these events since the last cut.
With the counts before it, an event applies

    R_T += 0           if max(T, B) < F    (fast recovery)
    R_T += k R_HAI     if min(T, B) > F    (hyper increase, the k-th)
    R_T += R_AI        otherwise           (additive increase)
    R_C = (R_T + R_C) / 2

Data has a class that PFC may pause. CNPs have class 0 to themselves, as in NICs: it is served first
and never holds enough to be paused. Losses are recovered by go-back-N.

Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1 and
figure 7.

The defaults are the paper's, with rates and bytes scaled to the line rate, and HPCC's window. With
this window, marking only above one bandwidth-delay product finishes permutations, incasts and open
arrivals at 10 to 1600 Gbps as soon as the best preset does. Presets have ECN thresholds and buffers
for their line rate, and no window unless they set one: paper-40g; author-ns3 (40 Gbps), the
simulations of bobzhuyb/ns3-rdma; cx4 (25 Gbps) and cx4-100g, the Mellanox NIC of HPCC's artifact;
simai-400g, of aliyun/SimAI; 800g, the paper's values, scaled. As in HPCC's and SimAI's switches,
cx4, cx4-100g and simai-400g mark at dequeue (`fabric.ecn.at`), which ends a burst's start sooner.
With author-ns3 and only two flows, the faster one gains more from hyper increase, which the byte
counter triggers.
"""

from netsim.blocks import go_back_n, pacing, traffic_classes
from netsim.params import Param
from netsim.transport import (
    BLOCKED,
    CNP,
    ECN_CE,
    ECN_ECHO,
    NACK,
    armed,
    cancel_timer,
    finish,
    full_packet_bytes,
    or_default,
    send,
    set_timer,
    wire_bytes,
)

PAPER, SETTINGS = "SIGCOMM 2015, section 3.1", "SIGCOMM 2015, section 5"
AUTHOR = "repository bobzhuyb/ns3-rdma, mix/config.txt and qbb-net-device.cc"
HPCC = "repository alibaba-edu/High-Precision-Congestion-Control, run.py and rdma-hw.cc"

CNP_DOC = "minimum time between CNPs of a flow; none: a flag in the ACK of every marked packet"
ALPHA_DOC = "alpha rises with each CNP, or (timer) in each alpha_interval with a CNP"
CUT_DOC = "minimum time between cuts; an earlier CNP cuts at the end of it"
CLAMP_DOC = "R_T = R_C at every cut; false: only if the rate has risen since the last cut"
BYTES_DOC = "bytes between increases (default: 2 ms at line rate); 0B: never (and B = T)"
CNP_CLASS_DOC = "class of CNPs; none: the class of data"
WINDOW_DOC = "maximum bytes in flight, in bandwidth-delay products at R_C; 0: no limit"

PARAMS = [
    Param("cnp_interval", "time", "50us", CNP_DOC, PAPER, optional=True),
    Param("g", "fraction", 1 / 256, "gain of alpha", SETTINGS),
    Param("initial_alpha", "fraction", 1.0, "alpha at the first CNP", HPCC),
    Param("alpha_interval", "time", "55us", "time between updates of alpha", PAPER, minimum="1ps"),
    Param("alpha_update", "choice", "cnp", ALPHA_DOC, f"{PAPER}; {HPCC}", ("cnp", "timer")),
    Param("decrease_interval", "time", "0ns", CUT_DOC, HPCC),
    Param("clamp_target", "bool", True, CLAMP_DOC, f"{PAPER}; {HPCC}"),
    Param("rate_interval", "time", "55us", "time between increases", SETTINGS, minimum="1ps"),
    Param("byte_counter", "bytes", None, BYTES_DOC, f"{SETTINGS}: 10 MB"),
    Param("fast_recovery", "count", 5, "F, increase events in fast recovery", PAPER),
    Param("rate_ai", "rate", None, "R_AI (default: line rate / 1000)", f"{SETTINGS}: 40 Mbps"),
    Param("rate_hai", "rate", None, "R_HAI (default: line rate / 200)", f"{AUTHOR}: 200 Mbps"),
    Param("hyper_grows", "bool", True, "k = 1, 2, ...; false: 1", f"IEEE 802.1Qau; {AUTHOR}"),
    Param(
        "min_rate", "rate", None, "minimum R_C (default: line rate / 400)", f"{AUTHOR}: 100 Mbps"
    ),
    Param("window", "ratio", 1.0, WINDOW_DOC, f"{PAPER}: none; {HPCC}, dcqcn_vwin: 1"),
    *go_back_n.PARAMS,
    traffic_classes.data_param(1),
    traffic_classes.ack_param("ACK and NACK"),
    Param("cnp_class", "count", 0, CNP_CLASS_DOC, AUTHOR, optional=True, maximum=7),
]

AT_40G = {
    "byte_counter": "10MB",
    "rate_ai": "40Mbps",
    "rate_hai": "200Mbps",
    "min_rate": "100Mbps",
    "window": 0.0,
}
MELLANOX = {
    "window": 0.0,
    "cnp_interval": "none",
    "alpha_interval": "1us",
    "alpha_update": "timer",
    "decrease_interval": "4us",
    "clamp_target": False,
    "rate_interval": "300us",
    "byte_counter": "0B",
    "fast_recovery": 1,
    "hyper_grows": False,
    "min_rate": "1Gbps",
}
PRESETS = {
    "paper-40g": AT_40G,
    "author-ns3": {
        **AT_40G,
        "initial_alpha": 0.5,
        "rate_interval": "60us",
        "byte_counter": "300KB",
    },
    "800g": {"window": 0.0},
    "cx4": {**MELLANOX, "rate_ai": "5Mbps", "rate_hai": "50Mbps"},
    "cx4-100g": {**MELLANOX, "rate_ai": "20Mbps", "rate_hai": "200Mbps"},
    "simai-400g": {
        **MELLANOX,
        "rate_interval": "900us",
        "rate_ai": "50Mbps",
        "rate_hai": "100Mbps",
        "min_rate": "100Mbps",
        "window": 1.0,
    },
}

FABRIC = {
    "queue_discipline": "lossless",
    "routing": "ecmp",
    "n_traffic_classes": 2,
    "shared_buffer_bytes": "32MB",
    "alpha": 0.125,
    "xon_gap_bytes": "3KB",
    "ecn": {"kmin_bytes": "1bdp", "kmax_bytes": "32bdp", "pmax": 0.01},
}

DEQUEUE = {"pmax": 0.2, "at": "dequeue"}

PRESET_FABRIC = {
    "paper-40g": {
        "shared_buffer_bytes": "12MB",
        "alpha": 1.0,
        "ecn": {"kmin_bytes": "5KB", "kmax_bytes": "200KB", "pmax": 0.01},
    },
    "author-ns3": {
        "shared_buffer_bytes": "4120KB",
        "alpha": 16.0,
        "ecn": {"kmin_bytes": "41.2KB", "kmax_bytes": "1030KB", "pmax": 1.0},
    },
    "800g": {"ecn": {"kmin_bytes": "100KB", "kmax_bytes": "4MB", "pmax": 0.01}},
    "cx4": {
        "shared_buffer_bytes": "8MB",
        "ecn": {"kmin_bytes": "100KB", "kmax_bytes": "400KB", **DEQUEUE},
    },
    "cx4-100g": {"ecn": {"kmin_bytes": "400KB", "kmax_bytes": "1600KB", **DEQUEUE}},
    "simai-400g": {"ecn": {"kmin_bytes": "800KB", "kmax_bytes": "3200KB", **DEQUEUE}},
}

TX_STATE = (
    *go_back_n.TX_STATE,
    *pacing.TX_STATE,
    "line_bps",
    "rate_bps",
    "target_bps",
    "n_timer",
    "n_bytes",
    "counted_bytes",
    "next_cut_ps",
    "cnp_came",
    ("alpha", float),
    "alpha_ps",
)
RX_STATE = (*go_back_n.RX_STATE, *traffic_classes.RX_STATE, "next_cnp_ps", "cnp_class")
RX_BITMAPS = go_back_n.RX_BITMAPS
TX_TIMERS = 3
RTO, RATE, CUT = 0, 1, 2
ALPHA_BY_TIMER = 1


def setup(env, tx, rx):
    traffic_classes.setup(env, tx, rx)
    par = env.par
    rx.cnp_class = or_default(par.cnp_class, par.data_class)
    tx.line_bps = pacing.line_bps(tx.ps_per_byte_q20)
    tx.rate_bps = tx.line_bps
    tx.target_bps = tx.line_bps
    tx.alpha = par.initial_alpha


def ready(env, now, tx):
    if not go_back_n.has_data(tx) or window_is_full(env, tx):
        return BLOCKED
    return tx.next_send_ps


def window_is_full(env, tx):
    """Return whether the flow has as many bytes in flight as ``window`` allows."""
    if env.par.window == 0.0 or tx.next_seq == tx.una:
        return False
    in_flight = (tx.next_seq - tx.una) * full_packet_bytes(env)
    return in_flight >= env.par.window * tx.bdp_bytes * tx.rate_bps / tx.line_bps


def build_packet(env, now, tx, pkt):
    seq = go_back_n.take(tx)
    pkt.seq = seq
    if not armed(env, tx, RTO):
        go_back_n.restart_timer(env, now, tx, RTO)
    n_bytes = wire_bytes(env, tx, seq)
    pacing.sent(tx, now, n_bytes, tx.rate_bps)
    if env.par.byte_counter != 0 and tx.rate_bps < tx.line_bps:
        tx.counted_bytes += n_bytes
        if tx.counted_bytes >= share(tx, env.par.byte_counter, 4000):
            tx.counted_bytes = 0
            increase(env, tx)
            tx.n_bytes += 1


def on_data(env, now, rx, pkt):
    marked = int(pkt.ecn) & ECN_CE != 0
    reply = go_back_n.accept(env, now, rx, pkt, env.par.ack_every)
    if reply != 0:
        ack = send(env, rx, reply, rx.expected, 0, rx.ack_class)
        if marked and env.par.cnp_interval < 0:
            ack.ecn = ECN_ECHO
    if marked and env.par.cnp_interval >= 0 and now >= rx.next_cnp_ps:
        rx.next_cnp_ps = now + env.par.cnp_interval
        send(env, rx, CNP, 0, 0, rx.cnp_class)


def on_control(env, now, tx, pkt):
    kind = int(pkt.kind)
    if kind == CNP or int(pkt.ecn) & ECN_ECHO != 0:
        on_cnp(env, now, tx)
    if kind == CNP:
        return
    newly = go_back_n.acknowledge(tx, int(pkt.seq), kind == NACK)
    if go_back_n.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)
    elif newly > 0 or kind == NACK:
        go_back_n.restart_timer(env, now, tx, RTO)


def on_cnp(env, now, tx):
    """React to congestion."""
    if tx.alpha_ps == 0:
        tx.alpha_ps = now
    settle_alpha(env, now, tx)
    if now >= tx.next_cut_ps:
        cut(env, now, tx)
    elif not armed(env, tx, CUT):
        set_timer(env, now, tx, CUT, tx.next_cut_ps)
    if env.par.alpha_update == ALPHA_BY_TIMER:
        tx.cnp_came = 1
    else:
        tx.alpha = (1.0 - env.par.g) * tx.alpha + env.par.g
        tx.alpha_ps = now


def settle_alpha(env, now, tx):
    """Apply the updates of alpha due since ``alpha_ps``."""
    n = (now - tx.alpha_ps) // env.par.alpha_interval
    tx.alpha_ps += n * env.par.alpha_interval
    if n > 0 and tx.cnp_came == 1:
        tx.cnp_came = 0
        tx.alpha = (1.0 - env.par.g) * tx.alpha + env.par.g
        n -= 1
    factor = 1.0 - env.par.g
    while n > 0:
        if n & 1 == 1:
            tx.alpha *= factor
        factor *= factor
        n = n >> 1


def cut(env, now, tx):
    """Reduce the rate, and restart its recovery."""
    if env.par.clamp_target == 1 or tx.n_timer + tx.n_bytes > 0:
        tx.target_bps = tx.rate_bps
    set_rate(env, tx, int(tx.rate_bps * (1.0 - tx.alpha / 2.0)))
    tx.n_timer = 0
    tx.n_bytes = 0
    tx.counted_bytes = 0
    tx.next_cut_ps = now + env.par.decrease_interval
    set_timer(env, now, tx, RATE, now + env.par.rate_interval)


def increase(env, tx):
    """Increase the rate once: fast recovery, additive or hyper increase."""
    n_bytes = tx.n_bytes if env.par.byte_counter != 0 else tx.n_timer
    if max(tx.n_timer, n_bytes) >= env.par.fast_recovery:
        hyper = min(tx.n_timer, n_bytes) - env.par.fast_recovery
        if hyper <= 0:
            step = share(tx, env.par.rate_ai, 1000)
        else:
            step = share(tx, env.par.rate_hai, 200)
            if env.par.hyper_grows == 1:
                step *= hyper
        tx.target_bps = min(tx.target_bps + step, tx.line_bps)
    set_rate(env, tx, (tx.target_bps + tx.rate_bps + 1) // 2)


def share(tx, given, divisor):
    """Return a rate or byte count, or its default as a fraction of the line rate."""
    return or_default(given, tx.line_bps // divisor)


def set_rate(env, tx, rate_bps):
    new_bps = max(rate_bps, share(tx, env.par.min_rate, 400))
    if new_bps != tx.rate_bps:
        pacing.change_rate(tx, full_packet_bytes(env), tx.rate_bps, new_bps)
        tx.rate_bps = new_bps


def on_timer(env, now, tx, k):
    if k == RTO:
        go_back_n.rewind(tx)
        go_back_n.restart_timer(env, now, tx, RTO)
    elif k == CUT:
        settle_alpha(env, now, tx)
        cut(env, now, tx)
    elif tx.rate_bps < tx.line_bps:
        increase(env, tx)
        tx.n_timer += 1
        set_timer(env, now, tx, RATE, now + env.par.rate_interval)
