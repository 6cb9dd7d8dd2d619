"""The search for the load at which each network of an experiment saturates, round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.results.saturation import LOAD, Saturation, next_loads, rounds_left, saturation_of

if TYPE_CHECKING:
    from netsim.experiment import Experiment, Point
    from netsim.running.executor import PointOutcome

Axes = tuple[tuple[str, Any], ...]

SUFFIX = "_saturation"
"""End of the name of the default result directory."""


@dataclass
class Curve:
    """Points that differ only in load and seed.

    Attributes:
        axes: values of all other axes.
        outcomes: those of the points by load, one for each seed.
    """

    axes: Axes
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
        """The smallest bound of the seeds."""
        found = [row.get("saturation_bound") for rows in self.rows.values() for row in rows]
        return min((one for one in found if one is not None), default=None)

    def summary(self) -> dict[str, Any]:
        """Return the axes and the saturation as a row of a table."""
        found = self.saturation
        names = ("below", "above", "saturation", "bound")
        values = (found.low, found.high, found.load, self.bound)
        return {**dict(self.axes), **dict(zip(names, values, strict=True))}


class SaturationSearch:
    """Which points to run next; the caller runs them::

        while points := search.next_points():
            search.add(run(points))

    Args:
        at: returns the experiment with overrides ("path=value").
        grid: loads of the first round, at least 2.
        tolerance: half of the interval of the saturation to stop at.

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
        """Return all points of the next round, which include those of the rounds before; [] at the
        end."""
        wanted = {*self.grid}
        for curve in self.curves:
            new = next_loads(curve.rows, self.grid, self.tolerance)
            self._chosen[curve.axes] |= {*new} - {*curve.outcomes}  # not again those that failed
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
        """Take the outcomes of all points so far. Raises InputError if nothing was measured."""
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
        """How many rounds follow, as far as is known."""
        return max(rounds_left(curve.saturation, self.tolerance) for curve in self.curves)


def axes_of(point: Point) -> Axes:
    """Return the axes of a point's curve, with their values."""
    return tuple(
        (axis, str(value) if isinstance(value, list | dict) else value)
        for axis, value in point.axes.items()
        if axis not in (LOAD, "seed")
    )
