"""Slowdown by flow: completion time over the time that the same flow would take alone.

Where flows differ in size, each is a point at its size, and the lines are the median and the 99th
percentile of flows of about that size. Where they are all of one size, they stand in order of
their slowdown. Flows of all seeds are taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import pool, style

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

BINS = 24
FEW = 5
"""A bin with fewer flows than this says nothing about a percentile and is left out."""


def draw(results: Sequence[Result]) -> Figure:
    """The slowdown of every finished flow of each point.

    Raises InputError if no flow of any result is finished.
    """
    import numpy as np

    curves = pool.curves(pool.without_ideal(results) or results)
    tables = [[result.flows.drop_nulls("slowdown") for result in curve.results] for curve in curves]
    sizes = [np.concatenate([one["size_bytes"].to_numpy() for one in seeds]) for seeds in tables]
    slowdowns = [np.concatenate([one["slowdown"].to_numpy() for one in seeds]) for seeds in tables]
    if not any(len(one) for one in slowdowns):
        raise InputError("no flow is finished, so there is no slowdown to draw")
    by_size = len(np.unique(np.concatenate(sizes))) > 1
    figure, (axes,) = style.new_figure()
    for curve, size, slowdown in zip(curves, sizes, slowdowns, strict=True):
        if not len(slowdown):
            continue
        if by_size:
            _by_size(axes, size, slowdown, curve)
        else:
            _by_rank(axes, np.sort(slowdown), curve)
    axes.axhline(1, color=style.IDEAL, linestyle="--", linewidth=1, label=pool.IDEAL)
    axes.set_ylabel("slowdown (completion time / ideal)")
    axes.set_title(pool.title(results), fontsize="medium")
    if by_size:
        style.logarithmic(axes, "x")
        axes.set_xlabel("flow size (bytes)")
    else:
        axes.set_xlabel("flows, fastest first")
    if max(float(one.max()) for one in slowdowns if len(one)) > 50:
        style.logarithmic(axes, "y")
    else:
        axes.set_ylim(bottom=0)
    style.legend(figure, axes, "best", pool.caption(curves, "the flows of all of them together"))
    return figure


def _by_rank(axes: Axes, slowdowns: np.ndarray, curve: pool.Curve) -> None:
    chosen = style.thin(len(slowdowns))
    place = (chosen + 1) / len(curve.results)
    axes.plot(place, slowdowns[chosen], label=curve.label, **curve.look.options(len(chosen)))


def _by_size(axes: Axes, sizes: np.ndarray, slowdowns: np.ndarray, curve: pool.Curve) -> None:
    import numpy as np

    chosen = style.thin(len(sizes))
    colour = curve.look.colour
    axes.plot(sizes[chosen], slowdowns[chosen], ".", color=colour, alpha=0.25, markersize=3)
    edges = np.geomspace(sizes.min(), sizes.max() + 1, BINS + 1)
    bins = np.digitize(sizes, edges[1:-1])
    middles, medians, tails = [], [], []
    for number in range(BINS):
        inside = bins == number
        if np.count_nonzero(inside) >= FEW:
            middles.append(np.exp(np.log(sizes[inside]).mean()))
            medians.append(np.median(slowdowns[inside]))
            tails.append(np.percentile(slowdowns[inside], 99))
    options = curve.look.options()
    axes.plot(middles, medians, label=f"{curve.label}, median", **options)
    axes.plot(middles, tails, label=f"{curve.label}, 99 %", **options, linewidth=0.9, alpha=0.6)
