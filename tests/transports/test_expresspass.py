"""ExpressPass: the data rate that credits allow, and switches that never drop data."""

import numpy as np
import pytest
from engine_runs import PACKET, US, build, dumbbell, fabric_with, fat_tree, fct_ps, flow_table, run

from netsim.engine.engine import Engine
from netsim.model.network import Network

CREDIT = 84
FABRIC = fabric_with(
    "credit_shaper", routing="ecmp_symmetric", n_traffic_classes=2, queue_bytes=100 * PACKET
)
CREDITS, DATA = 0, 1


def of_class(engine: Engine, name: str) -> list[np.ndarray]:
    """A counter of all ports, one array per traffic class."""
    return list(getattr(engine.link_counters(), name).reshape(-1, 2).T)


def build_engine(network: Network, rows: list[tuple[int, int, int, int]]) -> Engine:
    return build(network, flow_table(rows), "expresspass", FABRIC, jit=False)


def packets_between(engine: Engine, begin_ps: int, end_ps: int) -> np.ndarray:
    """Number of packets of each flow that arrive from ``begin_ps`` to ``end_ps``."""
    run(engine, begin_ps)
    before = engine.flow_states().received_bytes.copy()
    run(engine, end_ps)
    return np.asarray((engine.flow_states().received_bytes - before) / 4096)


def test_single_flow_gets_the_rate_left_by_credits() -> None:
    """Each packet also takes the time of its credit: 4160 / (4160 + 84) of 100 Gbps."""
    engine = build_engine(fat_tree(4, 4, "100Gbps"), [(0, 15, 1400 * 4096, 0)])
    packet_ps = (PACKET + CREDIT) * 80
    (got,) = packets_between(engine, 100 * US, 300 * US)
    assert got * packet_ps / (200 * US) == pytest.approx(1.0, abs=0.01)
    run(engine)
    (fct,) = fct_ps(engine) / (1400 * packet_ps)
    assert 1.0 < fct < 1.1


@pytest.mark.parametrize("n", [4, 15])
def test_incast_drops_no_data_and_keeps_queues_short(n: int) -> None:
    """All flows together get the rate of one, and at most eight packets queue."""
    rows = [(h, 15, 60 * 4096, 0) for h in range(n)]
    engine = run(build_engine(fat_tree(4, 4, "100Gbps"), rows))
    assert of_class(engine, "drops")[DATA].sum() == 0
    assert of_class(engine, "max_queue_bytes")[DATA].max() <= 8 * PACKET
    last = fct_ps(engine).max() / (n * 60 * (PACKET + CREDIT) * 80)
    assert 1.0 < last < 1.2


def test_switch_drops_credits_instead_of_data() -> None:
    """Four receivers offer credits for 400 Gbps to a link of 25 Gbps, so its credit queue is full.

    The link is still used, and every flow gets a share. Shares vary randomly: over 600 us from 8 to
    58 % (20 seeds), over the 1800 us of this test from 11 to 53 %, over 38 ms from 20 to 31 % (200
    seeds, where each host's mean is 25 % within a standard error of 0.1).
    """
    network = dumbbell(hosts=4, bottleneck_rate="25Gbps", host_delay="1us", bottleneck_delay="1us")
    engine = build_engine(network, [(h, 4 + h, 2000 * 4096, 0) for h in range(4)])
    got = packets_between(engine, 400 * US, 2200 * US)
    assert 0.95 < got.sum() * (PACKET + CREDIT) * 320 / (1800 * US) < 1.01
    assert np.all(got > 0.1 * got.sum())
    drops, most = of_class(engine, "drops"), of_class(engine, "max_queue_bytes")
    assert drops[CREDITS].sum() > 100
    assert drops[DATA].sum() == 0
    assert 8 * (CREDIT - 8) < most[CREDITS].max() <= 9 * (CREDIT + 8)
    assert most[DATA].max() <= 8 * PACKET


def test_sender_without_data_stops_its_credits() -> None:
    """After the last packet the sender sends a stop, so credits end within a round trip."""
    engine = run(build_engine(fat_tree(4, 4, "100Gbps"), [(0, 15, 300 * 4096, 0)]))
    credits = engine.link_counters().sent_packets.reshape(-1, 2)[15, CREDITS]
    round_trip = int(engine.flow_states().base_rtt_ps[0])
    assert 300 <= credits <= 300 + round_trip // (CREDIT * 80) * CREDIT // (PACKET + CREDIT) + 3
