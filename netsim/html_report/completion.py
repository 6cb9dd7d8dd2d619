"""Completion times: shares of flows, the tail, and slowdown by size, with ideal and fair shares."""

from __future__ import annotations

from collections.abc import Iterator
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

if TYPE_CHECKING:
    from netsim.plots.seed_curves import Curve

ORDER = 10
MAX_CURVES, MAX_FAIR = 24, 4
QUANTILES, SIZE_BINS, FEW = 600, 24, 5
DASHES = {"-": (), "--": (6, 4), ":": (2, 3), "-.": (6, 3, 2, 3)}
FAIR = (8, 3)

Floats = NDArray[np.float64]


def comparison(report: Report) -> Iterator[Section]:
    """Yield the section of completion times, if any flow finished."""
    curves = [one for one in report.curves if one.transport != "ideal"] or list(report.curves)
    curves = curves[:MAX_CURVES]
    times = [_pooled(curve, "fct_ps") for curve in curves]
    if not any(len(one) for one in times):
        return
    unit, scale = unit_of(one.max(initial=0) for one in times)
    shares: list[parts.Part] = []
    tails: list[parts.Part] = []
    for curve, values in zip(curves, times, strict=True):
        flows = sum(len(result.flows) for result in curve.results)
        if len(values):
            dash = DASHES[curve.curve_style.line]
            _add(shares, tails, curve.label, values / scale, flows, curve.curve_style.color, dash)
    for name, values, dash in [*_ideals(curves), *_fair(report)]:
        _add(shares, tails, name, values / scale, len(values), style.IDEAL, dash)
    log = "x" if max(one.max(initial=0) for one in times) > 50 * _least(times) else ""
    x = f"completion time ({unit})"
    charts = [
        parts.chart("Share of flows finished", x, "share of flows", shares, log=log),
        parts.chart("Share of flows not yet finished", x, "share of flows", tails, log=log + "y"),
        *_by_size(curves),
    ]
    text = ["Dashed gray: every flow alone in the network (ideal)."]
    if any(line["name"].startswith("fair") for line in shares):
        text.append(
            "Fair shares: all flows on the paths that the switches' hash chose, at max-min fair "
            "rates, without packets or queues."
        )
    yield Section("completion", "Completion times", tuple(text), (parts.grid(charts),))


def reduced(values: Floats, count: int = QUANTILES) -> NDArray[np.int64]:
    """Return positions in sorted values: evenly spaced, and closer in the tail."""
    n = len(values)
    if n <= 2 * count:
        return np.arange(n)
    tail = n - np.unique(np.geomspace(1, n, count).astype(np.int64))
    return np.unique(np.concatenate([np.linspace(0, n - 1, count).astype(np.int64), tail]))


def _add(
    shares: list[Any], tails: list[Any], name: str, values: Floats, flows: int, color: str,
    dash: Any,
) -> None:  # fmt: skip
    """Add the lines of a distribution to both charts."""
    values = np.sort(values).astype(np.float32)
    chosen = reduced(values)
    chosen = chosen[np.append(np.diff(values[chosen]) > 0, True)]  # the last of equal values
    x = np.append(np.nextafter(values[:1], np.float32(0)), values[chosen])
    done = np.append(0.0, (chosen + 1) / flows)
    shares.append(parts.line(name, x, done, color, dash=dash, steps=True))
    left = done < 1
    tails.append(parts.line(name, x[left], 1 - done[left], color, dash=dash, steps=True))


def _pooled(curve: Curve, column: str) -> Floats:
    found = [result.flows[column].drop_nulls().to_numpy() for result in curve.results]
    return np.concatenate(found).astype(float)


def _least(times: list[Floats]) -> float:
    return max(1.0, min(float(one.min()) for one in times if len(one)))


def _ideals(curves: list[Curve]) -> Iterator[tuple[str, Floats, Any]]:
    """Yield the distinct distributions of ideal times."""
    seen: list[Floats] = []
    for curve in curves:
        values = np.sort(_pooled(curve, "ideal_ps"))
        if len(values) and not any(_alike(values, other) for other in seen):
            seen.append(values)
            yield "ideal" if len(seen) == 1 else f"ideal, {curve.label}", values, DASHES["--"]


def _alike(one: Floats, other: Floats) -> bool:
    at = [0.1, 0.5, 0.9, 1.0]
    return np.allclose(np.quantile(one, at), np.quantile(other, at), rtol=0.02)


def _fair(report: Report) -> Iterator[tuple[str, Floats, Any]]:
    """Yield fair shares of the hashed paths, for points that have them."""
    found = [point for point in report.simulated if point.result.summary.get("fair_ps")]
    seen: list[Floats] = []
    for point in found[:MAX_FAIR]:
        values = fair_times(point)
        if values is not None and not any(_alike(values, other) for other in seen):
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
    medians = []
    sizes = [_pooled_finished(curve) for curve in curves]
    every = np.concatenate([one[0] for one in sizes])
    if len(np.unique(every)) < 2:
        return
    edges = np.unique(np.geomspace(max(1, every.min()), every.max() + 1, SIZE_BINS + 1))
    for curve, (size, slow) in zip(curves, sizes, strict=True):
        place = np.digitize(size, edges)
        found = []
        for bin_ in np.unique(place).tolist():
            inside = slow[place == bin_]
            if len(inside) >= FEW:
                middle = float(np.exp(np.log(size[place == bin_]).mean())) / 1e3
                found.append((middle, *np.percentile(inside, [50, 99])))
        if found:
            x, p50, p99 = np.array(found).T
            color = curve.curve_style.color
            medians.append(parts.line(f"{curve.label}, p99", x, p99, color, dots=True))
            medians.append(parts.line(f"{curve.label}, median", x, p50, color, dash=(3, 3)))
    if medians:
        yield parts.chart(
            "Slowdown by size", "flow size (KB)", "time over ideal", medians, log="xy"
        )


def _pooled_finished(curve: Curve) -> tuple[Floats, Floats]:
    found = [result.flows.drop_nulls("slowdown") for result in curve.results]
    return tuple(  # type: ignore[return-value]
        np.concatenate([one[name].to_numpy() for one in found]).astype(float)
        for name in ("size_bytes", "slowdown")
    )
