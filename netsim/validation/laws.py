"""Exact laws, nearly reached bounds, queueing theory, fair shares, link loads by routing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netsim.conformance.networks import star
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.model.builder import NetworkBuilder, with_tables
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.ideal import ecmp_paths, max_min_rates
from netsim.plugins.registry import PluginSpec, find
from netsim.results.run_result import RunResult
from netsim.running.point import simulate
from netsim.running.saturation import next_loads, saturation_of
from netsim.validation.bed import GBPS, US, Bed, fat_tree, fct_ps

Measured = Iterator[Mapping[str, Any]]

PAYLOAD, PACKET, CONTROL = 4096, 4160, 64


def lone_flow(
    transport: str, gbps: int, header_bytes: int | None = None, **params: Any
) -> Measured:
    """Measure when a 489-packet flow is acknowledged, over four links and over two; with
    cut-through, switches wait only for the header."""
    network, packets = fat_tree(8, 4, gbps * GBPS), 489
    wire = PacketFormat(cut_through_bytes=header_bytes)
    engine = Bed(transport, network, params, packets=wire).engine(
        [(0, 31, packets * PAYLOAD, 0), (0, 1, packets * PAYLOAD, 1000 * US)]
    )
    for links, ours_ps in zip((4, 2), fct_ps(engine, "acked_ps").tolist(), strict=True):
        sizes = PACKET, CONTROL, *(min(header_bytes or size, size) for size in (PACKET, CONTROL))
        data_ps, ack_ps, *hops_ps = (size * 8000 // gbps for size in sizes)
        theirs_ps = packets * data_ps + ack_ps + (links - 1) * sum(hops_ps) + 2 * links * US
        yield {"links": links, "ours": ours_ps / US, "theirs": theirs_ps / US}


def incast(transport: str, share: float = 1.0) -> Measured:
    """Measure when the last of 32 flows of 250 packets at 100 Gbps completes if the receiver
    requests this share of its rate."""
    flows, packets, rate_bps = 32, 250, 100 * GBPS
    network = star(flows + 1, rate_bps)
    engine = Bed(transport, network).engine(
        [(1 + i, 0, packets * PAYLOAD, 0) for i in range(flows)]
    )
    first_s = 2 * (PACKET * 8 / rate_bps + US / 1e12)
    bound_s = first_s + (flows * packets - 1) * PACKET * 8 / (share * rate_bps)
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
    # There is only one path, so use the routing whose code other laws compile.
    fabric = {"routing": "spray_random", "queue_bytes": "1TB"}
    bed = Bed("datagram", builder.build("queue"), fabric=fabric)
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


# --- routing --------------------------------------------------------------------------------------

Table = Mapping[str, Any]


def run(topology: Table, fabric: Table, pattern: str, load: float, window: str) -> RunResult:
    """Simulate a window at an offered load."""
    experiment = Experiment(
        seed=1,
        topology={"host_rate": "100Gbps", **topology},
        transport={"kind": "datagram"},
        fabric={"queue_bytes": "1GB", **fabric},
        traffic={
            "kind": "poisson",
            "sizes": "4096B",
            "arrival_process": "even",
            "load": load,
            "pattern": pattern,
        },
        measure={"warmup": "100us", "window": window, "drain": "1us"},
    )
    (point,) = experiment.points()
    return simulate(point)


def latency(topology: Table, load: float, variants: Sequence[Table] = ({},)) -> Measured:
    """Measure the mean latency of packets of uniform traffic in ns, over variants of a network."""
    found = []
    for variant in variants:
        result = run({**topology, **variant}, {"routing": "ecmp"}, "uniform", load, "20us")
        found.append(result.summary["throughput"]["latency_ps"]["mean"] / 1000)
    yield {"ours": float(np.mean(found))}


def of_links(topology: Table, fabric: Table, pattern: str, load: float, links: str) -> Measured:
    """Measure the saturation implied by link loads: of the busiest link, or of all links of a kind
    ("switches": between two switches; "global": between groups of a Dragonfly)."""
    minimal = fabric["routing"] == "spray_random"
    table = run(topology, fabric, pattern, load, "2ms" if minimal else "8ms").links
    utilization = table["utilization"]
    if links == "busiest":
        full = float(utilization.max())
    else:
        ends = zip(table["from_name"], table["to_name"], strict=True)
        full = float(utilization[[_is_kind(links, *pair) for pair in ends]].mean())
    yield {"ours": load / full}


def _is_kind(kind: str, start: str, end: str) -> bool:
    if start.startswith("h") or end.startswith("h"):
        return False
    return kind == "switches" or start.split("_", maxsplit=1)[0] != end.split("_", maxsplit=1)[0]


def searched(topology: Table, fabric: Table, pattern: str) -> Measured:
    """Measure the saturation that bisection finds."""
    measured: dict[float, list[Table]] = {}
    while loads := next_loads(measured, (0.2, 1.0), 0.005):
        for load in loads:
            result = run(topology, fabric, pattern, load, "1ms")
            measured[load] = [{"status": result.stop_reason, **result.summary["throughput"]}]
    yield {"ours": saturation_of(measured).low or 0.0}


def idle(topology: Table, fabric: Table, links: int) -> Measured:
    """Measure the latency of lone packets over the longest path."""
    traffic = {"kind": "permutation", "size": "4096B"}
    alone = {"host_rate": "100Gbps", **topology}
    (point,) = Experiment(topology=alone, transport="datagram", traffic=traffic).points()
    network = prepare(point).network
    rng = np.random.default_rng(1)
    pairs = [rng.choice(network.n_hosts, 2, replace=False).tolist() for _ in range(2000)]
    engine = Bed("datagram", network, fabric=fabric).engine(
        [(a, b, 4096, 100 * US * k) for k, (a, b) in enumerate(pairs)]
    )
    theirs_ps = links * (PACKET * 80 + US)
    source = f"{links} links: serialization and propagation"
    yield {"ours": int(fct_ps(engine).max()) / US, "theirs": theirs_ps / US, "source": source}


def unequal(routing: str, ways: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Measured:
    """Measure the load between two leaves at which the first cable is full. `ways` has, for each
    spine, the rates of its cables to both leaves, in Gbps."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(8)
    leaves = [builder.add_switch(), builder.add_switch()]
    for host in hosts:
        builder.cable(host, leaves[host // 4], 100 * GBPS, US)
    for rates in ways:
        spine = builder.add_switch()
        for leaf, of_leaf in zip(leaves, rates, strict=True):
            for gbps in of_leaf:
                builder.cable(leaf, spine, gbps * GBPS, US)
    network = with_tables(builder.build("unequal"), PluginSpec(find("routing", routing), {}))
    bed = Bed("datagram", network, fabric={"routing": routing, "queue_bytes": "1TB"})
    engine = bed.engine([(k % 4, 4 + k // 4 % 4, 4096, US * k) for k in range(20_000)])
    fct_ps(engine)
    sent = engine.link_counters().sent_bytes.reshape(network.n_ports, -1).sum(axis=1)
    between = (network.port_node >= 8) & (network.port_node[network.port_peer] >= 8)
    full = (sent[between] / network.port_rate_bps[between]).max()
    yield {"ours": float(sent[:4].sum() / full / GBPS)}


def used_links(routing: str, links: int, runs: int) -> Measured:
    """Measure the share of used uplinks of a leaf with one host per uplink that sends a packet."""
    network = fat_tree(links, 2, 100 * GBPS)
    up = (network.port_node == 2 * links) & (
        network.port_node[network.port_peer] >= network.n_hosts
    )
    used = []
    for seed in range(runs):
        bed = Bed("datagram", network, fabric={"routing": routing}, seed=seed)
        engine = bed.engine([(k, links + k, 4096, 0) for k in range(links)])
        fct_ps(engine)
        sent = engine.link_counters().sent_packets.reshape(network.n_ports, -1).sum(axis=1)
        used.append((sent[up] > 0).mean())
    yield {"ours": float(np.mean(used))}
