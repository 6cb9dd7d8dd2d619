"""Pictures of a job's inputs: errors of a calibrated machine, placement of ranks on hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.model.columns import Ints
from netsim.plots import style
from netsim.workloads.job.messages import AXES, Ranks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.workloads.job.calibration import Residual

MARKERS = "os^Dvx"


def calibration_errors(found: Mapping[str, Sequence[Residual]]) -> Figure:
    """Draw the errors of predicted times by size; colors are collectives, markers are shapes."""
    figure, (axes,) = style.new_figure()
    for index, (what, some) in enumerate(found.items()):
        shapes = sorted({one.row.shape for one in some})
        for number, shape in enumerate(shapes):
            of_shape = [
                (one.row.size_bytes, 100 * one.error) for one in some if one.row.shape == shape
            ]
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


NAMES = {
    "pp": "stage (pp)",
    "dp": "replica (dp)",
    "cp": "context rank (cp)",
    "tp": "tensor rank (tp)",
}
SHADES = "viridis"
PANEL_IN = 1.9


def placement(ranks: Ranks, hosts: Ints, rack_hosts: int, title: str) -> Figure:
    """Draw the placement of `ranks` on `hosts`, int64[ranks], in racks of `rack_hosts`.

    A column is a rack, a row the hosts with the same index in their racks, which share a network on
    rails. The panel of each axis of the job shades hosts by their rank on it; hosts without a rank
    are white.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    axes_of = [axis for axis in AXES if getattr(ranks, axis) > 1] or ["tp"]
    racks = int(hosts.max()) // rack_hosts + 1
    size = (6.4, PANEL_IN * len(axes_of) + 0.8)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(axes_of), 1, squeeze=False, sharex=True)[:, 0]
    coordinates = ranks.coordinates()
    for panel, axis in zip(panels, axes_of, strict=True):
        shown = np.full(racks * rack_hosts, np.nan)
        shown[hosts] = coordinates[axis]
        image = panel.imshow(
            shown.reshape(racks, rack_hosts).T,
            aspect="auto",
            origin="lower",
            interpolation="nearest",
            cmap=SHADES,
            vmin=0,
            vmax=max(1, getattr(ranks, axis) - 1),
        )
        panel.set_ylabel("host in rack", fontsize="small")
        panel.spines[["top", "right"]].set_visible(False)
        figure.colorbar(image, ax=panel, label=NAMES[axis], ticks=MaxNLocator(5, integer=True))
    panels[-1].set_xlabel("rack")
    figure.suptitle(title, fontsize="medium")
    figure.supxlabel(f"{len(ranks):,} ranks", fontsize="small", color=style.CAPTION)
    return figure
