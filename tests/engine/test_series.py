"""Time series: thinning, sums, resumed runs and histogram bins.

The engine runs as plain Python here; ``test_flow_classes.py`` compares it with compiled code.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_case import engine_for, run
from engine_runs import DROP_TAIL, PACKET, US, build, fct_ps
from engine_runs import run as finished
from network_case import network_of
from raises_input import raises_input
from reference.cases import random_case
from series_case import equal, reading, sampled

from netsim.engine.engine import Engine
from netsim.engine.series import interval_bytes
from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable
from netsim.model.sampling import MIN_INTERVALS, Sampling

G = 10**9
PAYLOAD = 4096


@pytest.mark.parametrize(("transport", "model"), [("ndp", "trim"), ("roce", "lossless")])
def test_thinned_series_equals_coarser_sampling(transport: str, model: str) -> None:
    """Sampling does not change the run."""
    case = random_case(5, transport=transport, model=model)
    assert case.until_ps is not None
    fine = sampled(case, case.until_ps // 4000)
    each = interval_bytes(fine, network_of(case), case.fabric["n_traffic_classes"])
    options = {"trace": False, "jit": False}

    def runs(sampling: Sampling | None) -> Engine:
        return run(engine_for(case, sampling=sampling, **options), case.until_ps)

    thinned = runs(replace(fine, sample_budget_bytes=(MIN_INTERVALS + 2) * each))
    interval_ps = reading(thinned).interval_ps
    assert fine.interval_ps is not None
    assert interval_ps >= 4 * fine.interval_ps
    coarse = runs(replace(fine, interval_ps=interval_ps))
    equal(reading(thinned), reading(coarse), besides=("first_interval_ps",))
    assert thinned.digest() == coarse.digest() == runs(None).digest()


def test_sums_over_intervals_equal_link_counters() -> None:
    case = random_case(4, transport="ndp", model="trim", faults=False)
    assert case.until_ps is not None
    sampling = sampled(case, case.until_ps // 200)
    engine = run(engine_for(case, trace=False, jit=False, sampling=sampling), case.until_ps)
    found, links = reading(engine), engine.link_counters()
    assert found.queue_sent_bytes.sum(axis=0).tolist() == links.sent_bytes.tolist()
    for name in ("drops", "trims", "ecn_marks"):
        assert getattr(found, name).sum(axis=0).tolist() == getattr(links, name).tolist()
    assert found.max_bytes.max(axis=0).tolist() == links.max_queue_bytes.tolist()
    assert links.trims.any()
    none = np.zeros(0, np.int64)
    only_ports = replace(sampling, hosts=none, flows=none)
    alone = run(engine_for(case, trace=False, jit=False, sampling=only_ports), case.until_ps)
    assert np.array_equal(reading(alone).queue_sent_bytes, found.queue_sent_bytes)


def test_resumed_run_has_the_series_of_a_whole_run() -> None:
    case = random_case(1, transport="roce", model="lossless")
    assert case.until_ps is not None
    options = {"trace": False, "jit": False, "sampling": sampled(case, case.until_ps // 50)}
    whole, first, second = (engine_for(case, **options) for _ in range(3))
    run(whole, case.until_ps)
    first.advance(whole.counts.windows // 2, case.until_ps)
    second.restore(first.snapshot())
    equal(reading(run(second, case.until_ps)), reading(whole))


def test_budget_for_too_few_intervals_is_rejected() -> None:
    case = random_case(1, transport="roce", model="lossless")
    with raises_input("0", key="outputs.sample_budget") as caught:
        engine_for(case, jit=False, sampling=sampled(case, 1000, budget_bytes=1000))
    assert caught.value.key == "outputs.sample_budget"


def test_mean_queue_follows_littles_law_and_pollaczek_khinchine() -> None:
    """Packets at random times to a 10 Gbps host form an M/D/1 queue at the switch's port.

    The bytes held over time equal the sum of the times that packets spend there, exactly.
    """
    builder = NetworkBuilder()
    hosts = builder.add_hosts(65)
    switch = builder.add_switch()
    for h in hosts:
        builder.cable(h, switch, rate_bps=(10 if h == 64 else 800) * G, delay_ps=US)
    network = builder.build("queue")
    rng = np.random.Generator(np.random.Philox(1))
    n, load = 3000, 0.5
    service = PACKET * 8 * 100
    start = np.cumsum(rng.exponential(service / load, n)).astype(np.int64)
    src, dst = np.arange(n, dtype=np.int32) % 64, np.full(n, 64, np.int32)
    flows = FlowTable(src, dst, np.full(n, PAYLOAD, np.int64), start)
    port = int(network.port_peer[64])
    sampling = Sampling(100 * US, np.array([port]), np.array([64]), np.array([0]), queues=True)
    engine = finished(build(network, flows, "datagram", DROP_TAIL, sampling=sampling, jit=False))
    there = fct_ps(engine) - (PACKET * 8 * 1000 // 800 + 2 * US)
    levels, found = engine.queue_levels(), reading(engine)
    assert levels is not None
    held = int(there.sum()) * PACKET
    assert levels.mean_bytes[port] == held / engine.now_ps
    lengths = np.diff(found.end_ps, prepend=0)
    assert float((found.mean_bytes[:, 0] * lengths).sum()) == pytest.approx(held, rel=1e-12)
    packets = levels.mean_bytes[port] / PACKET
    assert packets == pytest.approx(load + load**2 / (2 * (1 - load)), rel=0.15)
