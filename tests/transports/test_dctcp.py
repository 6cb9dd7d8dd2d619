"""DCTCP: the estimator, the queue's sawtooth, fair shares, and losses."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_runs import (
    US,
    assert_conserved,
    build,
    counter,
    dumbbell,
    fabric_with,
    fct_ps,
    flow_table,
    run,
)
from shared_link import bottleneck, measure

from netsim.model.fabric import Ecn, Fabric, PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.model.network import Network
from netsim.transports import dctcp

MS = 1000 * US
PACKETS = PacketFormat(payload_bytes=1436, header_bytes=64)
FULL = PACKETS.data_bytes
RATE_BPS = 10 * 10**9
RTT_PS = 100 * US


def path(hosts: int) -> Network:
    """40 Gbps hosts on both sides of a 10 Gbps link; the round trip is 100 us."""
    delays = {"host_delay": "10us", "bottleneck_delay": "30us"}
    return dumbbell(hosts=hosts, host_rate="40Gbps", bottleneck_rate="10Gbps", **delays)


def marking(k: int, queue: int = 1000) -> Fabric:
    """A single marking threshold ``k``; it and ``queue`` are in packets."""
    return fabric_with(queue_bytes=queue * FULL, ecn=Ecn(k * FULL, k * FULL))


def sender(**given: float) -> SimpleNamespace:
    state = {"alpha": 1.0, "window_end": 0, "window_acked": 0, "window_marked": 0, "next_seq": 0}
    return SimpleNamespace(**{**state, "cut_until": 0, "cwnd": 100.0, "ssthresh": 0.0, **given})


def test_alpha_converges_to_the_marked_fraction() -> None:
    """With a marked fraction F alpha is F + (alpha_0 - F) (1 - g)^m after m windows."""
    env = SimpleNamespace(par=SimpleNamespace(g=1 / 16))
    tx = sender(window_end=20)
    for m in range(40):
        tx.next_seq = 20 * (m + 2)
        for i in range(20):
            dctcp.estimate(env, tx, 20 * m + i + 1, marked=i % 4 == 0)
        assert tx.alpha == pytest.approx(0.25 + 0.75 * (15 / 16) ** (m + 1))


def test_window_is_cut_once_per_window() -> None:
    """The cut is by alpha / 2; only a packet sent after the cut can cause another one."""
    env = SimpleNamespace(par=SimpleNamespace(min_window=2))
    tx = sender(next_seq=100)
    dctcp.cut(env, tx, 30, 0.5)
    assert (tx.cwnd, tx.ssthresh, tx.cut_until) == (75.0, 75.0, 100)
    dctcp.cut(env, tx, 99, 0.5)
    assert tx.cwnd == 75.0
    tx.next_seq = 175
    dctcp.cut(env, tx, 100, 0.2)
    assert tx.cwnd == pytest.approx(67.5)
    tx = sender(cwnd=2.5)
    dctcp.cut(env, tx, 0, 1.0)
    assert tx.cwnd == 2.0


def test_slow_start_doubles_every_round_trip() -> None:
    """A single unmarked flow sends 10, 20, 40, 80 packets in successive round trips."""
    network = path(1)
    n = 10 * (2**4 - 1)
    flows = flow_table([(0, 1, n * PACKETS.payload_bytes, 0)])
    engine = build(network, flows, "dctcp", marking(10**6), packets=PACKETS)
    sent = []
    for r in range(4):
        run(engine, r * 102 * US + 50 * US)
        sent.append(int(engine.flow_states().sent_packets[0]))
    assert sent == [10, 30, 70, 150]
    assert fct_ps(run(engine))[0] > 0


@pytest.mark.slow
def test_queue_follows_the_sawtooth_of_the_paper() -> None:
    """The queue swings below K + N by 1/2 sqrt(2 N (C RTT + K)), all in packets.

    Alizadeh et al., SIGCOMM 2010, section 3.3, for synchronized flows. Here they are only nearly
    synchronized and windows are whole packets, so the extremes match to a few packets.
    """
    for n, k in [(2, 40), (16, 65)]:
        network = path(n)
        flows = flow_table([(i, n + i, 10**10, 0) for i in range(n)])
        engine = build(network, flows, "dctcp", marking(k), packets=PACKETS)
        seen = measure(engine, bottleneck(network), 20 * MS, 60 * MS, 10 * US)
        amplitude = 0.5 * np.sqrt(2 * n * (RATE_BPS * RTT_PS / 8e12 / FULL + k))
        held = seen.held / FULL
        top, bottom = np.percentile(held, 99.5), np.percentile(held, 0.5)
        assert top == pytest.approx(k + n, abs=4)
        assert bottom == pytest.approx(k + n - amplitude, abs=0.35 * amplitude)
        assert seen.rate_bps > 0.995 * RATE_BPS
        assert seen.jain > 0.95
        assert counter(engine, "drops") == 0
        assert_conserved(engine)


@pytest.mark.slow
def test_threshold_below_a_seventh_underuses_the_link() -> None:
    """Section 3.4: K > C RTT / 7 keeps the link busy; K = 1 on a path of 83 packets does not."""
    network = path(2)
    flows = flow_table([(i, 2 + i, 10**10, 0) for i in range(2)])
    engine = build(network, flows, "dctcp", marking(1), packets=PACKETS)
    seen = measure(engine, bottleneck(network), 20 * MS, 60 * MS, 100 * US)
    assert 0.8 * RATE_BPS < seen.rate_bps < 0.99 * RATE_BPS


def test_each_dropped_packet_is_sent_again_once() -> None:
    """Without marks a short queue drops packets."""
    network = path(4)
    size = 400 * PACKETS.payload_bytes
    flows = flow_table([(i, 4 + i, size, 0) for i in range(4)])
    engine = run(build(network, flows, "dctcp", marking(10**6, queue=60), packets=PACKETS))
    assert counter(engine, "drops") > 50
    assert engine.flow_states().retransmits.sum() == counter(engine, "drops")
    ideal = 4 * 400 * FULL * 8e12 / RATE_BPS
    assert fct_ps(engine).max() < 1.5 * ideal + 2 * 10 * MS
    assert_conserved(engine)


def test_repeated_timeouts_keep_the_first_ssthresh() -> None:
    """RFC 5681, equation 4: ssthresh stays half of the window before the first timeout."""
    network = path(1)
    down = LinkFault(np.arange(network.n_ports), outages_ps=((MS, 10**13),))
    engine = build(
        network, flow_table([(0, 1, 10**8, 0)]), "dctcp", marking(10**6),
        packets=PACKETS, faults=combine([down], network.n_ports), jit=False,
    )  # fmt: skip
    run(engine, MS)
    window = float(engine.state.hosts.tx["cwnd"][0])
    run(engine, 200 * MS)
    assert engine.state.hosts.tx["timeouts"][0] > 2
    assert engine.state.hosts.tx["ssthresh"][0] == pytest.approx(window / 2, rel=0.3)
