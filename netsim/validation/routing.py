"""Routing algorithms on direct networks: saturation and latency against closed forms.

Hosts send datagrams at even gaps; queues are deep. Loads of links are proportional to the offered
load if routing does not depend on queues, so one run below saturation shows where that is: at the
accepted load over the utilization of the busiest link or, where all links of a kind have the same
load, over their mean. Otherwise bisection finds the load beyond which less is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.model.builder import NetworkBuilder
from netsim.results.run_result import RunResult
from netsim.results.saturation import next_loads, saturation_of
from netsim.running.point import simulate
from netsim.validation.bed import US, Bed, fct_ps
from netsim.validation.laws import PACKET, Measured

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


def of_links(topology: Table, fabric: Table, pattern: str, load: float, links: str) -> Measured:
    """Measure the saturation that follows from the loads of links: of the busiest one, or of all of
    a kind ("switches": between two switches; "global": between groups of a Dragonfly)."""
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
    """Measure the latency of packets that are alone, over the longest path."""
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


def unequal(routing: str) -> Measured:
    """Measure what two uplinks of 100 and 50 Gbps carry together when the first one is full."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(8)
    leaves = [builder.add_switch(), builder.add_switch()]
    for host in hosts:
        builder.cable(host, leaves[host // 4], 100 * 10**9, US)
    for gbps in (100, 50):
        builder.cable(leaves[0], leaves[1], gbps * 10**9, US)
    bed = Bed("datagram", builder.build("unequal"), fabric={"routing": routing})
    engine = bed.engine([(k % 4, 4 + k // 4 % 4, 4096, US * k) for k in range(20_000)])
    fct_ps(engine)
    network, sent = engine.network, engine.link_counters().sent_bytes
    first = int(network.node_first_port[leaves[0]])
    up = sent.reshape(network.n_ports, -1).sum(axis=1)[first + 4 : first + 6]
    yield {"ours": float(up.sum() / (up / np.array([100, 50])).max())}
