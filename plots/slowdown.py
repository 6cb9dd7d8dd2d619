"""Slowdown of flows: completion time over that of the same flow alone in the network.

For flows of different sizes, a point per flow, with lines for the median and (thin) the 99th
percentile by size. For flows of one size, the share of slower flows on a logarithmic axis. Flows of
all seeds are pooled. Many curves are split into panels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.units import format_bytes, format_number

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "completion time over ideal, by flow size or rank"

BINS = 24
FEW = 5
"""Minimum number of flows of a bin."""

MAX_COLUMNS = 3
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
        import numpy as np

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
    import numpy as np

    curves = seed_curves.curves(seed_curves.without_ideal(results) or results)
    tables = [[result.flows.drop_nulls("slowdown") for result in curve.results] for curve in curves]
    found = [
        (
            curve,
            np.concatenate([one["size_bytes"].to_numpy() for one in seeds]),
            np.concatenate([one["slowdown"].to_numpy() for one in seeds]),
        )
        for curve, seeds in zip(curves, tables, strict=True)
    ]
    found = [one for one in found if len(one[1])]
    if not found:
        raise InputError("no flow is finished: no slowdown to plot")
    kept, sizes, values = zip(*found, strict=True)
    return Slowdowns(seed_curves.title(results), kept, sizes, values)


def draw(found: Slowdowns) -> Figure:
    """Draw the slowdowns."""
    groups = seed_curves.panels(found.curves)
    columns = min(MAX_COLUMNS, len(groups))
    figure, panels = style.new_figure(columns, -(-len(groups) // columns))
    largest = max(float(value.max()) for value in found.values)
    flows = {
        curve.results: pair
        for curve, pair in zip(
            found.curves, zip(found.sizes, found.values, strict=True), strict=True
        )
    }
    for axes, (name, curves) in zip(panels, groups.items(), strict=False):
        for curve in curves:
            _draw_curve(axes, curve, *flows[curve.results], by_size=found.by_size)
        if found.by_size:
            axes.axhline(1, color=style.IDEAL, linestyle="--", linewidth=1, label=seed_curves.IDEAL)
            style.logarithmic(axes, "x")
            _byte_ticks(axes)
            _slowdown_scale(axes, "y", largest)
        else:
            axes.axvline(1, color=style.IDEAL, linestyle="--", linewidth=1, label=seed_curves.IDEAL)
            axes.set_yscale("log")
            _slowdown_scale(axes, "x", largest)
        axes.set_title(name, fontsize="medium")
        if len(groups) > 1:
            axes.legend(frameon=False, fontsize="x-small", loc="best")
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    words = ("flow size", "slowdown (completion time / ideal)")
    x, y = words if found.by_size else (words[1], "share of slower flows")
    caption = seed_curves.caption(found.curves, "flows of all seeds pooled")
    if found.by_size:
        caption = "; ".join(filter(None, ("lines: median, thin: 99th percentile", caption)))
    if len(groups) == 1:
        panels[0].set_xlabel(x)
        panels[0].set_ylabel(y)
        panels[0].set_title(found.title, fontsize="medium")
        style.legend(figure, panels[0], "best", caption)
    else:
        figure.suptitle(found.title, fontsize="medium")
        figure.supxlabel("\n".join(filter(None, (x, caption))), fontsize="small")
        figure.supylabel(y, fontsize="small")
    return figure


def _draw_curve(
    axes: Axes, curve: seed_curves.Curve, sizes: np.ndarray, slowdowns: np.ndarray, *, by_size: bool
) -> None:
    import numpy as np

    if by_size:
        _by_size(axes, sizes, slowdowns, curve)
    else:
        _slower(axes, np.sort(slowdowns), curve)


def _slower(axes: Axes, slowdowns: np.ndarray, curve: seed_curves.Curve) -> None:
    """Draw the share of slower flows; the last flow is left out."""
    chosen = style.thin(len(slowdowns))
    share = 1 - chosen / len(slowdowns)
    options = curve.curve_style.options(len(chosen))
    axes.step(slowdowns[chosen], share, where="post", label=curve.label, **options)


def by_size(sizes: np.ndarray, slowdowns: np.ndarray) -> np.ndarray:
    """Return float64[3, bins]: mean size, median and 99th percentile of bins with enough flows."""
    import numpy as np

    edges = np.geomspace(sizes.min(), sizes.max() + 1, BINS + 1)
    bins = np.digitize(sizes, edges[1:-1])
    found = [
        (np.exp(np.log(sizes[bins == k]).mean()), *np.percentile(slowdowns[bins == k], [50, 99]))
        for k in range(BINS)
        if np.count_nonzero(bins == k) >= FEW
    ]
    return np.array(found).reshape(-1, 3).T


def _by_size(
    axes: Axes, sizes: np.ndarray, slowdowns: np.ndarray, curve: seed_curves.Curve
) -> None:
    chosen = style.thin(len(sizes))
    color = curve.curve_style.color
    axes.plot(sizes[chosen], slowdowns[chosen], ".", color=color, alpha=0.25, markersize=3)
    middles, medians, tails = by_size(sizes, slowdowns)
    options = curve.curve_style.options()
    axes.plot(middles, medians, label=curve.label, **options)
    axes.plot(middles, tails, **options, linewidth=0.9, alpha=0.6)


def _byte_ticks(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: format_bytes(max(1, round(n)), 3)))


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
    import numpy as np

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
