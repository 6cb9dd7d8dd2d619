"""Time series of compiled code against plain Python, any thread count, and queueing theory."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import DROP_TAIL, PACKET, US, build, changed, fat_tree, fct_ps, run
from series_case import equal, reading

from netsim.engine.engine import Engine
from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable
from netsim.model.sampling import Sampling

G = 10**9
PAYLOAD = 4096


def random_run(**options: object) -> Engine:
    """Run flows with random starts in a tree whose queues overflow, and sample everything."""
    network = fat_tree(4, 4, "100Gbps")
    rng = np.random.Generator(np.random.Philox(5))
    n = 120
    src, dst = rng.integers(0, 16, n), rng.integers(0, 4, n)
    dst = np.where(dst == src, (dst + 1) % 16, dst)
    flows = FlowTable(src, dst, rng.integers(1, 100_000, n), rng.integers(0, 20 * US, n))
    ports, hosts = np.arange(network.n_ports), np.arange(16)
    sampling = Sampling(
        US, ports, hosts, np.arange(n), ("tx.next_seq",), sample_budget_bytes=500_000, queues=True
    )
    fabric = changed(DROP_TAIL, queue_bytes=12 * PACKET)
    return run(build(network, flows, "datagram", fabric, sampling=sampling, **options))


def test_compiled_series_equal_plain_with_any_threads() -> None:
    """Array bounds are checked, too."""
    plain = random_run(jit=False)
    found = reading(plain)
    assert found.interval_ps > US  # thinned
    assert found.drops.any()
    assert found.fields["tx.next_seq"].any()
    levels = plain.queue_levels()
    assert levels is not None
    for threads in (1, 2, 4):
        engine = random_run(threads=threads, checked=True)
        equal(reading(engine), found)
        assert engine.digest() == plain.digest()
        ours = engine.queue_levels()
        assert ours is not None
        assert np.array_equal(ours.mean_bytes, levels.mean_bytes)
        assert np.array_equal(ours.p99_bytes, levels.p99_bytes)


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
    n, load = 200_000, 0.7
    service = PACKET * 8 * 100
    start = np.cumsum(rng.exponential(service / load, n)).astype(np.int64)
    src, dst = np.arange(n, dtype=np.int32) % 64, np.full(n, 64, np.int32)
    flows = FlowTable(src, dst, np.full(n, PAYLOAD, np.int64), start)
    port = int(network.port_peer[64])
    sampling = Sampling(100 * US, np.array([port]), np.array([64]), np.array([0]), queues=True)
    engine = run(build(network, flows, "datagram", DROP_TAIL, sampling=sampling, checked=True))
    there = fct_ps(engine) - (PACKET * 8 * 1000 // 800 + 2 * US)
    levels, found = engine.queue_levels(), reading(engine)
    assert levels is not None
    held = int(there.sum()) * PACKET
    assert levels.mean_bytes[port] == held / engine.now_ps
    lengths = np.diff(found.end_ps, prepend=0)
    assert float((found.mean_bytes[:, 0] * lengths).sum()) == pytest.approx(held, rel=1e-12)
    packets = levels.mean_bytes[port] / PACKET
    assert packets == pytest.approx(load + load**2 / (2 * (1 - load)), rel=0.02)
