"""TCP on long paths: CUBIC's epochs and BBR's queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from netsim.accuracy import formulas
from netsim.accuracy.bed import (
    GBPS,
    MS,
    Bed,
    S,
    bottleneck,
    dumbbell,
    law_row,
    run_until,
    watch,
)
from netsim.accuracy.cases import Row
from netsim.model.fabric import PacketFormat

JUMBO = PacketFormat(payload_bytes=8936, header_bytes=64)
TRIP_S = 60e-3

PLATEAU = "the cubic is flat near W_max: 0.2 packets above what fits end it 0.8 s earlier"
PROBES = "a probe lasts until 1.25 products are in flight, more than a round trip"


def cubic() -> Iterator[Row]:
    """Measure the time between losses of one flow that fills a buffer, at 1 Gbps and 60 ms."""
    network = dumbbell(1, 10 * GBPS, GBPS, (1 * MS, 28 * MS))
    buffer = 416 * JUMBO.data_bytes
    params = {"fast_convergence": False}
    bed = Bed("cubic", network, params, {"queue_bytes": f"{buffer}B"}, JUMBO)
    engine = bed.engine([(0, 1, 10**11, 0)])
    losses: list[int] = []
    before = 0
    for at in range(0, 60 * S, 20 * MS):
        run_until(engine, at)
        drops = int(engine.link_counters().drops.sum())
        if drops > before and (not losses or at - losses[-1] > S):
            losses.append(at)
        before = drops
    w_max = 1e9 * TRIP_S / 8 / JUMBO.data_bytes + 416
    yield law_row(
        "cubic",
        "epoch of one flow, 1 Gbps and 60 ms",
        "K = cbrt(W_max (1 - beta) / C), plus a round trip to detect the loss",
        "RFC 9438, figure 2",
        "s",
        formulas.cubic_epoch(w_max) + w_max * JUMBO.data_bytes * 8 / 1e9,
        float(np.diff(losses[1:]).mean()) / 1e12,
        PLATEAU,
    )


def bbr() -> Iterator[Row]:
    """Measure the queue of one flow, which probes, and of two, which their windows limit."""
    for n, rate in ((1, GBPS), (2, GBPS // 10)):
        network = dumbbell(n, 10 * rate, rate, (1 * MS, 28 * MS))
        bed = Bed("bbr", network, fabric={"queue_bytes": "40000pkt"})
        engine = bed.engine([(i, n + i, 10**11, i * 300 * MS) for i in range(n)])
        seen = watch(engine, bottleneck(network), 4 * S, 9 * S, 7 * MS)
        product = rate * TRIP_S / 8
        yield law_row(
            "bbr",
            f"mean queue, {n} flow{'s' * (n > 1)} at {rate // 10**6} Mbps and 60 ms",
            "(1.25 - 1) / 8 of a product" if n == 1 else "2 products in flight less 1 on the path",
            "Cardwell et al., ACM Queue 2016" if n == 1 else "Hock et al., ICNP 2017",
            "products",
            formulas.bbr_probing_queue() if n == 1 else 1.0,
            float(seen.held.mean()) / product,
            PROBES if n == 1 else "",
        )


def pie() -> Iterator[Row]:
    """Measure the delay that PIE gives to flows with windows of CUBIC, at 100 Mbps and 60 ms."""
    packets = PacketFormat(payload_bytes=1436, header_bytes=64)
    rate = GBPS // 10
    fabric = {"queue_discipline": str(Path(__file__).with_name("pie.py"))}
    for n in (5, 20, 50):
        network = dumbbell(n, 10 * rate, rate, (1 * MS, 28 * MS))
        bed = Bed("cubic", network, fabric=fabric, packets=packets)
        engine = bed.engine([(i, n + i, 10**11, i * 10 * MS) for i in range(n)])
        seen = watch(engine, bottleneck(network), 20 * S, 60 * S, 7 * MS)
        yield law_row(
            "cubic with PIE",
            f"mean queueing delay, {n} flows at 100 Mbps and 60 ms",
            "the target, at which the drop probability rests",
            "RFC 8033, 4.2",
            "ms",
            15.0,
            float(seen.held.mean()) * 8e3 / rate,
        )
