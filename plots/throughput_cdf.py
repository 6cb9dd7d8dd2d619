"""CDF of the throughput of finished flows, and of flows alone in the network (the ideal)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.plots.distributions import Floats, distribution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "share of flows by throughput: how evenly they share the network"


def draw(results: Sequence[Result]) -> Figure:
    """Draw a curve per point. Raises InputError if no flow is finished."""
    figure, (axes,) = style.new_figure()
    for curve in seed_curves.curves(seed_curves.without_ideal(results)):
        rates = _rates_gbps(curve.results, "fct_ps")
        if rates.size:
            x, shares = distribution(rates)
            options = curve.curve_style.options(len(x))
            axes.step(x, shares, where="post", label=curve.label, **options)
    ideal = [one for one in results if seed_curves.transport(one) == seed_curves.IDEAL]
    if not axes.lines and not ideal:
        raise InputError("no flow is finished: no throughput to plot")
    x, shares = distribution(_rates_gbps(ideal or results, "ideal_ps"))
    axes.step(x, shares, where="post", label=seed_curves.IDEAL, color=style.IDEAL, linestyle="--")
    axes.set_xlabel("throughput (Gbps)")
    axes.set_ylabel("share of flows")
    axes.set_ylim(0, 1.02)
    return style.finish(figure, axes, seed_curves.title(results), "lower right")


def _rates_gbps(results: Sequence[Result], column: str) -> Floats:
    """Return the throughput of finished flows, by a column of times."""
    tables = [one.flows.drop_nulls("fct_ps") for one in results]
    return np.concatenate([(8e3 * one["size_bytes"] / one[column]).to_numpy() for one in tables])
