"""Completion times: shares of flows, the tail, and slowdown by size, with ideal and fair shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.bounds.fair_shares import hashed_times
from netsim.errors import InputError
from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report
from netsim.model.port_pairs import DEALT_EVENLY
from netsim.plots import style
from netsim.plots.flows import (
    Floats,
    by_size,
    distinct,
    distinct_ideals,
    distribution,
    finished_sizes,
    pooled,
    tail,
)

if TYPE_CHECKING:
    from netsim.plots.seed_curves import Curve

ORDER = 10
MAX_CURVES, MAX_FAIR, MAX_IDEAL = 24, 4, 4
DASHES = {"-": (), "--": (6, 4), ":": (2, 3), "-.": (6, 3, 2, 3)}
FAIR = (8, 3)


def comparison(report: Report) -> Iterator[Section]:
    """Yield the section of completion times, if any flow finished."""
    curves = [one for one in report.curves if one.transport != "ideal"] or list(report.curves)
    curves = curves[:MAX_CURVES]
    shown = [result for curve in curves for result in curve.results]
    times = [pooled(curve.results, "fct_ps") for curve in curves]
    if not any(map(len, times)):
        return
    unit, scale = style.unit_of_all(times)
    ideals, fair = distinct_ideals(shown)[:MAX_IDEAL], dict(_fair(report))
    shares: list[parts.Part] = []
    tails: list[parts.Part] = []
    for name, values, flows, color, dash in (
        *(
            (one.label, values, sum(len(result.flows) for result in one.results),
             one.curve_style.color, DASHES[one.curve_style.line])
            for one, values in zip(curves, times, strict=True)
        ),
        *(("ideal", values, None, style.IDEAL, DASHES["--"]) for values in ideals),
        *((name, values, None, style.IDEAL, FAIR) for name, values in fair.items()),
    ):  # fmt: skip
        if len(values):
            x, done = distribution(values / scale, flows)
            shares.append(parts.line(name, x, done, color, dash=dash, steps=True))
            above, left = tail(x, done)
            if done[-1] == 1 and len(left):  # a logarithmic axis has no 0: down to half a flow
                above, left = np.append(above, x[-1]), np.append(left, 0.5 / len(values))
            tails.append(parts.line(name, above, left, color, dash=dash, steps=True))
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
    """Yield a table of the flow classes, if there are any."""
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


def dashes(colors: Sequence[str]) -> list[Sequence[int]]:
    """Return a dash per line; lines of one color differ."""
    return [
        list(DASHES.values())[colors[:k].count(color) % len(DASHES)]
        for k, color in enumerate(colors)
    ]


def _fair(report: Report) -> Iterator[tuple[str, Floats]]:
    """Yield fair shares of the hashed paths, for points that have them."""
    found = [point for point in report.simulated if point.result.summary.get("fair_ps")]
    times = [(point, fair_times(point)) for point in found[:MAX_FAIR]]
    known = {id(values): point for point, values in times if values is not None}
    for values in distinct([values for _, values in times if values is not None]):
        yield f"fair shares, {known[id(values)].label}", values


def fair_times(point: Point) -> Floats | None:
    """Return each flow's time with fair shares on its hashed path; None if it is not defined."""
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
    """Yield the slowdown by size, if sizes differ."""
    flows = [(finished_sizes(curve.results), pooled(curve.results, "slowdown")) for curve in curves]
    if len(np.unique(np.concatenate([sizes for sizes, _ in flows]))) < 2:
        return
    lines = []
    for curve, (sizes, values) in zip(curves, flows, strict=True):
        middles, medians, tails = by_size(sizes, values) if len(sizes) else np.zeros((3, 0))
        if len(middles):
            label, color, x = curve.label, curve.curve_style.color, middles / 1e3
            lines.append(parts.line(f"{label}, p99", x, tails, color, dots=True))
            lines.append(parts.line(f"{label}, median", x, medians, color, dash=(3, 3)))
    if lines:
        axes = "flow size (KB)", "time over ideal"
        yield parts.chart("Slowdown by size", *axes, lines, log="xy")
