"""CDF of flow completion times.

A curve pools the flows of all seeds; its band spans the seeds. The dashed curve is the ideal: every
flow alone in the network. Curves of runs with unfinished flows end below 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.plots.distributions import Floats, distinct_ideals, distribution, pooled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "share of flows finished by each time, with the ideal"

SHARES = 500
"""Points on the edges of a band."""


def draw(results: Sequence[Result]) -> Figure:
    """Draw a curve per point, and the ideal per network and traffic; many curves are split into
    panels. Raises InputError if no flow is finished.
    """
    curves = seed_curves.curves(seed_curves.without_ideal(results))
    times = [pooled(curve.results, "fct_ps") for curve in curves]
    if curves and not any(map(len, times)):
        raise InputError("no flow is finished: no completion times to plot")
    ideals = distinct_ideals(results)
    unit, scale = style.unit_of_all([*times, *ideals])
    groups = seed_curves.panels(curves)
    figure, panels = style.new_panels(list(groups))
    for title, axes in panels.items():
        for curve in groups[title]:
            flows = sum(len(result.flows) for result in curve.results)
            x, shares = distribution(pooled(curve.results, "fct_ps") / scale, flows)
            options = curve.curve_style.options(len(x))
            axes.step(x, shares, where="post", label=curve.label, **options)
            if len(curve.results) > 1:
                _band(axes, curve, scale)
        for index, ideal in enumerate(ideals):
            label = seed_curves.IDEAL if index == 0 else ""
            x, shares = distribution(ideal / scale)
            axes.step(x, shares, where="post", label=label, color=style.IDEAL, linestyle="--")
        axes.set(xlabel=f"flow completion time ({unit})", ylabel="share of flows", ylim=(0, 1.02))
        style.fit_axis(axes, "x", [*times, *ideals], scale)
    caption = seed_curves.caption(curves, "bands: range of the seeds")
    title = seed_curves.title(results)
    return style.finish_panels(figure, list(panels.values()), title, "best", caption)


def _band(axes: Axes, curve: seed_curves.Curve, scale: float) -> None:
    """Draw the band between the fastest and slowest seed at each share of flows."""
    seeds: list[tuple[Floats, int]] = [
        (np.sort(pooled([result], "fct_ps")) / scale, len(result.flows)) for result in curve.results
    ]
    shares = np.linspace(0, min(len(times) / flows for times, flows in seeds), SHARES + 1)[1:]
    if shares[-1] > 0:
        by_seed = [times[np.ceil(shares * flows - 1e-9).astype(int) - 1] for times, flows in seeds]
        low, high = np.min(by_seed, axis=0), np.max(by_seed, axis=0)
        axes.fill_betweenx(shares, low, high, color=curve.curve_style.color, alpha=0.2, linewidth=0)
