"""Latencies of serving runs: time to first token, time between tokens, goodput.

For one load: the distributions of the time to first token (left), of the time from first to second
token (middle; it includes the KV-cache transfer), and of all gaps between tokens (right). For a
sweep over traffic.rate: the median and 99th percentile of each, the longest gap, goodput, and the
share of requests with a gap beyond the stall limit, against the arrival rate. Dotted lines are the
SLO, dash-dotted ones the stall limit; the dashed line is goodput if all requests meet both. Seeds
are pooled, or shown as a band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.plots.distributions import Floats, Ints, distribution
from netsim.units import format_number
from netsim.workloads.serving.outcome import gaps_of
from netsim.workloads.serving.tokens import log_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "times to first token and between tokens; or these and goodput over traffic.rate"

RATE = "traffic.rate"
FIRST, SECOND, BETWEEN = "time to first token", "first to second token", "time between tokens"
FIGURES = {FIRST: "ttft_ps", SECOND: "second_token_ps", BETWEEN: "tbt_ps"}
"""Panels and their metrics of the summary."""

SLO, STALL, CAME = "SLO", "stall limit", "all arrivals"
LINES = {SLO: ":", STALL: "-."}
LIMITS = {
    FIRST: {SLO: "ttft_ps"},
    SECOND: {STALL: "stall_ps"},
    BETWEEN: {SLO: "tbt_ps", STALL: "stall_ps"},
}
"""Limits of panels: label -> key of the summary's SLO."""

NEAR = 1.5
"""Axes extend to limits up to this multiple of their end."""


def draw(results: Sequence[Result]) -> Figure:
    """Draw curves over the rate if the results have several, else distributions.

    Raises InputError if a result is not of a serving run, or no request got a token.
    """
    for result in results:
        if "serving" not in result.summary:
            hint = 'choose runs with [traffic] kind = "serving"'
            raise InputError("serves no requests", file=str(result.path), hint=hint)
    if not any(len(samples(result, FIRST)[0]) for result in results):
        message = "no request got its first token before the run ended"
        raise InputError(message, file=str(results[0].path))
    rates = {seed_curves.resolved(result, RATE) for result in results}
    return _over_rate(results) if len(rates) > 1 else _distributions(results)


def samples(result: Result, name: str) -> tuple[Floats, Ints]:
    """Return the times of one of FIGURES, in ps, and how often each occurs."""
    table = result.requests
    if table is None or (name == BETWEEN and result.log is None):
        return np.zeros(0), np.zeros(0, np.int64)
    if name == BETWEEN:
        values, counts = gaps_of(len(table), log_of(result.log)).table()
        return values.astype(float), counts
    times = table[FIGURES[name]].drop_nulls().to_numpy().astype(float)
    return times, np.ones(len(times), np.int64)


def _distributions(results: Sequence[Result]) -> Figure:
    """Draw three panels: first tokens, the gap after them, and all gaps."""
    curves = seed_curves.curves(results)
    figure, panels = style.new_figure(columns=3)
    for axes, name in zip(panels, FIGURES, strict=True):
        pairs = [[samples(result, name) for result in curve.results] for curve in curves]
        times, counts = (
            [np.concatenate([one[part] for one in its]) for its in pairs] for part in (0, 1)
        )
        unit, scale = style.unit_of_all(times)
        for place, curve in enumerate(curves):
            # Requests without a first token count, so the curve may end below 1.
            requests = sum(len(one.requests) for one in curve.results if one.requests is not None)
            whole = requests if name == FIRST else None
            look = style.distinct_in_grayscale(curve.curve_style, place)._replace(marker="")
            x, shares = distribution(times[place] / scale, whole, counts[place])
            options = look.options()
            axes.step(x, shares, where="post", label=curve.label, zorder=look.order, **options)
        axes.set_xlabel(f"{name} ({unit})")
        axes.set_ylabel("share of gaps" if name == BETWEEN else "share of requests")
        axes.set_ylim(0, 1.02)
        style.fit_axis(axes, "x", times, scale)
        _draw_limits(axes, "x", _limits(results, name), scale, unit)
    _name_limits(panels[0], results)
    return style.finish(figure, panels[0], seed_curves.title(results), style.OUTSIDE)


def _over_rate(results: Sequence[Result]) -> Figure:
    """Draw four panels against the rate, in two rows, and one for stalls if any."""
    curves = [
        (curve, style.distinct_in_grayscale(curve.curve_style, place))
        for place, curve in enumerate(seed_curves.curves(results, apart=[RATE], named=True))
    ]
    stalls = any(_stalled_share(result.summary["serving"]) for result in results)
    figure, panels = style.new_figure(columns=3 if stalls else 2, rows=2)
    for axes, (name, key) in zip(panels, FIGURES.items(), strict=False):
        looks: dict[str, dict[str, Any]] = {"p99": {"linewidth": 1.6}, "p50": {"linewidth": 0.8}}
        if name == BETWEEN:
            looks["max"] = {"linewidth": 0.8, "linestyle": "-."}
        every = [r.summary["serving"][key][one] for r in results for one in looks]
        unit, scale = style.unit_of_all([[value for value in every if value]])
        for curve, curve_style in curves:
            for statistic, look in looks.items():
                points = _by_rate(curve.results, lambda s, k=key, q=statistic: s[k][q])
                points = {rate: sweeps.scaled(point, scale) for rate, point in points.items()}
                label = curve.label if statistic == "p99" else ""
                sweeps.line(axes, points, curve_style, label, **look)
        axes.set_ylabel(f"{name} ({unit})")
        caption = "thin: median, thick: 99 %" + ", dash-dot: longest" * (name == BETWEEN)
        axes.set_title(caption, fontsize="small")
        style.fit_axis(axes, "y", [[value for value in every if value]], scale)
        _draw_limits(axes, "y", _limits(results, name), scale, unit)
    last = panels[3]
    every_point: list[sweeps.Spread] = []
    for curve, curve_style in curves:
        points = _by_rate(curve.results, lambda s: s["slo"]["goodput_per_s"])
        every_point += points.values()
        sweeps.line(last, points, curve_style, curve.label)
        if stalls:
            points = _by_rate(curve.results, _stalled_share)
            sweeps.line(panels[4], points, curve_style, curve.label)
    came = _by_rate(results, lambda s: s["offered_per_s"])
    means = [point.mean for point in came.values()]
    last.plot(list(came), means, color=style.IDEAL, linestyle="--", label=CAME)
    _name_limits(last, results)
    last.set_ylabel("goodput (requests/s)")
    if stalls:
        panels[4].set_ylabel("stalled requests (%)")
        panels[4].set_ylim(bottom=0)
        figure.delaxes(panels.pop())
    for axes in panels:
        axes.set_xlabel("request arrivals (1/s)")
        axes.set_xlim(left=0)
    last.set_ylim(bottom=0)
    title = seed_curves.title(results)
    return style.finish(figure, last, title, style.OUTSIDE, sweeps.caption(every_point))


def _stalled_share(serving: Mapping[str, Any]) -> float | None:
    """Percent of requests with a gap beyond the limit, if there is one."""
    slo = serving["slo"]
    if slo.get("stall_ps") is None:
        return None
    share: float = slo["stalled"] / max(1, serving["requests"])
    return 100 * share


def _by_rate(results: Sequence[Result], value: Any) -> dict[float, sweeps.Spread]:
    """Return a metric of the summary at each rate, over the seeds."""
    found = sweeps.by_value(
        results,
        lambda result: seed_curves.resolved(result, RATE),
        lambda result: value(result.summary["serving"]),
    )
    return {float(rate): found[rate] for rate in sorted(found)}


def _limits(results: Sequence[Result], name: str) -> dict[str, list[int]]:
    """Return the limits that are set for a panel, by label, without duplicates."""
    found = {
        label: {result.summary["serving"]["slo"].get(key) for result in results} - {None}
        for label, key in LIMITS[name].items()
    }
    return {label: sorted(values) for label, values in found.items() if values}


def _look(label: str) -> dict[str, Any]:
    return {"color": style.IDEAL, "linestyle": LINES[label], "linewidth": 1.2}


def _name_limits(axes: Axes, results: Sequence[Result]) -> None:
    """Add the limits to the legend of `axes`."""
    for label in dict.fromkeys(label for name in FIGURES for label in _limits(results, name)):
        axes.plot([], [], label=label, **_look(label))


def _draw_limits(
    axes: Axes, which: str, limits: Mapping[str, Sequence[int]], scale: float, unit: str
) -> None:
    """Draw a line per limit. The axis keeps the range of the curves; distant limits are noted at
    its edge."""
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    draw_line = axes.axvline if which == "x" else axes.axhline
    far = []
    for label, limit in ((label, one) for label, values in limits.items() for one in values):
        at = limit / scale
        if at > NEAR * high:
            far.append(f"{label} {format_number(at)} {unit}")
        else:
            high = max(high, 1.02 * at)
            draw_line(at, **_look(label))
    axes.set(**{f"{which}lim": (low, high)})
    if far:
        # Avoid the curves: below the end of shares, above the start of rising times.
        corner, aside, ha, va, arrow = (
            ((1, 0), (-3, 3), "right", "bottom", "\u2192")
            if which == "x"
            else ((0, 1), (3, -3), "left", "top", "\u2191")
        )
        axes.annotate(
            f"{', '.join(far)} {arrow}", corner, aside, xycoords="axes fraction",
            textcoords="offset points", ha=ha, va=va, fontsize="small", color=style.CAPTION,
        )  # fmt: skip
