"""NSCC: a single flow, an incast, and the window rules one by one."""

from types import SimpleNamespace

import pytest
from engine_runs import PACKET, US, acked_ps, bdp_queues, build, fat_tree, flow_table, resolve, run
from shared_link import measure

from netsim.blocks import ultra_ethernet
from netsim.plugins import registry

PAYLOAD = 4096
FLOW_BYTES = 489 * PAYLOAD


@pytest.mark.parametrize(("rate", "far_us"), [("100Gbps", 171.758), ("800Gbps", 28.470)])
def test_single_flow_takes_the_ideal_time(rate: str, far_us: float) -> None:
    flows = flow_table([(0, 31, FLOW_BYTES, 0)])
    engine = run(build(fat_tree(8, 4, rate), flows, "nscc", bdp_queues()))
    assert acked_ps(engine)[0] / US == pytest.approx(far_us, abs=0.001)


def test_each_acknowledgment_covers_four_packets() -> None:
    """489 packets cause one ACK for the first, one per four packets, and one for the last."""
    flows = flow_table([(0, 31, FLOW_BYTES, 0)])
    engine = run(build(fat_tree(8, 4, "100Gbps"), flows, "nscc", bdp_queues()))
    assert engine.control_counts() == {"acks": 1 + 488 // 4, "nacks": 0, "pulls": 0}
    per_packet = {"ack_bytes": "1B"}
    engine = run(build(fat_tree(8, 4, "100Gbps"), flows, "nscc", bdp_queues(), params=per_packet))
    assert engine.control_counts()["acks"] == 489


def test_given_base_rtt_sets_only_the_first_window() -> None:
    """Within a rack a flow starts with the network's window and uses its own once measured."""
    flows = flow_table([(0, 1, FLOW_BYTES, 0)])
    params = {"base_rtt": "9.35us", "ack_report": "all", "paths": "mixed"}
    engine = run(build(fat_tree(8, 4, "100Gbps"), flows, "nscc", bdp_queues(), params=params))
    tx = engine.state.hosts.tx
    assert int(tx["n_arrived"][0]) == int(tx["n_packets"][0])
    assert int(tx["network_ps"][0]) == 9_350_000
    assert int(tx["base_ps"][0]) == pytest.approx(int(tx["base_rtt_ps"][0]), abs=1024)
    assert int(tx["largest_bytes"][0]) == pytest.approx(1.5 * int(tx["bdp_bytes"][0]), abs=20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "queue", "n"), [("100Gbps", (29, 6, 24), 8), ("800Gbps", (197, 40, 158), 32)]
)
def test_incast_fills_the_link_near_the_target_queue(
    rate: str, queue: tuple[int, int, int], n: int
) -> None:
    """Shares are equal, and the queue is near the target. The target is three quarters of the
    bandwidth-delay product: 21 or 148 packets."""
    flows = flow_table([(8 + i * 119 // n, 0, 48000 // n * PAYLOAD, i * 1000) for i in range(n)])
    engine = build(fat_tree(8, 16, rate), flows, "nscc", bdp_queues(*queue))
    last_hop = int(engine.network.port_peer[0])
    seen = measure(engine, last_hop, 500 * US, 1500 * US, 10 * US, traffic_class=1)
    assert seen.rate_bps == pytest.approx(int(rate[:3]) * 1e9, rel=0.005)
    assert seen.jain > 0.9
    assert seen.held.mean() / PACKET == pytest.approx(0.75 * queue[0], rel=0.2)


N_BYTES = 4 * PACKET


def sender(window_packets: int = 20) -> SimpleNamespace:
    """A sender at 100 Gbps, base round trip 12 us, target 9 us, as for the default gains."""
    params = resolve(registry.find("transport", "nscc"), {})
    par = SimpleNamespace(**params, payload_bytes=4096, header_bytes=64, control_bytes=64, seed=1)
    par.pair_by_entropy = 0
    names = [f if isinstance(f, str) else f[0] for f in ultra_ethernet.TX_STATE]
    tx = SimpleNamespace(**dict.fromkeys(names, 0))
    tx.cwnd_bytes, tx.largest_bytes = window_packets * PACKET, 225_000
    tx.base_rtt_ps, tx.target_ps, tx.bdp_bytes = 12 * US, 9 * US, 150_000
    tx.base_ps, tx.network_ps, tx.network_bytes = tx.base_rtt_ps, tx.base_rtt_ps, tx.bdp_bytes
    tx.period_end_ps = 10**15
    return SimpleNamespace(env=SimpleNamespace(par=par), tx=tx)


def hear(s: SimpleNamespace, marked: bool, delay_us: float, now_us: float = 1.0) -> None:
    """Deliver an ACK of four packets."""
    ultra_ethernet.adjust_window(s.env, int(now_us * US), s.tx, marked, int(delay_us * US), N_BYTES)


def test_increases_take_effect_after_eight_packets() -> None:
    """They add up and apply after over eight packets: 5 payloads per window, up to 4 if early."""
    for delay_us, gain in ((10.0, 5.0), (3.0, 4.0 * 6 / 12)):
        s = sender()
        window = s.tx.cwnd_bytes
        for _ in range(2):
            hear(s, False, delay_us)
            assert s.tx.cwnd_bytes == window
        hear(s, False, delay_us)
        grown = 3 * N_BYTES * gain * PAYLOAD / window
        assert s.tx.cwnd_bytes - window == pytest.approx(grown, abs=2)


def test_rules_of_2024_add_the_fair_increase_below_the_target() -> None:
    """Both increases take effect after 8,000 bytes, and are at most as large."""
    for window_packets in (20, 5):
        s = sender(window_packets)
        s.env.par.rules = ultra_ethernet.RULES_2024
        window = s.tx.cwnd_bytes
        hear(s, False, 3.0)
        grown = min(N_BYTES * (4.0 * 6 / 12 + 5.0) * PAYLOAD / window, 8000)
        assert s.tx.cwnd_bytes - window == pytest.approx(grown, abs=2)


def test_increase_does_not_overflow_on_a_path_of_seconds() -> None:
    """At 800 Gbps and a round trip of 2 s an acknowledgment asks for more than 2**63."""
    s = sender()
    s.tx.base_ps = s.tx.network_ps = 2 * 10**12
    s.tx.network_bytes = 200 * 10**9
    s.tx.target_ps, s.tx.largest_bytes = 15 * 10**11, 300 * 10**9
    for _ in range(3):
        s.tx.free_bytes = s.tx.unadjusted_bytes = 0
        ultra_ethernet.adjust_window(s.env, 1, s.tx, False, 2_000_000, 16_000)
        assert 0 < s.tx.increase < 2**62


def test_eta_is_added_once_per_round_trip() -> None:
    s = sender()
    hear(s, True, 3.0, now_us=13.0)
    assert s.tx.cwnd_bytes == 20 * PACKET + int(0.15 * PAYLOAD)
    hear(s, True, 3.0, now_us=14.0)
    assert s.tx.cwnd_bytes == 20 * PACKET + int(0.15 * PAYLOAD)


def test_window_decreases_once_per_round_trip() -> None:
    """The decrease follows the average delay above the target and is at most one half."""
    for average_us, factor in ((12.0, 1 - 0.8 * 3 / 12), (90.0, 0.5)):
        s = sender()
        s.tx.delay_ps = average_us * US
        hear(s, True, average_us, now_us=13.0)
        # The same acknowledgment also adds eta.
        shrunk = s.tx.cwnd_bytes - int(0.15 * PAYLOAD)
        assert shrunk == pytest.approx(20 * PACKET * factor, abs=2)
        hear(s, True, average_us, now_us=14.0)
        assert s.tx.cwnd_bytes == shrunk + int(0.15 * PAYLOAD)


def test_marked_early_acknowledgment_keeps_the_window() -> None:
    s = sender()
    s.tx.delay_ps = 12.0 * US
    hear(s, True, 3.0)
    assert s.tx.cwnd_bytes == 20 * PACKET
    assert s.tx.increase == 0


def test_fast_increase_follows_a_window_without_queue() -> None:
    """The window then grows by a quarter of the acknowledged bytes until a queue is seen."""
    s = sender(8)
    s.tx.adjusted_ps = US
    for _ in range(2):
        hear(s, False, 0.5)
    window = s.tx.cwnd_bytes
    hear(s, False, 0.5)
    assert s.tx.cwnd_bytes - window >= N_BYTES // 4
    hear(s, False, 2.0)
    assert s.tx.growing == 0


def test_quick_adapt_sets_the_window_to_delivered_bytes() -> None:
    """It follows a loss if little was delivered; marks of earlier packets are then ignored."""
    s = sender(40)
    s.tx.next_seq = 40
    s.tx.period_end_ps, s.tx.period_bytes, s.tx.lost = 10 * US, PACKET, 1
    hear(s, True, 9.0, now_us=11.0)
    assert s.tx.cwnd_bytes == PACKET + N_BYTES
    for _ in range(9):
        hear(s, True, 100.0, now_us=40.0)
    assert s.tx.cwnd_bytes == PACKET + N_BYTES


def test_quick_adapt_keeps_the_window_if_enough_was_delivered() -> None:
    s = sender(40)
    s.tx.period_end_ps, s.tx.period_bytes, s.tx.lost = 10 * US, 7 * PACKET, 1
    hear(s, True, 3.0, now_us=11.0)
    assert s.tx.cwnd_bytes >= 40 * PACKET
