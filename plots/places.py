"""Where the values of an axis stand on x: at their number, or side by side where they are names."""

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
"""Values that span so much have a logarithmic axis."""

MAX_TICKS = 12
"""So many values on x are written below it, at most ..."""

WIDTH = 55
"""... and aslant if they have more letters than this."""

UNITS: tuple[Callable[[object], int], ...] = (parse_time_ps, parse_bytes, parse_rate_bps)


def _quantity(value: Any) -> float | None:
    """A value as a number, if it is one or has a unit."""
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
    """Are there values that are no numbers and have no unit?"""
    return any(_quantity(value) is None for value in values)


def places_of(values: Sequence[Any]) -> dict[Any, float]:
    """Where each value stands on x: at its number, or one after another if there are names."""
    if are_names(values):
        return {value: float(index) for index, value in enumerate(values)}
    return {value: _quantity(value) or 0.0 for value in values}


def scale_x(axes: Axes, places: dict[Any, float]) -> None:
    """The scale of x, and the values written below it."""
    numbers = sorted(places.values())
    named = are_names(list(places))
    if not named and numbers[0] > 0 and numbers[-1] >= DECADE * numbers[0]:
        style.logarithmic(axes, "x")
    plain = all(isinstance(value, int | float) for value in places)
    if len(places) > MAX_TICKS and plain:
        return
    short = seed_curves.short_names(str(value) for value in places)
    step = 1 + (len(places) - 1) // MAX_TICKS
    shown = sorted(places, key=places.__getitem__)[::step]
    texts = [value_text(short[str(value)]) for value in shown]
    long = sum(map(len, texts)) + 2 * len(texts) > WIDTH
    axes.set_xticks(
        [places[value] for value in shown], texts, minor=False,
        rotation=30 if long else 0, ha="right" if long else "center",
    )  # fmt: skip
    axes.minorticks_off()


def by_place(values: Mapping[Any, float], places: dict[Any, float]) -> dict[float, float]:
    """Figures by the place of their values on x; those without one are left out."""
    named = are_names(list(places))
    found = {}
    for value, figure in values.items():
        place = places.get(value) if named else _quantity(value)
        if place is not None:
            found[place] = figure
    return found
