"""Completion times: shares of flows, the tail, and slowdown by size, with ideal and fair shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.bounds.fair_shares import hashed_times
from netsim.errors import InputError
from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.model.port_pairs import DEALT_EVENLY
from netsim.plots import style
from netsim.plots.fct_cdf import alike, distinct_ideals
from netsim.plots.slowdown import by_size

if TYPE_CHECKING:
    from netsim.plots.seed_curves import Curve

ORDER = 10
MAX_CURVES, MAX_FAIR, MAX_IDEAL = 24, 4, 4
QUANTILES = 600
DASHES = {"-": (), "--": (6, 4), ":": (2, 3), "-.": (6, 3, 2, 3)}
FAIR = (8, 3)

Floats = NDArray[np.float64]


def comparison(report: Report) -> Iterator[Section]:
    """Yield the section of completion times, if any flow finished."""
    curves = [one for one in report.curves if one.transport != "ideal"] or list(report.curves)
    curves = curves[:MAX_CURVES]
    shown = [result for curve in curves for result in curve.results]
    times = [_pooled(curve, "fct_ps") for curve in curves]
    if not any(len(one) for one in times):
        return
    unit, scale = unit_of(one.max(initial=0) for one in times)
    shares: list[parts.Part] = []
    tails: list[parts.Part] = []
    alone = [("ideal", values, DASHES["--"]) for values in distinct_ideals(shown)]
    found = [
        (curve.label, one, sum(len(result.flows) for result in curve.results),
         curve.curve_style.color, DASHES[curve.curve_style.line])
        for curve, one in zip(curves, times, strict=True) if len(one)
    ]  # fmt: skip
    found += [
        (name, values, len(values), style.IDEAL, dash)
        for name, values, dash in [*alone[:MAX_IDEAL], *_fair(report)]
    ]
    for name, values, flows, color, dash in found:
        x, done = distribution(values / scale, flows)
        shares.append(parts.line(name, x, done, color, dash=dash, steps=True))
        tails.append(tail(name, x, done, color, dash))
    log = "x" if max(one.max(initial=0) for one in times) > 50 * _least(times) else ""
    title = f"completion time ({unit})"
    charts = [
        parts.chart("Share of flows finished", title, "share of flows", shares, log=log),
        parts.chart(
            "Share of flows not yet finished", title, "share of flows", tails, log=log + "y"
        ),
        *_by_size(curves),
    ]
    text = ["Dashed gray: every flow alone in the network (ideal)."]
    if any(line["name"].startswith("fair") for line in shares):
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


def reduced(values: Floats, count: int = QUANTILES) -> NDArray[np.int64]:
    """Return positions in sorted values: evenly spaced, and closer in the tail."""
    n = len(values)
    if n <= 2 * count:
        return np.arange(n)
    tail = n - np.unique(np.geomspace(1, n, count).astype(np.int64))
    return np.unique(np.concatenate([np.linspace(0, n - 1, count).astype(np.int64), tail]))


def distribution(values: Floats, flows: int) -> tuple[Floats, Floats]:
    """Return times, and the share of `flows` that is done by each; it begins at 0."""
    values = np.sort(values).astype(np.float32)
    chosen = reduced(values)
    chosen = chosen[np.append(np.diff(values[chosen]) > 0, True)]  # the last of equal values
    x = np.append(np.nextafter(values[:1], np.float32(0)), values[chosen])
    return x, np.append(0.0, (chosen + 1) / flows)


def tail(name: str, x: Floats, done: Floats, color: str, dash: Sequence[int]) -> parts.Part:
    """Return the line of what is not done yet."""
    left = done < 1
    return parts.line(name, x[left], 1 - done[left], color, dash=dash, steps=True)


def dashes(colors: Sequence[str]) -> list[Sequence[int]]:
    """Return a dash per line; lines of one color differ."""
    return [
        list(DASHES.values())[colors[:k].count(color) % len(DASHES)]
        for k, color in enumerate(colors)
    ]


def _pooled(curve: Curve, column: str) -> Floats:
    found = [result.flows[column].drop_nulls().to_numpy() for result in curve.results]
    return np.concatenate(found).astype(float)


def _least(times: list[Floats]) -> float:
    return max(1.0, min(float(one.min()) for one in times if len(one)))


def _fair(report: Report) -> Iterator[tuple[str, Floats, Any]]:
    """Yield fair shares of the hashed paths, for points that have them."""
    found = [point for point in report.simulated if point.result.summary.get("fair_ps")]
    seen: list[Floats] = []
    for point in found[:MAX_FAIR]:
        values = fair_times(point)
        if values is not None and not any(alike(values, other) for other in seen):
            seen.append(values)
            yield f"fair shares, {point.label}", values, FAIR


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
    flows = [
        [
            np.concatenate([r.flows.drop_nulls("slowdown")[name].to_numpy() for r in curve.results])
            for name in ("size_bytes", "slowdown")
        ]
        for curve in curves
    ]
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
