"""Where the throughput of a network saturates, from results with [measure] at several loads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LOAD = "traffic.load"

MARGIN = 0.01
"""Share of the offered load by which the backlog may grow without saturation."""

STALLED = "stalled"

Row = Mapping[str, Any]
"""A row of a sweep's table, or of its JSON."""


@dataclass(frozen=True)
class Saturation:
    """The highest load below saturation and the lowest load at which the network is saturated; None
    if every measured load is saturated, or none is."""

    low: float | None
    high: float | None

    @property
    def load(self) -> float | None:
        """The middle of the two."""
        return None if self.low is None or self.high is None else (self.low + self.high) / 2

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return "unknown" if self.low == self.high else self._outside()
        half = (self.high - self.low) / 2
        digits = max(3, math.ceil(-math.log10(half))) if half > 0 else 3
        return f"{(self.low + self.high) / 2:.{digits}f} ± {half:.{digits}f}"

    def _outside(self) -> str:
        return f"above {self.low:.4g}" if self.high is None else f"below {self.high:.4g}"


def is_saturated(rows: Sequence[Row]) -> bool | None:
    """Return whether a network is saturated at a load, from a row for each seed; None if no row has
    a measurement.

    It is if less is accepted than offered, so that the backlog grows: by more than MARGIN of the
    offered load, and by more than the 95 % interval of that growth. A deadlock is one, too.
    """
    if any(row["status"] == STALLED for row in rows):
        return True
    measured = [row for row in rows if row.get("excess_load") is not None]
    if not measured:
        return None
    n = len(measured)
    growth = sum(row["excess_load"] for row in measured) / n
    offered = sum(row["offered_load"] for row in measured) / n
    interval = math.sqrt(sum(row["excess_interval"] ** 2 for row in measured)) / n
    return bool(growth > max(MARGIN * offered, interval))


def saturation_of(measured: Mapping[float, Sequence[Row]]) -> Saturation:
    """Return the saturation of a network from rows by load."""
    known = {load: is_saturated(rows) for load, rows in measured.items()}
    high = min((load for load, saturated in known.items() if saturated), default=None)
    below = [load for load, saturated in known.items() if saturated is False]
    if high is not None:
        below = [load for load in below if load < high]
    return Saturation(max(below, default=None), high)


def next_loads(
    measured: Mapping[float, Sequence[Row]], grid: Sequence[float], tolerance: float
) -> list[float]:
    """Return the loads to measure next: those of a grid, then the middle between the highest load
    below saturation and the lowest one at which it is saturated; none once they are twice the
    tolerance apart."""
    if missing := [load for load in grid if load not in measured]:
        return missing
    found = saturation_of(measured)
    if found.low is None or found.high is None or found.high - found.low <= 2.000001 * tolerance:
        return []
    middle = round((found.low + found.high) / 2, 6)
    return [] if middle in measured else [middle]


def rounds_left(found: Saturation, tolerance: float) -> int:
    """Return how often the interval of a saturation must be halved."""
    if found.low is None or found.high is None:
        return 0
    return max(0, math.ceil(math.log2((found.high - found.low) / (2.000001 * tolerance))))
