"""Shared by NSCC and RCCC: Ultra Ethernet's loss recovery, and NSCC's window.

Paths are chosen as in `paths`, receivers acknowledge as in `reports`, and lost packets are resent.
A trimmed packet is refused with a NACK, which copies its flag ``TRIMMED_AT_LAST_HOP``. The window
is ``tx.cwnd_bytes``; it does not change if a transport passes ``adjusts`` False.

    PARAMS = [*ultra_ethernet.PARAMS, ultra_ethernet.last_hop_trims("good"), ...]
    TX_STATE = (*ultra_ethernet.TX_STATE, ...)

    def setup(env, tx, rx):
        ultra_ethernet.setup(env, tx)

A transport's handlers call the functions with the same names. The rules are from Ultra Ethernet's
simulator, repository ultraethernet/uet-htsim, sim/uec.cpp; `transports/nscc.py` says more.
"""

from netsim.blocks import paths, reports, rto, rtt, selective, timeouts
from netsim.params import Param
from netsim.transport import (
    ECN_ECHO,
    NACK,
    TRIMMED_AT_LAST_HOP,
    bit_get,
    finish,
    full_packet_bytes,
    send,
)

RTO_PS, RTO_ROUND_TRIPS = 100 * rto.US, 6


WINDOW_PARAMS = [
    Param(
        "target_delay", "ratio", 0.75, "target queueing, in base round trips; 1 without trimming"
    ),
    Param("initial_window", "ratio", 1.5, "first and largest window, in bandwidth-delay products"),
    Param("first_window", "bytes", None, "first window, if smaller than the largest"),
    Param(
        "base_rtt", "time", None, "longest base round trip of the network; default: the path's own"
    ),
    Param("proportional_increase", "ratio", 4.0, "payloads per window and 12 us below the target"),
    Param("fair_increase", "ratio", 5.0, "payloads added per window without marks"),
    Param("fast_increase", "ratio", 0.25, "bytes added per byte acknowledged without queue"),
    Param("eta", "ratio", 0.15, "payloads always added once per round trip"),
    Param("gamma", "fraction", 0.8, "strength of the decrease"),
    Param("delay_gain", "fraction", 0.0125, "weight of the newest delay in the average"),
    Param("quick_adapt_share", "fraction", 0.125, "quick adapt if less of the window is delivered"),
    Param("ack_bytes", "bytes", "16KiB", "bytes on the wire that one acknowledgment covers"),
    Param(
        "rules",
        "choice",
        "2025",
        "rules of Ultra Ethernet's simulator for windows and for RCCC's pull rate: those of 2025, "
        "which the specification has, or of August 2024",
        choices=("2025", "2024"),
    ),
    rto.param(RTO_PS, round_trips=RTO_ROUND_TRIPS),
]


def ack_report_param(default):
    """Return the parameter that says which arrivals free the window."""
    return Param(
        "ack_report",
        "choice",
        default,
        "arrivals that free the window: of 32 packets around the acknowledged one, or all",
        choices=("block", "all"),
    )


PARAMS = [*paths.PARAMS, *WINDOW_PARAMS, ack_report_param("block")]


def last_hop_trims(default):
    """Return the parameter for trims at the last hop."""
    return Param(
        "last_hop_trims",
        "choice",
        default,
        "a trim at the last hop tells the choice of paths nothing, or that its path is good",
        choices=("ignored", "good"),
    )


CONTROL, DATA_CLASS = 0, 1
REFERENCE_PS = 12_000_000
REFERENCE_BYTES = 150_000
"""Round trip and bandwidth-delay product, at 100 Gbps, of the network for which gains are given."""
NO_QUEUE_PS = 1_000_000  # delay below which a packet counts as unqueued
MAX_ASKED = 4 * 10**18
ADJUST_PACKETS = 8  # increases take effect when this many packets have been acknowledged
ADJUST_2024_BYTES = 8000  # the same by the rules of 2024, and the largest increase
RULES_2024 = 1  # choice of rules
ALL = 1  # choice of ack_report
GOOD = 1  # choice of last_hop_trims

WINDOW_STATE = (
    *selective.TX_STATE,
    *timeouts.TX_STATE,
    "network_ps",  # base round trip that target and gains are scaled by
    "network_bytes",  # its bandwidth-delay product
    "base_ps",  # base round trip that delays are measured from
    "n_arrived",  # packets known to have arrived
    "target_ps",  # target queueing delay
    "cwnd_bytes",
    "largest_bytes",  # maximum window
    "increase",  # pending increase times the window, square bytes
    "unadjusted_bytes",  # acknowledged since increases took effect
    "adjusted_ps",
    "decreased_ps",
    "eta_ps",  # when eta was last added, by the rules of 2024
    ("delay_ps", float),  # moving average
    "free_bytes",  # acknowledged in a row without queueing
    "growing",  # 1 during the fast increase
    "period_bytes",  # acknowledged in the current period of quick adapt
    "period_end_ps",
    "lost",  # a packet was trimmed or timed out since the last quick adapt
    "to_ignore_bytes",  # in flight at the last quick adapt
    "heard_bytes",  # acknowledged or lost since then
)
TX_STATE = (*paths.TX_STATE, *WINDOW_STATE)
PACKET_FIELDS = reports.PACKET_FIELDS
RX_STATE = reports.RX_STATE
TX_TIMERS = 1
TX_BITMAPS = selective.TX_BITMAPS
RX_BITMAPS = selective.RX_BITMAPS


def setup(env, tx):
    tx.prio = DATA_CLASS
    tx.rto_ps = rto.of_path(env.par.rto, RTO_PS, tx, RTO_ROUND_TRIPS)
    tx.network_ps = tx.base_rtt_ps
    tx.network_bytes = tx.bdp_bytes
    if env.par.base_rtt >= 0:
        tx.network_ps = env.par.base_rtt
        tx.network_bytes = int(tx.bdp_bytes * (tx.network_ps / tx.base_rtt_ps))
    tx.target_ps = int(env.par.target_delay * tx.network_ps)
    set_base(env, tx, tx.network_ps, tx.network_bytes)
    tx.cwnd_bytes = tx.largest_bytes
    if env.par.first_window >= 0:
        tx.cwnd_bytes = bound(env, tx, env.par.first_window)


def set_base(env, tx, base_ps, bdp_bytes):
    tx.base_ps = base_ps
    tx.largest_bytes = max(int(env.par.initial_window * bdp_bytes), full_packet_bytes(env))


def lower_base(env, tx, round_trip_ps):
    """Lower a base round trip, initially the network's longest, to a measured one."""
    if env.par.base_rtt >= 0 and round_trip_ps < tx.base_ps:
        set_base(env, tx, round_trip_ps, int(tx.bdp_bytes * (round_trip_ps / tx.base_rtt_ps)))


def start(now, tx):
    tx.adjusted_ps = now
    tx.decreased_ps = now


def in_flight(env, tx):
    """Return how many packets are sent and neither known to have arrived nor to be lost."""
    if env.par.ack_report == ALL:
        return tx.next_seq - tx.n_arrived - tx.n_rtx
    return selective.outstanding(tx)


def fits(env, tx):
    """Return whether there is a packet to send that fits the window."""
    window = in_flight(env, tx) * full_packet_bytes(env) + room(env)
    return selective.has_data(tx) and window <= tx.cwnd_bytes


def room(env):
    """Return how much of the window must be free for a packet."""
    return 1 if env.par.rules == RULES_2024 else full_packet_bytes(env)


def is_full(env, tx):
    """Return whether another packet would fill the window or exceed it."""
    return in_flight(env, tx) * full_packet_bytes(env) + room(env) >= tx.cwnd_bytes


def build_packet(env, now, tx, pkt):
    """Build a packet; the last packet that may be sent also asks for an ACK."""
    take(env, now, tx, pkt)
    pkt.entropy = paths.next_entropy(env, tx)


def take(env, now, tx, pkt):
    """Build a packet, except for its entropy."""
    again = tx.n_rtx > 0
    pkt.seq = selective.take(env, tx)
    pkt.aux = rtt.timestamp(now)
    if again or tx.next_seq == tx.n_packets:
        pkt.report = reports.ASK
    timeouts.on_send(env, now, tx)


def on_data(env, now, rx, pkt):
    paths.answer(env, rx, pkt)
    if reports.on_data(env, now, rx, pkt, env.par.ack_bytes):
        reports.acknowledge(env, rx, pkt, CONTROL, env.par.ack_report)


def on_trimmed(env, rx, pkt):
    paths.answer(env, rx, pkt)
    if bit_get(env, rx, selective.GOT, int(pkt.seq)) == 1:
        reports.acknowledge(env, rx, pkt, CONTROL, env.par.ack_report)
    else:
        nack = send(env, rx, NACK, int(pkt.seq), int(pkt.aux), CONTROL)
        nack.entropy = int(pkt.entropy)
        nack.ecn = int(pkt.ecn) & TRIMMED_AT_LAST_HOP


def on_control(env, now, tx, pkt, adjusts, cuts_at_last_hop=True):
    """Process an ACK or NACK. Trims at the last hop cut the window if ``cuts_at_last_hop``."""
    entropy = int(pkt.entropy)
    if int(pkt.kind) == NACK:
        if refused(env, now, tx, pkt, adjusts, cuts_at_last_hop):
            at_last_hop = int(pkt.ecn) & TRIMMED_AT_LAST_HOP != 0
            good = at_last_hop and env.par.last_hop_trims == GOOD
            paths.trimmed(env, now, tx, entropy, good)
    else:
        paths.acknowledged(env, now, tx, entropy, int(pkt.ecn) & ECN_ECHO != 0)
        acknowledged(env, now, tx, pkt, adjusts)


def refused(env, now, tx, pkt, adjusts, cuts_at_last_hop):
    """Process a NACK; return whether the packet now needs a retransmission."""
    seq = int(pkt.seq)
    timeouts.on_refused(env, now, tx, seq)
    if not selective.lose(env, tx, seq):
        return False
    if env.par.rules != RULES_2024:
        lower_base(env, tx, rtt.elapsed_ps(now, int(pkt.aux)))
    if adjusts:
        at_last_hop = int(pkt.ecn) & TRIMMED_AT_LAST_HOP != 0
        after_trim(env, now, tx, cuts_at_last_hop or not at_last_hop)
    return True


def learn(env, now, tx, pkt):
    """Record what an ACK reports, and finish the flow if that is all. Return how many more bytes
    have arrived."""
    n_bytes = reports.read(env, tx, pkt, tx.oldest, env.par.ack_report) * full_packet_bytes(env)
    if env.par.ack_report == ALL:
        n_bytes = reports.count_arrived(tx, pkt) * full_packet_bytes(env)
    timeouts.on_acknowledged(env, now, tx)
    if selective.is_done(tx):
        finish(env, now, tx)
    return n_bytes


def acknowledged(env, now, tx, pkt, adjusts):
    """Process an ACK, except for path selection."""
    n_bytes = learn(env, now, tx, pkt)
    if selective.is_done(tx):
        return
    round_trip_ps = rtt.elapsed_ps(now, int(pkt.aux))
    lower_base(env, tx, round_trip_ps)
    if adjusts:
        marked = int(pkt.ecn) & ECN_ECHO != 0
        adjust_window(env, now, tx, marked, max(round_trip_ps - tx.base_ps, 0), n_bytes)


def bound(env, tx, cwnd_bytes):
    return min(max(cwnd_bytes, full_packet_bytes(env)), tx.largest_bytes)


def adjust_window(env, now, tx, marked, delay_ps, n_bytes):
    """Process an ACK: ``n_bytes`` more have arrived, the last with this queueing delay."""
    scale = tx.network_bytes / REFERENCE_BYTES * env.par.payload_bytes
    if not marked and delay_ps > tx.target_ps:
        average_delay(env, tx, tx.base_ps * 0.25)
    else:
        average_delay(env, tx, float(delay_ps))
    tx.period_bytes += n_bytes
    tx.heard_bytes += n_bytes
    tx.unadjusted_bytes += n_bytes
    old = env.par.rules == RULES_2024
    long_ps = tx.delay_ps if old else float(delay_ps)
    if quick_adapt(env, now, tx, long_ps > 4 * tx.target_ps, marked):
        return
    if marked and delay_ps >= tx.target_ps:
        decrease(env, now, tx)
    elif not marked and delay_ps >= tx.target_ps:
        ask(tx, env.par.fair_increase * scale * n_bytes)
    elif not marked and not increase_fast(env, tx, delay_ps, n_bytes):
        missing = (tx.target_ps - delay_ps) / REFERENCE_PS
        ask(tx, env.par.proportional_increase * scale * missing * n_bytes)
        if old:
            ask(tx, env.par.fair_increase * scale * n_bytes)
    tx.cwnd_bytes = bound(env, tx, tx.cwnd_bytes)
    if old:
        increase_2024(env, now, tx, scale)
    else:
        increase(env, now, tx, scale)
    tx.cwnd_bytes = bound(env, tx, tx.cwnd_bytes)


def increase(env, now, tx, scale):
    """Let the pending increase take effect, every few packets or after a base round trip."""
    due = now - tx.adjusted_ps > tx.network_ps
    if due or tx.unadjusted_bytes > ADJUST_PACKETS * full_packet_bytes(env):
        tx.cwnd_bytes += tx.increase // tx.cwnd_bytes
        if now - tx.adjusted_ps >= tx.network_ps:
            tx.cwnd_bytes += int(env.par.eta * scale)
            tx.adjusted_ps = now
        tx.increase = 0
        tx.unadjusted_bytes = 0


def increase_2024(env, now, tx, scale):
    """Apply part of the pending increase, and add eta at separate times."""
    due = now - tx.adjusted_ps > REFERENCE_PS
    if due or tx.unadjusted_bytes > ADJUST_2024_BYTES:
        tx.cwnd_bytes += min(tx.increase // tx.cwnd_bytes, ADJUST_2024_BYTES)
        tx.adjusted_ps = now
        tx.increase = 0
        tx.unadjusted_bytes = 0
    if now - tx.eta_ps > REFERENCE_PS:
        tx.cwnd_bytes += int(env.par.eta * scale)
        tx.eta_ps = now


def ask(tx, square_bytes):
    """Add to the pending increase, up to half an int64, enough for paths of seconds."""
    tx.increase = min(tx.increase + int(min(square_bytes, MAX_ASKED)), MAX_ASKED)


def average_delay(env, tx, delay_ps):
    tx.delay_ps += env.par.delay_gain * (delay_ps - tx.delay_ps)


def increase_fast(env, tx, delay_ps, n_bytes):
    """Grow if a whole window of packets in a row met no queue. Return whether it did."""
    if delay_ps >= NO_QUEUE_PS:
        tx.free_bytes = 0
        tx.growing = 0
        return False
    tx.free_bytes += n_bytes
    if tx.free_bytes > tx.cwnd_bytes or tx.growing == 1:
        tx.growing = 1
        tx.cwnd_bytes += int(env.par.fast_increase * tx.network_bytes / REFERENCE_BYTES * n_bytes)
    return tx.growing == 1


def decrease(env, now, tx):
    """Shrink once per round trip by the average delay's excess over the target, at most by half."""
    tx.growing = 0
    tx.free_bytes = 0
    if tx.delay_ps > tx.target_ps and now - tx.decreased_ps > tx.base_ps:
        factor = max(1 - env.par.gamma * (tx.delay_ps - tx.target_ps) / tx.delay_ps, 0.5)
        tx.cwnd_bytes = max(int(tx.cwnd_bytes * factor), full_packet_bytes(env))
        tx.decreased_ps = now


def quick_adapt(env, now, tx, congested, marked):
    """Once per period, set the window to the bytes delivered, if they were few. Returns whether to
    leave the window alone: it was just set, or the packets now reported may be older."""
    acts = False
    old = env.par.rules == RULES_2024
    if marked and tx.heard_bytes < tx.to_ignore_bytes:
        acts = True
    elif now > tx.period_end_ps:
        little = tx.period_bytes < env.par.quick_adapt_share * tx.largest_bytes
        if old and tx.cwnd_bytes < tx.period_bytes:
            little = False
        if tx.period_end_ps > 0 and (tx.lost == 1 or congested) and little:
            tx.cwnd_bytes = max(tx.period_bytes, full_packet_bytes(env))
            tx.to_ignore_bytes = in_flight(env, tx) * full_packet_bytes(env)
            tx.heard_bytes = 0
            tx.lost = 0
            acts = True
        if not (old and acts):
            tx.period_bytes = 0
            tx.period_end_ps = now + tx.base_ps + tx.target_ps
    if acts and not old:
        tx.increase = 0
        tx.unadjusted_bytes = 0
    return acts


def after_trim(env, now, tx, cuts):
    """Treat a trimmed packet as one delayed by a full queue of one round trip."""
    if env.par.rules == RULES_2024:
        tx.cwnd_bytes = bound(env, tx, tx.cwnd_bytes - full_packet_bytes(env))
        tx.lost = 1
        quick_adapt(env, now, tx, True, True)
        return
    tx.heard_bytes += full_packet_bytes(env)
    average_delay(env, tx, float(tx.network_ps))
    tx.lost = 1
    if not quick_adapt(env, now, tx, True, True) and cuts:
        tx.cwnd_bytes = bound(env, tx, tx.cwnd_bytes - full_packet_bytes(env))


def on_timer(env, now, tx):
    paths.timed_out(env, now, tx)
    repair_all(env, now, tx)


def repair_all(env, now, tx):
    """Process a timeout, except for path selection."""
    lost = timeouts.on_timer(env, now, tx)
    tx.cwnd_bytes = bound(env, tx, tx.cwnd_bytes - lost * full_packet_bytes(env))
