"""The reliable half of TCP: loss detection, retransmission and packets in flight.

A congestion controller (`cubic`, `bbr`) builds on it: it sets `tx.cwnd`, in packets, and acts on
the events that `acknowledge` and `on_timer` return. Numbers count packets.

The receiver acknowledges every packet immediately. An ACK names the packet it answers (`seq`), the
start of the run of packets that ends with it (`first`, together a SACK block, RFC 2018) and the
lowest missing packet (`cumulative`). It echoes that transmission's time stamp (`aux`, RFC 7323). So
a later ACK repeats what a lost ACK reported.

Loss detection (RFC 8985, RACK-TLP, with the packet threshold of RFC 6675):

- A packet sent once is lost when a packet sent `THRESHOLD` or more packets later has arrived, or a
  quarter of a round trip after any later packet has.
- Transmissions are grouped in slots of a quarter of a round trip. When a packet sent after the end
  of a slot has arrived, every packet of the slot has arrived or is lost. This finds lost
  retransmissions, as RACK does, a quarter of a round trip later but without a record per packet.
- When nothing arrives for two round trips a probe is sent, whose acknowledgment reveals a lost
  tail; `tail_loss_probe` turns it off.
- After the retransmission timeout (RFC 6298) every packet in flight is lost.

Recovery lasts until every packet sent before the loss was found is acknowledged. A premature
timeout is not undone.
"""

from netsim.blocks import rto, rtt, selective, traffic_classes
from netsim.params import Param
from netsim.transport import (
    ACK,
    INF,
    armed,
    bit_clear,
    bit_first,
    bit_first_clear,
    bit_get,
    bit_set,
    cancel_timer,
    finish,
    send,
    set_timer,
)

INITIAL_RTO_PS = 1000 * rto.MS

PARAMS = [
    Param("initial_window", "count", 10, "packets in the first round trip",
          "Linux; RFC 6928, section 2, which allows at most 14,600 bytes, or 2 packets if longer",
          minimum=1),
    Param("min_rto", "time", "200ms",
          "minimum margin of the retransmission timeout over the smoothed round-trip time",
          "Linux, TCP_RTO_MIN; RFC 6298, section 2.4, has 1 s for the whole timeout",
          minimum="1us"),
    rto.param(INITIAL_RTO_PS, "retransmission timeout before the first round-trip time is known",
              "RFC 6298, section 2.1", "initial_rto"),
    Param("tail_loss_probe", "bool", True, "probe after two silent round trips", "RFC 8985, 7"),
    traffic_classes.DATA_CLASS,
    traffic_classes.ack_param("ACKs"),
]  # fmt: skip

N_SLOTS = 8
TX_STATE = (
    *selective.TX_STATE,
    *rtt.TX_STATE,
    ("cwnd", float),  # packets that may be in flight; set by the congestion controller
    "una",  # lowest packet not acknowledged
    "high",  # one above the highest packet acknowledged
    "judged",  # packets below are acknowledged or known to be lost
    "run_first",  # the run of packets in the last ACK
    "run_end",
    "in_recovery",  # 1 after a loss, 2 after a timeout, until `una` reaches `recover_seq`
    "recover_seq",
    "must_send",  # one packet may be sent although the window is full
    "newly_acked",  # packets, in the last call of `acknowledge`
    "newly_lost",  # packets, in the last call of `acknowledge` or `on_timer`
    "last_rtt_ps",  # of the last ACK
    "min_rtt_ps",
    "rounds",  # round trips completed
    "round_ps",  # start of the current one
    "full_round",  # the last round trip in which the window held packets back
    "acked_sent_ps",  # latest transmission known to have arrived
    "last_sent_ps",
    "backoff",  # timeouts in a row
    "probe_next",  # the retransmission timer is set for a probe
    "probe_seq",  # unacknowledged probe, or -1
    "probe_ps",  # when, if it was a retransmission: its ACK reveals a loss
    "reorder_seq",  # packets below are lost when the reordering timer fires
    "slot",  # current slot; slot k is at index k % N_SLOTS
    "slot_oldest",  # the first undecided slot
    "slot_ps",  # start of the current slot
    ("slot_end_ps", N_SLOTS),  # its last transmission
    ("slot_high", N_SLOTS),  # `next_seq` at its end
    ("slot_rtx", N_SLOTS),  # retransmissions in it, marked in its bitmap
    ("slot_low", N_SLOTS),  # the lowest of them
)
RX_STATE = (*traffic_classes.RX_STATE, "cumulative", "run_first", "run_end")
PACKET_FIELDS = ("cumulative", "first")
TX_TIMERS = 2
RETRANSMIT, REORDER = 0, 1
TX_BITMAPS = selective.TX_BITMAPS + N_SLOTS
RX_BITMAPS = selective.RX_BITMAPS

ACKED, ROUND, EXIT, ENTER, LOSS, DONE, TIMEOUT = 1, 2, 4, 8, 16, 32, 64
"""Events: new packets acknowledged; a round trip completed; recovery ended; recovery began; packets
found lost; flow finished; retransmission timeout."""

THRESHOLD = 3


def setup(env, tx, rx):
    """Initialize a flow; call it from the transport's `setup`."""
    traffic_classes.setup(env, tx, rx)
    tx.cwnd = float(env.par.initial_window)
    tx.min_rtt_ps = INF
    tx.probe_seq = -1
    tx.full_round = -2


def in_flight(tx):
    """Return how many packets are sent, neither acknowledged nor found lost (pipe, RFC 6675)."""
    return selective.outstanding(tx)


def may_send(tx):
    """Return whether there is a packet to send that the window or loss recovery allows."""
    if not selective.has_data(tx):
        return False
    if tx.must_send == 1 or selective.outstanding(tx) + 1 <= tx.cwnd:
        return True
    tx.full_round = tx.rounds
    return False


def is_window_limited(tx):
    """Return whether the window held packets back in this round trip or the last one."""
    return tx.rounds - tx.full_round <= 1


def take(env, now, tx, pkt):
    """Fill in the packet being sent; return its number."""
    if 0 < tx.srtt_ps // 4 < now - tx.slot_ps and tx.slot - tx.slot_oldest < N_SLOTS - 1:
        begin_slot(tx, now)
    again = tx.n_rtx > 0
    seq = selective.take(env, tx)
    if again:
        k = tx.slot % N_SLOTS
        if bit_set(env, tx, selective.TX_BITMAPS + k, seq):
            tx.slot_low[k] = min(seq, tx.slot_low[k]) if tx.slot_rtx[k] > 0 else seq
            tx.slot_rtx[k] += 1
    pkt.seq = seq
    pkt.aux = rtt.timestamp(now)
    tx.last_sent_ps = now
    tx.must_send = 0
    if not armed(env, tx, RETRANSMIT):
        restart_timer(env, now, tx)
    return seq


def begin_slot(tx, now):
    """Start a new slot."""
    k = tx.slot % N_SLOTS
    tx.slot_end_ps[k] = tx.last_sent_ps
    tx.slot_high[k] = tx.next_seq
    tx.slot += 1
    tx.slot_ps = now


def restart_timer(env, now, tx):
    """Set the timer for a probe if one is due before the timeout, else for the timeout."""
    initial_ps = rto.of_path(env.par.initial_rto, INITIAL_RTO_PS, tx)
    timeout = rtt.timeout_ps(tx, initial_ps, env.par.min_rto) << tx.backoff
    may_probe = env.par.tail_loss_probe == 1 and tx.in_recovery == 0 and tx.probe_seq < 0
    tx.probe_next = 0
    if may_probe and 0 < 2 * tx.srtt_ps < timeout:
        tx.probe_next = 1
        timeout = 2 * tx.srtt_ps
    set_timer(env, now, tx, RETRANSMIT, now + timeout)


def acknowledge(env, now, tx, pkt):
    """Process an ACK; return its events."""
    before = tx.n_acked
    high = tx.high
    repaired = mark(env, tx, int(pkt.seq), int(pkt.cumulative), int(pkt.first))
    tx.newly_acked = tx.n_acked - before
    tx.newly_lost = 0
    tx.last_rtt_ps = rtt.elapsed_ps(now, int(pkt.aux))
    tx.min_rtt_ps = min(tx.min_rtt_ps, tx.last_rtt_ps)
    sent_ps = now - tx.last_rtt_ps
    tx.acked_sent_ps = max(tx.acked_sent_ps, sent_ps)
    events = 0
    if sent_ps >= tx.round_ps:
        events = ROUND
        tx.rounds += 1
        tx.round_ps = now
        rtt.sample(tx, tx.last_rtt_ps)
    if tx.newly_acked == 0:
        return events
    events |= ACKED
    tx.backoff = 0
    if selective.is_done(tx):
        cancel_timer(env, tx, RETRANSMIT)
        cancel_timer(env, tx, REORDER)
        finish(env, now, tx)
        return events | DONE
    if tx.in_recovery > 0 and tx.una >= tx.recover_seq:
        tx.in_recovery = 0
        events |= EXIT
    lose_below(env, tx, tx.high - THRESHOLD)
    decide_slots(env, tx)
    if repaired and sent_ps >= tx.probe_ps:
        tx.newly_lost += 1
    if tx.high > high + 1 and not armed(env, tx, REORDER):
        await_reordered(env, now, tx)
    if tx.una < tx.next_seq:
        restart_timer(env, now, tx)
    else:
        cancel_timer(env, tx, RETRANSMIT)
    return events | enter_recovery(tx)


def mark(env, tx, seq, cumulative, first):
    """Record the packets that an ACK acknowledges; return whether it answers the probe itself."""
    while tx.una < cumulative:
        selective.acknowledge(env, tx, tx.una)
        tx.una += 1
    known = max(first, tx.una)
    if first >= tx.run_first:
        known = max(known, min(tx.run_end, seq))
    for n in range(known, seq + 1):
        selective.acknowledge(env, tx, n)
    tx.run_first = first
    tx.run_end = seq + 1
    tx.high = max(tx.high, seq + 1, cumulative)
    tx.una = bit_first_clear(env, tx, selective.ACKED, tx.una)
    if tx.probe_seq < 0 or bit_get(env, tx, selective.ACKED, tx.probe_seq) == 0:
        return False
    probed = tx.probe_seq
    tx.probe_seq = -1
    return seq == probed


def lose_below(env, tx, limit):
    """Record first transmissions below ``limit`` that have not arrived as lost."""
    tx.judged = max(tx.judged, tx.una)
    tx.newly_lost += selective.lose_range(env, tx, tx.judged, limit)
    tx.judged = max(tx.judged, limit)


def decide_slots(env, tx):
    """Decide the slots that ended before a transmission that has arrived. Outside recovery, packets
    may be reordered by a quarter of a round trip."""
    reordering_ps = tx.min_rtt_ps // 4 if tx.in_recovery == 0 else 0
    while tx.slot_oldest < tx.slot:
        k = tx.slot_oldest % N_SLOTS
        if tx.acked_sent_ps <= tx.slot_end_ps[k] + reordering_ps + rtt.UNIT_PS:
            break
        lose_slot(env, tx, k, tx.slot_high[k])


def lose_slot(env, tx, k, high):
    """Record packets sent in the oldest slot, at index ``k``, that have not arrived as lost."""
    lose_below(env, tx, high)
    seq = tx.slot_low[k]
    for _ in range(tx.slot_rtx[k]):
        seq = bit_first(env, tx, selective.TX_BITMAPS + k, seq)
        bit_clear(env, tx, selective.TX_BITMAPS + k, seq)
        if selective.lose(env, tx, seq):
            tx.newly_lost += 1
    tx.slot_rtx[k] = 0
    tx.slot_oldest += 1


def await_reordered(env, now, tx):
    """Allow missing packets below the highest one a quarter of a round trip to arrive."""
    if max(tx.judged, tx.una) < tx.high:
        tx.reorder_seq = tx.high
        set_timer(env, now, tx, REORDER, now + tx.min_rtt_ps // 4)


def enter_recovery(tx):
    """Start recovery if packets were found lost. Return the events."""
    if tx.newly_lost == 0:
        return 0
    if tx.in_recovery > 0:
        return LOSS
    tx.in_recovery = 1
    tx.recover_seq = tx.next_seq
    tx.must_send = 1
    return LOSS | ENTER


def on_timer(env, now, tx, k):
    """Handle a timer; return its events."""
    tx.newly_lost = 0
    if k == REORDER:
        lose_below(env, tx, tx.reorder_seq)
        await_reordered(env, now, tx)
        return enter_recovery(tx)
    if tx.probe_next == 1:
        send_probe(env, now, tx)
        return 0
    while tx.slot_oldest <= tx.slot:
        lose_slot(env, tx, tx.slot_oldest % N_SLOTS, tx.next_seq)
    tx.slot = tx.slot_oldest
    tx.slot_ps = now
    tx.in_recovery = 2
    tx.recover_seq = tx.next_seq
    tx.probe_seq = -1
    tx.backoff = min(tx.backoff + 1, 10)
    restart_timer(env, now, tx)
    return TIMEOUT


def send_probe(env, now, tx):
    """Send one more packet: a new packet, or the last one again."""
    tx.probe_seq = tx.next_seq
    tx.probe_ps = INF
    if tx.next_seq == tx.n_packets:
        tx.probe_seq -= 1
        tx.probe_ps = now
        selective.lose(env, tx, tx.probe_seq)
    tx.must_send = 1
    restart_timer(env, now, tx)


def on_data(env, now, rx, pkt):
    """Deliver and acknowledge a data packet. Return the ACK."""
    seq = int(pkt.seq)
    if selective.accept(env, now, rx, pkt):
        rx.cumulative = bit_first_clear(env, rx, selective.GOT, rx.cumulative)
    if seq != rx.run_end:
        rx.run_first = seq
    rx.run_end = seq + 1
    ack = send(env, rx, ACK, seq, int(pkt.aux), rx.ack_class)
    ack.cumulative = rx.cumulative
    ack.first = rx.run_first
    return ack
