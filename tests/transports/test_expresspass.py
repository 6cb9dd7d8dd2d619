"""ExpressPass: what credits leave of a link, and that data is never dropped."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import (
    PACKET,
    US,
    build,
    dumbbell,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
    run,
)

from netsim.engine.engine import Engine
from netsim.model.network import Network

CREDIT = 84
FABRIC = fabric_with(
    "credit_shaper", routing="ecmp_symmetric", n_traffic_classes=2, queue_bytes=100 * PACKET
)
CREDITS, DATA = 0, 1


def of_class(engine: Engine, name: str) -> list[np.ndarray]:
    """A counter of all ports, class by class."""
    return list(getattr(engine.link_counters(), name).reshape(-1, 2).T)


def built(network: Network, rows: list[tuple[int, int, int, int]]) -> Engine:
    return build(network, flow_table(rows), "expresspass", FABRIC, jit=False)


def packets_between(engine: Engine, begin_ps: int, end_ps: int) -> np.ndarray:
    """How many packets of each flow arrive in a time."""
    run(engine, begin_ps)
    before = engine.flow_states().received_bytes.copy()
    run(engine, end_ps)
    return np.asarray((engine.flow_states().received_bytes - before) / 4096)


def test_one_flow_gets_what_credits_leave() -> None:
    """A packet takes the time of itself and of a credit: 4160 / (4160 + 84) of 100 Gbps."""
    engine = built(fat_tree(4, 4, "100Gbps"), [(0, 15, 2000 * 4096, 0)])
    packet_ps = (PACKET + CREDIT) * 80
    (got,) = packets_between(engine, 400 * US, 600 * US)
    assert got * packet_ps / (200 * US) == pytest.approx(1.0, abs=0.01)
    run(engine)
    (fct,) = fct_ps(engine) / (2000 * packet_ps)
    assert 1.0 < fct < 1.1


@pytest.mark.parametrize("n", [4, 15])
def test_an_incast_drops_no_data_and_hardly_waits(n: int) -> None:
    """All of them together have the share of one, and some packets wait at once at most."""
    rows = [(h, 15, 100 * 4096, 0) for h in range(n)]
    engine = run(built(fat_tree(4, 4, "100Gbps"), rows))
    assert of_class(engine, "drops")[DATA].sum() == 0
    assert of_class(engine, "max_queue_bytes")[DATA].max() <= 8 * PACKET
    last = fct_ps(engine).max() / (n * 100 * (PACKET + CREDIT) * 80)
    assert 1.0 < last < 1.2


def test_where_flows_meet_switches_drop_credits_instead_of_data() -> None:
    """Four receivers offer credit for 400 Gbps where there are 25: a full queue of credits.

    The link is used all the same, and everybody has part of it. Shares swing by chance: over 600 us
    from 8 to 58 % (20 seeds), over the 1800 us of this test from 11 to 53 %, over 38 ms from 20 to
    31 % (200 seeds, where each host's mean is 25 % within a standard error of 0.1).
    """
    network = dumbbell(hosts=4, bottleneck_rate="25Gbps", host_delay="1us", bottleneck_delay="1us")
    engine = built(network, [(h, 4 + h, 2000 * 4096, 0) for h in range(4)])
    got = packets_between(engine, 400 * US, 2200 * US)
    assert 0.95 < got.sum() * (PACKET + CREDIT) * 320 / (1800 * US) < 1.01
    assert np.all(got > 0.1 * got.sum())
    drops, most = of_class(engine, "drops"), of_class(engine, "max_queue_bytes")
    assert drops[CREDITS].sum() > 100
    assert drops[DATA].sum() == 0
    assert 8 * (CREDIT - 8) < most[CREDITS].max() <= 9 * (CREDIT + 8)
    assert most[DATA].max() <= 8 * PACKET


def test_a_sender_without_data_stops_its_credits() -> None:
    """After the last packet a stop goes out: no credit comes for longer than a round trip."""
    engine = run(built(fat_tree(4, 4, "100Gbps"), [(0, 15, 300 * 4096, 0)]))
    credits = engine.link_counters().sent_packets.reshape(-1, 2)[15, CREDITS]
    round_trip = int(engine.flow_states().base_rtt_ps[0])
    assert 300 <= credits <= 300 + round_trip // (CREDIT * 80) * CREDIT // (PACKET + CREDIT) + 3
