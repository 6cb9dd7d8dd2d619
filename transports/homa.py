"""Homa: short messages are sent immediately, long ones by receiver grants, with priorities.

A sender transmits the first RTTbytes of a message unscheduled. The receiver grants the rest, packet
by packet as data arrives, to the few messages with the fewest bytes left, at most one per sender.
Unscheduled packets use the higher classes, short messages the highest; granted packets use the
others, by their message's rank at the receiver. Senders also serve the message with the fewest
bytes left (SRPT).

Montazeri et al., "Homa: A Receiver-Driven Low-Latency Transport Protocol Using Network Priorities",
SIGCOMM 2018, section 3; where it is silent, the Linux implementation: Ousterhout, USENIX ATC 2021,
and PlatformLab/HomaModule.

A flow is one message without a response. A response would acknowledge it, so here the receiver
sends an ACK when all data has arrived. After a silence a receiver requests (RESEND) granted bytes
that it has not received. A sender that has not sent them, or only just did, replies BUSY. A sender
that hears nothing asks (NEED_ACK) and gets an ACK, or a RESEND if nothing has arrived.

While shorter messages are served, packets of a low class may wait in the last switch for longer
than a silence, although they are not lost. So, beyond the paper and Linux, a receiver sends no
RESEND for a message that may wait like this (`blocks.starvation`). To prevent starvation,
``fifo_share`` of the packets are granted to the oldest message, in the highest class for granted
packets, as in Linux. Linux also has such a share at senders; this file does not.
"""

from netsim.blocks import fifo_share, rto, shortest_first, starvation
from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    INF,
    bit_clear,
    bit_first,
    bit_get,
    bit_set,
    cancel_timer,
    deliver,
    finish,
    send,
    set_timer,
)

RESEND_PS = 5 * rto.MS

PARAMS = [
    Param(
        "rtt_bytes",
        "bytes",
        None,
        "RTTbytes, on the wire: sent unscheduled, then kept granted but not received (default: 1.5 "
        "times the path's bandwidth-delay product)",
        source="section 3.2; more than one, for grants wait for the packets in transmission",
        products="1.5bdp",
    ),
    Param("priorities", "count", 8,
          "classes in use; the highest also has control packets; 1 disables priorities",
          source="section 3.4, and HomaPx in section 5", minimum=1, maximum=8),
    *(
        Param(
            f"cutoff_{i}",
            "bytes",
            None,
            f"largest message whose unscheduled packets are of class {i - 1} or higher; there is "
            "one class for unscheduled packets more than there are cutoffs",
            source="section 3.4: all carry equally many unscheduled bytes",
        )
        for i in range(1, 7)
    ),
    Param("overcommit", "count", None,
          "messages granted at the same time, and RTTbytes in flight to a host that grants more "
          "(default: number of classes for scheduled packets)",
          source="section 3.5; HomaModule, max_overcommit and max_incoming", minimum=1, maximum=8),
    Param("fifo_share", "fraction", 0.05,
          "fraction of arriving packets whose grant goes to the oldest message; 0: only shortest "
          "first, as in the paper's simulations",
          source="HomaModule, grant_fifo_fraction: 50 in 1000"),
    rto.param(RESEND_PS, "silence after which missing packets are requested",
              "section 3.7, a few milliseconds; HomaModule, resend_ticks", "resend_timeout"),
]  # fmt: skip


def _cutoffs(*sizes):
    return {f"cutoff_{i}": size for i, size in enumerate(sizes, start=1)}


# The paper's workloads, with its RTTbytes of 9.7 KB: 99.5, 77, 30, 3 and 0.4 % of the bytes are
# unscheduled, and they get the same share of the 8 classes (at least 1, at most 7).
PRESETS = {
    "w1": _cutoffs("180B", "341B", "528B", "771B", "1193B", "2076B"),
    "w2": _cutoffs("284B", "366B", "465B", "1024B", "2926B"),
    "w3": _cutoffs("5772B"),
    "w4": {},
    "w5": {},
}

# Lost packets wait for a timeout, so queues must hold the unscheduled packets of an incast: at any
# rate, 200 products hold those of 133 senders.
FABRIC = {
    "queue_discipline": "drop_tail",
    "routing": "spray_permutation",
    "plane_balancing": "permutation",
    "n_traffic_classes": 8,
    "queue_bytes": "200bdp+10000pkt",
}

HIGHEST = 0
NEED_ACK, BUSY, GRANT, RESEND = 2, 3, 12, 13
BURST = 7

TX_STATE = (
    *("next_seq", "granted", "unscheduled", "scheduled_class", "n_rtx", "rtx_from"),
    "resend_ps",  # silence after which the sender asks
    "sent_ps",  # when a packet was last sent for the first time
)
RX_STATE = (
    *shortest_first.RX_STATE,
    *starvation.RX_STATE,
    *fifo_share.RX_STATE,
    *("resend_ps", "window", "granted", "n_got", "all_before"),
    "ask_from",  # next gap to request; 0: none
    "first_scheduled",
    "overcommit",
)
PARTS = (shortest_first, starvation, fifo_share)
HOST_STATE = ("incoming", *(field for part in PARTS for field in part.HOST_STATE))
TX_TIMERS, RX_TIMERS, SILENCE = 1, 1, 0
TX_BITMAPS, RTX = 1, 0
RX_BITMAPS, GOT = 1, 0


def setup(env, tx, rx):
    par = env.par
    rtt_bytes = par.rtt_bytes
    if rtt_bytes < 0:
        rtt_bytes = 3 * tx.bdp_bytes // 2
    full = par.payload_bytes + par.header_bytes
    rx.window = max((rtt_bytes + full - 1) // full, 1)
    tx.unscheduled = rx.window
    tx.scheduled_class = par.priorities - 1
    rx.rtt_ps = tx.base_rtt_ps
    tx.resend_ps = rto.of_path(par.resend_timeout, RESEND_PS, tx)
    rx.resend_ps = tx.resend_ps
    rx.first_scheduled = first_scheduled(par)
    rx.overcommit = par.overcommit
    if rx.overcommit < 0:
        rx.overcommit = par.priorities - rx.first_scheduled


def first_scheduled(par):
    """Return the highest class of granted packets; unscheduled packets use the classes above it."""
    return min(cutoffs_below(par, INF) + 1, par.priorities - 1)


def cutoffs_below(par, size_bytes):
    """Return how many of the cutoffs a size exceeds."""
    n_exceeded = 0
    some = (par.cutoff_1, par.cutoff_2, par.cutoff_3)
    for cutoff in (*some, par.cutoff_4, par.cutoff_5, par.cutoff_6):
        if 0 <= cutoff < size_bytes:
            n_exceeded += 1
    return n_exceeded


def unscheduled_class(env, side):
    """Return the class of a message's unscheduled packets."""
    lowest = max(first_scheduled(env.par) - 1, 0)
    return min(cutoffs_below(env.par, side.size_bytes), lowest)


# -- sender --------------------------------------------------------------------------------------


def on_start(env, now, tx):
    tx.unscheduled = min(tx.unscheduled, tx.n_packets)
    tx.granted = tx.unscheduled
    tx.prio = unscheduled_class(env, tx)


def rank(env, tx):
    return tx.size_bytes - (tx.next_seq - tx.n_rtx) * env.par.payload_bytes


def ready(env, now, tx):
    if tx.n_rtx > 0 or tx.next_seq < tx.granted:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    if tx.n_rtx > 0:
        seq = bit_first(env, tx, RTX, tx.rtx_from)
        bit_clear(env, tx, RTX, seq)
        tx.rtx_from = seq + 1
        tx.n_rtx -= 1
        pkt.prio = HIGHEST
    else:
        seq = tx.next_seq
        tx.next_seq += 1
        tx.sent_ps = now
        if seq >= tx.unscheduled:
            pkt.prio = tx.scheduled_class
    pkt.seq = seq
    set_timer(env, now, tx, SILENCE, now + tx.resend_ps)


def on_control(env, now, tx, pkt):
    kind = int(pkt.kind)
    upto = int(pkt.aux)
    if kind == ACK:
        cancel_timer(env, tx, SILENCE)
        finish(env, now, tx)
    elif kind == RESEND:
        on_resend(env, now, tx, int(pkt.seq), upto)
    elif upto > tx.granted:
        tx.granted = upto
        tx.scheduled_class = int(pkt.seq)


def on_resend(env, now, tx, first, upto):
    """Resend data sent before the receiver's silence; the grant may also have been lost."""
    tx.granted = max(tx.granted, upto)
    waited = tx.sent_ps > 0 and now - tx.sent_ps < tx.resend_ps - tx.base_rtt_ps
    if first >= tx.next_seq or waited:
        of_class = tx.scheduled_class if upto > tx.unscheduled else tx.prio
        send(env, tx, BUSY, of_class, 0, HIGHEST)
        return
    for seq in range(first, min(upto, tx.next_seq)):
        if bit_set(env, tx, RTX, seq):
            tx.n_rtx += 1
            tx.rtx_from = min(tx.rtx_from, seq)


def on_timer(env, now, tx, k):
    if ready(env, now, tx) == BLOCKED:
        send(env, tx, NEED_ACK, 0, 0, HIGHEST)
    set_timer(env, now, tx, SILENCE, now + tx.resend_ps)


# -- receiver ------------------------------------------------------------------------------------


def on_data(env, now, rx, pkt):
    """Move a message up the list only after its unscheduled packets, which all messages have."""
    starvation.on_data(env, now, pkt)
    if bit_set(env, rx, GOT, int(pkt.seq)) == 0:
        if rx.done_ps >= 0:
            send(env, rx, ACK, 0, 0, HIGHEST)
        return
    host = env.host
    is_new = rx.n_got == 0
    if is_new:
        rx.granted = min(rx.window, rx.n_packets)
        rx.since_ps = now
        starvation.granted_in(rx, unscheduled_class(env, rx), rx.granted)
        host.incoming += rx.granted
    rx.n_got += 1
    host.incoming -= 1
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    if rx.done_ps >= 0:
        cancel_timer(env, rx, SILENCE)
        send(env, rx, ACK, 0, 0, HIGHEST)
    elif rx.ask_from == 0:
        listen(env, now, rx)
    if rx.granted < rx.n_packets:
        if is_new:
            shortest_first.insert(env, rx)
            shortest_first.choose_active(env, rx.overcommit)
        elif rx.n_got >= rx.window and shortest_first.lift(env, rx):
            shortest_first.choose_active(env, rx.overcommit)
    grant_oldest(env, now)
    grant(env, now)


def on_request(env, now, rx, pkt):
    if int(pkt.kind) == BUSY:
        rx.ask_from = 0
        if rx.done_ps < 0:
            starvation.granted_in(rx, int(pkt.seq), rx.granted)
            listen(env, now, rx)
    elif rx.done_ps >= 0:
        send(env, rx, ACK, 0, 0, HIGHEST)
    elif rx.n_got == 0:
        of_class = unscheduled_class(env, rx)
        sent_ps = now - rx.resend_ps
        if env.host.served_ps[of_class] > sent_ps or not starvation.held_up(
            env, now, of_class, sent_ps
        ):
            send(env, rx, RESEND, 0, min(rx.window, rx.n_packets), HIGHEST)


def on_rx_timer(env, now, rx, k):
    """Request all gaps, some at a time; ungranted data is not missing."""
    if rx.n_got == rx.granted:
        return
    rx.all_before = next_missing(env, rx, rx.all_before)
    if rx.ask_from == 0 and starves(env, now, rx):
        listen(env, now, rx)
        return
    rx.granted_class = rx.waits_in = HIGHEST
    seq = next_missing(env, rx, max(rx.ask_from, rx.all_before))
    for _ in range(BURST):
        if seq < rx.granted:
            upto = min(bit_first(env, rx, GOT, seq), rx.granted)
            send(env, rx, RESEND, seq, upto, HIGHEST)
            seq = next_missing(env, rx, upto)
    if seq < rx.granted:
        rx.ask_from = seq
        set_timer(env, now, rx, SILENCE, now + starvation.packet_time(env))
    else:
        rx.ask_from = 0
        listen(env, now, rx)


def listen(env, now, rx):
    """Restart the message's silence."""
    starvation.begin_silence(env, now, rx)
    set_timer(env, now, rx, SILENCE, now + rx.resend_ps)


def starves(env, now, rx):
    """Return whether a silent message may wait behind shorter ones.

    The shortest message and fully granted messages do not: their packets that still wait in an
    earlier, lower class count as lost.
    """
    shortest = env.host.n_active > 0 and env.host.active[0] == rx.flow
    if shortest or rx.granted == rx.n_packets or rx.all_before >= rx.waits_upto:
        starvation.forget_class(rx)
    return starvation.starves(env, now, rx, rx.overcommit * rx.window)


def next_missing(env, rx, seq):
    """Return the first packet from ``seq`` on that has not arrived, or the first not granted."""
    while seq < rx.granted and bit_get(env, rx, GOT, seq) == 1:
        seq += 1
    return seq


# -- whom to grant -------------------------------------------------------------------------------


def grant(env, now):
    """Keep RTTbytes granted but not received for each active message, in order."""
    host = env.host
    lowest = env.par.priorities - 1
    i = 0
    n_sent = 0
    while i < host.n_active and n_sent < BURST:
        rx = env.rx[host.active[i]]
        room = rx.overcommit * rx.window - host.incoming
        upto = min(rx.n_got + rx.window, rx.n_packets, rx.granted + room)
        if upto > rx.granted:
            host.incoming += upto - rx.granted
            rx.granted = upto
            top = max(rx.first_scheduled, lowest + 1 - host.n_active)
            starvation.granted_in(rx, min(top + i, lowest), upto)
            send(env, rx, GRANT, rx.granted_class, upto, HIGHEST)
            if rx.ask_from == 0:
                listen(env, now, rx)
            n_sent += 1
        i += 1
        if rx.granted == rx.n_packets:
            shortest_first.remove(env, rx)
            shortest_first.choose_active(env, rx.overcommit)
            i = 0


def grant_oldest(env, now):
    """Grant one more packet to the oldest message, per 1 / ``fifo_share`` arriving packets."""
    flow = fifo_share.due(env, env.par.fifo_share)
    if flow == fifo_share.NONE:
        return
    rx = env.rx[flow]
    env.host.incoming += 1
    rx.granted += 1
    starvation.granted_in(rx, rx.first_scheduled, rx.granted)
    send(env, rx, GRANT, rx.first_scheduled, rx.granted, HIGHEST)
    if rx.ask_from == 0:
        listen(env, now, rx)
    if rx.granted == rx.n_packets:
        shortest_first.remove(env, rx)
        shortest_first.choose_active(env, rx.overcommit)
