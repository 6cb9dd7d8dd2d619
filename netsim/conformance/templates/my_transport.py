"""A window that grows by a packet per round trip while queues are short, and shrinks otherwise.

Describe the protocol here in the terms of its paper, and cite it with the section. `netsim list`
and `netsim show` print the first line.
"""

from netsim.blocks import rto, rtt, selective
from netsim.params import Param
from netsim.transport import ACK, BLOCKED, armed, cancel_timer, finish, send, set_timer

RTO_PS = 500 * rto.US  # or three round trips, if longer

# --- Parameters: [transport] in an experiment, --set transport.target_delay=2us ------------------
# Units: time (handlers get picoseconds), bytes, rate (bit/s), count, fraction, ratio, bool, choice.
PARAMS = [
    Param("initial_window", "count", 32, "packets in the first window", minimum=1),
    Param("target_delay", "time", "4us", "queueing delay above which the window shrinks"),
    Param("decrease", "fraction", 0.8, "window kept by a decrease", source="your paper, 3.2"),
    Param("reordering", "count", 3, "later packets that arrive before one counts as lost"),
    rto.param(RTO_PS, "retransmission timeout, the last resort"),
]
# Named sets of values: kind = "./my_transport.py:careful"
PRESETS = {"careful": {"target_delay": "1us", "decrease": 0.9}}

# --- The fabric it expects; an experiment's [fabric] overrides single keys -----------------------
# bdp: the bandwidth-delay product at each port, so that queues suit any rate.
FABRIC = {"queue_discipline": "drop_tail", "routing": "ecmp", "queue_bytes": "1bdp+64pkt"}

# --- State: one record per side of a flow, initially zero -----------------------------------------
# A bare name is an int64. The sender's record is on the source host, the receiver's on the
# destination: hosts run in parallel and interact only through packets.
TX_STATE = (
    *selective.TX_STATE,
    ("window", float),  # packets that may be in flight
    "checked",  # packets below this were checked for loss
    "shrink_from_ps",  # earliest time of the next decrease
)
TX_BITMAPS = selective.TX_BITMAPS  # one bit per packet of a flow, at the sender ...
RX_BITMAPS = selective.RX_BITMAPS  # ... and at the receiver
TX_TIMERS = 1
RTO = 0  # number of the timer


# --- The sender ----------------------------------------------------------------------------------


def on_start(env, now, tx):
    """Start the flow."""
    tx.window = float(env.par.initial_window)


def ready(env, now, tx):
    """Return now, a later time (pacing), or BLOCKED until another handler runs."""
    if selective.has_data(tx) and selective.outstanding(tx) < tx.window:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    """Fill in a data packet. Only `seq` is required; it determines the size."""
    pkt.seq = selective.take(env, tx)
    pkt.aux = rtt.timestamp(now)
    if not armed(env, tx, RTO):
        set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))


def on_control(env, now, tx, pkt):
    """Handle a packet from the receiver. Read its fields with int()."""
    seq = int(pkt.seq)
    if not selective.acknowledge(env, tx, seq):
        return
    if selective.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)  # all data has arrived
        return
    set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))
    notice_losses(env, now, tx, seq)
    queueing_ps = rtt.elapsed_ps(now, int(pkt.aux)) - tx.base_rtt_ps
    if queueing_ps > env.par.target_delay:
        shrink(env, now, tx)
    else:
        tx.window += 1.0 / tx.window


def on_timer(env, now, tx, k):
    """Treat everything in flight as lost after a timeout."""
    selective.lose_outstanding(env, tx)
    tx.window = 1.0
    set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))


# Your own functions are compiled, too; the engine calls only handlers.


def notice_losses(env, now, tx, seq):
    """Mark packets as lost if sent long before one that arrived; check each once."""
    while tx.checked + env.par.reordering < seq:
        if selective.lose(env, tx, tx.checked):
            shrink(env, now, tx)
        tx.checked += 1


def shrink(env, now, tx):
    """Shrink the window, at most once per round trip."""
    if now >= tx.shrink_from_ps:
        tx.window = max(1.0, tx.window * env.par.decrease)
        tx.shrink_from_ps = now + tx.base_rtt_ps


# --- The receiver --------------------------------------------------------------------------------


def on_data(env, now, rx, pkt):
    """Deliver a new data packet, acknowledge it and echo its time stamp."""
    selective.accept(env, now, rx, pkt)
    send(env, rx, ACK, int(pkt.seq), int(pkt.aux), 0)
