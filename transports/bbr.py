"""BBR (version 1): paces at the measured bottleneck bandwidth instead of filling queues until loss.

Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016, and
draft-cardwell-iccrg-bbr-congestion-control-00, whose names and section numbers are used here. Loss
detection and retransmission are TCP's (blocks.tcp).

Model (4.1): BtlBw is the maximum delivery rate of the last 10 round trips, RTprop the minimum
round-trip time of the last 10 s. Control (4.2): packets are paced at pacing_gain * BtlBw, with at
most cwnd_gain * BtlBw * RTprop in flight. States (4.3): Startup doubles the rate every round trip
until BtlBw has not grown by 25 % for three round trips. Drain removes the resulting queue. ProbeBW
paces at 5/4 of BtlBw for one RTprop, at 3/4 for one, then at BtlBw for six. ProbeRTT keeps 4
packets in flight for 200 ms when RTprop is 10 s old.

Random loss p does not stop BBR, but costs more than the lost packets. BtlBw is the rate at which
packets arrive, and over a cycle BBR sends at that rate. Loss behind a bottleneck of rate C leaves
BtlBw = C (1 - p), of which 1 - p arrives: C (1 - p)^2. With loss ahead of the bottleneck, where
emulators drop packets, BtlBw is C, and C (1 - p) arrives, as in the article's figure 8. Packet
conservation in the first round trip of recovery, as in Linux, costs another 2 % at a loss of 5 %,
and 7 % at 15 %.

The startup gain is 2/ln 2 = 2.885 as in the article, draft -00 and Linux. 4 ln 2 = 2.77 is version
2's (drafts -01 and -02). Packets leave one by one: the send quantum (4.2.2) is 1.
"""

from netsim.blocks import delivery_rate, pacing, tcp
from netsim.params import Param
from netsim.transport import BLOCKED, INF, below, full_packet_bytes, rand32

PARAMS = [
    *tcp.PARAMS,
    Param(
        "startup_gain",
        "ratio",
        2.885,
        "gain of pacing and window in Startup; Drain paces at the inverse",
        source="draft -00, BBRHighGain = 2/ln 2",
        minimum=1.0,
    ),
    Param("cwnd_gain", "ratio", 2.0, "gain of the window in ProbeBW", source="draft -00, 4.3.4.3"),
    Param("min_rtt_window", "time", "10s", "age of RTprop that starts ProbeRTT", source="4.1.2"),
    Param("probe_rtt_time", "time", "200ms", "minimum time in ProbeRTT", source="draft -00, 4.3.5"),
]

FABRIC = {
    "queue_discipline": "drop_tail",
    "routing": "ecmp",
    "n_traffic_classes": 1,
    "queue_bytes": "1000pkt",
}

STARTUP, DRAIN, PROBE_BW, PROBE_RTT = 0, 1, 2, 3
CYCLE = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
MIN_PIPE_CWND = 4
QUANTA = 3
FIRST_PHASE = 64  # purpose of its random number

PACKET_FIELDS = (*tcp.PACKET_FIELDS, *delivery_rate.PACKET_FIELDS)
TX_STATE = (
    *tcp.TX_STATE,
    *pacing.TX_STATE,
    *delivery_rate.TX_STATE,
    "state",
    ("pacing_gain", float),
    ("cwnd_gain", float),
    "pacing_bps",
    "rtprop_ps",
    "rtprop_stamp_ps",
    "filled_pipe",
    "full_bw_bps",
    "full_bw_count",
    "cycle_stamp_ps",
    "cycle_index",
    "probe_rtt_done_ps",
    "probe_rtt_round_done",
    ("prior_cwnd", float),
    "packet_conservation",
)
RX_STATE = tcp.RX_STATE
TX_TIMERS = tcp.TX_TIMERS
TX_BITMAPS = tcp.TX_BITMAPS
RX_BITMAPS = tcp.RX_BITMAPS


def setup(env, tx, rx):
    tcp.setup(env, tx, rx)


def on_start(env, now, tx):
    tx.rtprop_ps = INF
    tx.rtprop_stamp_ps = now
    enter_startup(env, tx)
    # Before any measurement: the initial window per nominal round trip of 1 ms (4.2.1).
    tx.pacing_bps = int(tx.pacing_gain * tx.cwnd * full_packet_bytes(env) * 8 * 1000)


def ready(env, now, tx):
    if tcp.may_send(tx):
        return tx.next_send_ps
    return BLOCKED


def build_packet(env, now, tx, pkt):
    delivery_rate.stamp(tx, now, pkt, tx.n_acked, tcp.in_flight(tx))
    tcp.take(env, now, tx, pkt)
    pacing.sent(tx, now, full_packet_bytes(env), tx.pacing_bps)


def on_data(env, now, rx, pkt):
    delivery_rate.echo(pkt, tcp.on_data(env, now, rx, pkt))


def on_control(env, now, tx, pkt):
    prior_in_flight = tcp.in_flight(tx)
    was_in_recovery = tx.in_recovery
    events = tcp.acknowledge(env, now, tx, pkt)
    if events & tcp.DONE:
        return
    tx.round_start = 0
    if tx.newly_acked > 0:
        update_btl_bw(env, now, tx, pkt)
    if tx.state == PROBE_BW and is_next_cycle_phase(env, now, tx, prior_in_flight):
        advance_cycle_phase(now, tx)
    check_drain(env, now, tx)
    check_probe_rtt(env, now, tx, update_rtprop(env, now, tx))
    set_pacing_rate(tx)
    recover(tx, events, was_in_recovery)
    set_cwnd(env, tx)


def on_timer(env, now, tx, k):
    was_in_recovery = tx.in_recovery
    tx.newly_acked = 0
    recover(tx, tcp.on_timer(env, now, tx, k), was_in_recovery)


# -- 4.1: the model of the path ------------------------------------------------------------------


def update_btl_bw(env, now, tx, ack):
    n_bytes = full_packet_bytes(env)
    delivery_rate.update(tx, now, ack, n_bytes, tx.n_acked, tx.last_rtt_ps, tx.min_rtt_ps)
    if tx.round_start == 1:
        tx.packet_conservation = 0
        if tx.filled_pipe == 0 and int(ack.was_limited) == 0:
            check_full_pipe(tx)


def check_full_pipe(tx):
    if tx.max_bps >= tx.full_bw_bps * 1.25:
        tx.full_bw_bps = tx.max_bps
        tx.full_bw_count = 0
        return
    tx.full_bw_count += 1
    if tx.full_bw_count >= 3:
        tx.filled_pipe = 1


def update_rtprop(env, now, tx):
    """Update RTprop; return whether the old value had expired."""
    expired = now > tx.rtprop_stamp_ps + env.par.min_rtt_window
    if tx.last_rtt_ps <= tx.rtprop_ps or expired:
        tx.rtprop_ps = tx.last_rtt_ps
        tx.rtprop_stamp_ps = now
    return expired


def inflight(env, tx, gain):
    """Return the packets in ``gain`` bandwidth-delay products (4.2.3.2)."""
    if tx.rtprop_ps == INF:
        return env.par.initial_window
    return int(gain * tx.max_bps * tx.rtprop_ps / (8e12 * full_packet_bytes(env))) + QUANTA


# -- 4.2: control --------------------------------------------------------------------------------


def set_pacing_rate(tx):
    bps = int(tx.pacing_gain * tx.max_bps)
    if bps > tx.pacing_bps or (tx.filled_pipe == 1 and bps > 0):
        tx.pacing_bps = bps


def save_cwnd(tx, in_recovery):
    """Save the window before recovery or ProbeRTT reduces it."""
    if in_recovery > 0 or tx.state == PROBE_RTT:
        tx.prior_cwnd = max(tx.prior_cwnd, tx.cwnd)
    else:
        tx.prior_cwnd = tx.cwnd


def recover(tx, events, was_in_recovery):
    """Send only as much as is delivered in recovery's first round; restore the window at its
    end."""
    if events & tcp.EXIT:
        tx.cwnd = max(tx.cwnd, tx.prior_cwnd)
        tx.packet_conservation = 0
    if events & tcp.ENTER:
        save_cwnd(tx, 0)
        tx.cwnd = float(tcp.in_flight(tx) + max(tx.newly_acked, 1))
        tx.packet_conservation = 1
        delivery_rate.start_round(tx, tx.n_acked)
    if events & tcp.TIMEOUT:
        save_cwnd(tx, was_in_recovery)
        tx.cwnd = 1.0
        tx.packet_conservation = 0


def set_cwnd(env, tx):
    if tx.newly_lost > 0:
        tx.cwnd = max(tx.cwnd - tx.newly_lost, 1.0)
    if tx.packet_conservation == 1:
        tx.cwnd = max(tx.cwnd, float(tcp.in_flight(tx) + tx.newly_acked))
    else:
        target = float(inflight(env, tx, tx.cwnd_gain))
        if tx.filled_pipe == 1:
            tx.cwnd = min(tx.cwnd + tx.newly_acked, target)
        elif tx.cwnd < target or tx.n_acked < env.par.initial_window:
            tx.cwnd += tx.newly_acked
        tx.cwnd = max(tx.cwnd, float(MIN_PIPE_CWND))
    if tx.state == PROBE_RTT:
        tx.cwnd = min(tx.cwnd, float(MIN_PIPE_CWND))


# -- 4.3: states ---------------------------------------------------------------------------------


def enter_startup(env, tx):
    tx.state = STARTUP
    tx.pacing_gain = env.par.startup_gain
    tx.cwnd_gain = env.par.startup_gain


def check_drain(env, now, tx):
    if tx.state == STARTUP and tx.filled_pipe == 1:
        tx.state = DRAIN
        tx.pacing_gain = 1.0 / env.par.startup_gain
    if tx.state == DRAIN and tcp.in_flight(tx) <= inflight(env, tx, 1.0):
        enter_probe_bw(env, now, tx)


def enter_probe_bw(env, now, tx):
    """Start the cycle in a random phase other than 3/4."""
    tx.state = PROBE_BW
    tx.cwnd_gain = env.par.cwnd_gain
    draw = rand32(env.par.seed, FIRST_PHASE, tx.flow, tx.round_count)
    tx.cycle_index = len(CYCLE) - 1 - below(draw, len(CYCLE) - 1)
    advance_cycle_phase(now, tx)


def advance_cycle_phase(now, tx):
    tx.cycle_stamp_ps = now
    tx.cycle_index = (tx.cycle_index + 1) % len(CYCLE)
    tx.pacing_gain = CYCLE[tx.cycle_index]


def is_next_cycle_phase(env, now, tx, prior_in_flight):
    is_full_length = now - tx.cycle_stamp_ps > tx.rtprop_ps
    if tx.pacing_gain > 1.0:
        is_probed = prior_in_flight >= inflight(env, tx, tx.pacing_gain)
        return is_full_length and (tx.newly_lost > 0 or is_probed)
    if tx.pacing_gain < 1.0:
        return is_full_length or prior_in_flight <= inflight(env, tx, 1.0)
    return is_full_length


def check_probe_rtt(env, now, tx, rtprop_expired):
    if tx.state != PROBE_RTT and rtprop_expired:
        save_cwnd(tx, tx.in_recovery)
        tx.state = PROBE_RTT
        tx.pacing_gain = 1.0
        tx.cwnd_gain = 1.0
        tx.probe_rtt_done_ps = 0
    if tx.state != PROBE_RTT:
        return
    delivery_rate.limit(tx, tx.n_acked, tcp.in_flight(tx))
    if tx.probe_rtt_done_ps == 0:
        if tcp.in_flight(tx) <= MIN_PIPE_CWND:
            tx.probe_rtt_done_ps = now + env.par.probe_rtt_time
            tx.probe_rtt_round_done = 0
            delivery_rate.start_round(tx, tx.n_acked)
        return
    if tx.round_start == 1:
        tx.probe_rtt_round_done = 1
    if tx.probe_rtt_round_done == 1 and now > tx.probe_rtt_done_ps:
        tx.rtprop_stamp_ps = now
        tx.cwnd = max(tx.cwnd, tx.prior_cwnd)
        if tx.filled_pipe == 1:
            enter_probe_bw(env, now, tx)
        else:
            enter_startup(env, tx)
