"""CDF of the throughput of finished flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.plots.distributions import distribution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "share of flows by throughput: how evenly they share the network"


def draw(results: Sequence[Result]) -> Figure:
    """Draw a curve per point. Raises InputError if no flow is finished."""
    figure, (axes,) = style.new_figure()
    for curve in seed_curves.curves(results):
        tables = [one.flows.drop_nulls("fct_ps") for one in curve.results]
        rates = np.concatenate([8e3 * one["size_bytes"] / one["fct_ps"] for one in tables])
        if rates.size:
            x, shares = distribution(rates)
            options = curve.curve_style.options(len(x))
            axes.step(x, shares, where="post", label=curve.label, **options)
    if not axes.lines:
        raise InputError("no flow is finished: no throughput to plot")
    axes.set_xlabel("throughput (Gbps)")
    axes.set_ylabel("share of flows")
    axes.set_ylim(0, 1.02)
    return style.finish(figure, axes, seed_curves.title(results), "lower right")
