"""Slowdown of flows: completion time over that of the same flow alone in the network.

For flows of different sizes, a point per flow, with lines for the median and (thin) the 99th
percentile by size. For flows of one size, the share of slower flows on a logarithmic axis. Flows of
all seeds are pooled. Many curves are split into panels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.plots.distributions import by_size, distribution, finished_sizes, pooled, tail
from netsim.units import format_bytes, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "completion time over ideal, by flow size or rank"

NORMAL_95 = 1.96


@dataclass(frozen=True)
class Slowdowns:
    """The finished flows of each curve: arrays of sizes in bytes and of slowdowns."""

    title: str
    curves: tuple[seed_curves.Curve, ...]
    sizes: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]

    @property
    def by_size(self) -> bool:
        """Whether flows differ in size."""
        return len(np.unique(np.concatenate(self.sizes))) > 1

    @property
    def table(self) -> sweeps.Table:
        """A row per curve and decade of sizes: median and tail with 95 % intervals."""
        rows = []
        for curve, size, value in zip(self.curves, self.sizes, self.values, strict=True):
            for low, high in _decades(size):
                inside = value[(size >= low) & (size < high)]
                if len(inside):
                    rows.append((curve.label, _range(low, high, size), *_figures(inside)))
        headers = ("", "flow size", "flows", "p50", "95 %", "p99", "95 %", "max")
        return sweeps.Table(headers, rows)


def compare(results: Sequence[Result]) -> Slowdowns:
    """Return the slowdown of every finished flow. Raises InputError if there is none."""
    curves = seed_curves.curves(seed_curves.without_ideal(results) or results)
    values = [pooled(curve.results, "slowdown") for curve in curves]
    known = [(curve, one) for curve, one in zip(curves, values, strict=True) if len(one)]
    if not known:
        raise InputError("no flow is finished: no slowdown to plot")
    kept, slowdowns = zip(*known, strict=True)
    sizes = tuple(finished_sizes(curve.results) for curve in kept)
    return Slowdowns(seed_curves.title(results), kept, sizes, slowdowns)


def draw(found: Slowdowns) -> Figure:
    """Draw the slowdowns."""
    groups = seed_curves.panels(found.curves)
    figure, panels = style.new_panels(list(groups))
    largest = max(float(value.max()) for value in found.values)
    samples = zip(found.sizes, found.values, strict=True)
    flows = dict(zip((curve.results for curve in found.curves), samples, strict=True))
    ideal: dict[str, Any] = {"color": style.IDEAL, "linestyle": "--", "linewidth": 1}
    for title, axes in panels.items():
        for curve in groups[title]:
            (_by_size if found.by_size else _slower)(axes, curve, *flows[curve.results])
        if found.by_size:
            axes.axhline(1, label=seed_curves.IDEAL, **ideal)
            style.bytes_axis(axes)
        else:
            axes.axvline(1, label=seed_curves.IDEAL, **ideal)
            axes.set_yscale("log")
        _slowdown_scale(axes, "y" if found.by_size else "x", largest)
    words = ("flow size", "slowdown" if len(panels) > 1 else "slowdown (completion time / ideal)")
    x, y = words if found.by_size else (words[1], "share of slower flows")
    caption = seed_curves.caption(found.curves, "flows of all seeds pooled")
    if found.by_size:
        caption = "; ".join(filter(None, ("lines: median, thin: 99th percentile", caption)))
    for axes in panels.values():
        axes.set(xlabel=x, ylabel=y)
    return style.finish_panels(figure, list(panels.values()), found.title, "best", caption)


def _slower(
    axes: Axes, curve: seed_curves.Curve, _sizes: np.ndarray, slowdowns: np.ndarray
) -> None:
    """Draw the share of slower flows; the last flow is left out."""
    x, share = tail(*distribution(slowdowns))
    options = curve.curve_style.options(len(x))
    axes.step(x, share, where="post", label=curve.label, **options)


def _by_size(
    axes: Axes, curve: seed_curves.Curve, sizes: np.ndarray, slowdowns: np.ndarray
) -> None:
    chosen = style.thin(len(sizes))
    color = curve.curve_style.color
    dots: dict[str, Any] = {"color": color, "alpha": 0.2, "markersize": 2, "zorder": 1}
    axes.plot(sizes[chosen], slowdowns[chosen], ".", **dots)
    middles, medians, tails = by_size(sizes, slowdowns)
    options = curve.curve_style.options()
    axes.plot(middles, medians, label=curve.label, **options)
    axes.plot(middles, tails, **options | {"marker": ""}, linewidth=0.9)


def _slowdown_scale(axes: Axes, which: str, largest: float) -> None:
    """Set a logarithmic axis for a wide range of slowdowns, else start y at 0."""
    if largest > 50:
        style.logarithmic(axes, which)
    elif which == "y":
        axes.set_ylim(bottom=0)


def _decades(size: np.ndarray) -> list[tuple[int, int]]:
    """Return the decades that sizes span."""
    first, last = (int(math.log10(max(1, int(end)))) for end in (size.min(), size.max()))
    return [(10**k, 10 ** (k + 1)) for k in range(first, last + 1)]


def _range(low: int, high: int, size: np.ndarray) -> str:
    if size.min() == size.max():
        return format_bytes(int(size.min()), 4)
    return f"{format_bytes(low)} to {format_bytes(high)}"


def _figures(values: np.ndarray) -> tuple[str, ...]:
    """Return count, median, 99th percentile (with intervals) and maximum."""
    ordered = np.sort(values)
    cells = [f"{len(ordered):,}"]
    for share in (0.5, 0.99):
        cells.append(format_number(float(np.percentile(ordered, 100 * share)), 4))
        cells.append(_interval(ordered, share))
    return (*cells, format_number(float(ordered[-1]), 4))


def _interval(ordered: np.ndarray, share: float) -> str:
    """Return the 95 % interval of a quantile by its binomial rank; "-" for few flows."""
    n = len(ordered)
    spread = NORMAL_95 * math.sqrt(n * share * (1 - share))
    low, high = math.floor(n * share - spread), math.ceil(n * share + spread)
    if low < 0 or high >= n:
        return "-"
    return f"{format_number(float(ordered[low]), 4)}..{format_number(float(ordered[high]), 4)}"
