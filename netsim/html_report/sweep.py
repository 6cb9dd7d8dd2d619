"""A sweep as small multiples: metrics of the points against an axis; and all points in a table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from netsim.html_report import parts
from netsim.html_report.completion import dashes
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.plots import by_axis, seed_curves, style, sweeps
from netsim.plots.sweeps import are_names, places_of
from netsim.plots.words import axis_name, for_people, metric_name, value_text
from netsim.results.columns import Metric, metrics

ORDER, AFTER = 5, 15
"""Position with charts, and of a table alone."""

MAX_CHARTS, MAX_LINES = 9, 24


def comparison(report: Report) -> Iterator[Section]:
    """Yield small multiples for an axis with several values, and the table of points."""
    if len(report.points) < 2:
        return
    found = _table(report)
    axis = _axis(report)
    charts = [] if axis is None else list(_charts(report, axis))[:MAX_CHARTS]
    text = () if axis is None else (f"Against {axis_name(axis)}; means over the seeds.",)
    made = [parts.grid(charts)] if charts else []
    order = ORDER if charts else AFTER
    yield Section("points", f"{len(report.points)} points", text, (*made, found), order)


def _axis(report: Report) -> str | None:
    """Return the axis with the most values, numbers first; transports are lines."""
    axes = [axis for axis in report.axes if axis != seed_curves.TRANSPORT]
    values = {axis: [r.experiment["axes"].get(axis) for r in report.results] for axis in axes}
    ranked = sorted(axes, key=lambda a: (are_names(values[a]), -len({repr(v) for v in values[a]})))
    return ranked[0] if ranked else None


def _varying(report: Report) -> list[Metric]:
    """Return the metrics that differ between points, the most telling first."""
    found = []
    for metric in metrics():
        values = {_number(metric, point) for point in report.simulated}
        if len(values - {None}) > 1:
            found.append(metric)
    # A forecast takes the place of what its sample shows.
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
    values = list(dict.fromkeys(_value(point, axis) for point in report.simulated))
    places, names = places_of(values), []
    if any(isinstance(value, str) for value in values):  # names, or quantities with units
        order = sorted(places, key=places.__getitem__)
        places = {value: float(place) for place, value in enumerate(order)}
        names = [value_text(value) for value in order]
    styles = dashes([its[0].color for _, its in shown])
    for metric in _varying(report):
        found = [
            sweeps.by_value(its, lambda one: places[_value(one, axis)], partial(_number, metric))
            for _, its in shown
        ]
        means = [point.mean for points in found for point in points.values()]
        unit, scale = ("%", 0.01) if metric.share else by_axis.unit_of(metric.name, means)
        lines = [
            parts.line(
                label, sorted(points), [points[at].mean / scale for at in sorted(points)],
                its[0].color, dash=dash, dots=True,
            )
            for (label, its), points, dash in zip(shown, found, styles, strict=True) if points
        ]  # fmt: skip
        title = metric.doc[:1].upper() + metric.doc[1:]
        unit = unit if unit or metric.unit == "1" else metric.unit
        log = "y" if style.spans_decades([means]) else ""
        yield parts.chart(title, axis_name(axis), unit, lines, log=log, names=names)


def _number(metric: Metric, point: Point) -> float | None:
    value = metric.of(point.result.summary)
    return float(value) if isinstance(value, int | float) else None


def _value(point: Point, axis: str) -> Any:
    found = point.result.experiment["axes"]
    return found.get(axis, seed_curves.resolved(point.result, axis))


def _table(report: Report) -> parts.Part:
    """Return a row per point with the metrics that differ."""
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
