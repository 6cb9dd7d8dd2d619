"""Queueing theory, fair shares, and models of transports by their authors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from netsim.accuracy import long_paths, queues, shortest_first
from netsim.accuracy.bed import GBPS, US, Bed, fat_tree, fct_ps
from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.bounds.fair_shares import ecmp_paths, max_min_rates
from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable
from netsim.plugins.registry import find

PAYLOAD, PACKET = 4096, 4160
SLOW_BPS, FAST_BPS = 10 * GBPS, 800 * GBPS
SENDERS = 64

KHINCHINE = "Pollaczek and Khinchine: rho E[S^2] / (2 (1 - rho) E[S]^2)"
WAITS = Tolerance(0.02, "a mean of random waits; 95 % of such runs are within 1 to 2 %")

SHORT = 960
"""Payload of short packets: a quarter of the service time of long ones."""


def mean_wait(
    load: float, payloads: Sequence[int], n_packets: int, seed: int
) -> tuple[float, float]:
    """Return the mean wait at a queue with Poisson arrivals, and the theory's, in mean services.

    Hosts send packets of these sizes, in equal shares, over links 80 times as fast, so that their
    own queues hardly disturb the arrivals. The first tenth is not counted.
    """
    builder = NetworkBuilder()
    hosts = builder.add_hosts(SENDERS + 1)
    switch = builder.add_switch()
    for host in hosts:
        rate_bps = SLOW_BPS if host == SENDERS else FAST_BPS
        builder.cable(host, switch, rate_bps=rate_bps, delay_ps=US)
    rng = np.random.Generator(np.random.Philox(seed))
    size = rng.choice(np.array(payloads, np.int64), n_packets)
    service = (size + PACKET - PAYLOAD) * 8 * 10**12 // SLOW_BPS
    kinds = (np.array(payloads) + PACKET - PAYLOAD) * 8e12 / SLOW_BPS
    start = np.cumsum(rng.exponential(kinds.mean() / load, n_packets)).astype(np.int64)
    src = rng.integers(0, SENDERS, n_packets, dtype=np.int32)
    flows = FlowTable(src, np.full(n_packets, SENDERS, np.int32), size, start)
    bed = Bed("datagram", builder.build("queue"), fabric={"queue_bytes": "1TB"})
    alone = service * SLOW_BPS // FAST_BPS + service + 2 * US
    waits = (fct_ps(bed.engine(flows)) - alone)[n_packets // 10 :]
    expected = load / (2 * (1 - load)) * float((kinds**2).mean() / kinds.mean() ** 2)
    return float(waits.mean()) / float(kinds.mean()), expected


def queue(
    name: str, payloads: Sequence[int], load: float, runs: int, n_packets: int
) -> Iterator[Row]:
    """Compare the mean wait over several runs."""
    waits = [mean_wait(load, payloads, n_packets, seed) for seed in range(runs)]
    yield Row(
        f"{name} queue at load {load}, mean wait",
        float(np.mean([wait for wait, _ in waits])),
        waits[0][1],
        "services",
        WAITS,
        KHINCHINE,
    )


# Load -> last and mean completion time over that of a flow alone: a permutation of 8,192 hosts in a
# tree of 128 leaves and 64 spines, by an independent Monte Carlo (500 trials at full load).
LARGE_TREE = {
    0.1: (2.94, 1.18),
    0.2: (3.63, 1.35),
    0.4: (4.60, 1.65),
    0.5: (5.07, 1.80),
    0.6: (5.45, 1.92),
    0.8: (6.14, 2.18),
    1.0: (6.78, 2.41),
}
LAST = {
    12: Tolerance(0.12, "12 trials, in each of which the last flow takes a whole number of times")
}
LAST[300] = Tolerance(
    0.025, "300 trials, in each of which the last flow takes a whole number of times"
)
MEAN = {12: Tolerance(0.02, "12 trials"), 300: Tolerance(0.006, "300 trials")}


def max_min(load: float, trials: int) -> Iterator[Row]:
    """Compare fair shares of single paths with a Monte Carlo that is not netsim's."""
    network = fat_tree(64, 128, 100 * GBPS)
    capacity = network.port_rate_bps / network.host_rate_bps
    last, mean = [], []
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        params = {"size": 2_000_000, "load": load}
        flows = find("traffic", "permutation").module.flows(params, network, rng, None)
        src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
        times = 1 / max_min_rates(ecmp_paths(network, src, dst, rng), capacity)
        last.append(times.max())
        mean.append(times.mean())
    source = "Monte Carlo of hash collisions and max-min shares, written apart from netsim"
    for what, ours, theirs, tolerance in (
        ("last", last, LARGE_TREE[load][0], LAST[trials]),
        ("mean", mean, LARGE_TREE[load][1], MEAN[trials]),
    ):
        name = f"max-min shares, permutation of 8,192 hosts at load {load}, {what} flow"
        yield Row(name, float(np.mean(ours)), theirs, "times alone", tolerance, source)


def cases() -> Iterator[Case]:
    yield Case("md1", partial(queue, "M/D/1", (PAYLOAD,), 0.5, 1, 200_000), 4, quick=True)
    yield Case("md1_load_0.9", partial(queue, "M/D/1", (PAYLOAD,), 0.9, 10, 250_000), 40)
    mixed = (SHORT, PAYLOAD)
    yield Case("mg1", partial(queue, "M/G/1", mixed, 0.5, 1, 200_000), 4, quick=True)
    yield Case("mg1_load_0.9", partial(queue, "M/G/1", mixed, 0.9, 10, 250_000), 40)
    for load in LARGE_TREE:
        yield Case(f"max_min_{load}", partial(max_min, load, 300), 60)
    yield Case("max_min_12_trials", partial(max_min, 1.0, 12), 4, quick=True)
    quick = ("hpcc",)
    measures = (
        *(queues.dcqcn, queues.dctcp, queues.hpcc, queues.swift, queues.expresspass),
        *(
            long_paths.cubic,
            long_paths.bbr,
            long_paths.pie,
            shortest_first.homa,
            shortest_first.pfabric,
        ),
    )
    for measure in measures:
        name = measure.__name__
        yield Case(name, measure, 20, quick=name in quick)
