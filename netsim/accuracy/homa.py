"""Homa's slowdowns by workload and message size, against the simulations of its paper.

Montazeri et al., SIGCOMM 2018, section 5.2, at 80 % load; the setup is that of our predictions of
the mean (`predictions/homa.toml`). Of W1 to W5, short messages are the sizes of about the smaller
half, long ones those of the largest tenth. Their data have each size by itself: a class has the
mean of its sizes, weighted by messages. Means of percentiles are percentiles only where sizes
behave alike, so long messages have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from netsim.accuracy.blind import experiment_of, load
from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.running.point import simulate

FILE = Path(__file__).with_name("predictions") / "homa.toml"

THEIRS = (
    ((25, 1.274, 1.883), (568, 1.932)),
    ((256, 1.345, 1.974), (539, 1.799)),
    ((256, 1.494, 2.153), (2137, 1.564)),
    ((646, 1.413, 1.974), (141_975, 2.438)),
    ((67_774, 1.245, 1.438), (13_459_628, 5.476)),
)
"""Of each workload: largest short message in bytes, mean and p99; smallest long one and mean."""

SOURCE = "HomaL4Protocol-ns-3 3cac711, original-raw-data-from-paper.txt"
CLASSES = Tolerance(0.10, "classes of sizes, other packet headers, and shorter runs than theirs")
ACKNOWLEDGED = "acknowledgments, 64 bytes for messages of 261 on average, make the load 0.996"


def slowdowns(workload: int) -> Iterator[Row]:
    """Compare the mean and p99 of short messages and the mean of long ones."""
    (point,) = experiment_of(load(FILE), f"homa_w{workload}_80", None).points()
    flows = simulate(point).flows
    size, slowdown = flows["size_bytes"], flows["slowdown"]
    (short, mean, p99), (long, long_mean) = THEIRS[workload - 1]
    few, many = slowdown[size <= short], slowdown[size >= long]
    for what, ours, theirs in (
        (f"mean slowdown up to {short:,} B", few.mean(), mean),
        (f"p99 slowdown up to {short:,} B", np.quantile(few, 0.99), p99),
        (f"mean slowdown from {long:,} B", many.mean(), long_mean),
    ):
        name = f"Homa, W{workload} at 80 % load: {what}"
        why = ACKNOWLEDGED if workload == 1 else ""
        yield Row(name, float(ours), theirs, "", CLASSES, SOURCE, why)


def cases() -> Iterator[Case]:
    for n in range(1, 1 + len(THEIRS)):
        yield Case(f"homa_w{n}", partial(slowdowns, n), 20)
