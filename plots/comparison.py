"""CDFs of completion times of two results or sweeps, one on top of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import style
from netsim.plots.fct_cdf import draw_cdf

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results.comparison import Comparison

MOST = 8
"""Most points that are drawn; more are pooled."""


def draw(comparison: Comparison, names: tuple[str, str]) -> Figure:
    """Draw a solid curve (before) and a dashed one (after) for each point, over all seeds; `names`
    are those of the two. Raises InputError if no flow is finished on both sides."""
    import numpy as np

    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    keys = dict.fromkeys(pair.key for pair in comparison.pairs)
    for pair in comparison.pairs:
        key = pair.key if len(keys) <= MOST else f"{len(keys)} points"
        before, after = (pair.flows[name].to_numpy() for name in ("before_ps", "after_ps"))
        groups.setdefault(key, []).append((before, after))
    times = {
        key: [np.sort(np.concatenate(side)).astype(float) for side in zip(*parts, strict=True)]
        for key, parts in groups.items()
    }
    known = [one for sides in times.values() for one in sides if len(one)]
    if not known:
        raise InputError("no flow is finished on both sides: no completion times to plot")
    figure, (axes,) = style.new_figure()
    unit, scale = style.time_unit(float(one[-1]) for one in known)
    for number, (key, sides) in enumerate(times.items()):
        for name, side, line in zip(names, sides, ("-", "--"), strict=True):
            label = name if len(times) == 1 else f"{key}, {name}"
            options = {"color": style.color(number), "linestyle": line, "label": label}
            draw_cdf(axes, side / scale, len(side), **options)
    axes.set_xlabel(f"flow completion time ({unit})")
    axes.set_ylabel("share of flows finished in both")
    axes.set_ylim(0, 1.02)
    shortest = min(float(one[0]) for one in known)
    if shortest > 0 and max(float(one[-1]) for one in known) > 50 * shortest:
        style.logarithmic(axes, "x")
    else:
        axes.set_xlim(left=0)
    style.legend(figure, axes, "best")
    return figure
