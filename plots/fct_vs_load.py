"""Completion time over ideal against load: last flow (left) and mean (right).

A line per transport is the mean over the seeds, its band their range; the table has the 95 %
confidence interval of the mean (Student's t). For flows of one size that start together, a dashed
line shows max-min fair shares on one random path per flow (`netsim.bounds.fair_shares`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "sweep over traffic.load: last flow and mean, with max-min fair shares"

LOAD = "traffic.load"
FAIR = "one path, fair shares"
STATISTICS = ("max", "mean")


@dataclass(frozen=True)
class Comparison:
    """`ours`: statistic -> transport -> load -> slowdown; `fair`: statistic -> load -> slowdown.

    `curves` by transport.
    """

    curves: dict[str, seed_curves.Curve]
    ours: dict[str, dict[str, dict[float, sweeps.Spread]]]
    fair: dict[str, dict[float, float]]
    title: str
    table: sweeps.Table


def compare(results: Sequence[Result], *, trust: bool = False) -> Comparison:
    """Return the slowdown at each load, with that of fair shares on single paths.

    Fair shares on a topology that is not part of netsim need `trust`.

    Raises InputError unless the results have several values of traffic.load.
    """
    loads = {seed_curves.resolved(result, LOAD) for result in results} - {None}
    if len(loads) < 2:
        raise InputError(
            "--kind fct_vs_load needs a sweep over traffic.load",
            hint='such as load = [0.2, 0.6, 1.0] in [traffic]; see the experiment "fct_vs_load"',
        )
    curves = sweeps.by_transport(results, apart=[LOAD])
    ours = {
        key: {name: _by_load(curve.results, key) for name, curve in curves.items()}
        for key in STATISTICS
    }
    fair, notes = _fair_shares(results, trust)
    headers = (
        "transport", "load", "seeds", "last\n/ ideal", "± 95 %", "fair\nshares", "difference\n%",
        "mean\n/ ideal", "± 95 %", "fair\nshares", "difference\n%",
    )  # fmt: skip
    rows = []
    for name in curves:
        for load, last in ours["max"][name].items():
            row = [name, f"{load:g}", str(len(last.values))]
            for key in STATISTICS:
                point, reference = ours[key][name][load], fair[key].get(load)
                row += [f"{point.mean:.3f}", sweeps.plus_minus(point, 1, 2)]
                row.append("-" if reference is None else f"{reference:.3f}")
                row.append(sweeps.difference(point.mean, reference))
            rows.append(tuple(row))
    return Comparison(
        curves, ours, fair, seed_curves.title(results), sweeps.Table(headers, rows, notes)
    )


def draw(comparison: Comparison) -> Figure:
    """Draw last flow and mean against load."""
    figure, panels = style.new_figure(columns=2)
    labels = ("last flow", "mean over flows")
    for axes, key, label in zip(panels, STATISTICS, labels, strict=True):
        for place, (name, points) in enumerate(comparison.ours[key].items()):
            curve_style = style.distinct_in_grayscale(comparison.curves[name].curve_style, place)
            sweeps.line(axes, points, curve_style, name)
        if comparison.fair[key]:
            fair = comparison.fair[key]
            axes.plot(list(fair), list(fair.values()), "k--", linewidth=1.2, label=FAIR)
        axes.axhline(1, color=style.IDEAL, linestyle=":", linewidth=1.2, label=seed_curves.IDEAL)
        axes.set_xlabel("load")
        axes.set_ylabel(f"completion time / ideal, {label}")
        axes.set_ylim(bottom=0)
    seeds = [point for by_load in comparison.ours["max"].values() for point in by_load.values()]
    caption = sweeps.caption(seeds)
    return style.finish(figure, panels[0], comparison.title, style.OUTSIDE, caption)


def _by_load(group: Sequence[Result], statistic: str) -> dict[float, sweeps.Spread]:
    found = sweeps.by_value(
        group,
        lambda result: seed_curves.resolved(result, LOAD),
        lambda result: result.summary["slowdown"].get(statistic),
    )
    return {float(load): found[load] for load in sorted(found)}


def _fair_shares(
    results: Sequence[Result], trust: bool
) -> tuple[dict[str, dict[float, float]], tuple[str, ...]]:
    """Return slowdowns by statistic and load, and a note on them or on why there are none."""
    one_each = {
        float(load): r for r in results if (load := seed_curves.resolved(r, LOAD)) is not None
    }
    loads = sorted(one_each)
    chosen = [one_each[load] for load in loads]
    found, note = sweeps.fair_slowdowns(results, chosen, apart=[LOAD], trust=trust)
    fair = {
        key: {load: pair[place] for load, pair in zip(loads, found, strict=False)}
        for place, key in enumerate(STATISTICS)
    }
    return fair, (note,)
