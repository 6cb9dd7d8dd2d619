"""Errors of a calibrated machine by size, for sizes that were left out of the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from netsim.plots import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.workloads.calibration.validate import Residual

MARKERS = "os^Dvx"


def draw(found: Mapping[str, Sequence[Residual]]) -> Figure:
    """Draw the errors of predicted times by size; colors are collectives, markers shapes."""
    figure, (axes,) = style.new_figure()
    for index, (what, some) in enumerate(found.items()):
        shapes = sorted({row.shape for row, _ in some})
        for number, shape in enumerate(shapes):
            of_shape = [(row.size_bytes, 100 * error) for row, error in some if row.shape == shape]
            axes.plot(
                *zip(*of_shape, strict=True),
                linestyle="none",
                marker=MARKERS[number % len(MARKERS)],
                color=style.color(index),
                label=f"{what} {shape.nodes} x {shape.per_node}",
            )
    axes.axhline(0.0, color=style.IDEAL)
    style.bytes_axis(axes)
    axes.set_xlabel("message size")
    axes.set_ylabel("error of the predicted time (%)")
    style.legend(figure, axes, style.OUTSIDE, "sizes left out of the fit; nodes x GPUs")
    return figure
