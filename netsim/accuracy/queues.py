"""Long flows on a shared link: its queue or utilization."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netsim.accuracy import formulas
from netsim.accuracy.bed import (
    GBPS,
    MS,
    US,
    Bed,
    bottleneck,
    dumbbell,
    law_row,
    port_to,
    star,
    watch,
)
from netsim.accuracy.cases import Row
from netsim.accuracy.dcqcn_model import DcqcnModel
from netsim.model.fabric import PacketFormat

PACKET = 4160
MONTE_CARLO = "Zhu et al., SIGCOMM 2015, 3.1"

SWINGS = "from 7 flows on the queue swings between 0 and Kmax; pacing keeps it steady longer"
BUNCHES = (
    "unlike a fluid, paced packets of few flows collide, and the one in transmission counts in full"
)
OUT_OF_STEP = "windows of 9 packets are not synchronized, so fewer than N exceed K at once"


def dcqcn() -> Iterator[Row]:
    """Measure the queue of 2 to 10 flows at 40 Gbps, paper-40g."""
    packets = PacketFormat(payload_bytes=1000, header_bytes=48)
    size, trip_s = packets.data_bytes, 2 * (1048 * 8 / 40e9 + 1e-6) + 2 * (64 * 8 / 40e9 + 1e-6)
    model = DcqcnModel(40e9, size, 5e3, 200e3, 0.01, trip_s, 12e6)
    for n in range(2, 11):
        expected = np.mean([model.mean_queue_bytes(n, (0.06, 0.3), seed) for seed in range(4)])
        held = []
        for seed in (1, 2):
            network = star(n + 1, 40 * GBPS)
            bed = Bed("dcqcn:paper-40g", network, packets=packets, seed=seed)
            flows = [(i + 1, 0, 10**11, i * 100 * US) for i in range(n)]
            seen = watch(bed.engine(flows), port_to(network, 0), 60 * MS, 180 * MS, 20 * US)
            held.append(seen.held.mean())
        yield law_row(
            "dcqcn:paper-40g",
            f"mean queue, {n} flows at 40 Gbps",
            "Monte Carlo",
            MONTE_CARLO,
            "KB",
            float(expected) / 1e3,
            float(np.mean(held)) / 1e3,
            SWINGS if n >= 7 else BUNCHES if n <= 3 else "",
        )


def dctcp() -> Iterator[Row]:
    """Measure the mean of the sawtooth at 10 Gbps and 100 us; K is 65 packets of 1500 bytes."""
    packets = PacketFormat(payload_bytes=1436, header_bytes=64)
    full, k = packets.data_bytes, 65
    for n in (2, 8, 16):
        network = dumbbell(n, 40 * GBPS, 10 * GBPS, (10 * US, 30 * US))
        bed = Bed("dctcp:10g", network, packets=packets)
        engine = bed.engine([(i, n + i, 10**10, 0) for i in range(n)])
        seen = watch(engine, bottleneck(network), 20 * MS, 60 * MS, 2 * US)
        yield law_row(
            "dctcp:10g",
            f"mean queue, {n} flows at 10 Gbps",
            "K + N - A/2, A = sqrt(2 N (C RTT + K)) / 2",
            "Alizadeh et al., SIGCOMM 2010, 3.3",
            "packets",
            formulas.dctcp_mean_queue(n, k, 10e9 * 100e-6 / 8 / full),
            float(seen.held.mean()) / full,
            OUT_OF_STEP if n > 8 else "",
        )


def hpcc() -> Iterator[Row]:
    """Measure the utilization of a shared link."""
    packets = PacketFormat(payload_bytes=1000)
    for n in (2, 8):
        network = dumbbell(n, 100 * GBPS, 100 * GBPS, (US, US))
        bed = Bed("hpcc", network, packets=packets)
        engine = bed.engine([(i, n + i, 10**9, i * 50 * US) for i in range(n)])
        seen = watch(engine, bottleneck(network), 7 * MS, 9 * MS, 3 * US)
        values = bed.values
        yield law_row(
            "hpcc",
            f"load of the link, {n} flows at 100 Gbps",
            "eta + N W_AI / W_max",
            "Li et al., SIGCOMM 2019, algorithm 1 at rest",
            "",
            formulas.hpcc_load(values["eta"], n, values["ai_share"]),
            seen.busy,
        )


def swift() -> Iterator[Row]:
    """Measure the round trip to which flows converge."""
    for n in (2, 8):
        network = dumbbell(n, 100 * GBPS, 100 * GBPS, (US, US))
        bed = Bed("swift", network, fabric={"queue_bytes": "1000pkt"})
        engine = bed.engine([(i, n + i, 10**9, i * 50 * US) for i in range(n)])
        seen = watch(engine, bottleneck(network), 4 * MS, 6 * MS, 3 * US)
        trip_s = (3 * (PACKET + 64) * 8 / 100e9) + 6e-6
        values = bed.values
        keys = ("hop_scaling", "fs_range", "fs_min_window", "fs_max_window")
        hop, most, least, largest = (values[key] for key in keys)
        scaling = (hop / 1e12, most / 1e12, least, largest)
        target = trip_s
        for _ in range(100):  # each flow's window is its share of the bytes within the target
            window = 100e9 * target / 8 / PACKET / n
            target = formulas.swift_delay(window, 2, values["base_target"] / 1e12, scaling)
        yield law_row(
            "swift",
            f"round trip, {n} flows at 100 Gbps",
            "base + hops h + clamp(alpha / sqrt(w) + beta)",
            "Kumar et al., SIGCOMM 2020, 3.5",
            "us",
            target * 1e6,
            (trip_s + (float(seen.held.mean()) - PACKET) * 8 / 100e9) * 1e6,
        )


def expresspass() -> Iterator[Row]:
    """Measure the share of a link that credits leave for data."""
    for n in (1, 8):
        network = star(n + 1, 100 * GBPS)
        bed = Bed("expresspass", network)
        engine = bed.engine([(i + 1, 0, 10**9, 0) for i in range(n)])
        seen = watch(engine, port_to(network, 0), 1 * MS, 3 * MS, 10 * US)
        yield law_row(
            "expresspass",
            f"data's share of the link, {n} flow{'s' * (n > 1)}",
            "packet / (packet + credit of 84 bytes)",
            "Cho et al., SIGCOMM 2017, 3.1",
            "",
            formulas.credit_share(PACKET, 84),
            seen.busy,
        )
