"""Latencies of serving runs: time to first token, time between tokens, goodput.

For one load: the distributions of the time to first token (left), of the time from first to second
token (middle; it includes the KV-cache transfer), and of all gaps between tokens (right). For a
sweep over traffic.rate: the median and 99th percentile of each, the longest gap, goodput, and the
share of requests with a gap beyond the stall limit, against the arrival rate. Dotted lines are the
SLO, and goodput if all requests meet it. Seeds are pooled, or shown as a band.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.units import format_number

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "times to first token and between tokens; or these and goodput over traffic.rate"

RATE = "traffic.rate"
FIRST, SECOND, BETWEEN = "time to first token", "first to second token", "time between tokens"
FIGURES = {FIRST: "ttft_ps", SECOND: "second_token_ps", BETWEEN: "tbt_ps"}
"""Panels and their metrics of the summary."""

SLOS = {FIRST: ("ttft_ps",), SECOND: ("stall_ps",), BETWEEN: ("tbt_ps", "stall_ps")}
"""SLO limits of panels."""

NEAR = 1.5
"""Axes extend to SLO limits up to this multiple of their end."""

SLO, CAME = "SLO", "all arrivals"
"""Labels of dotted lines."""


def draw(results: Sequence[Result]) -> Figure:
    """Draw curves over the rate if the results have several, else distributions.

    Raises InputError if a result is not of a serving run, or no request got a token.
    """
    for result in results:
        if "serving" not in result.summary:
            hint = 'choose runs with [traffic] kind = "serving"'
            raise InputError("serves no requests", file=str(result.path), hint=hint)
    if not any(len(_first_tokens(result)[0]) for result in results):
        message = "no request got its first token before the run ended"
        raise InputError(message, file=str(results[0].path))
    rates = {seed_curves.resolved(result, RATE) for result in results}
    return _over_rate(results) if len(rates) > 1 else _distributions(results)


def _distributions(results: Sequence[Result]) -> Figure:
    """Draw three panels: first tokens, the gap after them, and all gaps."""
    import numpy as np

    curves = seed_curves.curves(results)
    figure, panels = style.new_figure(columns=3)
    read = {
        FIRST: _first_tokens,
        SECOND: lambda result: _once(result, "second_token_ps"),
        BETWEEN: _gaps,
    }
    for axes, name in zip(panels, FIGURES, strict=True):
        found = []
        for curve in curves:
            pairs = [read[name](r) for r in curve.results]
            values = np.concatenate([one[0] for one in pairs])
            counts = np.concatenate([one[1] for one in pairs])
            order = np.argsort(values, kind="stable")
            # Requests without a first token count, so the curve may end below 1.
            whole = counts.sum()
            if name == FIRST:
                whole = sum(len(_requests(result)) for result in curve.results)
            found.append((values[order], np.cumsum(counts[order]) / max(1, whole)))
        unit, scale = style.time_unit(float(values[-1]) for values, _ in found if len(values))
        for place, (curve, (values, shares)) in enumerate(zip(curves, found, strict=True)):
            chosen = style.thin(len(values))
            curve_style = style.distinct_in_grayscale(curve.curve_style, place)._replace(marker="")
            axes.step(
                values[chosen] / scale,
                shares[chosen],
                where="post",
                label=curve.label,
                zorder=curve_style.order,
                **curve_style.options(len(chosen)),
            )
        axes.set_xlabel(f"{name} ({unit})")
        axes.set_ylabel("share of gaps" if name == BETWEEN else "share of requests")
        axes.set_ylim(0, 1.02)
        _long_tail(axes, "x", [values for values, _ in found])
        _limits(axes, "x", _slos(results, *SLOS[name]), scale, unit)
    figure.suptitle(seed_curves.title(results), fontsize="medium")
    named = panels[0] if _slos(results, *SLOS[FIRST]) else panels[2]
    style.legend(figure, named, style.OUTSIDE)
    return figure


def _requests(result: Result) -> Any:
    table = result.requests
    assert table is not None  # checked by `draw`
    return table


def _first_tokens(result: Result) -> tuple[np.ndarray, np.ndarray]:
    return _once(result, "ttft_ps")


def _once(result: Result, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a requests column, each counted once."""
    import numpy as np

    times = _requests(result)[column].drop_nulls().to_numpy()
    return times, np.ones(len(times), np.int64)


def _gaps(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Return all gaps between tokens and their counts."""
    from netsim.workloads.serving.outcome import gaps_of
    from netsim.workloads.serving.tokens import log_of

    return gaps_of(len(_requests(result)), log_of(result.log)).table()


def _over_rate(results: Sequence[Result]) -> Figure:
    """Draw four panels against the rate, in two rows, and one for stalls if any."""
    curves = seed_curves.curves(results, apart=[RATE], named=True)
    stalls = any(_stalled_share(result.summary["serving"]) for result in results)
    figure, panels = style.new_figure(columns=3 if stalls else 2, rows=2)
    for axes, name in zip(panels, FIGURES, strict=False):
        key = FIGURES[name]
        statistics = {"p99": 1.6, "p50": 0.8}
        if name == BETWEEN:
            statistics["max"] = 0.8
        every = [r.summary["serving"][key][one] for r in results for one in statistics]
        unit, scale = style.time_unit(float(value) for value in every if value is not None)
        for place, curve in enumerate(curves):
            curve_style = style.distinct_in_grayscale(curve.curve_style, place)
            for statistic, width in statistics.items():
                points = _by_rate(curve.results, lambda s, k=key, q=statistic: s[k][q], 1 / scale)
                label = curve.label if statistic == "p99" else ""
                sweeps.line(axes, list(points), list(points.values()), curve_style, label)
                if points:
                    axes.lines[-1].set_linewidth(width)
                if points and statistic == "max":
                    axes.lines[-1].set_linestyle("-.")
        axes.set_ylabel(f"{name} ({unit})")
        caption = "thin: median, thick: 99 %" + ", dash-dot: longest" * (name == BETWEEN)
        axes.set_title(caption, fontsize="small")
        _long_tail(axes, "y", [[value for value in every if value]])
        _limits(axes, "y", _slos(results, *SLOS[name]), scale, unit)
    last = panels[3]
    every_point: list[sweeps.Spread] = []
    for place, curve in enumerate(curves):
        curve_style = style.distinct_in_grayscale(curve.curve_style, place)
        points = _by_rate(curve.results, lambda s: s["slo"]["goodput_per_s"], 1.0)
        every_point += points.values()
        sweeps.line(last, list(points), list(points.values()), curve_style, curve.label)
        if stalls:
            points = _by_rate(curve.results, _stalled_share, 1.0)
            sweeps.line(panels[4], list(points), list(points.values()), curve_style, curve.label)
    came = _by_rate(results, lambda s: s["offered_per_s"], 1.0)
    every = [point.mean for point in came.values()]
    stated = any(_slos(results, *keys) for keys in SLOS.values())
    label = f"of times: the {SLO}; of goodput: {CAME}" if stated else CAME
    last.plot(list(came), every, color=style.IDEAL, linestyle=":", label=label)
    last.set_ylabel("goodput (requests/s)")
    if stalls:
        panels[4].set_ylabel("stalled requests (%)")
        panels[4].set_ylim(bottom=0)
        figure.delaxes(panels.pop())
    for axes in panels:
        axes.set_xlabel("request arrivals (1/s)")
        axes.set_xlim(left=0)
    last.set_ylim(bottom=0)
    figure.suptitle(seed_curves.title(results), fontsize="medium")
    style.legend(figure, last, style.OUTSIDE, sweeps.caption(every_point))
    return figure


def _stalled_share(serving: Mapping[str, Any]) -> float | None:
    """Percent of requests with a gap beyond the limit, if there is one."""
    slo = serving["slo"]
    if slo.get("stall_ps") is None:
        return None
    share: float = slo["stalled"] / max(1, serving["requests"])
    return 100 * share


def _by_rate(results: Iterable[Result], value: Any, scale: float) -> dict[float, sweeps.Spread]:
    """Return a metric of the summary at each rate, over the seeds."""
    found: dict[float, list[float]] = {}
    for result in results:
        rate, number = seed_curves.resolved(result, RATE), value(result.summary["serving"])
        if rate is not None and number is not None:
            found.setdefault(float(rate), []).append(number * scale)
    spreads = {rate: sweeps.spread_of(found[rate]) for rate in sorted(found)}
    return {rate: one for rate, one in spreads.items() if one is not None}


def _slos(results: Sequence[Result], *keys: str) -> set[int]:
    """Return the distinct SLO limits of the results."""
    caption: list[Mapping[str, Any]] = [result.summary["serving"]["slo"] for result in results]
    found = {one.get(key) for one in caption for key in keys}
    return {limit for limit in found if limit is not None}


def _limits(axes: Axes, which: str, limits: Iterable[int], scale: float, unit: str) -> None:
    """Draw a dotted line per limit. The axis keeps the range of the curves; limits far beyond it
    are written at its end."""
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    draw_line = axes.axvline if which == "x" else axes.axhline
    options: dict[str, Any] = {"color": style.IDEAL, "linestyle": ":", "linewidth": 1.2}
    far = []
    for nth, limit in enumerate(sorted(limits)):
        at, label = limit / scale, "" if nth else SLO
        if at > NEAR * high:
            far.append(f"{format_number(at)} {unit}")
            axes.plot([], [], label=label, **options)
        else:
            high = max(high, 1.02 * at)
            draw_line(at, label=label, **options)
    axes.set(**{f"{which}lim": (low, high)})
    if far:
        # Avoid the curves: below the end of shares, above the start of rising times.
        corner, aside, ha, va, arrow = (
            ((1, 0), (-3, 3), "right", "bottom", "\u2192")
            if which == "x"
            else ((0, 1), (3, -3), "left", "top", "\u2191")
        )
        axes.annotate(
            f"{SLO} {', '.join(far)} {arrow}", corner, aside, xycoords="axes fraction",
            textcoords="offset points", ha=ha, va=va, fontsize="small", color=style.CAPTION,
        )  # fmt: skip


def _long_tail(axes: Axes, which: str, values: Sequence[Any]) -> None:
    """Use a logarithmic axis if values span several orders of magnitude, else start at 0."""
    some = [one for one in values if len(one)]
    least = min((float(min(one)) for one in some), default=0.0)
    if least > 0 and max(float(max(one)) for one in some) > 50 * least:
        style.logarithmic(axes, which)
    else:
        axes.set(**{f"{which}lim": (0, None)})
