"""Routing algorithms on direct networks: saturation and latency against closed forms.

Hosts send datagrams at even gaps; queues are deep. Loads of links are proportional to the offered
load if routing does not depend on queues, so one run below saturation shows where that is: at the
accepted load over the utilization of the busiest link or, where all links of a kind have the same
load, over their mean. Otherwise bisection finds the load beyond which less is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from netsim.accuracy.bed import US, Bed, fct_ps
from netsim.accuracy.cases import EXACT, Case, Row, Tolerance
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.model.builder import NetworkBuilder
from netsim.results.run_result import RunResult
from netsim.results.saturation import next_loads, saturation_of
from netsim.running.point import simulate

Table = Mapping[str, Any]

COUNTED = Tolerance(0.03, "a few thousand random packets per link")
SEARCHED = Tolerance(0.03, "bisection to 0.01")

QUICK = ("ring of 8, tornado", "torus 8x8, uniform", "Dragonfly, next group")

PACKET_PS = 332_800
"""4,160 bytes at 100 Gbps."""

DALLY = "Dally and Towles, section 3.3: the busiest link's load"
VALIANT = "Dally and Towles, section 9.2: both legs are uniform traffic"
KIM = "Kim et al., ISCA 2008"
ONE_CABLE = f"{KIM}: 1 / (a h)"
HALF = f"{KIM}: one half"
UGAL_BOUNDS = f"between minimal and nonminimal routes; {KIM}: just under one half, near 1"


def ring(switches: int) -> Table:
    return {"kind": "torus", "shape": str(switches)}


TORUS: Table = {"kind": "torus", "shape": "8x8"}
MESH: Table = {"kind": "hyperx", "shape": "8", "hosts_per_switch": 7}
DRAGONFLY: Table = {"kind": "dragonfly", "switches_per_group": 4}
SLIM_FLY: Table = {"kind": "slim_fly", "q": 5}

MINIMAL: Table = {"routing": "spray_random"}
ANY: Table = {"routing": "valiant", "intermediate": "any"}
OTHER: Table = {"routing": "valiant", "intermediate": "other"}
UGAL: Table = {"routing": "ugal_l"}
PAR: Table = {"routing": "par"}
GLOBAL: Table = {"routing": "ugal_g"}

UNIFORM, TORNADO, NEXT = "uniform", "tornado", "group_plus_one"
MOST, ALL, FAR = "busiest", "switches", "global"


@dataclass(frozen=True)
class Setting:
    """A network, its routing, and where hosts send."""

    topology: Table
    fabric: Table
    pattern: str

    def run(self, load: float, window: str) -> RunResult:
        """Simulate a window at an offered load."""
        experiment = Experiment(
            seed=1,
            topology={"host_rate": "100Gbps", **self.topology},
            transport={"kind": "datagram"},
            fabric={"queue_bytes": "1GB", **self.fabric},
            traffic={
                "kind": "poisson",
                "sizes": "4096B",
                "arrival_process": "even",
                "load": load,
                "pattern": self.pattern,
            },
            measure={"warmup": "100us", "window": window, "drain": "1us"},
        )
        (point,) = experiment.points()
        return simulate(point)


def of_links(
    name: str, setting: Setting, load: float, theirs: float, source: str, links: str = "busiest"
) -> Iterator[Row]:
    """Compare the saturation that follows from the loads of links: of the busiest one, or of all of
    a kind ("switches": between two switches; "global": between groups of a Dragonfly)."""
    random = setting.fabric != MINIMAL
    result = setting.run(load, "8ms" if random else "2ms")
    table = result.links
    utilization = table["utilization"]
    ends = [table[end] for end in ("from_name", "to_name")]
    if links == "busiest":
        full = float(utilization.max())
    else:
        chosen = [_is_kind(links, *pair) for pair in zip(*ends, strict=True)]
        full = float(utilization[chosen].mean())
    yield Row(name, load / full, theirs, "of the hosts' rate", COUNTED, source)


def _is_kind(kind: str, start: str, end: str) -> bool:
    if start.startswith("h") or end.startswith("h"):
        return False
    return kind == "switches" or start.split("_", maxsplit=1)[0] != end.split("_", maxsplit=1)[0]


def searched(
    name: str, setting: Setting, theirs: float, spread: tuple[float, float]
) -> Iterator[Row]:
    """Compare the saturation that bisection finds."""
    measured: dict[float, list[Table]] = {}
    while loads := next_loads(measured, (0.2, 1.0), 0.005):
        for load in loads:
            result = setting.run(load, "1ms")
            measured[load] = [{"status": result.stop_reason, **result.summary["throughput"]}]
    ours = saturation_of(measured).low or 0.0
    yield Row(name, ours, theirs, "of the hosts' rate", SEARCHED, UGAL_BOUNDS, spread=spread)


def idle(name: str, fabric: Table, links: int, packets: int) -> Iterator[Row]:
    """Compare the latency of packets that are alone, over the longest path."""
    network = prepare(next(iter(Experiment(
        topology={"host_rate": "100Gbps", **DRAGONFLY}, transport="datagram",
        traffic={"kind": "permutation", "size": "4096B"},
    ).points()))).network  # fmt: skip
    rng = np.random.default_rng(1)
    pairs = [rng.choice(network.n_hosts, 2, replace=False).tolist() for _ in range(packets)]
    bed = Bed("datagram", network, fabric=fabric)
    engine = bed.engine([(a, b, 4096, 100 * US * k) for k, (a, b) in enumerate(pairs)])
    ours = int(fct_ps(engine).max())
    theirs = links * (PACKET_PS + US)
    source = f"{links} links: serialization and propagation"
    yield Row(name, ours / US, theirs / US, "us", EXACT, source)


def unequal(name: str, routing: str, theirs: float, why: str) -> Iterator[Row]:
    """Compare what two uplinks of 100 and 50 Gbps carry together when the first one is full."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(8)
    leaves = [builder.add_switch(), builder.add_switch()]
    for host in hosts:
        builder.cable(host, leaves[host // 4], 100 * 10**9, US)
    for gbps in (100, 50):
        builder.cable(leaves[0], leaves[1], gbps * 10**9, US)
    bed = Bed("datagram", builder.build("unequal"), fabric={"routing": routing})
    n = 20_000
    engine = bed.engine([(k % 4, 4 + k // 4 % 4, 4096, US * k) for k in range(n)])
    fct_ps(engine)
    network, sent = engine.network, engine.link_counters().sent_bytes
    first = int(network.node_first_port[leaves[0]])
    up = sent.reshape(network.n_ports, -1).sum(axis=1)[first + 4 : first + 6]
    ours = float(up.sum() / (up / np.array([100, 50])).max())
    yield Row(name, ours, theirs, "Gbps", COUNTED, why)


def cases() -> Iterator[Case]:
    for name, topology, fabric, pattern, load, theirs, source, links in (
        ("ring of 8, uniform", ring(8), MINIMAL, UNIFORM, 0.5, 7 / 8, DALLY, ALL),
        ("ring of 16, uniform", ring(16), MINIMAL, UNIFORM, 0.3, 15 / 32, DALLY, ALL),
        ("ring of 8, tornado", ring(8), MINIMAL, TORNADO, 0.2, 1 / 3, DALLY, MOST),
        ("ring of 8, Valiant, tornado", ring(8), ANY, TORNADO, 0.3, 1 / 2, VALIANT, ALL),
        ("ring of 16, Valiant, tornado", ring(16), ANY, TORNADO, 0.15, 1 / 4, VALIANT, ALL),
        ("ring of 8, complement", ring(8), MINIMAL, "bit_complement", 0.3, 1 / 2, DALLY, MOST),
        ("torus 8x8, uniform", TORUS, MINIMAL, UNIFORM, 0.5, 63 / 64, DALLY, ALL),
        ("torus 8x8, transpose", TORUS, MINIMAL, "transpose", 0.2, 2 / 7, DALLY, MOST),
        ("mesh of 8, next switch", MESH, MINIMAL, NEXT, 0.1, 1 / 7, DALLY, MOST),
        ("mesh of 8, Valiant, next switch", MESH, OTHER, NEXT, 0.3, 3 / 7, DALLY, MOST),
        ("Dragonfly, uniform, global links", DRAGONFLY, MINIMAL, UNIFORM, 0.5, 71 / 64, DALLY, FAR),
        ("Dragonfly, next group", DRAGONFLY, MINIMAL, NEXT, 0.1, 1 / 8, ONE_CABLE, MOST),
        ("Dragonfly, Valiant, next group", DRAGONFLY, OTHER, NEXT, 0.3, 1 / 2, HALF, MOST),
        ("Slim Fly, uniform", SLIM_FLY, MINIMAL, UNIFORM, 0.5, 199 / 208, DALLY, ALL),
        ("Slim Fly, Valiant, uniform", SLIM_FLY, OTHER, UNIFORM, 0.3, 199 / 416, VALIANT, ALL),
    ):  # fmt: skip
        measure = partial(
            of_links, name, Setting(topology, fabric, pattern), load, theirs, source, links
        )
        yield Case(_key(name), measure, 3, quick=name in QUICK)
    for name, setting, theirs, spread in (
        ("mesh of 8, UGAL, next switch", Setting(MESH, UGAL, NEXT), 4 / 7, (3 / 7, 4 / 7)),
        ("Dragonfly, PAR, next group", Setting(DRAGONFLY, PAR, NEXT), 1 / 2, (7 / 16, 9 / 16)),
        (
            "Dragonfly, UGAL-G, next group",
            Setting(DRAGONFLY, GLOBAL, NEXT),
            1 / 2,
            (7 / 16, 9 / 16),
        ),
        ("Dragonfly, PAR, uniform", Setting(DRAGONFLY, PAR, UNIFORM), 1.0, (0.9, 1.0)),
    ):
        yield Case(_key(name), partial(searched, name, setting, theirs, spread), 15)
    for algorithm, fabric, n_links in (
        ("minimal", MINIMAL, 5),
        ("UGAL", UGAL, 5),
        ("Valiant", ANY, 8),
    ):
        name = f"Dragonfly, {algorithm}, packets alone, longest path"
        yield Case(_key(name), partial(idle, name, fabric, n_links, 2000), 2)
    for algorithm, theirs, why in (
        ("wcmp", 150.0, "shares as the rates: the sum"),
        ("spray_random", 100.0, "equal shares: twice the lower rate"),
    ):
        name = f"uplinks of 100 and 50 Gbps, {algorithm}"
        yield Case(_key(name), partial(unequal, name, algorithm, theirs, why), 2)


def _key(name: str) -> str:
    return name.lower().replace(",", "").replace(" ", "_")
