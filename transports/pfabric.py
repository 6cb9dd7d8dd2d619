"""pFabric: line rate from the start; switches serve the flow with the least remaining first.

Packets carry their flow's number of unacknowledged packets, and the queue discipline `pfabric`
(`netsim/queues/pfabric.py`) serves and keeps the packets with the lowest number. So senders stay
simple. A flow starts with its largest window, one bandwidth-delay product. Packets are acknowledged
individually. A short timeout alone detects losses and restarts the flow with one packet. After
several timeouts in a row it only sends small probes until one is answered. Hosts also serve the
flow with the fewest remaining bytes first.

Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, section 4.
"""

from netsim.blocks import selective
from netsim.params import Param
from netsim.transport import ACK, BLOCKED, cancel_timer, finish, full_packet_bytes, send, set_timer

PARAMS = [
    Param("initial_window", "count", 0,
          "maximum window, in packets; 0: the path's bandwidth-delay product",
          source="SIGCOMM 2013, section 4.2: flows start at line rate", products="1bdp"),
    Param("rto_rtts", "ratio", 3.0, "retransmission timeout, in round trips on empty links",
          source="SIGCOMM 2013, section 4.2: small and fixed", minimum=1.0, maximum=1000.0),
    Param("probe_after", "count", 5, "timeouts in a row after which only probes are sent",
          source="prob_cap_ of ns-2 scripts that descend from the authors'", minimum=1),
]  # fmt: skip

FABRIC = {
    "queue_discipline": "pfabric",
    "routing": "spray_round_robin",
    "plane_balancing": "round_robin",
    "n_traffic_classes": 1,
    "queue_bytes": "2bdp",
}

# Two bandwidth-delay products of four links of 1 us at these rates.
PRESETS: dict[str, dict[str, object]] = {"100g": {}, "800g": {}}
PRESET_FABRIC = {"100g": {"queue_bytes": "60pkt"}, "800g": {"queue_bytes": "400pkt"}}

PROBE, ALIVE = 2, 14

TX_STATE = (
    *selective.TX_STATE,
    ("window", float),  # packets
    ("most", float),
    ("threshold", float),  # where slow start ends
    "timeouts",  # in a row
    "probing",
)
TX_BITMAPS = selective.TX_BITMAPS
RX_BITMAPS = selective.RX_BITMAPS
PACKET_FIELDS = ("remaining",)
TRACE = ("next_seq", "n_acked", "window", "probing")
TX_TIMERS = 1
RTO = 0


def setup(env, tx, rx):
    full = full_packet_bytes(env)
    tx.most = float(env.par.initial_window)
    if env.par.initial_window == 0:
        tx.most = float((tx.bdp_bytes + full - 1) // full)
    tx.window = tx.most
    tx.threshold = tx.most


def left(tx):
    """Return the number of unacknowledged packets of a flow."""
    return tx.n_packets - tx.n_acked


def rank(env, tx):
    return left(tx)


def ready(env, now, tx):
    room = selective.outstanding(tx) + 1 <= tx.window
    if tx.probing == 0 and room and selective.has_data(tx):
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    if selective.outstanding(tx) == 0:
        await_answer(env, now, tx)
    pkt.seq = selective.take(env, tx)
    pkt.remaining = left(tx)


def await_answer(env, now, tx):
    set_timer(env, now, tx, RTO, now + int(env.par.rto_rtts * tx.base_rtt_ps))


def on_data(env, now, rx, pkt):
    selective.accept(env, now, rx, pkt)
    send(env, rx, ACK, int(pkt.seq), 0, rx.prio)


def on_request(env, now, rx, pkt):
    send(env, rx, ALIVE, 0, 0, rx.prio)


def on_control(env, now, tx, pkt):
    tx.timeouts = 0
    tx.probing = 0
    if int(pkt.kind) == ACK and selective.acknowledge(env, tx, int(pkt.seq)):
        grow(tx)
    if selective.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)
    elif selective.outstanding(tx) == 0:
        cancel_timer(env, tx, RTO)
    else:
        await_answer(env, now, tx)


def grow(tx):
    """Grow as TCP does: one packet per packet acknowledged, then one per window."""
    step = 1.0
    if tx.window >= tx.threshold:
        step = 1.0 / tx.window
    tx.window = min(tx.window + step, tx.most)


def on_timer(env, now, tx, k):
    if tx.timeouts == 0:
        tx.threshold = max(tx.window / 2, 1.0)
    tx.timeouts += 1
    tx.window = 1.0
    selective.lose_outstanding(env, tx)
    if tx.timeouts >= env.par.probe_after:
        tx.probing = 1
        probe = send(env, tx, PROBE, 0, 0, tx.prio)
        probe.remaining = left(tx)
        await_answer(env, now, tx)
