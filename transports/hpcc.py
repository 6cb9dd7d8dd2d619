"""HPCC: a window computed from the load that every switch on the path reports in packets.

A switch that starts to send a data packet records the time, the bytes the port has sent and its
queue, over all classes. The receiver echoes these records. From two of them the sender knows each
link's utilization and queue. It steers the load U of the busiest link (1: a full link without a
queue) to ``eta``: multiplicatively when U is above it or after ``max_stage`` additive steps,
otherwise by W_AI. Every acknowledgment sets the window from a reference W^c that is renewed once
per round trip, so the sender reacts only once to each load. Packets are paced at W / T. For a
lossless fabric, with go-back-N.

Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, algorithm 1; details from the
authors' simulation, alibaba-edu/High-Precision-Congestion-Control (rdma-hw.cc).

Packets have room for the records of five switches, as many as three tiers have; later ones on a
longer path are not recorded. The authors' records take 42 bytes of every data packet and
acknowledgment. They count here only if added to the experiment's header_bytes and control_bytes.

W_AI defaults to the paper's rule for ten flows on a link. As a share of the largest window it adds
the same load at any rate: N flows keep a queue of 0.005 N bandwidth-delay products, minus the 5 %
left idle. The preset ``paper`` has the authors' W_AI, for 125 flows and packets of 1000 bytes. That
is too little where a flow has about a packet per round trip: a queued packet raises U above
``eta``, the window shrinks at each such load, and W_AI is almost all that restores it. Of 32 flows
at 10 Gbps with packets of 4 KiB, half stay at ``min_rate``, and the link is idle for a fifth of the
time. With additive steps (``max_stage``), a window that a burst cut to 2 % waits that many round
trips before it grows.
"""

from netsim.blocks import go_back_n, pacing, traffic_classes
from netsim.limits import PS_BITS
from netsim.params import Param
from netsim.transport import (
    BLOCKED,
    NACK,
    armed,
    cancel_timer,
    finish,
    full_packet_bytes,
    or_default,
    send,
    serialization_ps,
    wire_bytes,
)

PAPER = "SIGCOMM 2019, section 5.1; rdma-hw.cc"
SIMULATION = "the authors' simulation"

PARAMS = [
    Param("eta", "fraction", 0.95, "target load of the busiest link", PAPER, minimum=0.01),
    Param("max_stage", "count", 0, "additive steps before a multiplicative one",
          source=SIMULATION + ", run.py; hpcc-group.github.io/results: the paper's 5 is a typo"),
    Param("w_ai", "bytes", None, "W_AI (default: ai_share of the bandwidth-delay product)"),
    Param("ai_share", "fraction", 0.005,
          "W_AI as a share of the largest window: (1 - eta) / number of flows",
          source="SIGCOMM 2019, section 3.3, with ten flows on a link"),
    Param("base_rtt", "time", None, "T (default: each flow's round trip on empty links)",
          source="paper: one T for all, a little more than the longest round trip"),
    Param("min_rate", "rate", None, "minimum rate of a flow (default: line rate / 50)",
          source=SIMULATION + ", run.py: 1 Gbps, and NICs of 50 Gbps unless told otherwise"),
    Param("per_ack", "bool", True, "react to every acknowledgment; false: once per round trip",
          source=SIMULATION + ": FAST_REACT"),
    *go_back_n.PARAMS,
    Param("data_class", "count", None, "class of data (default: the traffic's)", maximum=7),
    traffic_classes.ack_param("ACK and NACK"),
]  # fmt: skip

AUTHORS_SHARE = 0.0004  # run.py of the authors' simulation: 10 Mbps for every 25 Gbps of the NIC

PRESETS = {
    "paper": {"max_stage": 5, "ai_share": AUTHORS_SHARE},
    # hpcc-group.github.io/results.html, where the authors call it the best setting.
    "eta-99": {"eta": 0.99, "ai_share": AUTHORS_SHARE},
    "ten-flows": {"max_stage": 5},  # the paper's stages, with the default W_AI
}

FABRIC = {
    "queue_discipline": "lossless",
    "routing": "ecmp",
    "n_traffic_classes": 1,
    "shared_buffer_bytes": "32MB",
    "alpha": 0.125,
}

MAX_HOPS = 5
PACKET_FIELDS = (("notes", MAX_HOPS),)
TX_STATE = (
    *go_back_n.TX_STATE,
    *pacing.TX_STATE,
    ("window", float),  # W, bytes on the wire
    ("reference", float),  # W^c
    ("load", float),  # U
    ("w_ai", float),
    ("min_window", float),
    ("max_window", float),
    "t_ps",  # T
    "rate_bps",
    "stage",
    "update_seq",  # acknowledgments above renew the reference
    "heard_ps",
    "n_notes",
    ("notes", MAX_HOPS),  # of the latest acknowledgment
)
RX_STATE = (*go_back_n.RX_STATE, *traffic_classes.RX_STATE)
RX_BITMAPS = go_back_n.RX_BITMAPS
TX_TIMERS = 1
RTO = 0

# A record is one number: 24 bits of time and 24 bits of the port's total sending time, both in
# ticks of 256 ps, and 15 bits of the time to send its queue, in steps of 32 ticks.
TICK_PS_LOG2 = 8
CLOCK_MASK = (1 << 24) - 1
QUEUE_STEP_LOG2 = 5
QUEUE_MASK = (1 << 15) - 1
TIME_SHIFT, BUSY_SHIFT = 39, 15
FORGET_PS = 1 << 31  # half the time in which 24 bits wrap; records further apart are not compared


def note(now, sent_bytes, waiting_bytes, ps_per_byte_q20):
    """Return a port's record: its clock, its sending time so far and its queue, as times."""
    busy_ps = (sent_bytes >> 20) * ps_per_byte_q20
    busy_ps += serialization_ps(sent_bytes & 0xFFFFF, ps_per_byte_q20)
    queue_ps = serialization_ps(waiting_bytes, ps_per_byte_q20)
    return (
        ((now >> TICK_PS_LOG2) & CLOCK_MASK) << TIME_SHIFT
        | ((busy_ps >> TICK_PS_LOG2) & CLOCK_MASK) << BUSY_SHIFT
        | min(queue_ps >> (TICK_PS_LOG2 + QUEUE_STEP_LOG2), QUEUE_MASK)
    )


def on_forward(now, pkt, port, queue):
    hop = int(pkt.hops) - 2  # the sender's own link is the first
    if hop < MAX_HOPS:
        waiting = port.held_bytes - int(pkt.size_bytes)
        pkt.notes[hop] = note(now, port.sent_bytes, waiting, port.ps_per_byte_q20)


def setup(env, tx, rx):
    par = env.par
    tx.prio = or_default(par.data_class, tx.prio)
    rx.ack_class = or_default(par.ack_class, tx.prio)
    tx.t_ps = par.base_rtt if par.base_rtt > 0 else tx.base_rtt_ps
    tx.max_window = (float(tx.t_ps) * 2**20) / tx.ps_per_byte_q20
    min_bps = or_default(par.min_rate, pacing.line_bps(tx.ps_per_byte_q20) // 50)
    tx.min_window = min(min_bps * (tx.t_ps / PS_BITS), tx.max_window)
    tx.w_ai = float(par.w_ai)
    if par.w_ai < 0:
        tx.w_ai = par.ai_share * tx.max_window
    tx.window = tx.max_window
    tx.reference = tx.max_window
    tx.load = 1.0
    tx.rate_bps = rate_bps(tx)


def rate_bps(tx):
    return int(tx.window * PS_BITS / tx.t_ps)


def ready(env, now, tx):
    if (
        not go_back_n.has_data(tx)
        or go_back_n.outstanding(tx) * full_packet_bytes(env) >= tx.window
    ):
        return BLOCKED
    return tx.next_send_ps


def build_packet(env, now, tx, pkt):
    seq = go_back_n.take(tx)
    pkt.seq = seq
    pacing.sent(tx, now, wire_bytes(env, tx, seq), tx.rate_bps)
    if not armed(env, tx, RTO):
        go_back_n.restart_timer(env, now, tx, RTO)


def on_data(env, now, rx, pkt):
    kind = go_back_n.accept(env, now, rx, pkt, env.par.ack_every)
    if kind > 0:
        n_notes = min(int(pkt.hops) - 1, MAX_HOPS)
        ack = send(env, rx, kind, rx.expected, n_notes, rx.ack_class)
        for hop in range(n_notes):
            ack.notes[hop] = pkt.notes[hop]


def on_control(env, now, tx, pkt):
    expected = int(pkt.seq)
    is_nack = int(pkt.kind) == NACK
    newly = go_back_n.acknowledge(tx, expected, is_nack)
    if go_back_n.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)
        return
    if newly > 0 or is_nack:
        go_back_n.restart_timer(env, now, tx, RTO)
    old_bps = tx.rate_bps
    react(env.par, now, tx, pkt)
    tx.rate_bps = rate_bps(tx)
    pacing.change_rate(tx, full_packet_bytes(env), old_bps, tx.rate_bps)


def react(par, now, tx, pkt):
    """Set the window after an acknowledgment: NewACK of the paper."""
    renew = int(pkt.seq) > tx.update_seq
    if measure_load(tx, now, pkt) and (renew or par.per_ack):
        set_window(par, tx, renew)
    if renew:
        tx.update_seq = tx.next_seq


def measure_load(tx, now, pkt):
    """Update U from an acknowledgment's records; return whether they could be compared."""
    n_notes = int(pkt.aux)
    comparable = n_notes > 0 and n_notes == tx.n_notes and now - tx.heard_ps < FORGET_PS
    busiest = 0.0
    tau_ticks = 0
    for hop in range(n_notes):
        new, old = int(pkt.notes[hop]), tx.notes[hop]
        tx.notes[hop] = new
        if comparable:
            ticks = max(1, ((new >> TIME_SHIFT) - (old >> TIME_SHIFT)) & CLOCK_MASK)
            busy_ticks = ((new >> BUSY_SHIFT) - (old >> BUSY_SHIFT)) & CLOCK_MASK
            queue_ticks = min(new & QUEUE_MASK, old & QUEUE_MASK) << QUEUE_STEP_LOG2
            load = busy_ticks / ticks + (queue_ticks << TICK_PS_LOG2) / tx.t_ps
            if load > busiest:
                busiest = load
                tau_ticks = ticks
    tx.n_notes = n_notes
    tx.heard_ps = now
    if comparable:
        weight = min(1.0, (tau_ticks << TICK_PS_LOG2) / tx.t_ps)
        tx.load = (1.0 - weight) * tx.load + weight * busiest
    return comparable


def set_window(par, tx, renew):
    """Set W from W^c and U; ``renew`` makes it the new W^c."""
    multiplicative = tx.load >= par.eta or tx.stage >= par.max_stage
    window = tx.reference + tx.w_ai
    if multiplicative:
        window = tx.reference / (tx.load / par.eta) + tx.w_ai
    tx.window = min(max(window, tx.min_window), tx.max_window)
    if renew:
        tx.reference = tx.window
        tx.stage = 0 if multiplicative else tx.stage + 1


def on_timer(env, now, tx, k):
    go_back_n.rewind(tx)
    go_back_n.restart_timer(env, now, tx, RTO)
