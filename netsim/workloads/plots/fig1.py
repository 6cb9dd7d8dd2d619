"""Figure 1: compute-optimal model size against training time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.plots import style
from netsim.workloads.job.paper import Infrastructure
from netsim.workloads.job.scaling import LAWS, YEAR_S, optimal_parameters
from netsim.workloads.plots.paper_figure import POST_HOC, PaperFigure, Sweep, columns, stated

if TYPE_CHECKING:
    from netsim.results import Result

SWEEPS: tuple[Sweep, ...] = ()
NAMES = dict(zip(LAWS, ("Kaplan", *(f"Hoffmann, approach {n}" for n in (1, 2, 3))), strict=True))
LAW = "hoffmann2"
"""The law that the paper uses."""

STATED = {"N_opt_hoffmann2": 4.0, "N_50T": 1.0}
"""Metrics of `netsim.workloads.job`, and years of training, which the paper does not state."""


def make(_: Sequence[Result]) -> PaperFigure:
    """Draw the figure for the FLOP/s of the paper's cluster. Nothing is simulated."""
    flops = Infrastructure().flops
    years = np.geomspace(0.1, 10, 81)
    figure, (axes,) = style.new_figure()
    rows: list[tuple[str, float, float]] = []
    values = [
        stated(name, f"{NAMES[LAW]}, years: {at:g}", trillions(LAW, flops, at))
        for name, at in STATED.items()
    ]
    for place, (law, name) in enumerate(NAMES.items()):
        sizes = [trillions(law, flops, at) for at in years]
        rows += [(name, *pair) for pair in zip(years.tolist(), sizes, strict=True)]
        curve_style = style.distinct_in_grayscale(style.CurveStyle(style.color(place)), place)
        axes.plot(years, sizes, label=name, **curve_style.options(len(sizes)))
    points = [(at, value.paper, "") for at, value in zip(STATED.values(), values, strict=True)]
    style.mark_stated(axes, points, "stated in the paper")
    style.logarithmic(axes, "x")
    style.logarithmic(axes, "y")
    axes.set_xlabel("training time (years)")
    axes.set_ylabel("parameters (trillions)")
    about = f"the compute-optimal model, trained with {flops / 1e21:.4g}e21 FLOP/s"
    style.finish(figure, axes, f"Figure 1: {about}", "upper left")
    notes = [
        f"{POST_HOC}: the law, its start and the duration were chosen to give these sizes",
        "constants of the laws: netsim/workloads/job/scaling.py",
    ]
    header = ("law", "years", "trillion_parameters")
    drawn = columns(header, rows)
    return PaperFigure(figure, values, drawn, about, notes)


def trillions(law: str, flops: float, years: float) -> float:
    """Parameters of the compute-optimal model, in trillions, after some years of training."""
    return optimal_parameters(law, flops * years * YEAR_S) / 1e12
