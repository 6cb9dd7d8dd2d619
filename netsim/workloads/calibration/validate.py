"""Errors of fitted curves, also on measurements left out of the fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from netsim.workloads.calibration.fit import Fits, Rates, fitted
from netsim.workloads.calibration.measured import Measurement
from netsim.workloads.job.curves import Shape

BANDS = ((64 << 10, "<= 64 KiB"), (16 << 20, "<= 16 MiB"), (1 << 60, "above"))
"""Largest size and name of each band."""

MAX_NODE_COUNTS = 32
"""Most numbers of nodes that are left out in turn."""


class Residual(NamedTuple):
    """A measurement, and its predicted time over the measured one, less 1."""

    row: Measurement
    error: float


class Summary(NamedTuple):
    """Errors of some measurements: by band their number, median and largest."""

    name: str
    bands: tuple[tuple[int, float, float], ...]


def residuals(fits: Fits, rows: Iterable[Measurement], rates: Rates) -> list[Residual]:
    """Return the errors of measurements; those without curves are left out."""
    found = []
    for row in rows:
        curves = fits.get((row.what, row.shape.nodes > 1))
        if curves is not None:
            took = curves.time_ps(row.shape, row.size_bytes, rates.port_bps) / 1e6
            found.append(Residual(row, took / row.time_us - 1))
    return found


def summary(name: str, found: Iterable[Residual]) -> Summary:
    """Return median and largest error by band of sizes."""
    by_band: list[list[float]] = [[] for _ in BANDS]
    for row, error in found:
        band = next(k for k, (largest, _) in enumerate(BANDS) if row.size_bytes <= largest)
        by_band[band].append(abs(error))
    return Summary(
        name, tuple((len(one), median(one) if one else 0, max(one, default=0)) for one in by_band)
    )


def summaries(rows: Sequence[Measurement], fits: Fits, rates: Rates) -> Iterator[Summary]:
    """Yield the errors of the fit, and of what is left out of fits: sizes, then node counts."""
    by_what: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        by_what[row.what].append(row)
    left_out = without_sizes(rows, rates)
    for what, some in by_what.items():
        yield summary(f"{what}: fitted", residuals(fits, some, rates))
        yield summary(f"{what}: every third size left out", left_out[what])
        for nodes, found in without_node_counts(some, rates).items():
            yield summary(f"{what}: {nodes} nodes left out", found)


def without_node_counts(rows: Sequence[Measurement], rates: Rates) -> dict[int, list[Residual]]:
    """Return the errors of a collective by number of nodes, each left out of a fit."""
    counts = sorted({row.shape.nodes for row in rows if row.shape.nodes > 1})
    found = {}
    for nodes in counts if 1 < len(counts) <= MAX_NODE_COUNTS else ():
        out = [row for row in rows if row.shape.nodes == nodes]
        rest = [row for row in rows if row.shape.nodes != nodes]
        found[nodes] = residuals(fitted(rest, rates), out, rates)
    return found


class Prediction(NamedTuple):
    """A predicted time in us, and the 5th and 95th percentile that left-out measurements give it.

    `left_out` is "sizes" or "node counts"; "" without an interval, which is then None.
    """

    what: str
    time_us: float
    low_us: float | None
    high_us: float | None
    left_out: str
    n_left_out: int


def predictions(
    rows: Sequence[Measurement], fits: Fits, rates: Rates, shape: Shape, size_bytes: int
) -> Iterator[Prediction]:
    """Yield the time of each measured collective in a shape, at a size."""
    for what in dict.fromkeys(row.what for row in rows):
        curves = fits.get((what, shape.nodes > 1))
        if curves is None:
            continue
        time_us = curves.time_ps(shape, size_bytes, rates.port_bps) / 1e6
        its = [row for row in rows if row.what == what]
        sizes = [row.size_bytes for row in its if (row.shape.nodes > 1) == (shape.nodes > 1)]
        name, left_out = "", []
        if min(sizes) <= size_bytes <= max(sizes):
            if any(row.shape == shape for row in its):
                name, left_out = "sizes", without_sizes(its, rates)[what]
            else:
                name = "node counts"
                left_out = [one for of in without_node_counts(its, rates).values() for one in of]
        band = next((largest for largest, _ in BANDS if size_bytes <= largest), 0)
        least = max((largest for largest, _ in BANDS if largest < size_bytes), default=0)
        ratios = [1 / (1 + one.error) for one in left_out if least < one.row.size_bytes <= band]
        if not ratios:
            yield Prediction(what, time_us, None, None, "", 0)
            continue
        low, high = (float(one) for one in np.quantile(ratios, (0.05, 0.95)))
        yield Prediction(what, time_us, time_us * low, time_us * high, name, len(ratios))


def without_sizes(rows: Iterable[Measurement], rates: Rates) -> dict[str, list[Residual]]:
    """Return the errors of inner sizes by collective; a third in turn is left out of a fit."""
    groups: dict[tuple[str, Shape], list[Measurement]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.size_bytes):
        groups[row.what, row.shape].append(row)
    found: dict[str, list[Residual]] = {what: [] for what, _ in groups}
    for start in range(3):
        out = {row for group in groups.values() for row in group[1:-1][start::3]}
        rest = [row for group in groups.values() for row in group if row not in out]
        for one in residuals(fitted(rest, rates), sorted(out), rates):
            found[one.row.what].append(one)
    return found
