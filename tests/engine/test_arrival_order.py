"""Paced senders whose packets always tie: none is favored (MODEL.md, "Arrival order").

With a fixed order of ports one sender would lose every tie, however long the run.
"""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from engine_case import departures, engine_for, run
from engine_runs import PACKET, build, fabric_with
from engine_runs import run as run_all
from reference.model import Departure
from reference.small import FULL, NS, PAYLOAD, case, fabric, star
from small_networks import rails

from netsim.model.flows import FlowTable

LONG = 240  # packets of each sender; buffers are full for most of the run

APART = {2: 3, 8: 40}
"""Largest difference in packets between senders, by their number.

Two senders share exactly, up to rounding; more share at random, with a bound of six standard
deviations. With a fixed order the difference would be nearly LONG.
"""


def sent_on(
    n: int,
    in_fabric: dict[str, Any],
    transport: str = "datagram",
    gbps_out: int = 100,
    seed: int = 1,
) -> list[Departure]:
    """Return the packets that reach the one host that ``n`` others send to in lockstep."""
    flows = [(h, n, LONG * PAYLOAD, 0) for h in range(n)]
    cables = star(n, gbps_out)
    given = case(n + 1, cables, flows, transport, in_fabric=in_fabric, seed=seed, until_ps=10**12)
    engine = run(engine_for(given, jit=False), given.until_ps)
    return [Departure(0, *one) for one in departures(engine, 2 * n + 1)]


def test_full_buffer_drops_equally_from_all_senders() -> None:
    """At half the rate, only every second tie finds room."""
    for n, gbps_out in [(2, 100), (8, 100), (2, 50), (8, 50)]:
        out = sent_on(n, fabric(queue_bytes=20 * FULL), gbps_out=gbps_out)
        served = Counter(one.flow for one in out)
        assert sum(served.values()) < n * LONG
        assert len(served) == n
        assert max(served.values()) - min(served.values()) <= APART[n]


def test_two_senders_alternate_in_an_order_that_the_seed_decides() -> None:
    """In any four packet times each sends two. Pairs arrive every 80 ns from 180 ns on, so a group
    of four packet times begins with the third pair."""
    drawn = []
    for seed in (1, 2):
        order = [one.flow for one in sent_on(2, fabric(), seed=seed)]
        firsts = [tuple(order[k : k + 8 : 2]) for k in range(4, 2 * LONG - 8, 8)]
        assert {sum(four) for four in firsts} == {2}
        drawn.append(firsts)
    assert drawn[0] != drawn[1]
    assert len(set(drawn[0])) == 4


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 4, 8])
def test_long_streams_lose_equally_within_one_percent(n: int) -> None:
    """Both with drop-tail queues and with trimming, which decides at random."""
    network = rails(n + 1, [100], 5 * NS)
    size = 512 << 20
    flows = FlowTable(np.arange(n), np.full(n, n), np.full(n, size))
    trim = {"n_traffic_classes": 2, "header_queue_bytes": 10**6}
    for model, given in (("drop_tail", {}), ("trim", trim)):
        queues = fabric_with(model, queue_bytes=35 * PACKET, **given)
        params = {"data_class": int(model == "trim")}
        engine = build(network, flows, "datagram", queues, params=params)
        lost = size - run_all(engine).flow_states().received_bytes
        assert np.ptp(lost) < 0.01 * np.mean(lost)
