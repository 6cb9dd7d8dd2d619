"""Where the throughput of a network saturates: the criterion, and the search round by round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.results.run_result import STALLED

if TYPE_CHECKING:
    from netsim.experiment import Experiment, Point
    from netsim.running.executor import PointOutcome

Axes = tuple[tuple[str, Any], ...]

SUFFIX = "_saturation"  # end of the name of the default result directory


@dataclass
class Curve:
    """Points that differ only in load and seed."""

    axes: Axes  # values of all other axes
    # by load, one for each seed
    outcomes: dict[float, list[PointOutcome]] = field(default_factory=dict)

    @property
    def rows(self) -> dict[float, list[dict[str, Any]]]:
        """Rows of the sweep's table by load, without points that failed."""
        return {
            load: [one.row for one in self.outcomes[load] if one.row["status"] != "failed"]
            for load in sorted(self.outcomes)
        }

    @property
    def saturation(self) -> Saturation:
        return saturation_of(self.rows)

    @property
    def bound(self) -> float | None:
        """The smallest bound over the seeds."""
        found = [row.get("saturation_bound") for rows in self.rows.values() for row in rows]
        return min((one for one in found if one is not None), default=None)

    def summary(self) -> dict[str, Any]:
        """Return the axes and the saturation as a row of a table."""
        found = self.saturation
        names = ("below", "above", "saturation", "bound")
        values = (found.low, found.high, found.load, self.bound)
        return {**dict(self.axes), **dict(zip(names, values, strict=True))}


class SaturationSearch:
    """Chooses the points to run next; the caller runs them::

        while points := search.next_points():
            search.add(run(points))

    Args:
        at: returns the experiment with overrides ("path=value").
        grid: loads of the first round, at least 2.
        tolerance: half-width of the saturation interval at which to stop.

    Raises InputError for wrong arguments, and without [measure].
    """

    def __init__(
        self, at: Callable[[list[str]], Experiment], grid: Sequence[float], tolerance: float
    ) -> None:
        self.grid = sorted({round(load, 6) for load in grid})
        if len(self.grid) < 2 or self.grid[0] <= 0 or tolerance <= 0:
            message = "the first round needs two different loads above 0, and a tolerance above 0"
            raise InputError(message, key=LOAD)
        self._at, self.tolerance = at, tolerance
        self.curves: list[Curve] = []
        self.rounds = 0
        self._chosen: dict[Axes, set[float]] = {}

    def next_points(self) -> list[Point]:
        """Return all points of the next round, including earlier rounds' points; [] at the end."""
        wanted = {*self.grid}
        for curve in self.curves:
            new = next_loads(curve.rows, self.grid, self.tolerance)
            self._chosen[curve.axes] |= {*new} - {*curve.outcomes}  # failed points do not run again
            wanted |= self._chosen[curve.axes]
        points = [
            point
            for point in self._points(wanted)
            if point.axes[LOAD] in self._chosen.setdefault(axes_of(point), {*self.grid})
        ]
        if len(points) == sum(1 for _ in self.outcomes()):
            return []
        self.rounds += 1
        return points

    def _points(self, loads: set[float]) -> list[Point]:
        values = ", ".join(f"{load:.6g}" for load in sorted(loads))
        loaded = self._at([f"{LOAD}=[{values}]"])
        points = loaded.points()
        if any(point.measure is None for point in points):
            hint = 'such as --set measure.warmup=50us --set measure.window="1ms"'
            raise InputError("missing [measure]", file=loaded.file, hint=hint)
        return points

    def add(self, outcomes: Sequence[PointOutcome]) -> None:
        """Add the outcomes of all points so far. Raises InputError if nothing was measured."""
        found: dict[Axes, Curve] = {}
        for outcome in outcomes:
            curve = found.setdefault(axes_of(outcome.point), Curve(axes_of(outcome.point)))
            curve.outcomes.setdefault(outcome.point.axes[LOAD], []).append(outcome)
        self.curves = list(found.values())
        if outcomes and all(one.row.get("flows_injected") == 0 for one in outcomes):
            hint = "saturate is for open-loop traffic, such as poisson"
            raise InputError("no flow starts in the window of [measure]", key="traffic", hint=hint)

    def outcomes(self) -> Iterator[PointOutcome]:
        """Yield the outcomes of all points."""
        for curve in self.curves:
            for these in curve.outcomes.values():
                yield from these

    @property
    def rounds_left(self) -> int:
        """Number of further rounds, as far as known."""
        return max(rounds_left(curve.saturation, self.tolerance) for curve in self.curves)


def axes_of(point: Point) -> Axes:
    """Return the axes of a point's curve, with their values."""
    return tuple(
        (axis, str(value) if isinstance(value, list | dict) else value)
        for axis, value in point.axes.items()
        if axis not in (LOAD, "seed")
    )


# --- the criterion --------------------------------------------------------------------------------

LOAD = "traffic.load"

MARGIN = 0.01  # share of the offered load by which the backlog may grow without saturation
Row = Mapping[str, Any]  # a row of a sweep's table, or of its JSON


@frozen
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

    It is if it accepts less than the offered load, so that the backlog grows: by more than MARGIN
    of the offered load, and by more than the 95 % interval of that growth. A deadlock also counts.
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
    """Return the loads to measure next: a grid, then the middle between the highest load below
    saturation and the lowest load above; none once they are at most twice the tolerance apart."""
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
