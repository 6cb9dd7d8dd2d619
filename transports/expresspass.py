"""ExpressPass: one packet per credit; switches drop credits instead of data.

A sender requests credits. The receiver sends them at an adaptive rate, and each allows one packet.
Switches shape credits so that the returning packets fit (`netsim/queues/credit_shaper.py`). For
this, both must cross the same links: `ecmp_symmetric`. A dropped credit prevents a packet that
would have overloaded a link; the receiver adapts its rate to the credits of a round trip that
returned no data. It shapes its own link like a switch, over all its flows, but at most one credit
of a flow waits there; in the authors' code several may, so flows that start together share it less
evenly. Credits vary randomly in time and size, so that flows do not lose theirs in lockstep. At the
end, the sender sends a stop.

Cho, Jang and Han, "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters", SIGCOMM
2017; the control law is from the authors' ns-2 code (kaist-ina/ns2-xpass, xpass.cc). Data is
dropped only by failed links and with several ports per NIC: a receiver shapes credits for all ports
together, so too many flows may use one port, whose queue then overflows. A request or stop says how
much was sent; the receiver then asks for everything from the first missing packet on (NACK), as
that code does.
"""

from netsim.blocks import rto, rtt
from netsim.errors import InputError
from netsim.params import Param
from netsim.transport import (
    ACK,
    BLOCKED,
    NACK,
    armed,
    below,
    bit_first_clear,
    bit_set,
    cancel_timer,
    deliver,
    finish,
    full_packet_bytes,
    host_timer_armed,
    rand32,
    send,
    serialization_ps,
    set_host_timer,
    set_timer,
)
from netsim.units import format_bytes

SCRIPTS = "the authors' ns-2 scripts"
CODE = "the authors' ns-2 code"
RTO_PS = 100 * rto.US

PARAMS = [
    Param("credit_bytes", "bytes", "84B", "average size of a credit", source=SCRIPTS, minimum="1B"),
    Param("credit_spread", "bytes", "8B", "maximum deviation of a credit's size", source=SCRIPTS),
    Param("credit_slots", "count", 8, "flows with a waiting credit", source=SCRIPTS, minimum=1),
    Param("credit_burst", "count", 2, "largest burst of credits", source=SCRIPTS, minimum=1),
    Param("jitter", "fraction", 0.1, "of the time between credits, both ways", source=SCRIPTS),
    Param(
        "initial_rate",
        "fraction",
        0.5,
        "initial credit rate, of the maximum; proportionally less for flows below 40 packets",
        source=SCRIPTS,
        minimum=1e-6,
    ),
    Param("target_loss", "fraction", 0.125, "target loss of credits", source=SCRIPTS),
    Param("w_initial", "fraction", 0.0625, "initial weight of the maximum rate", source=SCRIPTS),
    Param("w_min", "fraction", 0.01, "minimum weight", source=SCRIPTS),
    Param("w_max", "fraction", 0.5, "maximum weight", source=CODE),
    Param("w_step", "fraction", 0.05, "increase of the weight without loss", source=CODE),
    rto.param(RTO_PS, "silence after which a sender repeats its request", SCRIPTS),
]

FABRIC = {
    "queue_discipline": "credit_shaper",
    "routing": "ecmp_symmetric",
    "n_traffic_classes": 2,
    "queue_bytes": "100pkt",
}

CREDIT_CLASS, DATA_CLASS = 0, 1
REQUEST, STOP, CREDIT = 2, 3, 12
SHORT_FLOW = 40  # packets
JITTER, SIZE = 64, 65  # purposes of random numbers

TX_STATE = ("next_seq", "credits", "n_credits", "last_credit", "stamp")
RX_STATE = (
    *rtt.TX_STATE,
    "first_missing",
    "number",  # number of the last credit, sent or dropped here
    "listed",  # 1 if a credit waits for the host's link
    "next_listed",
    ("rate", float),  # credit rate, of the maximum
    ("weight", float),
    "may_grow",
    "updated_ps",
    "seen_number",  # credits reported by data: latest, and at the last rate update
    "seen_count",
    "set_number",
    "set_count",
)
HOST_STATE = ("list_head", "list_tail", "n_listed", "full_ps")
PACKET_FIELDS = ("credits",)
TRACE = ("next_seq", "credits", "rate", "weight", "number")
TX_TIMERS, RX_TIMERS, HOST_TIMERS = 1, 1, 1
SILENCE, NEXT_CREDIT, LINK = 0, 0, 0
RX_BITMAPS = 1
GOT = 0


def check(params, packets):
    """Yield an error for credits smaller, or larger, than all other packets."""
    size, spread = params["credit_bytes"], params["credit_spread"]
    least = min(packets.control_bytes, packets.header_bytes + 1) + spread
    most = max(packets.control_bytes, packets.data_bytes) - spread
    if not least <= size <= most:
        yield InputError(
            f"{format_bytes(size)}, {format_bytes(spread)} more or less, is smaller than all other "
            "packets, or larger",
            key="credit_bytes",
            hint=f"{format_bytes(least)} to {format_bytes(most)}, "
            "set by packets.control_bytes and header_bytes",
        )


def control_packets(params, packets, bdp_packets):
    """Return the number of control packets: a request, a stop, a credit per packet, and the credits
    left at the end, a round trip's worth at twice the initial rate."""
    initial_rate = params["initial_rate"] * (packets / SHORT_FLOW).clip(max=1.0)
    return 2 + packets + bdp_packets * (2 * initial_rate).clip(max=1.0)


def setup(env, tx, rx):
    tx.prio = DATA_CLASS
    rx.prio = DATA_CLASS


# The sender.


def on_start(env, now, tx):
    request(env, now, tx)


def request(env, now, tx):
    """Request credits; report how many packets were sent."""
    send(env, tx, REQUEST, tx.next_seq, 0, DATA_CLASS)
    await_answer(env, now, tx)


def await_answer(env, now, tx):
    set_timer(env, now, tx, SILENCE, now + rto.of_path(env.par.rto, RTO_PS, tx))


def ready(env, now, tx):
    if tx.credits > 0 and tx.next_seq < tx.n_packets:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    pkt.aux = tx.stamp
    # Credits received, and the number of the last one: the receiver infers the dropped ones.
    pkt.credits = tx.n_credits << 32 | tx.last_credit
    tx.next_seq += 1
    tx.credits -= 1
    if tx.next_seq == tx.n_packets:
        tx.credits = 0
        send(env, tx, STOP, tx.next_seq, 0, DATA_CLASS)


def on_control(env, now, tx, pkt):
    kind = int(pkt.kind)
    if kind == ACK:
        cancel_timer(env, tx, SILENCE)
        finish(env, now, tx)
    elif kind == NACK:
        tx.next_seq = int(pkt.seq)
        request(env, now, tx)
    else:
        tx.n_credits += 1
        tx.last_credit = int(pkt.seq)
        tx.stamp = int(pkt.aux)
        if tx.next_seq < tx.n_packets:
            tx.credits += 1
            await_answer(env, now, tx)


def on_timer(env, now, tx, k):
    request(env, now, tx)


# The receiver.


def on_request(env, now, rx, pkt):
    if rx.done_ps >= 0:
        if int(pkt.kind) == REQUEST:
            send(env, rx, ACK, rx.n_packets, 0, DATA_CLASS)
        return
    if int(pkt.kind) == STOP:
        cancel_timer(env, rx, NEXT_CREDIT)
    elif not armed(env, rx, NEXT_CREDIT):
        start_credits(env, now, rx)
    if rx.first_missing < int(pkt.seq):
        send(env, rx, NACK, rx.first_missing, 0, DATA_CLASS)


def on_data(env, now, rx, pkt):
    if bit_set(env, rx, GOT, int(pkt.seq)):
        deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
        rx.first_missing = bit_first_clear(env, rx, GOT, rx.first_missing)
    if rx.done_ps >= 0:
        cancel_timer(env, rx, NEXT_CREDIT)
        send(env, rx, ACK, rx.n_packets, 0, DATA_CLASS)
        return
    rtt.sample(rx, rtt.elapsed_ps(now, int(pkt.aux)))
    number = int(pkt.credits) & 0xFFFFFFFF
    if number > rx.seen_number:
        rx.seen_number = number
        rx.seen_count = int(pkt.credits) >> 32


def start_credits(env, now, rx):
    par = env.par
    rx.rate = par.initial_rate * min(rx.n_packets, SHORT_FLOW) / SHORT_FLOW
    rx.weight = par.w_initial
    rx.may_grow = 0
    begin_period(now, rx)
    set_timer(env, now, rx, NEXT_CREDIT, now)


def begin_period(now, rx):
    rx.updated_ps = now
    rx.set_number = rx.seen_number
    rx.set_count = rx.seen_count


def on_rx_timer(env, now, rx, k):
    if rx.srtt_ps > 0 and now - rx.updated_ps >= rx.srtt_ps and rx.seen_number > rx.set_number:
        control_rate(env, now, rx)
    host = env.host
    if rx.listed == 1 or host.n_listed >= env.par.credit_slots:
        rx.number += 1  # dropped, as a switch would
    else:
        list_flow(env, rx)
        if not host_timer_armed(env, LINK):
            set_host_timer(env, now, LINK, link_ready_ps(env, now))
    gap_ps = room_ps(env, env.par.credit_bytes) / rx.rate
    draw = rand32(env.par.seed, JITTER, rx.flow, rx.number + rx.listed)
    jitter = env.par.jitter * (2.0 * draw / 4294967296.0 - 1.0)
    set_timer(env, now, rx, NEXT_CREDIT, now + int(gap_ps * (1.0 + jitter)))


def control_rate(env, now, rx):
    """Update the credit rate once per round trip: lower above the target loss, else higher."""
    par = env.par
    sent = rx.seen_number - rx.set_number
    came = rx.seen_count - rx.set_count
    highest_gap_ps = room_ps(env, par.credit_bytes)
    target = (1.0 - rx.rate) * par.target_loss
    if 1.0 - came / sent > target:
        came_rate = came * highest_gap_ps / (now - rx.updated_ps)
        rx.rate = min(rx.rate, came_rate * (1.0 + target))
        rx.weight = max(rx.weight / 2.0, par.w_min)
        rx.may_grow = 0
    else:
        if rx.may_grow == 1:
            rx.weight = min(rx.weight + par.w_step, par.w_max)
        rx.may_grow = 1
        rx.rate = rx.weight + (1.0 - rx.weight) * rx.rate
    rx.rate = min(max(rx.rate, highest_gap_ps / rx.srtt_ps), 1.0)
    begin_period(now, rx)


# The receiver's link: a token bucket for credits, as at switch ports.


def room_ps(env, size):
    """Return the link time reserved for a credit of ``size`` bytes and its data."""
    average = env.par.credit_bytes
    alone_ps = serialization_ps(size, env.host.ps_per_byte_q20)
    return alone_ps * (average + full_packet_bytes(env)) // average


def link_ready_ps(env, now):
    """Return when a credit of average size may be sent."""
    burst_ps = (env.par.credit_burst - 1) * room_ps(env, env.par.credit_bytes)
    return max(now, env.host.full_ps - burst_ps)


def list_flow(env, rx):
    """Add the flow to the list of flows with credit that waits for the link."""
    host = env.host
    rx.listed = 1
    rx.next_listed = 0
    if host.n_listed == 0:
        host.list_head = rx.flow
    else:
        env.rx[host.list_tail].next_listed = rx.flow + 1
    host.list_tail = rx.flow
    host.n_listed += 1


def on_host_timer(env, now, k):
    host = env.host
    rx = env.rx[host.list_head]
    rx.listed = 0
    host.n_listed -= 1
    host.list_head = rx.next_listed - 1
    if armed(env, rx, NEXT_CREDIT):  # not stopped
        send_credit(env, now, rx)
    if host.n_listed > 0:
        set_host_timer(env, now, LINK, link_ready_ps(env, now))


def send_credit(env, now, rx):
    par = env.par
    rx.number += 1
    credit = send(env, rx, CREDIT, rx.number, rtt.timestamp(now), CREDIT_CLASS)
    size = par.credit_bytes
    if par.credit_spread > 0:
        draw = rand32(par.seed, SIZE, rx.flow, rx.number)
        size += below(draw, 2 * par.credit_spread + 1) - par.credit_spread
    credit.size_bytes = size
    env.host.full_ps = max(now, env.host.full_ps) + room_ps(env, size)
