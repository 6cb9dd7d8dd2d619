"""NSCC: Ultra Ethernet's window-based congestion control, from ECN, queueing delay and trimming.

An acknowledgment reports whether the packet that caused it was marked, and its queueing delay.
Unmarked below the target delay: the window grows in proportion to the distance from the target, and
fast while there is no queue. Unmarked above it: the window grows slightly, for fairness. Marked
above it: the window shrinks, once per round trip, by how late packets are on average. Marked below
it: only the path changes. Increases are summed and applied every few packets or once per round
trip. After a loss, or extreme delay, the window becomes the bytes delivered in the last period
(quick adapt). Receivers acknowledge every 16 KiB. They immediately acknowledge a marked packet, and
a packet that uses up the window or the flow.

Part of the Ultra Ethernet Specification 1.0; rules and numbers are from its simulator, in the
repositories astra-sim/astra-network-uet-htsim (sim/uec.cpp) and HLC-Lab/uet-htsim (main_uec.cpp).
Its queues hold one bandwidth-delay product and mark from 20 % to 80 % of it. Presets 100g and 800g
have the queues of four links of 1 us at these rates, 29 and 197 packets. Gains are for a network of
12 us at 100 Gbps, scaled by the path's bandwidth-delay product. The base delay is known, not
measured.

Two rules of that simulator and of the specification are options. With `base_rtt`, all flows start
with the same base round trip, the network's longest, and lower it to their measurements. With
`ack_report = "all"`, an acknowledgment counts all packets that have arrived, which frees the window
for packets that its bitmap does not cover.

With `rules = "2024"`, windows follow that simulator as of August 2024: the fair increase is also
added below the target, increases take effect every 8,000 bytes, quick adapt uses the average delay,
and a packet may exceed the window. The results published for 8,192 hosts use those rules.
"""

from netsim.blocks import bdp_queues, reports, ultra_ethernet
from netsim.transport import BLOCKED

PARAMS = [*ultra_ethernet.PARAMS, ultra_ethernet.last_hop_trims("ignored")]
PRESETS: dict[str, dict[str, object]] = {"100g": {}, "800g": {}}

# Where a bandwidth-delay product is a few packets, as at 10 Gbps, a queue of one product is too
# short for an incast's smallest windows, one packet per flow, which are trimmed again and again.
FABRIC = {
    **bdp_queues.FABRIC,
    "queue_bytes": "1bdp+16pkt",
    "ecn": {**bdp_queues.FABRIC["ecn"], "kmin_bytes": "0.2bdp+2pkt", "kmax_bytes": "0.8bdp+8pkt"},
}
PRESET_FABRIC = bdp_queues.PRESET_FABRIC

TX_STATE = ultra_ethernet.TX_STATE
PACKET_FIELDS = ultra_ethernet.PACKET_FIELDS
RX_STATE = ultra_ethernet.RX_STATE
TX_TIMERS = 1
TX_BITMAPS = ultra_ethernet.TX_BITMAPS
RX_BITMAPS = ultra_ethernet.RX_BITMAPS


def setup(env, tx, rx):
    ultra_ethernet.setup(env, tx)


def on_start(env, now, tx):
    ultra_ethernet.start(now, tx)


def ready(env, now, tx):
    return now if ultra_ethernet.fits(env, tx) else BLOCKED


def build_packet(env, now, tx, pkt):
    ultra_ethernet.build_packet(env, now, tx, pkt)
    if ultra_ethernet.is_full(env, tx):
        pkt.report = reports.ASK


def on_data(env, now, rx, pkt):
    ultra_ethernet.on_data(env, now, rx, pkt)


def on_trimmed(env, now, rx, pkt):
    ultra_ethernet.on_trimmed(env, rx, pkt)


def on_control(env, now, tx, pkt):
    ultra_ethernet.on_control(env, now, tx, pkt, True)


def on_timer(env, now, tx, k):
    ultra_ethernet.on_timer(env, now, tx)
