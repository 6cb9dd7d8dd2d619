"""RCCC: Ultra Ethernet's receiver credits, alone or together with NSCC's window.

A sender starts with credit for a window, which lasts until it hears from the receiver. Every data
packet carries the total credit that its sender wants (the target). A receiving host paces pulls,
each with credit for up to `pull_bytes`, at a little less than its link's rate: round-robin among
flows below their target or, if there are none, among the others, up to a window beyond their
target. A packet may be sent while credit is above zero. Trimmed packets are refused, and sent again
before all others when credit allows it. After a timeout a sender that may not send asks for credit.

With `idle_requests = false`, as in the simulator, it asks only if packets are outstanding: a short
flow to a host with long flows, with all its packets trimmed or delivered, may wait for their end.
These rules were not checked against the text of the specification.

With `sender_window`, NSCC's window also limits a sender; a trim at the last hop does not shrink it,
since credits prevent more. With `oversubscription` above 1, a host without `sender_window` adapts
its pull rate to marked and trimmed packets, every one and a half base round trips.

Part of the Ultra Ethernet Specification 1.0; rules and numbers are from its simulator, repository
ultraethernet/uet-htsim (sim/uec.cpp, sim/oversubscribed_cc.cpp). netsim/engine/MODEL.md defines
them to the picosecond. Queues are as for NSCC, but ports to hosts do not mark.
"""

from netsim.blocks import bdp_queues, reports, selective, timeouts, ultra_ethernet
from netsim.params import Param
from netsim.transport import (
    BLOCKED,
    ECN_CE,
    PULL,
    TRIMMED_AT_LAST_HOP,
    full_packet_bytes,
    host_timer_armed,
    or_default,
    rand32,
    send,
    serialization_ps,
    set_host_timer,
    wire_bytes,
)

PARAMS = [
    *ultra_ethernet.PARAMS,
    ultra_ethernet.last_hop_trims("good"),
    Param("sender_window", "bool", False, "limit senders by NSCC's window as well"),
    Param("credit_window", "bytes", None,
          "first and largest credit; default: initial_window bandwidth-delay products",
          minimum="1B", products="1.5bdp"),
    Param("pull_bytes", "bytes", "16KiB", "largest credit of a pull", minimum="256B"),
    Param("pull_rate", "fraction", 0.99, "rate of pulls, of the link's", minimum=0.01),
    Param("idle_requests", "bool", True,
          "after a timeout, ask for credit even if no packet is outstanding"),
    Param("oversubscription", "ratio", 1.0,
          "of the network; above 1 the pull rate adapts, if there is no sender_window",
          minimum=1.0),
]  # fmt: skip
PRESETS: dict[str, dict[str, object]] = {"100g": {}, "800g": {}}
FABRIC = {**bdp_queues.FABRIC, "ecn": {**bdp_queues.FABRIC["ecn"], "last_hop": False}}
PRESET_FABRIC = bdp_queues.PRESET_FABRIC

REQUEST = 2
QUANTUM = 256  # bytes per unit of credit; credit and targets count from the start of the flow
EMPTY_PULL = 4  # units whose time a pull without credit takes
WANTING, SATISFIED = 0, 1  # lists of a host's flows: below their target, and once at it
GOAL, SENSITIVITY, STEP, FASTEST = 0.3, 0.5, 0.01, 128.0
PERIOD_2024_PS, SENSITIVITY_2024, STEP_2024, LEAST_2024 = 18_000_000, 0.75, 0.05, 0.75
PURPOSE = 65  # purpose of the random numbers

TX_STATE = (
    *ultra_ethernet.TX_STATE,
    "credit_bytes",
    "most_credit_bytes",
    "pulled",  # quanta pulled so far
    "speculating",  # 1 until the receiver was heard from
    "may_send",  # counted in the host's n_senders
)
RX_STATE = (
    *ultra_ethernet.RX_STATE,
    "target",  # quanta wanted ...
    "granted",  # ... and granted so far
    "beyond",  # and that may be granted beyond the target
    "period_ps",  # of adapting the rate
    ("listed", 2),
    ("next_listed", 2),
)
HOST_STATE = (
    "n_senders",  # flows that may send now
    ("first", 2),
    ("last", 2),
    "next_pull_ps",
    "n_packets",  # received since the rate was adapted ...
    "n_marked",  # ... with a mark ...
    "n_trimmed",  # ... trimmed ...
    "n_trimmed_inside",  # ... and not at the last hop
    "n_periods",
    "period_ps",
    ("congestion", float),
    ("withheld", float),  # share of the pull rate that is not used
    ("growth", float),
)
PACKET_FIELDS = ultra_ethernet.PACKET_FIELDS
TX_TIMERS, HOST_TIMERS = 1, 2
PULLS, ADAPT = 0, 1
TX_BITMAPS = ultra_ethernet.TX_BITMAPS
RX_BITMAPS = ultra_ethernet.RX_BITMAPS
TRACE = ("next_seq", "credit_bytes", "pulled", "n_acked", "n_rtx", "target", "granted")


def setup(env, tx, rx):
    ultra_ethernet.setup(env, tx)
    tx.most_credit_bytes = or_default(env.par.credit_window, tx.largest_bytes)
    rx.beyond = tx.most_credit_bytes // QUANTUM
    rx.period_ps = tx.network_ps * 3 // 2
    if env.par.rules == ultra_ethernet.RULES_2024:
        rx.period_ps = PERIOD_2024_PS


# The sender.


def on_start(env, now, tx):
    ultra_ethernet.start(now, tx)
    tx.credit_bytes = tx.most_credit_bytes
    tx.speculating = 1
    note_sender(env, tx)


def allowed(env, tx):
    """Return whether there is a packet to send, and credit and window allow it."""
    if tx.credit_bytes <= 0 or not selective.has_data(tx):
        return False
    return env.par.sender_window == 0 or ultra_ethernet.fits(env, tx)


def note_sender(env, tx):
    """Update whether the flow counts among the host's flows that may send."""
    may_send = 1 if allowed(env, tx) else 0
    env.host.n_senders += may_send - tx.may_send
    tx.may_send = may_send


def ready(env, now, tx):
    return now if allowed(env, tx) else BLOCKED


def build_packet(env, now, tx, pkt):
    ultra_ethernet.build_packet(env, now, tx, pkt)
    tx.credit_bytes -= wire_bytes(env, tx, int(pkt.seq))
    full = env.par.sender_window == 1 and ultra_ethernet.is_full(env, tx)
    if full or tx.credit_bytes <= 0:
        pkt.report = reports.ASK
    pkt.report = int(pkt.report) | target(env, tx) << 1
    note_sender(env, tx)


def target(env, tx):
    """Return the total number of quanta that the sender wants to be pulled."""
    full = full_packet_bytes(env)
    new = tx.n_packets - tx.next_seq
    wanted = (new + tx.n_rtx) * full
    if new > 0:
        wanted -= full - wire_bytes(env, tx, tx.n_packets - 1)
    if env.par.sender_window == 1:
        wanted = min(wanted, tx.cwnd_bytes + full)
    wanted = min(wanted, tx.most_credit_bytes) - tx.credit_bytes
    if tx.speculating == 1 and new > 0:
        wanted = max(wanted, full)
    wanted = max(wanted, 0) // max(env.host.n_senders, 1)
    return tx.pulled + (wanted + QUANTUM - 1) // QUANTUM


def on_control(env, now, tx, pkt):
    end_speculation(tx)
    if int(pkt.kind) == PULL:
        granted = int(pkt.report)
        if granted > tx.pulled:
            more = (granted - tx.pulled) * QUANTUM
            tx.credit_bytes = min(tx.credit_bytes + more, tx.most_credit_bytes)
            tx.pulled = granted
    else:
        ultra_ethernet.on_control(env, now, tx, pkt, env.par.sender_window == 1, False)
    note_sender(env, tx)


def end_speculation(tx):
    if tx.speculating == 1:
        tx.speculating = 0
        tx.credit_bytes = min(tx.credit_bytes, 0)


def on_timer(env, now, tx, k):
    if env.par.idle_requests == 0 and selective.outstanding(tx) == 0:
        timeouts.watch(env, now, tx)
        return
    ultra_ethernet.on_timer(env, now, tx)
    if not allowed(env, tx):
        end_speculation(tx)
        request = send(env, tx, REQUEST, 0, 0, ultra_ethernet.CONTROL)
        request.report = target(env, tx) << 1
    note_sender(env, tx)


# The receiver.


def on_data(env, now, rx, pkt):
    count_received(env, now, rx)
    if int(pkt.ecn) & ECN_CE:
        env.host.n_marked += 1
    raise_target(env, now, rx, pkt)
    ultra_ethernet.on_data(env, now, rx, pkt)


def on_trimmed(env, now, rx, pkt):
    count_received(env, now, rx)
    env.host.n_trimmed += 1
    if int(pkt.ecn) & TRIMMED_AT_LAST_HOP == 0:
        env.host.n_trimmed_inside += 1
    raise_target(env, now, rx, pkt)
    want_pull(env, now, rx)
    ultra_ethernet.on_trimmed(env, rx, pkt)


def on_request(env, now, rx, pkt):
    raise_target(env, now, rx, pkt)
    want_pull(env, now, rx)


def raise_target(env, now, rx, pkt):
    wanted = int(pkt.report) >> 1
    if wanted > rx.target:
        rx.target = wanted
        want_pull(env, now, rx)


def want_pull(env, now, rx):
    """List the flow for a pull of the credit that it wants at that time."""
    append(env, rx, WANTING)
    set_host_timer(env, now, PULLS, max(now, env.host.next_pull_ps))


def append(env, rx, k):
    """Append a flow to list ``k`` unless it is in it."""
    host = env.host
    if rx.listed[k] == 1:
        return
    rx.listed[k] = 1
    rx.next_listed[k] = 0
    if host.first[k] == 0:
        host.first[k] = rx.flow + 1
    else:
        env.rx[host.last[k] - 1].next_listed[k] = rx.flow + 1
    host.last[k] = rx.flow + 1


def take_first(env, k):
    """Remove the first flow of list ``k``, which is not empty; return its number."""
    host = env.host
    rx = env.rx[host.first[k] - 1]
    rx.listed[k] = 0
    host.first[k] = rx.next_listed[k]
    return rx.flow


def on_host_timer(env, now, k):
    if k == ADAPT:
        adapt(env, now)
        return
    host = env.host
    most = env.par.pull_bytes // QUANTUM
    if host.first[WANTING] > 0:
        rx = env.rx[take_first(env, WANTING)]
        credit = min(most, max(rx.target - rx.granted, 0))
        rx.granted += credit
        if rx.target > rx.granted:
            append(env, rx, WANTING)
        else:
            append(env, rx, SATISFIED)
    else:
        rx = env.rx[take_first(env, SATISFIED)]
        credit = most
        rx.granted += credit
        if rx.granted - rx.target < rx.beyond:
            append(env, rx, SATISFIED)
    pull = send(env, rx, PULL, 0, 0, ultra_ethernet.CONTROL)
    pull.report = rx.granted
    if credit == 0:
        credit = EMPTY_PULL
    gap_ps = serialization_ps(credit * QUANTUM, host.ps_per_byte_q20)
    host.next_pull_ps = now + int(gap_ps / (env.par.pull_rate * (1.0 - host.withheld)))
    if host.first[WANTING] + host.first[SATISFIED] > 0:
        set_host_timer(env, now, PULLS, host.next_pull_ps)


# The receiver's rate in an oversubscribed network.


def count_received(env, now, rx):
    host = env.host
    host.n_packets += 1
    adapts = env.par.oversubscription > 1.0 and env.par.sender_window == 0
    if adapts and not host_timer_armed(env, ADAPT):
        # As if the host's periods had begun at time 0.
        host.period_ps = rx.period_ps
        end_ps = now - now % host.period_ps + about_a_period(env)
        if end_ps <= now:
            end_ps += host.period_ps
        set_host_timer(env, now, ADAPT, end_ps)


def about_a_period(env):
    """Return a random time around a period."""
    host = env.host
    draw = rand32(env.par.seed, PURPOSE, host.host, host.n_periods)
    host.n_periods += 1
    return int((0.75 + draw / 4294967296.0 / 2.0) * host.period_ps)


def adapt(env, now):
    """Adapt the pull rate to the marked and trimmed packets since the last time."""
    host = env.host
    idle = host.n_packets == 0
    whole = host.n_packets - host.n_trimmed
    share = host.n_marked / max(whole, 1)
    rate = 1.0 - host.withheld
    host.congestion = (host.congestion + share) / 2.0
    least = 0.9
    if env.par.rules == ultra_ethernet.RULES_2024:
        least = LEAST_2024
        if host.congestion > GOAL:
            rate *= 1.0 - (host.congestion - GOAL) * SENSITIVITY_2024
        else:
            rate += STEP_2024
    else:
        rate = adapted(host, rate)
    slowest = max(least / env.par.oversubscription, STEP)
    host.withheld = 1.0 - min(max(rate, slowest), 1.0)
    host.n_packets = 0
    host.n_marked = 0
    host.n_trimmed = 0
    host.n_trimmed_inside = 0
    if idle and host.withheld == 0.0:
        host.congestion = 0.0
    else:
        set_host_timer(env, now, ADAPT, now + about_a_period(env))


def adapted(host, rate):
    """Return the pull rate after this one, by the rules of 2025."""
    slower = False
    if host.n_trimmed_inside > 0:
        rate -= host.n_trimmed_inside / host.n_packets
        slower = True
    if host.congestion > GOAL:
        rate *= 1.0 - (host.congestion - GOAL) * SENSITIVITY
        slower = True
    growth = max(host.growth, 1.0)
    if slower:
        host.growth = 1.0
    else:
        rate += STEP * growth if host.n_marked == 0 else STEP
        host.growth = min(2.0 * growth, FASTEST)
    return rate
