"""Laws that hold exactly, bounds that are nearly reached, queueing theory, and fair shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netsim.conformance.networks import star
from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable
from netsim.model.ideal import ecmp_paths, max_min_rates
from netsim.plugins.registry import find
from netsim.validation.bed import GBPS, US, Bed, fat_tree, fct_ps

Measured = Iterator[Mapping[str, Any]]

PAYLOAD, PACKET, CONTROL = 4096, 4160, 64


def lone_flow(transport: str, gbps: int, **params: Any) -> Measured:
    """Measure when a flow of 489 packets is acknowledged, over four links and over two."""
    network, packets = fat_tree(8, 4, gbps * GBPS), 489
    engine = Bed(transport, network, params).engine(
        [(0, 31, packets * PAYLOAD, 0), (0, 1, packets * PAYLOAD, 1000 * US)]
    )
    for links, ours_ps in zip((4, 2), fct_ps(engine, "acked_ps").tolist(), strict=True):
        data_ps, ack_ps = (size * 8000 // gbps for size in (PACKET, CONTROL))
        theirs_ps = (packets + links - 1) * data_ps + links * ack_ps + 2 * links * US
        yield {"links": links, "ours": ours_ps / US, "theirs": theirs_ps / US}


def incast(transport: str) -> Measured:
    """Measure when the last of 32 flows of 250 packets at 100 Gbps is complete."""
    flows, packets, rate_bps = 32, 250, 100 * GBPS
    network = star(flows + 1, rate_bps)
    engine = Bed(transport, network).engine(
        [(1 + i, 0, packets * PAYLOAD, 0) for i in range(flows)]
    )
    first_s = 2 * (PACKET * 8 / rate_bps + US / 1e12)
    bound_s = first_s + (flows * packets - 1) * PACKET * 8 / rate_bps
    yield {"ours": float(fct_ps(engine).max()) / US, "theirs": bound_s * 1e6}


def queue(payloads: Sequence[int], load: float, runs: int, n_packets: int) -> Measured:
    """Measure the mean wait at a queue with Poisson arrivals, over several runs."""
    waits = [mean_wait(load, payloads, n_packets, seed) for seed in range(runs)]
    yield {"ours": float(np.mean([wait for wait, _ in waits])), "theirs": waits[0][1]}


def mean_wait(
    load: float, payloads: Sequence[int], n_packets: int, seed: int
) -> tuple[float, float]:
    """Return the mean wait and the theory's, rho E[S^2] / (2 (1 - rho) E[S]^2), in mean services.

    Hosts send packets of these sizes, in equal shares, over links 80 times as fast, so that their
    own queues hardly disturb the arrivals. The first tenth is not counted.
    """
    senders, slow_bps, fast_bps = 64, 10 * GBPS, 800 * GBPS
    builder = NetworkBuilder()
    hosts = builder.add_hosts(senders + 1)
    switch = builder.add_switch()
    for host in hosts:
        rate_bps = slow_bps if host == senders else fast_bps
        builder.cable(host, switch, rate_bps=rate_bps, delay_ps=US)
    rng = np.random.Generator(np.random.Philox(seed))
    size = rng.choice(np.array(payloads, np.int64), n_packets)
    service = (size + PACKET - PAYLOAD) * 8 * 10**12 // slow_bps
    kinds = (np.array(payloads) + PACKET - PAYLOAD) * 8e12 / slow_bps
    start = np.cumsum(rng.exponential(kinds.mean() / load, n_packets)).astype(np.int64)
    src = rng.integers(0, senders, n_packets, dtype=np.int32)
    flows = FlowTable(src, np.full(n_packets, senders, np.int32), size, start)
    bed = Bed("datagram", builder.build("queue"), fabric={"queue_bytes": "1TB"})
    alone = service * slow_bps // fast_bps + service + 2 * US
    waits = (fct_ps(bed.engine(flows)) - alone)[n_packets // 10 :]
    expected = load / (2 * (1 - load)) * float((kinds**2).mean() / kinds.mean() ** 2)
    return float(waits.mean()) / float(kinds.mean()), expected


def max_min(load: float, trials: int) -> Measured:
    """Measure the last and the mean flow's time with fair shares of single hashed paths."""
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
    yield {"ours": float(np.mean(last))}
    yield {"ours": float(np.mean(mean))}
