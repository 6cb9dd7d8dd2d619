"""Completion time over ideal against load: last flow (left) and mean (right).

Both times are over those of flows alone. A line per transport is the mean over the seeds, its band
their range; the table has the 95 % confidence interval of the mean (Student's t). A dashed line has
the results' max-min fair shares on hashed paths (`netsim.bounds.fair_shares`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.plots.fct_by_transport import FAIR, STATISTICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "sweep over traffic.load: last flow and mean, with max-min fair shares"

LOAD = "traffic.load"


@dataclass(frozen=True)
class Comparison:
    """`ours`: statistic -> transport -> load -> time over ideal; `fair`: statistic -> load -> it.

    `curves` by transport.
    """

    curves: dict[str, seed_curves.Curve]
    ours: dict[str, dict[str, dict[float, sweeps.Spread]]]
    fair: dict[str, dict[float, float]]
    title: str
    table: sweeps.Table


def compare(results: Sequence[Result]) -> Comparison:
    """Return the times over the ideal at each load, with those of fair shares on hashed paths.

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
    fair, note = _fair_shares(results)
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
        curves, ours, fair, seed_curves.title(results), sweeps.Table(headers, rows, (note,))
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
    def over_ideal(result: Result) -> float | None:
        last_or_mean = result.summary["fct_ps"].get(statistic)
        return None if last_or_mean is None else last_or_mean / _ideal_ps(result, statistic)

    found = sweeps.by_value(group, lambda result: seed_curves.resolved(result, LOAD), over_ideal)
    return {float(load): found[load] for load in sorted(found)}


def _ideal_ps(result: Result, statistic: str) -> float:
    times = result.flows["ideal_ps"].to_numpy()
    return float(times.max() if statistic == "max" else times.mean())


def _fair_shares(results: Sequence[Result]) -> tuple[dict[str, dict[float, float]], str]:
    """Return fair times over ideal by statistic and load, and a note on them, or why not."""
    fair: dict[str, dict[float, float]] = {key: {} for key in STATISTICS}
    known, note = sweeps.fair_shares(results, [LOAD])
    by_load: dict[float, list[Result]] = {}
    for result in results if known else ():
        if (load := seed_curves.resolved(result, LOAD)) is not None:
            by_load.setdefault(float(load), []).append(result)
    for load, group in sorted(by_load.items()):
        for key, point in sweeps.fair_shares(group)[0].items():
            fair[key][load] = point.mean / _ideal_ps(group[0], key)
    return fair, note
