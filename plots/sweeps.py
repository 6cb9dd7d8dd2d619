"""What pictures of sweeps share: statistics over seeds, tables, places on x, fair shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.plots.seed_curves import resolved
from netsim.plots.words import for_people, value_text
from netsim.results.statistics import margin_95
from netsim.units import format_number, parse_bytes, parse_rate_bps, parse_time_ps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

T = TypeVar("T")

ONE_SEED = "one seed"
"""Caption of a plot without bands or dots of seeds."""

ONE_PATH = ("roce", "dcqcn")
"""Transports that always use one path per flow."""


@dataclass(frozen=True)
class Table:
    """A printed table; the first column is left-aligned."""

    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()


class Picture(NamedTuple):
    """A figure, and optionally the table printed with it."""

    figure: Figure
    table: Table | None = None


class Spread(NamedTuple):
    """Mean and range of a statistic over the seeds."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]

    @property
    def margin(self) -> float | None:
        """Half the 95 % confidence interval of the mean (Student's t); None for one seed."""
        return margin_95(self.values)


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Return the spread of the values that are known, None without any."""
    known = tuple(float(value) for value in values if value is not None and not math.isnan(value))
    return Spread(sum(known) / len(known), min(known), max(known), known) if known else None


def spread(results: Sequence[Result], quantity: str, statistic: str) -> Spread | None:
    """Return the spread of a statistic ("max") of a quantity ("fct_ps"), None if none is done."""
    return spread_of([result.summary[quantity].get(statistic) for result in results])


def by_value(
    results: Sequence[T],
    x: Callable[[T], Any],
    y: Callable[[T], float | None],
) -> dict[Any, Spread]:
    """Return the spread of `y` over the results of each `x`, in their order; None is left out."""
    found: dict[Any, list[float | None]] = {}
    for result in results:
        if (at := x(result)) is not None:
            found.setdefault(at, []).append(y(result))
    spreads = {at: spread_of(values) for at, values in found.items()}
    return {at: point for at, point in spreads.items() if point is not None}


def by_transport(
    results: Sequence[Result], apart: Sequence[str] = ()
) -> dict[str, seed_curves.Curve]:
    """Return the curves of transports and other axes by label, except `apart` and the seed.

    Raises InputError if only the ideal is left.
    """
    found = seed_curves.curves(seed_curves.without_ideal(results), apart, named=True)
    finished = [one for one in found if spread(one.results, "fct_ps", "max") is not None]
    if not finished:
        raise InputError("no flow of any transport is finished: nothing to compare")
    return {curve.label: curve for curve in finished}


def line(
    axes: Axes, points: Mapping[Any, Spread], curve_style: style.CurveStyle, label: str, **how: Any
) -> None:
    """Draw the means at their places on x as a line and the range of the seeds as a band."""
    options: dict[str, Any] = {"marker": "o", "markersize": 3} | curve_style.options() | how
    options["zorder"] = curve_style.order
    x, found = list(points), list(points.values())
    axes.plot(x, [point.mean for point in found], label=label, **options)
    low, high = [point.low for point in found], [point.high for point in found]
    axes.fill_between(x, low, high, color=curve_style.color, alpha=0.2, linewidth=0)


def scaled(point: Spread, scale: float) -> Spread:
    """Return the spread in another unit."""
    values = tuple(value / scale for value in point.values)
    return Spread(point.mean / scale, point.low / scale, point.high / scale, values)


def dots(
    axes: Axes, points: Mapping[Any, Spread], curve_style: style.CurveStyle, label: str
) -> None:
    """Draw the means as dots and the range of the seeds as bars."""
    found = list(points.values())
    below = [point.mean - point.low for point in found]
    above = [point.high - point.mean for point in found]
    axes.errorbar(
        list(points), [point.mean for point in found], [below, above], color=curve_style.color,
        marker=curve_style.marker or "o", markersize=5, linestyle="none", capsize=3, label=label,
    )  # fmt: skip


def bars(
    axes: Axes,
    points: Mapping[str, Spread],
    colors: Sequence[str],
    marks: Mapping[str, float] | None = None,
) -> None:
    """Draw a bar for each mean, with its value and name, and a dot for each of several seeds.

    Values are right of `marks`, the rightmost mark of each name.
    """
    for place, ((name, point), color) in enumerate(zip(points.items(), colors, strict=True)):
        axes.barh(place, point.mean, height=0.6, color=color, alpha=0.75)
        seeds = point.values if len(point.values) > 1 else ()
        axes.plot(seeds, [place] * len(seeds), "k.", markersize=4)
        beyond = max(point.high, (marks or {}).get(name, 0.0))
        style.write_value(axes, (beyond, place), point.mean, (6, 0))
    names_below(axes, list(points))


def names_below(axes: Axes, names: Sequence[str]) -> None:
    """Name the places on y, the first on top; only the leftmost panel has the names."""
    is_first = axes is axes.get_figure().axes[0]  # type: ignore[union-attr]  # drawn on a figure
    axes.set_yticks(range(len(names)), for_people(names) if is_first else [""] * len(names))
    axes.set_ylim(len(names) - 0.5, -0.5)


def caption(
    points: Sequence[Spread], means: str = "lines", ranges: str = "bands: their range"
) -> str:
    """Return the meaning of lines and bands; that there is one seed, if so."""
    seeds = sorted({len(point.values) for point in points})
    if seeds[-1] == 1:
        return ONE_SEED
    text = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{means}: mean of {text} seeds; {ranges}"


def plus_minus(point: Spread, scale: float, digits: int = 3) -> str:
    """Format half the 95 % confidence interval of a mean; "-" for one seed."""
    return "-" if point.margin is None else format_number(point.margin / scale, digits)


def span(point: Spread, scale: float) -> str:
    """Format the range over the seeds; one number if they agree."""
    low, high = format_number(point.low / scale), format_number(point.high / scale)
    return low if low == high else f"{low} to {high}"


def difference(ours: float, other: float | None) -> str:
    """Format how much `ours` exceeds `other`, in percent."""
    return "-" if other is None else f"{100 * (ours / other - 1):+.1f}"


def on_one_path(result: Result) -> bool:
    """Return whether a result's transport keeps each flow on one hashed path."""
    name = seed_curves.transport(result)
    return name in ONE_PATH or (name, resolved(result, "transport.paths")) == ("smartt", "ecmp")


def settings(result: Result, apart: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys of network and traffic by dotted name."""
    found = {}
    for section in ("topology", "traffic"):
        table = resolved(result, section)
        for key, value in table.items() if isinstance(table, dict) else ():
            if f"{section}.{key}" not in apart:
                found[f"{section}.{key}"] = value
    return found


def differing(results: Sequence[Result], apart: Sequence[str] = ()) -> list[str]:
    """Return the keys of network and traffic, except `apart`, in which results differ."""
    tables = [settings(result, apart) for result in results]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [key for key in keys if len({repr(table.get(key)) for table in tables}) > 1]


def fair_shares(
    results: Sequence[Result], apart: Sequence[str] = ()
) -> tuple[dict[str, Spread], str]:
    """Return the last ("max") and mean completion time in ps with max-min fair shares on the paths
    that flows had by hash, over the seeds, and a note.

    They are those of the results' summaries; none, and the note says why, if no result has them, or
    if results differ in network or traffic except for `apart`.
    """
    if keys := differing(results, apart):
        return {}, f"no fair shares: the points differ in {', '.join(keys)}"
    by_seed = {r.experiment["seed"]: known for r in results if (known := r.summary.get("fair_ps"))}
    if not by_seed:
        return {}, "no fair shares: they need flows of one size that start together, and ECMP"
    found = {key: spread_of([one[key] for one in by_seed.values()]) for key in ("max", "mean")}
    drawn = f"mean of {len(by_seed)} seeds" if len(by_seed) > 1 else "one seed"
    note = f"fair shares: each flow on its hashed path, rates max-min fair; {drawn}"
    return {key: point for key, point in found.items() if point is not None}, note


DECADE = 10
"""Ratio of largest to smallest value from which the axis is logarithmic."""

LINE = 3
"""Quantities that a line joins; fewer are side by side, as names are."""

MAX_TICKS = 12
"""Maximum number of labels on x."""

UNITS: tuple[Callable[[object], int], ...] = (parse_time_ps, parse_bytes, parse_rate_bps)


def _quantity(value: Any) -> float | None:
    """Return a value with or without unit as a number, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    for parse in UNITS:
        try:
            return float(parse(value))
        except InputError:
            continue
    return None


def are_names(values: Sequence[Any]) -> bool:
    """Return whether any value is a name, not a quantity."""
    return any(_quantity(value) is None for value in values)


def places_of(values: Sequence[Any]) -> dict[Any, float]:
    """Return the position of each value on x."""
    if are_names(values):
        return {value: float(index) for index, value in enumerate(values)}
    return {value: _quantity(value) or 0.0 for value in values}


def side_by_side(values: Sequence[Any]) -> bool:
    """Return whether values are side by side: names, or fewer than `LINE`."""
    return len(values) < LINE or are_names(values)


def positions(values: Sequence[Any]) -> dict[Any, float]:
    """Return the x positions: those of `places_of`, or 0, 1, ... for values side by side."""
    places = places_of(values)
    if not side_by_side(values):
        return places
    return {value: float(n) for n, value in enumerate(sorted(places, key=places.__getitem__))}


def scale_x(axes: Axes, places: dict[Any, float]) -> None:
    """Set scale and labels of x."""
    numbers = sorted(places.values())
    if side_by_side(list(places)):
        axes.set_xlim(-0.5, len(places) - 0.5)
    elif numbers[0] > 0 and numbers[-1] >= DECADE * numbers[0]:
        style.logarithmic(axes, "x")
    plain = all(isinstance(value, int | float) for value in places)
    if len(places) > MAX_TICKS and plain:
        return
    short = seed_curves.short_names(str(value) for value in places)
    step = 1 + (len(places) - 1) // MAX_TICKS
    shown = sorted(places, key=places.__getitem__)[::step]
    texts = [value_text(short[str(value)]) for value in shown]
    axes.set_xticks([places[value] for value in shown], texts, minor=False)
    style.slant_if_crowded(axes)
    axes.minorticks_off()


def by_place(values: Mapping[Any, float], places: dict[Any, float]) -> dict[float, float]:
    """Return figures by the position of their values on x, without those that have none."""
    known = {_key(value): place for value, place in places.items()}
    if not side_by_side(list(places)):
        known |= {key: key for key in map(_key, values) if isinstance(key, float)}
    return {known[_key(value)]: figure for value, figure in values.items() if _key(value) in known}


def _key(value: Any) -> Any:
    quantity = _quantity(value)
    return value if quantity is None else quantity
