"""Swift: its formulas, a single flow, a shared link, and incast."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_runs import (
    PACKET,
    US,
    acked_ps,
    assert_conserved,
    build,
    counter,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
    resolve,
    run,
)
from shared_link import bottleneck, even_dumbbell, measure

from netsim.plugins import registry

PAYLOAD = 4096
G = 10**9
DEEP = fabric_with(queue_bytes=1000 * PACKET)
SWIFT = registry.find("transport", "swift")
swift: Any = SWIFT.module


def par(**given: Any) -> SimpleNamespace:
    return SimpleNamespace(**resolve(SWIFT, given))


def flow_state(window: float, delay_ps: int = 10 * US) -> SimpleNamespace:
    return SimpleNamespace(
        window=window, fs_alpha=0.0, delay_ps=delay_ps, decreased_ps=0, timeouts=0
    )


def test_target_delay_matches_the_formula() -> None:
    """The target is base + switches * h + clamp(alpha / sqrt(window) + beta, 0, range)."""
    for window, switches in [(0.001, 1), (0.1, 3), (0.5, 5), (7.3, 3), (100.0, 1), (500.0, 5)]:
        p = par()
        env = SimpleNamespace(par=p)
        p.payload_bytes, p.header_bytes = 4096, 64
        tx = SimpleNamespace(bdp_bytes=100_000, base_rtt_ps=9 * US)
        swift.setup(env, tx, None)
        alpha = 100 * US / (1 / math.sqrt(0.1) - 1 / math.sqrt(100))
        part = alpha / math.sqrt(window) - alpha / math.sqrt(100)
        expected = 20 * US + switches * 3_053_000 + min(max(part, 0), 100 * US)
        assert swift.target_ps(p, tx.fs_alpha, window, switches) == pytest.approx(
            expected, rel=1e-12
        )
        assert tx.window == 25


@pytest.mark.parametrize("window", [0.25, 1.0, 16.0])
@pytest.mark.parametrize("over", [0.0, 0.3, 2.0])
def test_window_decreases_once_per_round_trip(window: float, over: float) -> None:
    """The decrease is beta * (delay - target) / delay, at most one half."""
    p = par(beta=0.8, max_decrease=0.5)
    tx = flow_state(window)
    target = 20 * US + 3 * 3_053_000
    delay = int(target * (1 + over))
    factor = max(1 - 0.8 * over / (1 + over), 0.5)
    swift.react(p, 100 * US, tx, delay, 3, True, False)
    assert tx.window == pytest.approx(window * factor)
    again = tx.window
    swift.react(p, 100 * US + delay - 1, tx, delay, 3, True, False)
    assert tx.window == again
    swift.react(p, 100 * US + delay, tx, delay, 3, True, False)
    assert tx.window == pytest.approx(again * factor)


def test_window_grows_by_one_packet_per_round_trip() -> None:
    """A window's worth of acknowledgments adds ``ai``, here one packet."""
    p = par()
    tx = flow_state(50.0)
    for _ in range(50):
        swift.react(p, 100 * US, tx, 10 * US, 3, True, False)
    assert 50.98 < tx.window < 51.0
    tx = flow_state(0.125)
    swift.react(p, 100 * US, tx, 10 * US, 3, True, False)
    assert tx.window == 1.125
    swift.react(p, 100 * US, tx, 10 * US, 3, False, False)
    assert tx.window == 1.125


def test_loss_halves_the_window_within_its_bounds() -> None:
    p = par(max_decrease=0.5, max_window=20, min_window=0.001)
    tx = flow_state(20.0)
    swift.react(p, 100 * US, tx, 10 * US, 3, True, False)
    assert tx.window == 20.0
    swift.react(p, 100 * US, tx, 10 * US, 3, True, True)
    assert tx.window == 10.0
    for i in range(2, 40):
        swift.react(p, i * 1000 * US, tx, 900 * US, 3, True, False)
    assert tx.window == 0.001


@pytest.mark.parametrize("rate_gbps", [100, 400])
def test_single_flow_takes_the_ideal_time(rate_gbps: int) -> None:
    """The target exceeds the idle path's round trip, so Swift does not delay it by a picosecond."""
    network = fat_tree(8, 4, f"{rate_gbps}Gbps")
    n = 500
    engine = run(build(network, flow_table([(0, 31, n * PAYLOAD, 0)]), "swift", DEEP))
    send = 8000 * PACKET // rate_gbps
    assert fct_ps(engine)[0] == (n + 3) * send + 4 * US
    assert_conserved(engine)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 8])
def test_flows_share_a_link_near_the_target_delay(n: int) -> None:
    """The link is full, shares are fair, and the round trip is near the target from any start."""
    network = even_dumbbell(n, "100Gbps")
    flows = flow_table([(i, n + i, 10**9, i * 50 * US) for i in range(n)])
    engine = build(network, flows, "swift", DEEP)
    port = bottleneck(network)
    seen = measure(engine, port, 4000 * US, 6000 * US, 3 * US)
    assert seen.rate_bps > 0.995 * 100 * G
    assert seen.jain > 0.99
    p, tx = par(), engine.state.hosts.tx
    windows = zip(tx["fs_alpha"].tolist(), tx["window"].tolist(), strict=True)
    targets = [swift.target_ps(p, alpha, window, 2) for alpha, window in windows]
    round_trip = int(tx["base_rtt_ps"][0]) + (seen.held.mean() - PACKET) * 80
    assert round_trip == pytest.approx(np.mean(targets), rel=0.05)
    assert counter(engine, "drops") == 0


@pytest.mark.slow
def test_large_incast_fills_the_link_without_drops() -> None:
    """More senders than the path holds packets have windows below one packet."""
    n = 60
    network = fat_tree(8, 8, "100Gbps")
    flows = flow_table([(63 - i, 0, 100 * PAYLOAD, 0) for i in range(n)])
    engine = run(build(network, flows, "swift", DEEP, params={"initial_window": 1}))
    ideal = n * 100 * PACKET * 80 + 4 * US
    assert acked_ps(engine).max() < 1.1 * ideal
    assert counter(engine, "drops") == 0
    queue = int(engine.link_counters().max_queue_bytes.max())
    assert queue * 80 < 140 * US
    assert_conserved(engine)


@pytest.mark.slow
@pytest.mark.parametrize(("fs_range", "fair"), [("0us", False), ("10us", True)])
def test_flow_scaling_equalizes_windows_below_one_packet(fs_range: str, fair: bool) -> None:
    """About as many flows as packets fit into the target: the link is full and the queue short.
    Shares are equal only with the part of the target that grows as the window shrinks."""
    n = 56  # none of them in the receiver's rack
    network = fat_tree(8, 8, "100Gbps")
    flows = flow_table([(63 - i, 0, 10**9, 0) for i in range(n)])
    params = {"base_target": "14us", "hop_scaling": "0us", "initial_window": 1}
    params["fs_range"] = fs_range
    engine = build(network, flows, "swift", DEEP, params=params)
    seen = measure(engine, int(network.port_peer[0]), 6000 * US, 9000 * US, 3 * US)
    assert engine.state.hosts.tx["window"].min() < 0.9
    assert seen.rate_bps > 0.99 * 100 * G
    assert seen.held.mean() * 80 < 14 * US
    assert (seen.jain > 0.99) == fair
    assert counter(engine, "drops") == 0


@pytest.mark.parametrize("queue_packets", [4, 20])
def test_each_dropped_packet_is_sent_again_once(queue_packets: int) -> None:
    """Queues are shorter than the target, so packets drop; everything is delivered once."""
    n = 6
    network = even_dumbbell(n, "100Gbps")
    flows = flow_table([(i, n + i, 150 * PAYLOAD, 0) for i in range(n)])
    fabric = fabric_with(queue_bytes=queue_packets * PACKET)
    engine = run(build(network, flows, "swift", fabric))
    assert counter(engine, "drops") > 0
    assert engine.flow_states().retransmits.sum() == counter(engine, "drops")
    assert (engine.flow_states().received_bytes == 150 * PAYLOAD).all()
    assert (acked_ps(engine) > 0).all()
    assert_conserved(engine)


def test_scaling_window_bounds_never_divide_by_zero() -> None:
    """The maximum of ``fs_min_window`` is below the minimum of ``fs_max_window``."""
    plugin = registry.find("transport", "swift")
    least, most = plugin.param("fs_min_window"), plugin.param("fs_max_window")
    assert least is not None
    assert most is not None
    assert float(str(least.maximum)) < float(str(most.minimum))
