"""Latency (left) and accepted load (right) against the load that hosts offer.

A line per routing, network or transport is the mean over the seeds, its band their range; dotted
lines are 99th percentiles. Latencies above ten times the lowest one are cut off. The legend has the
load at which each saturates (`netsim.results.saturation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.results.saturation import LOAD, saturation_of
from netsim.results.write import result_row
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "latency and accepted load against offered load, by netsim saturate"

MEAN, P99, ACCEPTED = "latency_mean_ps", "latency_p99_ps", "accepted_load"

MAX_RATIO = 10
"""Highest latency that is drawn, as a multiple of the lowest."""

Rows = dict[float, list[dict[str, Any]]]
"""Load -> rows of the seeds."""


@dataclass(frozen=True)
class Comparison:
    """Curves and their rows by label, which includes the saturation."""

    curves: dict[str, tuple[seed_curves.Curve, Rows]]
    title: str
    table: sweeps.Table


def compare(results: Sequence[Result]) -> Comparison:
    """Return the rows of each curve by load, and its saturation.

    Raises InputError unless results have [measure] and several values of traffic.load.
    """
    measured = [one for one in results if "throughput" in one.summary and _load(one) is not None]
    if len({_load(result) for result in measured}) < 2:
        hint = "such as the result of `netsim saturate`"
        message = "--kind saturation needs points with [measure] at several values of traffic.load"
        raise InputError(message, hint=hint)
    found: dict[str, tuple[seed_curves.Curve, Rows]] = {}
    lines: list[tuple[str, ...]] = []
    for curve in seed_curves.curves(measured, apart=[LOAD]):
        rows: Rows = {}
        for result in curve.results:
            rows.setdefault(_load(result) or 0.0, []).append(result_row(result))
        rows = dict(sorted(rows.items()))
        bounds = [row["saturation_bound"] for these in rows.values() for row in these]
        bound = min((one for one in bounds if one is not None), default=None)
        saturation = saturation_of(rows)
        most = max(accepted.mean for accepted in _spreads(rows, ACCEPTED).values())
        found[f"{curve.label}: {saturation}"] = (curve, rows)
        shown = "-" if bound is None else format_number(bound)
        lines.append((curve.label, str(saturation), shown, f"{most:.4f}"))
    headers = ("", "saturation", "bound", "largest\naccepted load")
    return Comparison(found, seed_curves.title(measured), sweeps.Table(headers, lines))


def draw(comparison: Comparison) -> Figure:
    """Draw latency and accepted load against offered load."""
    figure, (left, right) = style.new_figure(columns=2)
    means = {label: _spreads(rows, MEAN) for label, (_, rows) in comparison.curves.items()}
    lowest = min(point.low for line in means.values() for point in line.values())
    highest = max(point.high for line in means.values() for point in line.values())
    top = min(highest * 1.05, lowest * MAX_RATIO)
    unit, scale = style.time_unit([top])
    seeds: list[sweeps.Spread] = []
    last = 0.0
    for place, (label, (curve, rows)) in enumerate(comparison.curves.items()):
        curve_style = style.distinct_in_grayscale(curve.curve_style, place)
        latency = {load: sweeps.scaled(point, scale) for load, point in means[label].items()}
        sweeps.line(left, latency, curve_style, label)
        tail = _spreads(rows, P99)
        left.plot(
            list(tail), [point.mean / scale for point in tail.values()],
            color=curve_style.color, linestyle=":", linewidth=1,
        )  # fmt: skip
        accepted = _spreads(rows, ACCEPTED)
        sweeps.line(right, accepted, curve_style, label)
        seeds += accepted.values()
        last = max(last, *accepted)
    right.plot([0, last], [0, last], color=style.IDEAL, linestyle=":", linewidth=1.2)
    left.set_ylabel(f"completion time, {unit} (dotted: 99th percentile)")
    left.set_ylim(0, top / scale)
    right.set_ylabel("accepted load")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("offered load")
        axes.set_xlim(0, last * 1.02)
    return style.finish(figure, left, comparison.title, style.OUTSIDE, sweeps.caption(seeds))


def _load(result: Result) -> float | None:
    """Return the load of a point, None if it is no number."""
    load = seed_curves.resolved(result, LOAD)
    return float(load) if isinstance(load, int | float) else None


def _spreads(rows: Rows, column: str) -> dict[float, sweeps.Spread]:
    """Return the statistics of a column over the seeds, by load."""
    found = {load: sweeps.spread_of([row[column] for row in these]) for load, these in rows.items()}
    return {load: point for load, point in found.items() if point is not None}
