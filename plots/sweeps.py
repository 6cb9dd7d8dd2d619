"""What the figures of sweeps share: transports, their points over the seeds, and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.plots.seed_curves import resolved
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.experiment import Point
    from netsim.model.network import Network
    from netsim.results import Result

TRIALS = 100
"""Draws of traffic and paths behind the figures for fair shares."""

STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t distribution for 1, 2, ... degrees of freedom."""

NORMAL_95 = 1.960

ONE_PATH = ("roce", "dcqcn")
"""Transports whose flows have one path each, whatever their parameters."""


@dataclass(frozen=True)
class Table:
    """Figures as text; the first column is text, the others are numbers."""

    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()


class Spread(NamedTuple):
    """A statistic over the seeds."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]

    @property
    def margin(self) -> float | None:
        """Half of the 95 % confidence interval of the mean (Student's t); None for one seed."""
        count = len(self.values)
        if count < 2:
            return None
        variance = sum((value - self.mean) ** 2 for value in self.values) / (count - 1)
        factor = STUDENT_95[count - 2] if count - 2 < len(STUDENT_95) else NORMAL_95
        return factor * math.sqrt(variance / count)


def spread_of(values: Sequence[float]) -> Spread | None:
    """The spread of some values; None if there are none."""
    if not values:
        return None
    return Spread(sum(values) / len(values), min(values), max(values), tuple(values))


def spread(results: Sequence[Result], quantity: str, statistic: str) -> Spread | None:
    """`statistic` ("max", "mean") of `quantity` ("fct_ps", "slowdown"); None if no flow is done."""
    found = [result.summary[quantity].get(statistic) for result in results]
    values = [float(value) for value in found if value is not None and not math.isnan(value)]
    return spread_of(values)


def by_transport(
    results: Sequence[Result], apart: Sequence[str] = ()
) -> dict[str, seed_curves.Curve]:
    """The curve of each transport with its parameters, and of each value of other axes, by label.

    Axes named in `apart` and the seed do not part results. Raises InputError if nothing is left
    beside the ideal.
    """
    found = seed_curves.curves(seed_curves.without_ideal(results), apart, named=True)
    finished = [one for one in found if spread(one.results, "fct_ps", "max") is not None]
    if not finished:
        raise InputError("no flow of any transport is finished, so there is nothing to compare")
    return {curve.label: curve for curve in finished}


def line(
    axes: Axes,
    x: Sequence[float],
    points: Sequence[Spread],
    curve_style: style.CurveStyle,
    label: str,
) -> None:
    """A line through the means, with a band from the lowest to the highest seed."""
    options: dict[str, Any] = {"marker": "o", "markersize": 3} | curve_style.options()
    options["zorder"] = curve_style.order
    axes.plot(x, [point.mean for point in points], label=label, **options)
    low, high = [point.low for point in points], [point.high for point in points]
    axes.fill_between(x, low, high, color=curve_style.color, alpha=0.2, linewidth=0)


def scaled(point: Spread, scale: float) -> Spread:
    """The spread in another unit."""
    values = tuple(value / scale for value in point.values)
    return Spread(point.mean / scale, point.low / scale, point.high / scale, values)


def dots(
    axes: Axes,
    x: Sequence[float],
    points: Sequence[Spread],
    curve_style: style.CurveStyle,
    label: str,
) -> None:
    """A dot at each mean, with a bar from the lowest to the highest seed."""
    means = [point.mean for point in points]
    below = [point.mean - point.low for point in points]
    above = [point.high - point.mean for point in points]
    axes.errorbar(
        x, means, [below, above], color=curve_style.color, marker=curve_style.marker or "o",
        markersize=5, linestyle="none", capsize=3, label=label,
    )  # fmt: skip


def caption(points: Sequence[Spread], means: str = "lines", ranges: str = "bands") -> str:
    """Says what means and ranges are drawn as, if there are several seeds."""
    seeds = sorted({len(point.values) for point in points})
    if seeds[-1] == 1:
        return ""
    text = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{means}: mean of {text} seeds; {ranges}: their range"


def plus_minus(point: Spread, scale: float, digits: int = 3) -> str:
    """Half of the 95 % confidence interval of a mean; a dash for one seed."""
    return "-" if point.margin is None else format_number(point.margin / scale, digits)


def span(point: Spread, scale: float) -> str:
    """The range over the seeds: one number if they agree."""
    low, high = format_number(point.low / scale), format_number(point.high / scale)
    return low if low == high else f"{low} to {high}"


def difference(ours: float, other: float | None) -> str:
    """How much `ours` is above `other`, in percent."""
    return "-" if other is None else f"{100 * (ours / other - 1):+.1f}"


def on_one_path(result: Result) -> bool:
    """Does the transport of a result keep each flow on the path that a hash gave it?"""
    name = seed_curves.transport(result)
    return name in ONE_PATH or (name, resolved(result, "transport.paths")) == ("smartt", "ecmp")


def settings(result: Result, apart: Sequence[str] = ()) -> dict[str, Any]:
    """What a point simulates but for its transport: the dotted keys of network and traffic."""
    found = {}
    for section in ("topology", "traffic"):
        table = resolved(result, section)
        for key, value in table.items() if isinstance(table, dict) else ():
            if f"{section}.{key}" not in apart:
                found[f"{section}.{key}"] = value
    return found


def differing(results: Sequence[Result], apart: Sequence[str] = ()) -> list[str]:
    """The keys of network and traffic, except those in `apart`, in which some results differ."""
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
    """Last and mean slowdown with fair shares of single paths, for each of the `chosen` results.

    Also a note that says what was computed. If it says why nothing was, the list is empty: the
    results differ in network or traffic (but for the keys `apart`), the traffic is not of one
    size, the files of the experiment are gone, or they hold code and there is no `trust`.
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
