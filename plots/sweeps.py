"""Comparisons of sweeps: statistics over seeds, tables, fair shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.plots.seed_curves import resolved
from netsim.plots.words import for_people
from netsim.results.statistics import margin_95
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.experiment import Point
    from netsim.model.network import Network
    from netsim.results import Result

T = TypeVar("T")

TRIALS = 100
"""Draws of traffic and paths for fair shares."""

ONE_PATH = ("roce", "dcqcn")
"""Transports that always use one path per flow."""


@dataclass(frozen=True)
class Table:
    """A printed table; the first column is left-aligned."""

    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()


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


def bars(axes: Axes, points: Mapping[str, Spread], colors: Sequence[str]) -> None:
    """Draw a bar for each mean, below each other with their names, and a dot for each seed."""
    for place, (point, color) in enumerate(zip(points.values(), colors, strict=True)):
        axes.barh(place, point.mean, height=0.6, color=color, alpha=0.75)
        axes.plot(point.values, [place] * len(point.values), "k.", markersize=4)
    names_below(axes, list(points))


def names_below(axes: Axes, names: Sequence[str]) -> None:
    """Name the places on y, the first on top; only the leftmost panel has the names."""
    is_first = axes is axes.get_figure().axes[0]  # type: ignore[union-attr]  # drawn on a figure
    axes.set_yticks(range(len(names)), for_people(names) if is_first else [""] * len(names))
    axes.set_ylim(len(names) - 0.5, -0.5)


def caption(points: Sequence[Spread], means: str = "lines", ranges: str = "bands") -> str:
    """Return the meaning of lines and bands, if there are several seeds."""
    seeds = sorted({len(point.values) for point in points})
    if seeds[-1] == 1:
        return ""
    text = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{means}: mean of {text} seeds; {ranges}: their range"


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


def fair_slowdowns(
    results: Sequence[Result],
    chosen: Sequence[Result],
    apart: Sequence[str] = (),
    *,
    trust: bool = False,
) -> tuple[list[tuple[float, float]], str]:
    """Return last and mean slowdown with fair shares on single paths for `chosen`, and a note.

    The list is empty, and the note says why, if results differ in network or traffic (except for
    `apart`), flow sizes differ, files are missing, or they hold code that is not trusted.
    """
    from netsim.tracing.replay import point_of

    if keys := differing(results, apart):
        return [], f"no fair shares: the points differ in {', '.join(keys)}"
    try:
        points = [point_of(result, trust=trust) for result in chosen]
        network = points[0].topology.module.build(points[0].topology.params)
        found = [_fair_slowdown(point, network) for point in points]
    except InputError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return [], f"no fair shares: {error.message}{hint}"
    draws = f"mean of {TRIALS} draws of traffic and paths"
    return found, f"fair shares: each flow on one random path, rates max-min fair; {draws}"


def _fair_slowdown(point: Point, network: Network) -> tuple[float, float]:
    import numpy as np

    from netsim.bounds.fair_shares import completion_times
    from netsim.bounds.ideal import ideal_times
    from netsim.model.flows import FlowTable, TrafficContext
    from netsim.model.port_pairs import DEALT_EVENLY, pairs_used
    from netsim.model.workload import Workload

    if point.classes:
        raise InputError("there are several classes of flows")
    last, mean = 0.0, 0.0
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        context = TrafficContext(
            point.directory, trial, network.host_rate_bps, point.packets.payload_bytes,
            point.packets.header_bytes,
        )  # fmt: skip
        made = point.traffic.module.flows(point.traffic.params, network, rng, context)
        load = Workload(made) if isinstance(made, FlowTable) else made
        if load.has_tasks:
            raise InputError("the flows start by tasks")
        flows = load.flows
        port_pairs = pairs_used(network, flows, point.fabric.plane_balancing, trial)
        evenly = point.fabric.plane_balancing in DEALT_EVENLY
        times = completion_times(network, flows, point.packets, rng, port_pairs, evenly=evenly)
        slowdown = times / ideal_times(network, flows, point.packets, port_pairs=port_pairs).fct_ps
        last, mean = last + slowdown.max() / TRIALS, mean + slowdown.mean() / TRIALS
    return float(last), float(mean)
