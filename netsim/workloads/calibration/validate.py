"""Errors of fitted curves, also on measurements left out of the fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

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
        counts = sorted({row.shape.nodes for row in some if row.shape.nodes > 1})
        for nodes in counts if 1 < len(counts) <= MAX_NODE_COUNTS else ():
            out = [row for row in some if row.shape.nodes == nodes]
            rest = [row for row in some if row.shape.nodes != nodes]
            found = residuals(fitted(rest, rates), out, rates)
            yield summary(f"{what}: {nodes} nodes left out", found)


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
