"""CDF of the throughput of finished flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError
from netsim.plots import seed_curves, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "share of flows by throughput: how evenly they share the network"


def draw(results: Sequence[Result]) -> Figure:
    """Draw a curve per point. Raises InputError if no flow is finished."""
    figure, (axes,) = style.new_figure()
    for index, curve in enumerate(seed_curves.curves(results)):
        tables = [one.flows.drop_nulls("fct_ps") for one in curve.results]
        rates = np.sort(np.concatenate([(8e3 * t["size_bytes"] / t["fct_ps"]) for t in tables]))
        if rates.size:
            share = np.arange(1, rates.size + 1) / rates.size
            axes.step(rates, share, where="post", color=style.color(index), label=curve.label)
    if not axes.lines:
        raise InputError("no flow is finished: no throughput to plot")
    axes.set_xlabel("throughput (Gbps)")
    axes.set_ylabel("share of flows")
    axes.set_ylim(0, 1.02)
    figure.suptitle(seed_curves.title(results), fontsize="medium")
    style.legend(figure, axes, "lower right")
    return figure
