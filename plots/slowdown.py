"""Slowdown by flow: completion time over the time that the same flow would take alone.

Where flows differ in size, each is a point at its size, and the lines are the median and the 99th
percentile of flows of about that size. Where they are all of one size, they stand in order of
their slowdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import style

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

BINS = 24
FEW = 5
"""A bin with fewer flows than this says nothing about a percentile and is left out."""


def draw(results: Sequence[Result]) -> Figure:
    """The slowdown of every finished flow of each result.

    Raises InputError if no flow of any result is finished.
    """
    import numpy as np

    tables = [result.flows.drop_nulls("slowdown") for result in results]
    if not any(len(table) for table in tables):
        raise InputError("no flow is finished, so there is no slowdown to draw")
    sizes = [table["size_bytes"].to_numpy() for table in tables]
    slowdowns = [table["slowdown"].to_numpy() for table in tables]
    by_size = len(np.unique(np.concatenate(sizes))) > 1
    figure, (axes,) = style.new_figure()
    for index, label in enumerate(style.labels(results)):
        if not len(slowdowns[index]):
            continue
        if by_size:
            _by_size(axes, sizes[index], slowdowns[index], label, style.colour(index))
        else:
            _by_rank(axes, np.sort(slowdowns[index]), label, style.colour(index))
    axes.axhline(1, color=style.IDEAL, linestyle="--", linewidth=1)
    axes.set_ylabel("slowdown (completion time / ideal)")
    axes.set_title(style.title(results), fontsize="medium")
    if by_size:
        axes.set_xscale("log")
        axes.set_xlabel("flow size (bytes)")
    else:
        axes.set_xlabel("flows, fastest first")
    if max(float(one.max()) for one in slowdowns if len(one)) > 50:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    style.legend(figure, axes, "upper left")
    return figure


def _by_rank(axes: Axes, slowdowns: np.ndarray, label: str, colour: str) -> None:
    chosen = style.thin(len(slowdowns))
    axes.plot(chosen + 1, slowdowns[chosen], label=label, color=colour)


def _by_size(axes: Axes, sizes: np.ndarray, slowdowns: np.ndarray, label: str, colour: str) -> None:
    import numpy as np

    chosen = style.thin(len(sizes))
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
    axes.plot(middles, medians, color=colour, label=f"{label}, median")
    axes.plot(middles, tails, color=colour, linestyle=":", label=f"{label}, 99 %")
