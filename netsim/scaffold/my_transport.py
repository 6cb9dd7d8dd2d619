"""A window that grows by a packet a round trip while queues are short, and shrinks when not.

Say here what the protocol does, in the words of its paper, and cite it with the section. The
first line is what `netsim list` and `netsim show` print.
"""

from netsim.blocks import rto, rtt, selective
from netsim.params import Param
from netsim.transport import ACK, BLOCKED, armed, cancel_timer, finish, send, set_timer

RTO_PS = 500 * rto.US  # or three round trips of a flow, the longer one

# --- What a user may set: [transport] in an experiment, --set transport.target_delay=2us ----------
# Units: time (handlers get picoseconds), bytes, rate (bit/s), count, fraction, ratio, bool, choice.
PARAMS = [
    Param("initial_window", "count", 32, "packets sent before anything is heard", minimum=1),
    Param("target_delay", "time", "4us", "the window shrinks when packets queue for longer"),
    Param("decrease", "fraction", 0.8, "what then is left of the window", source="your paper, 3.2"),
    Param("reordering", "count", 3, "a packet is lost when the one so much later has arrived"),
    rto.param(RTO_PS, "retransmission timeout, the last resort"),
]
# Sets of values with a name: kind = "./my_transport.py:careful"
PRESETS = {"careful": {"target_delay": "1us", "decrease": 0.9}}

# --- What it expects of the switches; an experiment's [fabric] changes it key by key -------------
FABRIC = {"queue_discipline": "drop_tail", "load_balancing": "ecmp", "queue_bytes": "100pkt"}

# --- State: one record for each side of a flow, all zero at first --------------------------------
# A bare name is a whole number (int64). The sender's record lives on the source host, the
# receiver's on the destination: they run in parallel, and only packets go from one to the other.
TX_STATE = (
    *selective.TX_STATE,
    ("window", float),  # packets that may be under way
    "checked",  # packets below this one have been looked at for losses
    "shrink_from_ps",  # the window does not shrink before
)
TX_BITMAPS = selective.TX_BITMAPS  # one bit for each packet of a flow, at the sender ...
RX_BITMAPS = selective.RX_BITMAPS  # ... and at the receiver
TX_TIMERS = 1
RTO = 0  # the number of that timer


# --- The sender ----------------------------------------------------------------------------------


def on_start(env, now, tx):
    """The flow starts."""
    tx.window = float(env.par.initial_window)


def ready(env, now, tx):
    """The NIC is free: send now, at a later time (pacing), or only after something happened?"""
    if selective.has_data(tx) and selective.outstanding(tx) < tx.window:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    """A data packet is built. Only its number is needed; its size follows from that."""
    pkt.seq = selective.take(env, tx)
    pkt.aux = rtt.timestamp(now)
    if not armed(env, tx, RTO):
        set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))


def on_control(env, now, tx, pkt):
    """A packet from the receiver. Read its fields with int()."""
    seq = int(pkt.seq)
    if not selective.acknowledge(env, tx, seq):
        return
    if selective.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)  # the sender knows that all has arrived
        return
    set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))
    notice_losses(env, now, tx, seq)
    queueing_ps = rtt.elapsed_ps(now, int(pkt.aux)) - tx.base_rtt_ps
    if queueing_ps > env.par.target_delay:
        shrink(env, now, tx)
    else:
        tx.window += 1.0 / tx.window


def on_timer(env, now, tx, k):
    """Nothing was heard for too long: everything under way counts as lost."""
    selective.lose_outstanding(env, tx)
    tx.window = 1.0
    set_timer(env, now, tx, RTO, now + rto.of_path(env.par.rto, RTO_PS, tx))


# Functions of one's own are compiled as well; the engine calls the ones it knows the names of.


def notice_losses(env, now, tx, seq):
    """Packets sent long before one that has arrived are lost; each is judged once."""
    while tx.checked + env.par.reordering < seq:
        if selective.lose(env, tx, tx.checked):
            shrink(env, now, tx)
        tx.checked += 1


def shrink(env, now, tx):
    """At most once a round trip."""
    if now >= tx.shrink_from_ps:
        tx.window = max(1.0, tx.window * env.par.decrease)
        tx.shrink_from_ps = now + tx.base_rtt_ps


# --- The receiver --------------------------------------------------------------------------------


def on_data(env, now, rx, pkt):
    """A data packet arrived: deliver it if it is new, acknowledge it, return its time stamp."""
    selective.accept(env, now, rx, pkt)
    send(env, rx, ACK, int(pkt.seq), int(pkt.aux), 0)
