"""Completion times of all points, a sweep as small multiples, and all points in a table.

Charts show the CDF of completion times, its tail, and slowdown by size, with ideal and fair shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.model.columns import Floats
from netsim.model.ideal import hashed_times
from netsim.model.port_pairs import DEALT_EVENLY
from netsim.plots import by_axis, flows, style, sweeps
from netsim.plots.style import CurveStyle, axis_name, for_people, metric_name, value_text
from netsim.plots.sweeps import Curve, are_names, places_of
from netsim.results.columns import Metric, metrics

ORDER, SWEEP, TABLE = 10, 5, 15  # positions of completion times, a sweep with charts, a table

MAX_CURVES, MAX_FAIR, MAX_IDEAL = 24, 4, 4
FAIR = CurveStyle(style.IDEAL, "-.")


def comparison(report: Report) -> Iterator[Section]:
    """Yield completion times, if any flow finished, and the points of a sweep."""
    yield from _completion(report)
    yield from _sweep(report)


def _completion(report: Report) -> Iterator[Section]:
    curves = [one for one in report.curves if one.transport != "ideal"] or list(report.curves)
    curves = curves[:MAX_CURVES]
    shown = [result for curve in curves for result in curve.results]
    times = [flows.pooled(curve.results, "fct_ps") for curve in curves]
    if not any(map(len, times)):
        return
    unit, scale = style.unit_of_all(times)
    ideals, fair = flows.distinct_ideals(shown)[:MAX_IDEAL], dict(_fair(report))
    shares: list[parts.Part] = []
    tails: list[parts.Part] = []
    drawn = [
        (one.label, values, sum(len(result.flows) for result in one.results), one.curve_style)
        for one, values in zip(curves, times, strict=True)
    ]
    drawn += [("ideal", values, len(values), style.IDEAL_LINE) for values in ideals]
    drawn += [(name, values, len(values), FAIR) for name, values in fair.items()]
    for name, values, whole, look in drawn:
        if len(values):
            x, done = flows.distribution(values / scale, whole)
            shares.append(parts.line(name, x, done, look, steps=True))
            above, left = flows.tail(x, done)
            if done[-1] == 1 and len(left):  # a logarithmic axis has no 0, so end at half a flow
                above, left = np.append(above, x[-1]), np.append(left, 0.5 / len(values))
            tails.append(parts.line(name, above, left, look, steps=True))
    log = "x" if style.spans_decades(times) else ""
    axes = f"completion time ({unit})", "share of flows"
    charts = [
        parts.chart("Share of flows finished", *axes, shares, log=log),
        parts.chart("Share of flows not yet finished", *axes, tails, log=log + "y"),
        *_by_size(curves),
    ]
    text = ["Dashed gray: every flow alone in the network (ideal)."]
    if fair:
        text.append(
            "Fair shares: all flows on the paths that the switches' hash chose, at max-min fair "
            "rates, without packets or queues."
        )
    made = (parts.grid(charts), *_classes(report, unit, scale))
    yield Section("completion", "Completion times", tuple(text), made)


def _classes(report: Report, unit: str, scale: float) -> Iterator[parts.Part]:
    rows = []
    for point in report.points:
        for one in point.result.summary.get("flow_classes") or ():
            times = [one["fct_ps"].get(name) for name in ("p50", "p99", "max")]
            name = one["flow_class"] or "main traffic"
            rows.append(
                [point.label, name, one["transport"], one["flows"], one["flows_finished"]]
                + [None if time is None else time / scale for time in times]
                + [one["slowdown"].get("p99")]
            )
    if rows:
        times = [f"fct {name}, {unit}" for name in ("p50", "p99", "max")]
        names = ("point", "flow class", "transport", "flows", "finished", *times, "slowdown p99")
        yield parts.table(names, rows)


def looks(colors: Sequence[str]) -> list[CurveStyle]:
    """Return a style for each curve; curves of the same color have different dash patterns."""
    return [
        CurveStyle(color, style.LINES[colors[:k].count(color) % len(style.LINES)])
        for k, color in enumerate(colors)
    ]


def _fair(report: Report) -> Iterator[tuple[str, Floats]]:
    found = [point for point in report.simulated if point.result.summary.get("fair_ps")]
    times = [(point, fair_times(point)) for point in found[:MAX_FAIR]]
    known = {id(values): point for point, values in times if values is not None}
    for values in flows.distinct([values for _, values in times if values is not None]):
        yield f"fair shares, {known[id(values)].label}", values


def fair_times(point: Point) -> Floats | None:
    """Return each flow's time with fair shares on its hashed path; None if undefined."""
    scenario, result = point.scenario, point.result
    if scenario is None or point.paths is None:
        return None
    evenly = scenario.fabric.plane_balancing in DEALT_EVENLY
    seed, packets = int(result.experiment["seed"]), point.packets
    try:
        return hashed_times(
            scenario.network, scenario.flows, packets, scenario.port_pairs, seed, evenly=evenly
        )
    except InputError:
        return None


def _by_size(curves: list[Curve]) -> Iterator[parts.Part]:
    samples = [
        (flows.finished_sizes(curve.results), flows.pooled(curve.results, "slowdown"))
        for curve in curves
    ]
    if len(np.unique(np.concatenate([sizes for sizes, _ in samples]))) < 2:
        return
    lines = []
    for curve, (sizes, values) in zip(curves, samples, strict=True):
        middles, medians, tails = flows.by_size(sizes, values) if len(sizes) else np.zeros((3, 0))
        if len(middles):
            label, color, x = curve.label, curve.curve_style.color, middles / 1e3
            solid, dotted = CurveStyle(color), CurveStyle(color, ":")
            lines.append(parts.line(f"{label}, p99", x, tails, solid, dots=True))
            lines.append(parts.line(f"{label}, median", x, medians, dotted))
    if lines:
        axes = "flow size (KB)", "time over ideal"
        yield parts.chart("Slowdown by size", *axes, lines, log="xy")


MAX_CHARTS, MAX_LINES = 9, 24


def _sweep(report: Report) -> Iterator[Section]:
    """Yield small multiples for an axis with several values, and the table of points."""
    if len(report.points) < 2:
        return
    found = _table(report)
    axis = _axis(report)
    charts = [] if axis is None else list(_charts(report, axis))[:MAX_CHARTS]
    text = () if axis is None else (f"Against {axis_name(axis)}; means over the seeds.",)
    made = [parts.grid(charts)] if charts else []
    order = SWEEP if charts else TABLE
    yield Section("points", f"{len(report.points)} points", text, (*made, found), order)


def _axis(report: Report) -> str | None:
    """Return the axis with the most values, numbers first; transports are lines."""
    axes = [axis for axis in report.axes if axis != sweeps.TRANSPORT]
    values = {axis: [r.experiment["axes"].get(axis) for r in report.results] for axis in axes}
    ranked = sorted(axes, key=lambda a: (are_names(values[a]), -len({repr(v) for v in values[a]})))
    return ranked[0] if ranked else None


def _varying(report: Report) -> list[Metric]:
    """Return the metrics that differ between points, the most informative first."""
    found = []
    for metric in metrics():
        values = {_number(metric, point) for point in report.simulated}
        if len(values - {None}) > 1:
            found.append(metric)
    # A forecast replaces the values of its sample.
    names = {metric.name for metric in found}
    shown = (one for one in found if "forecast_" + one.name.removeprefix("step_") not in names)
    return sorted(shown, key=_rank)


PREFERRED = (
    *("goodput_per_s", "second_token_p99_ps", "tbt_p99_ps", "ttft_p99_ps"),
    *("forecast_ps", "forecast_exposed", "step_ps", "exposed"),
    *("fct_p99_ps", "fct_max_ps", "slowdown_p99", "pfc_pauses", "drops", "lost", "trims"),
    *("retransmits", "recovery_p50_ps", "silent_flows", "ecn_marks"),
)


def _rank(metric: Metric) -> int:
    return PREFERRED.index(metric.name) if metric.name in PREFERRED else len(PREFERRED)


def _charts(report: Report, axis: str) -> Iterator[parts.Part]:
    """Yield a chart per metric, with a line per combination of the other axes."""
    groups: dict[str, list[Point]] = {}
    for point in report.simulated:
        groups.setdefault(report.axes_text(point.result, without=axis), []).append(point)
    shown = list(zip(for_people(list(groups)), groups.values(), strict=True))[:MAX_LINES]
    values = list(dict.fromkeys(sweeps.value(point.result, axis) for point in report.simulated))
    places, names = places_of(values), []
    if any(isinstance(value, str) for value in values):  # names, or quantities with units
        order = sorted(places, key=places.__getitem__)
        places = {value: float(place) for place, value in enumerate(order)}
        names = [value_text(value) for value in order]
    styles = looks([its[0].color for _, its in shown])
    for metric in _varying(report):
        found = [
            sweeps.by_value(
                its,
                lambda point: places[sweeps.value(point.result, axis)],
                partial(_number, metric),
            )
            for _, its in shown
        ]
        means = [point.mean for points in found for point in points.values()]
        unit, scale = ("%", 0.01) if metric.share else by_axis.unit_of(metric.name, means)
        lines = [
            parts.line(
                label, sorted(points), [points[at].mean / scale for at in sorted(points)],
                look, dots=True,
            )
            for (label, _), points, look in zip(shown, found, styles, strict=True) if points
        ]  # fmt: skip
        title = metric.doc[:1].upper() + metric.doc[1:]
        unit = unit if unit or metric.unit == "1" else metric.unit
        log = "y" if style.spans_decades([means]) else ""
        yield parts.chart(title, axis_name(axis), unit, lines, log=log, names=names)


def _number(metric: Metric, point: Point) -> float | None:
    value = metric.of(point.result.summary)
    return float(value) if isinstance(value, int | float) else None


def _table(report: Report) -> parts.Part:
    """Return one row per point, with the metrics that differ between points."""
    chosen = [one for one in _varying(report) if one.title or _rank(one) < len(PREFERRED)]
    columns, scales = ["point", "status"], []
    for metric in chosen:
        values = [_number(metric, point) for point in report.points]
        unit, scale = ("%", 0.01) if metric.share else ("", 1.0)
        if metric.unit == "ps":
            unit, scale = unit_of(v for v in values if v)
        name = metric_name(metric.name)
        columns.append(f"{name}, {unit}" if unit else name)
        scales.append(scale)
    rows = []
    for point in report.points:
        row: list[Any] = [point.label, point.result.status]
        for metric, scale in zip(chosen, scales, strict=True):
            value = _number(metric, point)
            row.append(None if value is None else value / scale)
        rows.append(row)
    return parts.table(columns, rows)
