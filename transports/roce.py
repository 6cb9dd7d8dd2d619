"""RoCEv2 without congestion control: line rate, go-back-N, one path per flow.

The receiver accepts packets only in order. At the first gap it sends a NACK with the number it
expects, and the sender goes back to it. For lossless fabrics (PFC).
"""

from netsim.blocks import go_back_n, traffic_classes
from netsim.transport import BLOCKED, NACK, armed, cancel_timer, finish, send

PARAMS = [*go_back_n.PARAMS, traffic_classes.DATA_CLASS, traffic_classes.ack_param("ACK and NACK")]

FABRIC = {
    "queue_discipline": "lossless",
    "routing": "ecmp",
    "n_traffic_classes": 1,
    "xoff_bytes": "0.6bdp+100pkt",
    "xon_bytes": "0.5bdp+80pkt",
}

PRESETS: dict[str, dict[str, object]] = {
    "htsim": {},
    "800g": {},
    # NVIDIA Spectrum-X: switches choose for each packet, and the NIC places packets in any order.
    # The lossless fabric loses none; how many the NIC can place is not published.
    "spectrum-x": {"reorder_packets": 4096},
}

# A link must not go idle while it is resumed. That requires the product of its rate and its own
# round trip (a quarter of the path's on four equal links): 48 packets of 4160 bytes at 800 Gbps.
# The rest is about the per-port buffer of a 100 Gbps switch; with less, pauses spread. csg-htsim
# uses 12 and 15 packets at any rate.
PRESET_FABRIC = {
    "htsim": {"xoff_bytes": "15pkt", "xon_bytes": "12pkt"},
    "800g": {"xoff_bytes": "120pkt", "xon_bytes": "96pkt"},
    "spectrum-x": {"routing": "least_loaded"},
}

TX_STATE = go_back_n.TX_STATE
RX_STATE = (*go_back_n.RX_STATE, *traffic_classes.RX_STATE)
RX_BITMAPS = go_back_n.RX_BITMAPS
TX_TIMERS = 1
RTO = 0


def setup(env, tx, rx):
    traffic_classes.setup(env, tx, rx)


def ready(env, now, tx):
    if go_back_n.has_data(tx):
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = go_back_n.take(tx)
    if not armed(env, tx, RTO):
        go_back_n.restart_timer(env, now, tx, RTO)


def on_data(env, now, rx, pkt):
    answer = go_back_n.accept(env, now, rx, pkt, env.par.ack_every)
    if answer != 0:
        send(env, rx, answer, rx.expected, 0, rx.ack_class)


def on_control(env, now, tx, pkt):
    is_nack = int(pkt.kind) == NACK
    newly = go_back_n.acknowledge(tx, int(pkt.seq), is_nack)
    if go_back_n.is_done(tx):
        cancel_timer(env, tx, RTO)
        finish(env, now, tx)
    elif newly > 0 or is_nack:
        go_back_n.restart_timer(env, now, tx, RTO)


def on_timer(env, now, tx, k):
    go_back_n.rewind(tx)
    go_back_n.restart_timer(env, now, tx, RTO)
