"""CDFs of completion times of two results or sweeps, one on top of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError
from netsim.plots import style
from netsim.plots.distributions import Floats, distribution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results.comparison import Comparison

MOST = 8
"""Most points that are drawn; more are pooled."""


def draw(comparison: Comparison, names: tuple[str, str]) -> Figure:
    """Draw a solid curve (before) and a dashed one (after) for each point, over all seeds; `names`
    are those of the two. Raises InputError if no flow is finished on both sides."""
    found: dict[tuple[str, str], list[Floats]] = {}
    keys = dict.fromkeys(pair.key for pair in comparison.pairs)
    for pair in comparison.pairs:
        key = pair.key if len(keys) <= MOST else f"{len(keys)} points"
        for side, values in zip(("before_ps", "after_ps"), pair.times, strict=True):
            found.setdefault((key, side), []).append(values)
    times = {key: np.concatenate(parts) for key, parts in found.items()}
    if not any(map(len, times.values())):
        raise InputError("no flow is finished on both sides: no completion times to plot")
    figure, (axes,) = style.new_figure()
    unit, scale = style.unit_of_all(list(times.values()))
    for number, ((key, side), values) in enumerate(times.items()):
        name, line = (names[0], "-") if side == "before_ps" else (names[1], "--")
        label = name if len(times) == 2 else f"{key}, {name}"
        x, shares = distribution(values / scale)
        color = style.color(number // 2)
        axes.step(x, shares, where="post", color=color, linestyle=line, label=label)
    axes.set_xlabel(f"flow completion time ({unit})")
    axes.set_ylabel("share of finished flows")
    axes.set_ylim(0, 1.02)
    style.fit_axis(axes, "x", list(times.values()), scale)
    return style.finish(figure, axes, "", "best")
