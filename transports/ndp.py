"""NDP: first window at line rate, trimming, receiver-paced pulls, per-packet spraying.

Switches trim packets that do not fit to their headers, so the receiver learns of every packet
immediately. It acknowledges data and refuses a bare header (NACK). For either it sends a PULL, one
per packet time of its link, in round-robin order among its senders. Each pull lets the sender send
one packet, refused packets first. With `queue_discipline = "trim_return"` switches return headers
that do not fit in their queue.

Handley et al., "Re-architecting datacenter networks and stacks for low latency and high
performance", SIGCOMM 2017, sections 3.1 and 3.2.
"""

from netsim.blocks import rto, selective
from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    NACK,
    PULL,
    armed,
    cancel_timer,
    finish,
    full_packet_bytes,
    host_timer_armed,
    send,
    serialization_ps,
    set_host_timer,
    set_timer,
)

RTO_PS = 4 * rto.MS

PARAMS = [
    Param(
        "initial_window",
        "count",
        0,
        "packets sent unsolicited at the start, then kept in flight by pulls; "
        "0 is one and a half times the path's bandwidth-delay product",
        source="SIGCOMM 2017, section 3.2: enough to fill the pipe. One product alone does not, "
        "because pulls wait for others and queues add to the round trip",
        products="1.5bdp",
    ),
    rto.param(RTO_PS, "retransmission timeout, the last resort"),
]

CONTROL_PER_DATA = 2
KEEPS_RATE = True

FABRIC = {
    "queue_discipline": "trim",
    "routing": "spray_permutation",
    "plane_balancing": "permutation",
    "n_traffic_classes": 2,
    "queue_bytes": "1bdp+8pkt",
    "header_queue_bytes": "8bdp+1MB",
    "header_ratio": 10,
}

PRESETS: dict[str, dict[str, object]] = {"paper": {}, "htsim": {}, "800g": {}}

# The paper's queues hold eight packets of 9 KB (section 3.1), at 10 Gbps; the queues of its
# simulator, csg-htsim, hold eight packets at any rate. Where a bandwidth-delay product is 200
# packets (8 us at 800 Gbps) such queues would run empty while pulls are in flight, so the default
# adds that product. A lost header waits for the timeout: eight products hold the headers of 300
# senders' first windows.
PRESET_FABRIC = {
    "paper": {"queue_bytes": "72KB", "header_queue_bytes": "1MB"},
    "htsim": {"queue_bytes": "8pkt", "header_queue_bytes": "1MB"},
    "800g": {"queue_bytes": "200pkt", "header_queue_bytes": "1MB"},
}

CONTROL, DATA_CLASS = 0, 1

TX_STATE = (*selective.TX_STATE, "credit", "pulled", "n_nacks", "n_void")
RX_STATE = ("owed", "n_refused", "pull_no", "again_no", "awaits_pull", "next_puller")
HOST_STATE = ("pull_head", "pull_tail", "next_pull", "has_pulls")
TRACE = ("next_seq", "credit", "n_acked", "n_rtx", "owed")
TX_TIMERS = 1
HOST_TIMERS = 1
RTO, PULLS = 0, 0
TX_BITMAPS = selective.TX_BITMAPS
RX_BITMAPS = selective.RX_BITMAPS


def setup(env, tx, rx):
    tx.prio = DATA_CLASS


def on_start(env, now, tx):
    window = env.par.initial_window
    if window == 0:
        full = full_packet_bytes(env)
        window = (3 * tx.bdp_bytes // 2 + full - 1) // full
    tx.credit = min(window, tx.n_packets)


def ready(env, now, tx):
    if tx.credit > 0 and selective.has_data(tx):
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = selective.take(env, tx)
    tx.credit -= 1
    if not armed(env, tx, RTO):
        restart_timer(env, now, tx)


def restart_timer(env, now, tx):
    set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))


def on_control(env, now, tx, pkt):
    kind = int(pkt.kind)
    seq = int(pkt.seq)
    if kind == PULL:
        pull_no = int(pkt.aux)
        if pull_no > tx.pulled:
            # Pulls beyond the data to send are void, unless they overtook the NACKs they belong to.
            overtaken = max(0, seq - tx.n_nacks)
            tx.credit = min(tx.credit + pull_no - tx.pulled, selective.unsent(tx) + overtaken)
            tx.pulled = pull_no
        return
    if kind == ACK:
        selective.acknowledge(env, tx, seq)
        if selective.is_done(tx):
            cancel_timer(env, tx, RTO)
            finish(env, now, tx)
            return
    else:
        tx.n_nacks += 1
        selective.lose(env, tx, seq)
    restart_timer(env, now, tx)


def on_returned(env, now, tx, pkt):
    # The receiver does not know of the packet and will not pull for it. Another packet's pull sends
    # it again; if none is awaited, it is sent at once.
    tx.n_void += 1
    selective.lose(env, tx, int(pkt.seq))
    if tx.credit == 0 and tx.n_void + tx.pulled >= tx.sent_packets:
        tx.credit = 1
    restart_timer(env, now, tx)


def on_timer(env, now, tx, k):
    # Packets that were lost caused no pulls: allow as many again.
    tx.credit = max(tx.credit + selective.lose_outstanding(env, tx), 1)
    tx.n_void = tx.sent_packets - tx.pulled
    restart_timer(env, now, tx)


def on_data(env, now, rx, pkt):
    selective.accept(env, now, rx, pkt)
    send(env, rx, ACK, int(pkt.seq), 0, CONTROL)
    owe_pull(env, now, rx)


def on_trimmed(env, now, rx, pkt):
    send(env, rx, NACK, int(pkt.seq), 0, CONTROL)
    rx.n_refused += 1
    owe_pull(env, now, rx)


def owe_pull(env, now, rx):
    """Queue a pull for one more packet of this flow. A pull carries the number of pulls so far, and
    the number of pulls for refused packets."""
    if rx.done_ps >= 0:
        rx.owed = 0
        return
    rx.owed += 1
    host = env.host
    if rx.awaits_pull == 0:
        append_pull(env, rx)
    if not host_timer_armed(env, PULLS):
        set_host_timer(env, now, PULLS, max(now, host.next_pull))


def append_pull(env, rx):
    """Append a flow to the host's pull list."""
    host = env.host
    rx.awaits_pull = 1
    rx.next_puller = -1
    if host.has_pulls == 0:
        host.pull_head = rx.flow
    else:
        env.rx[host.pull_tail].next_puller = rx.flow
    host.pull_tail = rx.flow
    host.has_pulls = 1


def on_host_timer(env, now, k):
    host = env.host
    while host.has_pulls == 1:
        rx = env.rx[host.pull_head]
        rx.awaits_pull = 0
        if rx.next_puller >= 0:
            host.pull_head = rx.next_puller
        else:
            host.has_pulls = 0
        if rx.owed > 0:
            rx.owed -= 1
            rx.pull_no += 1
            if rx.again_no < rx.n_refused:
                rx.again_no += 1
            send(env, rx, PULL, rx.again_no, rx.pull_no, CONTROL)
            if rx.owed > 0:
                append_pull(env, rx)
            host.next_pull = now + serialization_ps(full_packet_bytes(env), host.ps_per_byte_q20)
            break
    if host.has_pulls == 1:
        set_host_timer(env, now, PULLS, host.next_pull)
