"""Transports at one load: completion time of the last flow (left) and mean over flows (right).

A bar is the mean over the seeds, a dot one seed. Lines are the ideal and the results' max-min fair
shares on hashed paths (`netsim.bounds.fair_shares`), both means over the seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "sweep over transport: last flow and mean, with ideal and fair shares"

FAIR = "fair shares of hashed paths"
STATISTICS = ("max", "mean")


@dataclass(frozen=True)
class Comparison:
    """`ours`: statistic -> transport -> time in ps; `fair_ps` by statistic, if known.

    `curves` by transport.
    """

    curves: dict[str, seed_curves.Curve]
    ours: dict[str, dict[str, sweeps.Spread]]
    ideal_ps: dict[str, float]
    fair_ps: dict[str, float]
    title: str
    table: sweeps.Table


def compare(results: Sequence[Result]) -> Comparison:
    """Return the completion times of each transport, the ideal and the fair shares.

    Raises InputError for one transport, or points that differ in traffic or topology.
    """
    if keys := sweeps.differing(results):
        raise InputError(
            f"points differ in {', '.join(keys)}",
            hint="run the sweep with one value"
            + (", or use --kind fct_vs_load" if keys == ["traffic.load"] else ""),
        )
    curves = sweeps.by_transport(results)
    if len(curves) < 2:
        raise InputError(
            f"{next(iter(curves))} is the only transport: run a sweep over transport",
            hint='such as transport = ["roce", "ndp"]; "ideal" does not count',
        )
    ours = {
        key: {
            name: point
            for name, curve in curves.items()
            if (point := sweeps.spread(curve.results, "fct_ps", key)) is not None
        }
        for key in STATISTICS
    }
    flows = results[0].flows["ideal_ps"].to_numpy()
    ideal_ps = {"max": float(flows.max()), "mean": float(flows.mean())}
    fair, note = sweeps.fair_shares(results)
    fair_ps = {key: point.mean for key, point in fair.items()}
    table = _table(ours, ideal_ps, fair_ps, note)
    return Comparison(curves, ours, ideal_ps, fair_ps, seed_curves.title(results), table)


def draw(
    comparison: Comparison, stated: Mapping[str, tuple[float, str]] | None = None, by: str = ""
) -> Figure:
    """A bar for each transport, the dots of its seeds, and the lines.

    `stated` are last completion times in ps by transport to be marked beside ours, with "" or a
    bound such as "at most"; `by` is their source.
    """
    figure, panels = style.new_figure(columns=2)
    names = list(comparison.ours["max"])
    figure.set_figheight(max(2.6, 1.4 + 0.42 * len(names)))
    stated = stated or {}
    known = [*comparison.ideal_ps.values(), *comparison.fair_ps.values()]
    known += [time_ps for time_ps, _ in stated.values()]
    known += [point.high for point in comparison.ours["max"].values()]
    unit, scale = style.time_unit(known)
    for axes, key, label in zip(panels, STATISTICS, ("last flow", "mean over flows"), strict=True):
        points = {n: sweeps.scaled(comparison.ours[key][n], scale) for n in names}
        sweeps.bars(axes, points, [comparison.curves[n].curve_style.color for n in names])
        axes.axvline(
            comparison.ideal_ps[key] / scale,
            color=style.IDEAL,
            linestyle="--",
            label=seed_curves.IDEAL,
        )
        if key in comparison.fair_ps:
            fair = comparison.fair_ps[key] / scale
            axes.axvline(fair, color="black", linestyle=":", label=FAIR)
        axes.set_xlim(0, 1.1 * axes.get_xlim()[1])
        axes.set_xlabel(f"completion time, {label} ({unit})")
    marks = [(ps / scale, names.index(name), bound) for name, (ps, bound) in stated.items()]
    style.mark_stated(panels[0], marks, by, sideways=True)
    panels[0].set_xlim(0, max([panels[0].get_xlim()[1], *(1.05 * x for x, *_ in marks)]))
    caption = sweeps.caption(list(comparison.ours["max"].values()), "bars", "dots: each")
    return style.finish(figure, panels[0], comparison.title, style.OUTSIDE, caption)


def _table(
    ours: dict[str, dict[str, sweeps.Spread]],
    ideal_ps: dict[str, float],
    fair_ps: dict[str, float],
    note: str,
) -> sweeps.Table:
    unit, scale = style.time_unit(point.high for point in ours["max"].values())
    headers = ["transport", "seeds", f"last flow\n{unit}", "± 95 %", "seeds'\nrange"]
    headers.append("over ideal\n%")
    headers += ["over fair\nshares %"] if fair_ps else []
    headers += [f"mean\n{unit}", "over ideal\n%"] + (["over fair\nshares %"] if fair_ps else [])
    rows = []
    for name, last in ours["max"].items():
        mean = ours["mean"][name]
        row = [name, str(len(last.values)), format_number(last.mean / scale)]
        row += [sweeps.plus_minus(last, scale), sweeps.span(last, scale)]
        row.append(sweeps.difference(last.mean, ideal_ps["max"]))
        row += [sweeps.difference(last.mean, fair_ps["max"])] if fair_ps else []
        row += [format_number(mean.mean / scale), sweeps.difference(mean.mean, ideal_ps["mean"])]
        row += [sweeps.difference(mean.mean, fair_ps["mean"])] if fair_ps else []
        rows.append(tuple(row))
    notes = [_both("ideal", ideal_ps, unit, scale)]
    notes += [_both("fair shares", fair_ps, unit, scale)] if fair_ps else []
    notes.append(note)
    return sweeps.Table(tuple(headers), rows, tuple(notes))


def _both(name: str, times_ps: dict[str, float], unit: str, scale: float) -> str:
    last, mean = (format_number(times_ps[key] / scale) for key in STATISTICS)
    return f"{name}: last flow {last} {unit}, mean {mean} {unit}"
