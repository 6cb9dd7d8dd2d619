"""CDF of flow completion times.

A curve pools the flows of all seeds; its band spans the seeds. The dashed curve is the ideal: every
flow alone in the network. Curves of runs with unfinished flows end below 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "share of flows finished by each time, with the ideal"

ALIKE = 0.02
"""Relative difference up to which ideal curves are drawn as one."""

SHARES = 500
"""Points on the edges of a band."""


def draw(results: Sequence[Result]) -> Figure:
    """Draw a curve per point, and the ideal per network and traffic.

    Raises InputError if no flow is finished.
    """
    import numpy as np

    curves = seed_curves.curves(seed_curves.without_ideal(results))
    times = [[_sorted(result, "fct_ps") for result in curve.results] for curve in curves]
    ideals = distinct_ideals(results)
    known = [one for seeds in times for one in seeds if len(one)]
    if not known and curves:
        raise InputError("no flow is finished: no completion times to plot")
    known += [one for one in ideals if len(one)]
    figure, (axes,) = style.new_figure()
    unit, scale = style.time_unit(float(one[-1]) for one in known)
    for curve, seeds in zip(curves, times, strict=True):
        pooled = np.sort(np.concatenate(seeds)) / scale
        flows = sum(len(result.flows) for result in curve.results)
        draw_cdf(axes, pooled, flows, label=curve.label, **curve.curve_style.options(len(pooled)))
        if len(seeds) > 1:
            _band(axes, [one / scale for one in seeds], curve)
    for index, ideal in enumerate(ideals):
        label = seed_curves.IDEAL if index == 0 else ""
        draw_cdf(axes, ideal / scale, len(ideal), label=label, color=style.IDEAL, linestyle="--")
    axes.set_xlabel(f"flow completion time ({unit})")
    axes.set_ylabel("share of flows")
    axes.set_ylim(0, 1.02)
    axes.set_title(seed_curves.title(results), fontsize="medium")
    shortest = min(float(one[0]) for one in known)
    if shortest > 0 and max(float(one[-1]) for one in known) > 50 * shortest:
        style.logarithmic(axes, "x")
    else:
        axes.set_xlim(left=0)
    style.legend(figure, axes, "best", seed_curves.caption(curves, "bands: range of the seeds"))
    return figure


def _sorted(result: Result, column: str) -> np.ndarray:
    return result.flows[column].drop_nulls().sort().to_numpy().astype(float)


def distinct_ideals(results: Sequence[Result]) -> list[np.ndarray]:
    """Return the ideal times of each network and traffic, over all seeds, without duplicates."""
    chosen: list[np.ndarray] = []
    for one in _ideals_of_all(results):
        if not any(alike(one, other) for other in chosen):
            chosen.append(one)
    return chosen


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two curves look the same."""
    import numpy as np

    if not (len(one) and len(other)):
        return len(one) == len(other)
    shares = (0.1, 0.5, 0.9, 1.0)
    return np.allclose(np.quantile(one, shares), np.quantile(other, shares), rtol=ALIKE)


def _ideals_of_all(results: Sequence[Result]) -> list[np.ndarray]:
    import numpy as np

    found: dict[str, dict[int, np.ndarray]] = {}
    for result in results:
        seeds = found.setdefault(repr(sweeps.settings(result)), {})
        seed = int(result.experiment["seed"])
        if seed not in seeds:
            seeds[seed] = _sorted(result, "ideal_ps")
    return [np.sort(np.concatenate(list(seeds.values()))) for seeds in found.values()]


def draw_cdf(axes: Axes, times: np.ndarray, flows: int, **options: Any) -> None:
    """Draw sorted times of `flows` flows as steps from 0."""
    import numpy as np

    if not len(times):
        return
    chosen = style.thin(len(times))
    axes.step(
        np.concatenate([times[:1], times[chosen]]),
        np.concatenate([[0.0], (chosen + 1) / flows]),
        where="post",
        **options,
    )


def _band(axes: Axes, seeds: Sequence[np.ndarray], curve: seed_curves.Curve) -> None:
    """Draw the band between the fastest and slowest seed at each share of flows."""
    import numpy as np

    done = min(
        len(times) / len(result.flows) for times, result in zip(seeds, curve.results, strict=True)
    )
    if not done:
        return
    shares = np.linspace(0, done, SHARES + 1)[1:]
    by_seed = [
        times[np.ceil(shares * len(result.flows) - 1e-9).astype(int) - 1]
        for times, result in zip(seeds, curve.results, strict=True)
    ]
    low, high = np.min(by_seed, axis=0), np.max(by_seed, axis=0)
    axes.fill_betweenx(shares, low, high, color=curve.curve_style.color, alpha=0.2, linewidth=0)
