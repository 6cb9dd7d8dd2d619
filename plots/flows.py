"""Pictures of flows: distributions of their completion times, throughputs and slowdowns.

Curves pool the flows of all seeds. The report draws the same distributions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Floats, Ints
from netsim.plots import style, sweeps
from netsim.plots.sweeps import Picture
from netsim.units import format_bytes, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result
    from netsim.results.comparison import Comparison

PLOTS = {
    "fct_cdf": "share of flows finished by each time, with the ideal",
    "slowdown": "completion time over ideal, by flow size or rank",
    "throughput_cdf": "share of flows by throughput: how evenly they share the network",
}


QUANTILES = 600  # points of a curve, and as many in its tail
ALIKE = 0.02  # relative difference up to which two distributions are drawn as one
BINS, FEW = 24, 5  # bins of flow sizes, and the flows that a bin needs
SHARES = 500  # points on the edges of a band

NORMAL_95 = 1.96
MAX_COMPARED = 8  # most points compared individually; more are pooled


def pooled(results: Sequence[Result], column: str) -> Floats:
    """Return the values of a column of flows, without missing ones, of all results."""
    columns = [result.flows[column].drop_nulls().to_numpy() for result in results]
    return np.concatenate(columns).astype(float)


def finished_sizes(results: Sequence[Result]) -> Ints:
    """Return the sizes of the finished flows of all results, in bytes."""
    tables = [result.flows.drop_nulls("slowdown") for result in results]
    return np.concatenate([table["size_bytes"].to_numpy() for table in tables])


def distribution(
    values: Floats, whole: int | None = None, counts: Ints | None = None
) -> tuple[Floats, Floats]:
    """Return increasing values, and the share that is not above each; the first share is 0.

    Shares are relative to `whole`, by default the number of values; `counts` is how often each
    occurs. Many values are reduced to quantiles, which are closer in the tail.
    """
    if counts is None:
        x, counts = np.unique(values, return_counts=True)
    else:
        order = np.argsort(values, kind="stable")
        x, counts = values[order], counts[order]
    if not len(x):
        return np.zeros(0), np.zeros(0)
    done = np.cumsum(counts)
    chosen = np.unique(np.searchsorted(done, _ranks(int(done[-1])), side="right"))
    x, done = x[chosen].astype(np.float32), done[chosen]
    last = np.append(np.diff(x) > 0, True)
    start = np.nextafter(x[:1], np.float32(-np.inf))
    return np.append(start, x[last]), np.append(0.0, done[last] / (whole or done[-1]))


def _ranks(n: int) -> Ints:
    """Return ranks from 0 to n - 1: evenly spaced, and closer in the tail."""
    if n <= 2 * QUANTILES:
        return np.arange(n)
    tail = n - np.unique(np.geomspace(1, n, QUANTILES).astype(np.int64))
    return np.unique(np.append(np.linspace(0, n - 1, QUANTILES).astype(np.int64), tail))


def tail(x: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Return a distribution as the share above each value, where it is not 0."""
    return x[shares < 1], 1 - shares[shares < 1]


def distinct_ideals(results: Sequence[Result]) -> list[Floats]:
    """Return the ideal times of each network and traffic, over all seeds, without duplicates."""
    by_setting: dict[str, dict[int, Result]] = {}
    for result in results:
        seeds = by_setting.setdefault(repr(sweeps.settings(result)), {})
        seeds.setdefault(int(result.experiment["seed"]), result)
    return distinct([pooled(list(seeds.values()), "ideal_ps") for seeds in by_setting.values()])


def distinct(samples: Sequence[Floats]) -> list[Floats]:
    """Return the samples whose distributions do not look the same."""
    shares, chosen = (0.1, 0.5, 0.9, 1.0), list[Floats]()
    for values in samples:
        if len(values) and not any(
            np.allclose(np.quantile(values, shares), np.quantile(other, shares), rtol=ALIKE)
            for other in chosen
        ):
            chosen.append(values)
    return chosen


def by_size(sizes: Ints, slowdowns: Floats) -> Floats:
    """Return float64[3, bins]: mean size, median and 99th percentile of bins with enough flows."""
    edges = np.geomspace(sizes.min(), sizes.max() + 1, BINS + 1)
    of_bin = np.digitize(sizes, edges[1:-1])
    order = np.argsort(of_bin, kind="stable")
    bins = [
        (np.exp(np.log(sizes[its]).mean()), *np.percentile(slowdowns[its], [50, 99]))
        for its in np.split(order, np.searchsorted(of_bin[order], np.arange(1, BINS)))
        if len(its) >= FEW
    ]
    return np.array(bins).reshape(-1, 3).T


def _steps(axes: Axes, x: Floats, shares: Floats, label: str, look: style.CurveStyle) -> None:
    axes.step(x, shares, where="post", label=label, **look.options(len(x)))


def fct_cdf(results: Sequence[Result]) -> Picture:
    """Draw the completion times of each point, and the ideal per network and traffic: every flow
    alone in the network.

    Bands span the seeds; curves of runs with unfinished flows end below 1. Raises InputError if no
    flow is finished.
    """
    curves = sweeps.curves(sweeps.without_ideal(results))
    times = [pooled(curve.results, "fct_ps") for curve in curves]
    if curves and not any(map(len, times)):
        raise InputError("no flow is finished: no completion times to plot")
    ideals = distinct_ideals(results)
    unit, scale = style.unit_of_all([*times, *ideals])
    groups = sweeps.panels(curves)
    figure, panels = style.new_panels(list(groups))
    for title, axes in panels.items():
        for curve in groups[title]:
            flows = sum(len(result.flows) for result in curve.results)
            x, shares = distribution(pooled(curve.results, "fct_ps") / scale, flows)
            _steps(axes, x, shares, curve.label, curve.curve_style)
            if len(curve.results) > 1:
                _band(axes, curve, scale)
        for index, ideal in enumerate(ideals):
            label = "" if index else sweeps.IDEAL
            _steps(axes, *distribution(ideal / scale), label, style.IDEAL_LINE)
        axes.set(xlabel=f"flow completion time ({unit})", ylabel="share of flows", ylim=(0, 1.02))
        style.fit_axis(axes, "x", [*times, *ideals], scale)
    caption, title = (
        sweeps.caption_of_seeds(curves, "bands: range of the seeds"),
        sweeps.title(results),
    )
    return Picture(style.finish_panels(figure, list(panels.values()), title, "best", caption))


def _band(axes: Axes, curve: sweeps.Curve, scale: float) -> None:
    """Draw the band between the fastest and slowest seed at each share of flows."""
    seeds: list[tuple[Floats, int]] = [
        (np.sort(pooled([result], "fct_ps")) / scale, len(result.flows)) for result in curve.results
    ]
    shares = np.linspace(0, min(len(times) / flows for times, flows in seeds), SHARES + 1)[1:]
    if shares[-1] > 0:
        by_seed = [times[np.ceil(shares * flows - 1e-9).astype(int) - 1] for times, flows in seeds]
        low, high = np.min(by_seed, axis=0), np.max(by_seed, axis=0)
        axes.fill_betweenx(shares, low, high, color=curve.curve_style.color, alpha=0.2, linewidth=0)


def throughput_cdf(results: Sequence[Result]) -> Picture:
    """Draw the throughput of each point's finished flows, and of flows alone in the network. Raises
    InputError if no flow is finished."""
    figure, (axes,) = style.new_figure()
    for curve in sweeps.curves(sweeps.without_ideal(results)):
        rates = _rates_gbps(curve.results, "fct_ps")
        if rates.size:
            _steps(axes, *distribution(rates), curve.label, curve.curve_style)
    ideal = [result for result in results if sweeps.transport(result) == sweeps.IDEAL]
    if not axes.lines and not ideal:
        raise InputError("no flow is finished: no throughput to plot")
    x, shares = distribution(_rates_gbps(ideal or results, "ideal_ps"))
    _steps(axes, x, shares, sweeps.IDEAL, style.IDEAL_LINE)
    axes.set(xlabel="throughput (Gbps)", ylabel="share of flows", ylim=(0, 1.02))
    return Picture(style.finish(figure, axes, sweeps.title(results), "lower right"))


def _rates_gbps(results: Sequence[Result], column: str) -> Floats:
    """Return the throughput of finished flows, given their column of times."""
    tables = [result.flows.drop_nulls("fct_ps") for result in results]
    return np.concatenate([(8e3 * its["size_bytes"] / its[column]).to_numpy() for its in tables])


def slowdown(results: Sequence[Result]) -> Picture:
    """Draw completion times of flows relative to their times alone in the network.

    For flows of different sizes, a point per flow, with lines for the median and (thin) the 99th
    percentile by size. For flows of one size, the share of slower flows on a logarithmic axis. The
    table has a row per curve and decade of sizes, with 95 % intervals. Raises InputError if no flow
    is finished.
    """
    curves = sweeps.curves(sweeps.without_ideal(results) or results)
    samples = {}
    for curve in curves:
        values = pooled(curve.results, "slowdown")
        if len(values):
            samples[curve.results] = (finished_sizes(curve.results), values)
    curves = [curve for curve in curves if curve.results in samples]
    if not curves:
        raise InputError("no flow is finished: no slowdown to plot")
    differ = len(np.unique(np.concatenate([sizes for sizes, _ in samples.values()]))) > 1
    groups = sweeps.panels(curves)
    figure, panels = style.new_panels(list(groups))
    largest = max(float(values.max()) for _, values in samples.values())
    ideal: dict[str, Any] = {"color": style.IDEAL, "linestyle": "--", "linewidth": 1}
    words = ("flow size", "slowdown" if len(panels) > 1 else "slowdown (completion time / ideal)")
    x, y = words if differ else (words[1], "share of slower flows")
    for title, axes in panels.items():
        for curve in groups[title]:
            sizes, values = samples[curve.results]
            if differ:
                _draw_by_size(axes, curve, sizes, values)
            else:  # the last flow is left out
                shares = tail(*distribution(values))
                _steps(axes, *shares, curve.label, curve.curve_style)
        (axes.axhline if differ else axes.axvline)(1, label=sweeps.IDEAL, **ideal)
        if differ:
            style.bytes_axis(axes)
        else:
            axes.set_yscale("log")
        if largest > 50:
            style.logarithmic(axes, "y" if differ else "x")
        elif differ:
            axes.set_ylim(bottom=0)
        axes.set(xlabel=x, ylabel=y)
    caption = sweeps.caption_of_seeds(curves, "flows of all seeds pooled")
    if differ:
        caption = "; ".join(filter(None, ("lines: median, thin: 99th percentile", caption)))
    rows = [
        (curve.label, _range(low, high, size), *_figures(inside))
        for curve, (size, value) in ((one, samples[one.results]) for one in curves)
        for low, high in _decades(size)
        if len(inside := value[(size >= low) & (size < high)])
    ]
    table = sweeps.Table(("", "flow size", "flows", "p50", "95 %", "p99", "95 %", "max"), rows)
    axes_of, title = list(panels.values()), sweeps.title(results)
    return Picture(style.finish_panels(figure, axes_of, title, "best", caption), table)


def _draw_by_size(axes: Axes, curve: sweeps.Curve, sizes: Ints, slowdowns: Floats) -> None:
    chosen = style.thin(len(sizes))
    color = curve.curve_style.color
    dots: dict[str, Any] = {"color": color, "alpha": 0.2, "markersize": 2, "zorder": 1}
    axes.plot(sizes[chosen], slowdowns[chosen], ".", **dots)
    middles, medians, tails = by_size(sizes, slowdowns)
    options = curve.curve_style.options()
    axes.plot(middles, medians, label=curve.label, **options)
    axes.plot(middles, tails, **options | {"marker": ""}, linewidth=0.9)


def _decades(size: Ints) -> list[tuple[int, int]]:
    first, last = (int(math.log10(max(1, int(end)))) for end in (size.min(), size.max()))
    return [(10**k, 10 ** (k + 1)) for k in range(first, last + 1)]


def _range(low: int, high: int, size: Ints) -> str:
    if size.min() == size.max():
        return format_bytes(int(size.min()), 4)
    return f"{format_bytes(low)} to {format_bytes(high)}"


def _figures(values: Floats) -> tuple[str, ...]:
    """Return count, median, 99th percentile (with 95 % intervals by binomial rank; "-" for few
    flows) and maximum."""
    ordered = np.sort(values)
    n, cells = len(ordered), [f"{len(ordered):,}"]
    for share in (0.5, 0.99):
        spread = NORMAL_95 * math.sqrt(n * share * (1 - share))
        ends = math.floor(n * share - spread), math.ceil(n * share + spread)
        known = ends[0] >= 0 and ends[1] < n
        cells.append(format_number(float(np.percentile(ordered, 100 * share)), 4))
        cells.append("..".join(format_number(float(ordered[k]), 4) for k in ends) if known else "-")
    return (*cells, format_number(float(ordered[-1]), 4))


def compared(comparison: Comparison, names: tuple[str, str]) -> Figure:
    """Draw the completion times of two results or sweeps: a solid curve (before) and a dashed one
    (after) for each point, over all seeds; `names` names the two.

    Raises InputError if no flow is finished on both sides.
    """
    times: dict[tuple[str, int], list[Floats]] = {}
    keys = dict.fromkeys(pair.key for pair in comparison.pairs)
    for pair in comparison.pairs:
        key = pair.key if len(keys) <= MAX_COMPARED else f"{len(keys)} points"
        for side, values in enumerate(pair.times):
            times.setdefault((key, side), []).append(values)
    samples = {key: np.concatenate(parts) for key, parts in times.items()}
    if not any(map(len, samples.values())):
        raise InputError("no flow is finished on both sides: no completion times to plot")
    figure, (axes,) = style.new_figure()
    unit, scale = style.unit_of_all(list(samples.values()))
    for number, ((key, side), values) in enumerate(samples.items()):
        label = names[side] if len(samples) == 2 else f"{key}, {names[side]}"
        look = style.CurveStyle(style.color(number // 2), style.LINES[side])
        _steps(axes, *distribution(values / scale), label, look)
    axes.set_xlabel(f"flow completion time ({unit})")
    axes.set(ylabel="share of finished flows", ylim=(0, 1.02))
    style.fit_axis(axes, "x", list(samples.values()), scale)
    return style.finish(figure, axes, "", "best")
