"""Opera and RotorNet: completion times that opera-sim's authors published with their simulator.

The experiments `rotornet_648` and `opera_648` have their network, and half a second of the ten
seconds of their arrivals: data mining at 1 % load between racks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.experiment import Experiment, built_in
from netsim.running.point import simulate

CLASSES = {
    "up to 1.5 KB": (1, 1500),
    "100 KB to 1 MB": (100_000, 1_000_000),
    "1 to 15 MB": (1_000_001, 15_000_000),
}
"""Smallest and largest flow, in bytes."""

THEIRS_MS = {
    "rotornet_648": ((5.271, 5.388, 10.651), (9.26, 10.93, 30.71), (26.13, 27.78, 57.48)),
    "opera_648": ((0.0066, 0.0067, 0.0111), (0.095, 0.160, 0.349), (1.56, 3.39, 8.49)),
}
"""Median, mean and 99th percentile of each class."""

SOURCE = "opera-sim c098613, Figure7_datamining, {} flows; here {}"
BOOTSTRAPS = 1000
FLOWS = {"rotornet_648": (5679, 1027, 721), "opera_648": (5679, 1028, 722)}
DRAWS = Tolerance(0.10, "tens to hundreds of flows of a twentieth of the time, other matchings")
FEW = "{} flows here: this has a standard error of {:.0%}"

START = (
    "there all wait for a circuit's start, half a cycle on average; here circuits that are up serve"
)
INDIRECT = (
    "there an intermediate host forwards a sixth of a slot's packets; here circuits are filled"
)
WHY = {("rotornet_648", 0): START, ("rotornet_648", 1): INDIRECT, ("rotornet_648", 2): INDIRECT}


def statistics(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return median, mean and 99th percentile along the last axis."""
    median, p99 = np.quantile(values, [0.5, 0.99], axis=-1)
    return np.array([median, values.mean(axis=-1), p99])


def outcomes(name: str, column: str) -> Iterator[Row]:
    """Compare completion times by size; `column` is whose clock stops."""
    (point,) = Experiment.load(built_in()[name]).points()
    flows = simulate(point).flows
    size, took = flows["size_bytes"], flows[column] / 1e9
    rng = np.random.default_rng(1)
    for n, (label, (least, most)) in enumerate(CLASSES.items()):
        some = took[(size >= least) & (size <= most) & (flows["fct_ps"] >= 0)]
        errors = statistics(rng.choice(some, (BOOTSTRAPS, some.size))).std(axis=1)
        source = SOURCE.format(FLOWS[name][n], some.size)
        for ours, error, theirs, what in zip(
            statistics(some), errors, THEIRS_MS[name][n], ("median", "mean", "p99"), strict=True
        ):
            why = WHY.get((name, n), "")
            if not why and abs(ours - theirs) < 2 * error:
                why = FEW.format(some.size, error / ours)
            row = f"{name}: flows of {label}, {what}"
            yield Row(row, float(ours), theirs, "ms", DRAWS, source, why)


def cases() -> Iterator[Case]:
    for name, column in (("rotornet_648", "fct_ps"), ("opera_648", "acked_ps")):
        yield Case(name, partial(outcomes, name, column), 30)
