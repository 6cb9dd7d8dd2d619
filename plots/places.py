"""Positions of an axis' values on x: numeric, or side by side for names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.plots.words import value_text
from netsim.units import parse_bytes, parse_rate_bps, parse_time_ps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
