"""Wide area: admission control, pacing and forward error correction instead of loss recovery.

Implements the proposal of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024, section 6.3)
for traffic between two datacenters, where one lost packet costs a round trip of 60 ms.

Rate. A flow is paced evenly at `rate`, or it waits. A host admits flows in the order of their start
while the sum of their rates is at most its `capacity`; a flow releases its rate with its last
packet. Rates and capacities come from an allocation before the run, like that of B4's central
traffic engineering (Jain et al., SIGCOMM 2013, section 5) with enforcement in hosts (Kumar et al.,
"BwE", SIGCOMM 2015). Only these two constants are set centrally. Each host admits and queues flows
alone, without messages, and an idle share is not lent to another host. If the capacities together
fit the wide-area link, its queue holds at most two packets per admitted flow.

Redundancy. `k` data packets and `m` parity packets form a block of a systematic MDS erasure code;
any k of its packets restore it (Reed-Solomon over GF(2^8), RFC 5510, has k + m <= 255; coding takes
no time here). Data counts when it arrives. With independent loss p a block fails with probability

    P(k, m, p) = sum of C(k + m, i) p^i (1 - p)^(k + m - i) over i from m + 1 to k + m.

The default, k = 200 and m = 5, is for p = 0.1 %: P = 8.1e-8, so one in 180,000 messages of 57 MB
(70 blocks) needs a repair. With `interleave` d, d consecutive packets belong to d blocks, so a
burst of d losses costs each one packet.

Repair. If c packets are missing from a block that was sent completely, the receiver sends
NACK(block, c), and the sender c + m new parity packets, as NORM does (RFC 5740, section 1); such
repairs fail no more often than a block. They also need the flow's rate, and the flow is next in the
queue for it. After a round trip and `probe_after` of silence the sender makes the receiver repeat
its NACKs, or the final acknowledgment. Packets should arrive in order (one path per flow);
otherwise blocks may be repaired unnecessarily.
"""

from netsim.blocks import admission, erasure, pacing
from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    NACK,
    bit_clear,
    bit_first,
    bit_set,
    cancel_timer,
    deliver,
    finish,
    full_packet_bytes,
    or_default,
    packet_payload_bytes,
    send,
    set_timer,
)

PARAMS = [
    Param("rate", "rate", None, "rate of a flow on the wire, including parity (default: capacity)"),
    Param("capacity", "rate", None, "sum of rates that a host admits (default: line rate)"),
    Param(
        "k", "count", 200, "data packets per block", minimum=1, source="P(200, 5, 0.1 %) = 8.1e-8"
    ),
    Param("m", "count", 5, "parity packets per block", source="P(200, 5, 0.1 %) = 8.1e-8"),
    Param("interleave", "count", 1, "blocks interleaved packet by packet", minimum=1),
    Param("probe_after", "time", "1ms", "silence before a probe, beyond an idle round trip"),
    Param("data_class", "count", 0, "traffic class of data and parity", maximum=7),
    Param(
        "control_class", "count", None, "control packets' class (default: the data's)", maximum=7
    ),
]

PRESETS = {"loss_0.1%": {"k": 200, "m": 5}, "loss_1%": {"k": 200, "m": 12}}

FABRIC = {"queue_discipline": "drop_tail", "routing": "ecmp", "n_traffic_classes": 1}

PARITY, REPAIR, PROBE = 2, 3, 4

TX_STATE = (
    *admission.TX_STATE,
    *pacing.TX_STATE,
    "next_seq",
    "group",  # group of blocks being sent
    "n_parity",  # its parity packets sent
    "n_asked",  # packets requested
    "repair_block",
    "n_repair",  # packets left to send for that block
    "control_class",
)
RX_STATE = (
    "n_closed",  # blocks below this were sent completely
    "n_checked",  # missing packets of blocks below this were requested
    "control_class",
)
HOST_STATE = admission.HOST_STATE
RX_BITMAPS = erasure.RX_BITMAPS
TX_TIMERS = 2
RX_TIMERS = 1
ADMITTED, SILENCE = admission.ADMITTED, 1
CHECK = 0
CHECKS_AT_ONCE = 4
TX_BITMAPS = 1
ASKED = 0  # in each block, one bit per packet requested


def control_packets(params, packets, bdp_packets):
    """Return the parity packets of every block, and the final acknowledgment."""
    return params["m"] * -(-packets // params["k"]) + 1


def setup(env, tx, rx):
    tx.prio = env.par.data_class
    tx.control_class = or_default(env.par.control_class, env.par.data_class)
    rx.control_class = tx.control_class


def capacity_bps(env):
    line_bps = pacing.line_bps(env.host.ps_per_byte_q20)
    return min(or_default(env.par.capacity, line_bps), line_bps)


def on_start(env, now, tx):
    tx.rate_bps = min(capacity_bps(env), pacing.line_bps(tx.ps_per_byte_q20))
    if env.par.rate > 0:
        tx.rate_bps = min(env.par.rate, tx.rate_bps)
    admission.ask(env, now, tx, capacity_bps(env), False)


def ready(env, now, tx):
    if tx.admitted == 1:
        return tx.next_send_ps
    return BLOCKED


def build_packet(env, now, tx, pkt):
    n_bytes = full_packet_bytes(env)
    if tx.n_repair == 0 and tx.n_asked > 0:
        start_repair(env, tx)
    if tx.n_repair > 0:
        tx.n_repair -= 1
        tx.retransmits += 1
        pkt.kind = REPAIR
        pkt.seq = tx.repair_block
        pkt.aux = tx.n_repair
    else:
        if tx.next_seq < erasure.end_of(env, tx, tx.group):
            n_bytes = packet_payload_bytes(env, tx, tx.next_seq) + env.par.header_bytes
        fill_new(env, tx, pkt)
    pacing.sent(tx, now, n_bytes, tx.rate_bps)
    if tx.n_repair == 0 and tx.n_asked == 0 and tx.group == erasure.n_groups(env, tx):
        set_timer(env, now, tx, SILENCE, now + tx.base_rtt_ps + env.par.probe_after)
        admission.release(env, now, tx, capacity_bps(env))


def fill_new(env, tx, pkt):
    """Send a group's data in order, then the parity of its blocks in round-robin order."""
    n_blocks = erasure.blocks_in(env, tx, tx.group)
    end = erasure.end_of(env, tx, tx.group)
    if tx.next_seq < end:
        pkt.seq = tx.next_seq
        tx.next_seq += 1
    else:
        pkt.kind = PARITY
        pkt.seq = tx.group * env.par.interleave + tx.n_parity % n_blocks
        tx.n_parity += 1
    if tx.next_seq == end and tx.n_parity == env.par.m * n_blocks:
        tx.group += 1
        tx.n_parity = 0
    pkt.aux = tx.group * env.par.interleave


def start_repair(env, tx):
    """Repair the first block with missing packets: send as many packets and ``m`` more."""
    tx.repair_block = erasure.block_of(env, bit_first(env, tx, ASKED, 0))
    for seq in erasure.members(env, tx, tx.repair_block):
        if bit_clear(env, tx, ASKED, seq):
            tx.n_asked -= 1
            tx.n_repair += 1
    tx.n_repair += env.par.m


def on_control(env, now, tx, pkt):
    if int(pkt.kind) == ACK:
        if tx.admitted == 1:
            admission.release(env, now, tx, capacity_bps(env))
        finish(env, now, tx)
        return
    cancel_timer(env, tx, SILENCE)
    n_lacking = int(pkt.aux)
    for seq in erasure.members(env, tx, int(pkt.seq)):
        if n_lacking > 0 and bit_set(env, tx, ASKED, seq):
            tx.n_asked += 1
        n_lacking -= 1
    if tx.admitted == 0 and tx.waiting == 0:
        admission.ask(env, now, tx, capacity_bps(env), True)


def on_timer(env, now, tx, k):
    if k == SILENCE:
        send(env, tx, PROBE, 0, 0, tx.control_class)
        set_timer(env, now, tx, SILENCE, now + tx.base_rtt_ps + env.par.probe_after)


def on_data(env, now, rx, pkt):
    seq = int(pkt.seq)
    if bit_set(env, rx, erasure.GOT, seq):
        take(env, now, rx, seq)
        if erasure.has_parity(env, rx, erasure.block_of(env, seq)):
            restore(env, now, rx, erasure.block_of(env, seq))
    close(env, now, rx, int(pkt.aux))


def on_request(env, now, rx, pkt):
    kind = int(pkt.kind)
    block = int(pkt.seq)
    if kind == PROBE:
        if rx.done_ps >= 0:
            send(env, rx, ACK, 0, 0, rx.control_class)
        rx.n_checked = 0
        close(env, now, rx, erasure.n_groups(env, rx) * env.par.interleave)
        return
    if erasure.lacking(env, rx, block) > 0:
        erasure.add_parity(env, rx, block)
        restore(env, now, rx, block)
    if kind == PARITY:
        close(env, now, rx, int(pkt.aux))
    elif int(pkt.aux) == 0:
        ask_again(env, rx, block)


def take(env, now, rx, seq):
    """Count a data packet that arrived or was restored; acknowledge the last one."""
    deliver(env, now, rx, packet_payload_bytes(env, rx, seq))
    if rx.done_ps >= 0:
        send(env, rx, ACK, 0, 0, rx.control_class)


def restore(env, now, rx, block):
    """Restore the block if it has enough packets."""
    if erasure.lacking(env, rx, block) == 0:
        erasure.clear_parity(env, rx, block)
        for seq in erasure.members(env, rx, block):
            if bit_set(env, rx, erasure.GOT, seq):
                take(env, now, rx, seq)


def close(env, now, rx, n_closed):
    """Request packets missing from blocks below ``n_closed``, which were sent completely."""
    rx.n_closed = max(rx.n_closed, n_closed)
    if rx.n_checked < rx.n_closed and rx.done_ps < 0:
        on_rx_timer(env, now, rx, CHECK)


def on_rx_timer(env, now, rx, k):
    upto = min(rx.n_closed, rx.n_checked + CHECKS_AT_ONCE)
    for block in range(rx.n_checked, upto):
        ask_again(env, rx, block)
    rx.n_checked = upto
    if upto < rx.n_closed:
        set_timer(env, now, rx, CHECK, now)


def ask_again(env, rx, block):
    """Request packets missing from a block."""
    missing = erasure.lacking(env, rx, block)
    if missing > 0:
        send(env, rx, NACK, block, missing, rx.control_class)
