"""Homa: exact times, service order, buffers, loss recovery, and the benefit of priorities."""

from itertools import pairwise

import numpy as np
import pytest
from engine_runs import (
    PACKET,
    US,
    acked_ps,
    build,
    changed,
    counter,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
    hit,
    run,
)

from netsim.engine.engine import Engine
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.ideal import ideal_times
from netsim.model.network import Network
from netsim.params import resolve_params
from netsim.plugins import registry
from netsim.traffic._sizes import BUILT_IN, SizeDistribution

PAYLOAD = 4096
FULL = 332_800  # transmission time of a full packet at 100 Gbps, ps
CONTROL = 5_120
TIMEOUT = 100 * US
FAR = 43  # RTTbytes between two leaves of `NETWORK`, in packets: (4 FULL + 4 CONTROL + 8 us) * 1.5
NETWORK = fat_tree(4, 2, "100Gbps")
FABRIC = fabric_with(routing="spray_permutation", n_traffic_classes=8, queue_bytes=10**9)


def homa(
    flows: list[tuple[int, int, int, int]],
    *,
    network: Network = NETWORK,
    fabric: Fabric = FABRIC,
    faults: list[LinkFault] | None = None,
    **params: object,
) -> Engine:
    """Run messages of (src, dst, bytes, start_ps) until all senders are acknowledged. The oldest
    message gets no share unless ``fifo_share`` is given: grants go by remaining bytes."""
    params.setdefault("fifo_share", 0.0)
    if faults:
        params["resend_timeout"] = "100us"
    # Pass faults even if there are none: all tests then share one compiled engine.
    broken = combine(faults or [], network.n_ports)
    engine = run(build(network, flow_table(flows), "homa", fabric, params=params, faults=broken))
    assert (fct_ps(engine) > 0).all()
    assert (acked_ps(engine) > 0).all()
    return engine


def ideal_ps(n_packets: int, links: int = 4) -> int:
    """Completion time of a message of full packets in an idle network."""
    return (n_packets + links - 1) * FULL + links * US


def retransmits(engine: Engine) -> int:
    return int(engine.flow_states().retransmits.sum())


def sent_in_class(engine: Engine, port: int) -> list[int]:
    classes = engine.fabric.n_traffic_classes
    return engine.link_counters().sent_packets[port * classes : (port + 1) * classes].tolist()


def downlink(network: Network, host: int) -> int:
    """The switch's port to the host."""
    return int(network.port_peer[network.node_first_port[host]])


@pytest.mark.parametrize("n_packets", [1, 2, FAR, FAR + 1, 200])
@pytest.mark.parametrize(("dst", "links"), [(7, 4), (1, 2)])
def test_single_message_takes_the_ideal_time(n_packets: int, dst: int, links: int) -> None:
    """Messages longer than RTTbytes do too, since grants arrive in time."""
    engine = homa([(0, dst, n_packets * PAYLOAD, 0)])
    assert fct_ps(engine)[0] == ideal_ps(n_packets, links)
    assert acked_ps(engine)[0] == ideal_ps(n_packets, links) + links * (CONTROL + US)
    assert retransmits(engine) == 0


def test_small_rtt_bytes_leave_the_link_idle() -> None:
    """With a window of w packets, w are sent per round trip."""
    window = 10
    engine = homa([(0, 7, 100 * PAYLOAD, 0)], rtt_bytes=f"{window * PACKET}B")
    round_trip = 4 * (FULL + US) + 4 * (CONTROL + US)
    assert fct_ps(engine)[0] == 9 * round_trip + ideal_ps(window)


def test_receiver_grants_the_shorter_message_first() -> None:
    """Unscheduled packets of both alternate; then the receiver grants the shorter message."""
    engine = homa([(0, 7, 200 * PAYLOAD, 0), (1, 7, 100 * PAYLOAD, 0)])
    long, short = fct_ps(engine)
    assert short == ideal_ps(100 + FAR)
    assert long == ideal_ps(100 + 200)


def test_receiver_switches_to_a_shorter_message() -> None:
    """Packets that are already granted still arrive, at a lower priority than the new message."""
    at = 100 * US
    engine = homa([(0, 7, 800 * PAYLOAD, 0), (1, 7, 200 * PAYLOAD, at)])
    long, short = fct_ps(engine)
    assert long == ideal_ps(800 + 200)
    assert ideal_ps(200) <= short <= ideal_ps(200) + 2 * FULL


def test_sender_serves_its_shortest_message_first() -> None:
    at = 50 * US
    engine = homa([(0, 7, 300 * PAYLOAD, 0), (0, 6, 30 * PAYLOAD, at)])
    long, short = fct_ps(engine)
    assert ideal_ps(30) <= short <= ideal_ps(30) + 2 * FULL
    assert long <= ideal_ps(300 + 30 + 2)


def test_receiver_grants_one_message_per_sender() -> None:
    """A sender's second message waits, although seven may be granted; another sender's does not."""
    size = 150 * PAYLOAD
    engine = homa([(0, 7, size, 0), (0, 7, size, 0), (1, 7, size, 0)])
    first, second, other = fct_ps(engine)
    assert first < second
    assert other < second
    assert second == pytest.approx(ideal_ps(450), rel=0.02)


def test_oldest_message_gets_its_fifo_share() -> None:
    """While shorter messages use the link it gets ``share`` of the packets, none if that is 0."""
    for share in [0.0, 0.1]:
        flows = [(0, 7, 4000 * PAYLOAD, 0), *((1 + i, 7, 250 * PAYLOAD, 30 * US) for i in range(3))]
        params, faults = {"fifo_share": share}, combine([], NETWORK.n_ports)
        engine = build(NETWORK, flow_table(flows), "homa", FABRIC, params=params, faults=faults)
        run(engine, 60 * US)
        before = int(engine.flow_states().received_bytes[0])
        run(engine, 240 * US)
        assert (fct_ps(engine) < 0).sum() > 1
        got = (int(engine.flow_states().received_bytes[0]) - before) / PAYLOAD
        assert 0 <= got - share * 180 * US / FULL < FAR / 2


def test_scheduled_packets_use_the_lowest_classes_first() -> None:
    long = [(src, 7, 150 * PAYLOAD, 0) for src in (0, 1, 2)]
    for n in (1, 2, 3):
        sent = sent_in_class(homa(long[:n]), downlink(NETWORK, 7))
        assert [c for c in range(1, 8) if sent[c] > 0] == list(range(8 - n, 8))
        assert sent[0] == n * FAR


def test_cutoffs_choose_the_class_of_unscheduled_packets() -> None:
    cuts = {"cutoff_1": "1KB", "cutoff_2": "8KB"}
    sizes = (1_000, 1_001, 8_000, 8_001, 100 * PAYLOAD)
    for size, chosen in zip(sizes, (0, 1, 1, 2, 2), strict=True):
        sent = sent_in_class(homa([(0, 7, size, 0)], **cuts), downlink(NETWORK, 7))
        unscheduled = min(-(-size // PAYLOAD), FAR)
        assert sent[:7] == [unscheduled * (c == chosen) for c in range(7)]


def test_fewer_priorities_use_the_highest_classes() -> None:
    for levels in [1, 2, 4]:
        cuts = {"cutoff_1": "1KB", "cutoff_2": "8KB", "cutoff_3": "9KB"}
        flows = [(src, 7, size, 0) for src, size in enumerate((500, 5_000, 10_000, 10**6))]
        sent = sent_in_class(homa(flows, priorities=levels, **cuts), downlink(NETWORK, 7))
        assert sum(sent[levels:]) == 0
        assert all(n > 0 for n in sent[:levels])


def test_preset_cutoffs_split_unscheduled_bytes_evenly() -> None:
    """Section 3.4: classes get the unscheduled share of bytes; all carry equally many."""
    for preset in ["w1", "w2", "w3", "w4", "w5"]:
        rtt_bytes = 9_700
        drawn = SizeDistribution.from_points(BUILT_IN[f"homa_{preset}"]).draw(
            10**6, np.random.default_rng(1)
        )
        unscheduled = np.minimum(drawn, rtt_bytes)
        share = unscheduled.sum() / drawn.sum()
        levels = min(max(round(8 * share), 1), 7)
        cuts = registry.find("transport", "homa").presets[preset]
        assert len(cuts) == levels - 1
        edges = [0, *(int(str(size)[:-1]) for size in cuts.values()), 10**9]
        for low, high in pairwise(edges):
            part = unscheduled[(drawn > low) & (drawn <= high)].sum() / unscheduled.sum()
            assert part == pytest.approx(1 / levels, abs=0.02 if preset != "w2" else 0.06)


@pytest.mark.parametrize("n_senders", [3, 12])
def test_incast_buffer_is_bounded(n_senders: int) -> None:
    """Unscheduled data is RTTbytes per sender; granted data is at most overcommit * RTTbytes.

    Everything is in one class, whose largest queue is counted. A buffer of the bound drops nothing.
    """
    network = fat_tree(4, 4, "100Gbps")
    flows = [(src, 15, 100 * PAYLOAD, 0) for src in range(n_senders)]
    most = max(n_senders, 4) * FAR * PACKET
    fabric = changed(FABRIC, queue_bytes=most)
    engine = homa(flows, network=network, fabric=fabric, overcommit=4, priorities=1)
    assert engine.link_counters().max_queue_bytes.max() > most / 2
    assert counter(engine, "drops") == 0
    assert retransmits(engine) == 0
    assert fct_ps(engine).max() <= ideal_ps(100 * n_senders + 2)


def test_overcommit_bounds_grants_to_messages_near_rtt_bytes() -> None:
    network = fat_tree(4, 4, "100Gbps")
    flows = [(src, 15, 60 * PAYLOAD, 0) for src in range(12)]
    engine = homa(flows, network=network, overcommit=2)
    scheduled = engine.link_counters().max_queue_bytes.reshape(-1, 8)[:, 1:]
    assert scheduled.max() <= 2 * FAR * PACKET
    assert fct_ps(engine).max() == pytest.approx(ideal_ps(60 * 12), rel=0.02)


@pytest.mark.slow
def test_waiting_message_is_not_resent() -> None:
    """Eight long messages run one after the other, so the last is silent for 60 timeouts. Nothing
    is lost.

    At most one packet per message is sent twice: one that waits in a class its message had before.
    """
    timeout, n_packets = 30 * US, 800
    network = fat_tree(8, 2, "100Gbps")
    flows = [(8 + src, 0, n_packets * PAYLOAD, 0) for src in range(8)]
    engine = homa(flows, network=network, resend_timeout="30us")
    assert fct_ps(engine).max() > 60 * timeout
    assert retransmits(engine) <= 8
    assert engine.link_counters().max_queue_bytes.reshape(-1, 8)[:, 1:].max() < 3 * FAR * PACKET
    assert np.sort(fct_ps(engine))[3] < 0.6 * fct_ps(engine).max()


def lost(port: int, first: int, n: int = 1, start_ps: int = 0) -> LinkFault:
    """Lose packets ``first`` to ``first + n - 1`` of those sent back to back from ``start_ps``."""
    since = start_ps + first * FULL
    return hit(port, since + 1, since + n * FULL - 1, FULL)


UP = int(NETWORK.node_first_port[0])  # host 0's link to its leaf


def test_lost_packets_are_sent_again_once() -> None:
    for n_packets, first, n_lost in [(20, 10, 3), (200, FAR - 1, 2), (200, 100, 5), (200, 199, 1)]:
        engine = homa([(0, 7, n_packets * PAYLOAD, 0)], faults=[lost(UP, first, n_lost)])
        assert retransmits(engine) == n_lost
        assert TIMEOUT < fct_ps(engine)[0] < ideal_ps(n_packets) + TIMEOUT + 20 * US


def test_many_gaps_are_repaired_after_one_timeout() -> None:
    """Every other packet is lost at the start: more gaps than one handler call may request."""
    gaps = [lost(UP, first) for first in range(0, 40, 2)]
    engine = homa([(0, 7, 200 * PAYLOAD, 0)], faults=gaps)
    assert retransmits(engine) == len(gaps) == 20
    assert TIMEOUT < fct_ps(engine)[0] < ideal_ps(200) + TIMEOUT + 30 * US


def test_loss_of_all_unscheduled_packets_is_repaired() -> None:
    """The sender asks after a timeout; the receiver then requests all unscheduled packets."""
    for n_packets in [1, 2, 20]:
        engine = homa([(0, 7, n_packets * PAYLOAD, 0)], faults=[lost(UP, 0, n_packets)])
        assert retransmits(engine) == n_packets
        last_sent = (n_packets - 1) * FULL
        asked = last_sent + TIMEOUT + 8 * (CONTROL + US)
        assert fct_ps(engine)[0] == asked + ideal_ps(n_packets)


def test_lost_acknowledgment_is_sent_again() -> None:
    """The sender asks after a timeout, and the receiver answers with the acknowledgment."""
    back = int(NETWORK.node_first_port[7])
    done = ideal_ps(20)
    ack = hit(back, done, done + 1, CONTROL)
    engine = homa([(0, 7, 20 * PAYLOAD, 0)], faults=[ack])
    assert fct_ps(engine)[0] == done
    assert acked_ps(engine)[0] == 19 * FULL + TIMEOUT + 8 * (CONTROL + US)
    assert retransmits(engine) == 0


def test_lost_grants_are_recovered() -> None:
    """The next grant makes up for a few lost ones; if all are lost, RESEND grants too."""
    back = int(NETWORK.node_first_port[7])
    few = hit(back, 20 * US, 22 * US, CONTROL)
    engine = homa([(0, 7, 200 * PAYLOAD, 0)], faults=[few])
    assert fct_ps(engine)[0] < ideal_ps(200) + 5 * US
    every = hit(back, 0, 50 * US, CONTROL)
    engine = homa([(0, 7, 200 * PAYLOAD, 0)], faults=[every])
    assert TIMEOUT < fct_ps(engine)[0] < ideal_ps(200) + TIMEOUT + 20 * US
    assert retransmits(engine) == 0


@pytest.mark.slow
def test_permutation_is_slowed_only_by_its_grants() -> None:
    """Each link carries a grant for every packet of the opposite direction: 64 of 4,224 bytes."""
    network = fat_tree(4, 4, "100Gbps")
    n = 1000
    engine = homa([(src, (src + 5) % 16, n * PAYLOAD, 0) for src in range(16)], network=network)
    slowdown = fct_ps(engine) / ideal_ps(n)
    assert 1.01 < slowdown.max() < 1.03


def poisson(network: Network, workload: str, n_flows: int, packets: PacketFormat) -> FlowTable:
    plugin = registry.find("traffic", "poisson")
    given = {"sizes": workload, "load": 0.8, "n_flows": n_flows}
    params = resolve_params(plugin.params, plugin.presets, given, None, file=None, key="traffic")
    context = TrafficContext(
        None, 1, network.host_rate_bps, packets.payload_bytes, packets.header_bytes
    )
    return plugin.module.flows(params, network, np.random.default_rng(1), context).flows


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "n_flows", "gain"), [("w3", 20_000, 4), ("w4", 5_000, 4)])
def test_priorities_reduce_the_tail_of_short_messages(
    preset: str, n_flows: int, gain: float
) -> None:
    """99th percentile of the slowdown of the shorter half of the messages, at 80 % load. The
    paper's figure 12 shows about 2 for them."""
    given = {"fabric_rate": "40Gbps", "link_latency": "250ns", "host_link_latency": "750ns"}
    network = fat_tree(8, 4, "10Gbps", spines=2, **given)
    packets = PacketFormat(payload_bytes=1430, header_bytes=70)
    flows = poisson(network, f"homa_{preset}", n_flows, packets)
    ideal = ideal_times(network, flows, packets).fct_ps
    short = flows.size_bytes <= np.median(flows.size_bytes)
    cuts = registry.find("transport", "homa").presets[preset]
    tail = {}
    for levels in (8, 1):
        params = {"rtt_bytes": "9700B", "overcommit": 7, "priorities": levels, **cuts}
        given = {"packets": packets, "faults": combine([], network.n_ports)}
        engine = run(build(network, flows, "homa", FABRIC, params=params, **given))
        tail[levels] = float(np.quantile((fct_ps(engine) / ideal)[short], 0.99))
        assert counter(engine, "drops") == 0
    assert tail[8] < 2.3
    assert tail[1] > gain * tail[8]
