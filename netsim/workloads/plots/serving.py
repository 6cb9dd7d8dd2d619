"""Pictures of serving runs: goodput by point; latencies as distributions, or over the request
rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Floats, Ints
from netsim.plots import style, sweeps
from netsim.plots.flows import distribution
from netsim.plots.sweeps import Picture, Spread, resolved
from netsim.units import format_number, parse_time_ps
from netsim.workloads.serving.failures import Policy
from netsim.workloads.serving.outcome import expected_capacity, gaps_of, log_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results import Result

PLOTS = {
    "serving_goodput": "comparison of serving runs: goodput, SLO attainment, available GPUs, TTFT",
    "serving_latency": "times to first token and between tokens; or these and goodput over "
    "traffic.rate",
}

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

NEAR = 1.5  # axes extend to limits up to this multiple of their end


def _check(results: Sequence[Result]) -> None:
    """Raise InputError if a result is not of a serving run."""
    for result in results:
        if "serving" not in result.summary:
            hint = 'choose runs with [traffic] kind = "serving"'
            raise InputError("serves no requests", file=str(result.path), hint=hint)


class GoodputBar(NamedTuple):
    """A point of a sweep: its metrics over the seeds, shares and times in picoseconds."""

    label: str
    color: str
    by_formula: float | None
    met: Spread
    capacity: Spread
    ttft_p99_ps: Spread
    failures: Spread
    restarts: Spread
    goodput_per_s: Spread
    stalled: Spread
    second_token_p99_ps: Spread


PATHS = (
    ("slo", "attainment"),
    ("failures", "available_gpu_share"),
    ("ttft_ps", "p99"),
    ("failures", "count"),
    ("restarts",),
    ("slo", "goodput_per_s"),
    ("slo", "stalled"),
    ("second_token_ps", "p99"),
)
"""Metrics of a bar in the summary's "serving"."""


def goodput_bars(results: Sequence[Result]) -> list[GoodputBar]:
    """Return the bars, in the order of the sweep. Raises InputError for other runs."""
    _check(results)
    curves = sweeps.curves(results)
    several = len({curve.transport for curve in curves}) > 1
    return [
        GoodputBar(
            curve.label,
            curve.curve_style.color if several else style.color(5),
            by_formula(curve.results[0]),
            *(_over_seeds(curve.results, path) for path in PATHS),
        )
        for curve in curves
    ]


def _over_seeds(results: Sequence[Result], path: Sequence[str]) -> Spread:
    """Return a metric over seeds; infinite for runs without it."""
    values = []
    for result in results:
        value: Any = result.summary["serving"]
        for key in path:
            value = value[key]
        values.append(math.inf if value is None else value)
    spread = sweeps.spread_of(values)
    assert spread is not None  # every curve has results
    return spread


def by_formula(result: Result) -> float | None:
    """Return the expected share of available GPUs; None without a formula. There is a formula for
    random failures of instances of one role."""
    names = ("mtbf", "repair_time", "swap_time", "restart_time")
    mtbf, *others = (resolved(result, f"traffic.{name}") for name in names)
    spares, how, trace = (
        resolved(result, f"traffic.{name}") for name in ("spares", "on_failure", "failure_trace")
    )
    roles = list(result.summary["serving"]["roles"].values())
    if len(roles) != 1 or trace:
        return None
    if not mtbf:
        return 1.0
    mtbf_ps, repair_ps, swap_ps, restart_ps = (
        parse_time_ps(one or "0ps") for one in (mtbf, *others)
    )
    policy = Policy(mtbf_ps, repair_ps, swap_ps, spares or 0, how, restart_ps)
    instances = roles[0]["instances"]
    return expected_capacity(policy, roles[0]["hosts"] // instances, instances)


def serving_goodput(results: Sequence[Result]) -> Picture:
    """Draw goodput, requests per second that met the SLO (left), and their share of all (middle).

    A bar is the mean over seeds, a dot one seed. Next to the shares is the mean share of GPUs in
    service, measured and by formula (`netsim.workloads.serving.outcome`) if there is one. Right:
    the 99th percentile of the time to first token; a ring is its mean. Transports differ in color.
    """
    bars = goodput_bars(results)
    colors = [bar.color for bar in bars]
    figure, (left, middle, right) = style.new_figure(columns=3)
    figure.set_figheight(max(2.6, 1.6 + 0.3 * len(bars)))
    unit, scale = style.time_unit(bar.ttft_p99_ps.high for bar in bars)
    met = {bar.label: sweeps.scaled(bar.met, 0.01) for bar in bars}
    sweeps.bars(left, {bar.label: bar.goodput_per_s for bar in bars}, colors)
    marks = {bar.label: 100 * max(bar.capacity.mean, bar.by_formula or 0.0) for bar in bars}
    sweeps.bars(middle, met, colors, marks)
    sweeps.names_below(right, list(met))
    for place, bar in enumerate(bars):
        ttft = sweeps.scaled(bar.ttft_p99_ps, scale)
        right.plot(ttft.mean, place, "o", color=bar.color, markersize=8, markerfacecolor="none")
        right.plot(ttft.values, [place] * len(ttft.values), "k.", markersize=4)
        style.write_value(right, (ttft.high, place), ttft.mean, (7, 0))
    service: dict[str, Any] = {"markersize": 13, "markeredgewidth": 1.6}
    shares = [100 * bar.capacity.mean for bar in bars]
    middle.plot(shares, range(len(bars)), "k|", label="GPUs in service, measured", **service)
    known = [(100 * bar.by_formula, k) for k, bar in enumerate(bars) if bar.by_formula is not None]
    if known:
        diamonds: dict[str, Any] = {"markersize": 5.5, "markerfacecolor": "none"}
        x, y = zip(*known, strict=True)
        middle.plot(x, y, "kD", label="GPUs in service, by formula", **diamonds)
    left.set_xlim(0, 1.15 * left.get_xlim()[1])
    left.set_xlabel("goodput: requests/s that met the SLO")
    middle.set(xlim=(0, 115), xlabel="requests that met the SLO (%)")
    style.logarithmic(right, "x")
    right.margins(x=0.15)
    right.set_xlabel(f"time to first token, 99th percentile ({unit})")
    caption = sweeps.caption([bar.met for bar in bars], "bars and rings", "dots: each")
    title = sweeps.title(results)
    return Picture(style.finish(figure, middle, title, style.OUTSIDE, caption), goodput_table(bars))


def goodput_table(bars: Sequence[GoodputBar]) -> sweeps.Table:
    unit, scale = style.time_unit(bar.ttft_p99_ps.high for bar in bars)
    gaps = [bar.second_token_p99_ps.mean for bar in bars]
    gap_unit, gap_scale = style.time_unit(gap for gap in gaps if gap < math.inf)
    headers = (
        *("", "seeds", "failures", "GPUs in\nservice, %", "by\nformula", "restarts"),
        *("met\n%", "seeds'\nrange", "goodput\n1/s", f"TTFT p99\n{unit}"),
        *(f"first gap\np99 {gap_unit}", "stalled"),
    )
    rows: list[tuple[str, ...]] = [
        (
            bar.label,
            str(len(bar.met.values)),
            format_number(bar.failures.mean, 3),
            f"{100 * bar.capacity.mean:.1f}",
            "-" if bar.by_formula is None else f"{100 * bar.by_formula:.1f}",
            format_number(bar.restarts.mean, 3),
            f"{100 * bar.met.mean:.1f}",
            sweeps.span(bar.met, 0.01),
            format_number(bar.goodput_per_s.mean, 3),
            format_number(bar.ttft_p99_ps.mean / scale, 3),
            format_number(bar.second_token_p99_ps.mean / gap_scale, 3),
            format_number(bar.stalled.mean, 3),
        )
        for bar in bars
    ]
    return sweeps.Table(headers, rows)


def serving_latency(results: Sequence[Result]) -> Picture:
    """Draw latencies over the rate if the results have several, else their distributions.

    Dotted lines are the SLO, dash-dotted ones the stall limit. Seeds are pooled, or shown as a
    band. Raises InputError if a result is not of a serving run, or no request got a token.
    """
    _check(results)
    if not any(len(samples(result, FIRST)[0]) for result in results):
        message = "no request got its first token before the run ended"
        raise InputError(message, file=str(results[0].path))
    rates = {resolved(result, RATE) for result in results}
    return _over_rate(results) if len(rates) > 1 else _distributions(results)


def samples(result: Result, name: str) -> tuple[Floats, Ints]:
    """Return the times of one of FIGURES, in ps, and how often each occurs."""
    table = result.requests
    if table is None or (name == BETWEEN and result.log is None):
        return np.zeros(0), np.zeros(0, np.int64)
    if name == BETWEEN:
        values, counts = gaps_of(len(table), log_of(result.log))
        return values.astype(float), counts
    times = table[FIGURES[name]].drop_nulls().to_numpy().astype(float)
    return times, np.ones(len(times), np.int64)


def _distributions(results: Sequence[Result]) -> Picture:
    """Draw times to first token, the gap after it (with the KV-cache transfer), and all gaps."""
    curves = sweeps.curves(results)
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
            options = look.options() | {"label": curve.label, "zorder": look.order}
            axes.step(x, shares, where="post", **options)
        axes.set_xlabel(f"{name} ({unit})")
        axes.set_ylabel("share of gaps" if name == BETWEEN else "share of requests")
        axes.set_ylim(0, 1.02)
        style.fit_axis(axes, "x", times, scale)
        _draw_limits(axes, "x", _limits(results, name), scale, unit)
    _name_limits(panels[0], results)
    return Picture(style.finish(figure, panels[0], sweeps.title(results), style.OUTSIDE))


def _over_rate(results: Sequence[Result]) -> Picture:
    """Draw median, 99th percentile and longest of each latency, goodput (dashed: if all requests
    meet the limits), and the share of stalled requests, if any."""
    curves = [
        (curve, style.distinct_in_grayscale(curve.curve_style, place))
        for place, curve in enumerate(sweeps.curves(results, apart=[RATE], named=True))
    ]
    stalls = any(_stalled_share(result.summary["serving"]) for result in results)
    figure, panels = style.new_figure(columns=3 if stalls else 2, rows=2)
    for axes, (name, key) in zip(panels, FIGURES.items(), strict=False):
        looks: dict[str, dict[str, Any]] = {"p99": {"linewidth": 1.6}, "p50": {"linewidth": 0.8}}
        if name == BETWEEN:
            looks["max"] = {"linewidth": 0.8, "linestyle": "-."}
        every = [r.summary["serving"][key][one] for r in results for one in looks]
        known = [value for value in every if value]
        unit, scale = style.unit_of_all([known])
        for curve, curve_style in curves:
            for statistic, look in looks.items():
                points = _by_rate(curve.results, lambda s, k=key, q=statistic: s[k][q])
                points = {rate: sweeps.scaled(point, scale) for rate, point in points.items()}
                label = curve.label if statistic == "p99" else ""
                sweeps.line(axes, points, curve_style, label, **look)
        axes.set_ylabel(f"{name} ({unit})")
        caption = "thin: median, thick: 99 %" + ", dash-dot: longest" * (name == BETWEEN)
        axes.set_title(caption, fontsize="small")
        style.fit_axis(axes, "y", [known], scale)
        _draw_limits(axes, "y", _limits(results, name), scale, unit)
    last = panels[3]
    every_point: list[Spread] = []
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
    title = sweeps.title(results)
    return Picture(style.finish(figure, last, title, style.OUTSIDE, sweeps.caption(every_point)))


def _stalled_share(serving: Mapping[str, Any]) -> float | None:
    """Percent of requests with a gap beyond the limit, if there is one."""
    slo = serving["slo"]
    return None if slo["stall_ps"] is None else 100 * slo["stalled"] / serving["requests"]


def _by_rate(results: Sequence[Result], value: Any) -> dict[float, Spread]:
    found = sweeps.by_value(
        results,
        lambda result: resolved(result, RATE),
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
