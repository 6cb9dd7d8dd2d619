"""Transports side by side at one load: the last flow (left) and the mean over flows.

A bar is the mean over the seeds, a dot one seed. The lines are the ideal and, where the flows are
of one size and start together, single paths with max-min fair shares (`netsim.bounds.fair_shares`).
Beside the pipeline step of 8,192 hosts stand the values that its paper states for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import pool, style, sweeps
from netsim.units import format_number, parse_bytes, parse_rate_bps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

FAIR = "one path, fair shares"
STATISTICS = ("max", "mean")
PAPER = "\"I've Got 99 Problems But FLOPS Ain't One\", HotNets 2024, figure 5"
PAPER_KINDS = (["fat_tree", "pipeline"], ["fat_tree", "permutation"])
MS = 1e9


@dataclass(frozen=True)
class Stated:
    """What the paper states of the last flow."""

    text: str
    time_ps: float


OPTIMUM_PS = 1 * MS
ROCE = Stated("RoCEv2 9 ms", 9 * MS)
SINGLE_PATH = Stated("single path 7 ms", 7 * MS)
SPRAYED = Stated("at most 1.05 ms", 1.05 * OPTIMUM_PS)


@dataclass(frozen=True)
class Comparison:
    """`ours`: statistic -> transport -> time in ps; `fair_ps` by statistic, if known.

    `curves` by transport.
    """

    curves: dict[str, pool.Curve]
    ours: dict[str, dict[str, sweeps.Spread]]
    ideal_ps: dict[str, float]
    fair_ps: dict[str, float]
    stated: dict[str, Stated]
    title: str
    table: sweeps.Table


def compare(results: Sequence[Result]) -> Comparison:
    """The completion times of each transport, and what they can be compared with.

    Raises InputError if there is one transport only, or if the points differ in traffic or
    topology.
    """
    if keys := sweeps.differing(results):
        raise InputError(
            f"transports can be compared at one value of {', '.join(keys)} only",
            hint="run the sweep with one value"
            + (", or use --kind load" if keys == ["traffic.load"] else ""),
        )
    curves = sweeps.by_transport(results)
    if len(curves) < 2:
        raise InputError(
            f"there is only {next(iter(curves))}, and a comparison needs a sweep over transport",
            hint='such as transport = ["roce", "ndp"]; "ideal" does not count, it is a line',
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
    found, note = sweeps.fair_slowdowns(results, results[:1])
    fair_ps = {
        key: ideal_ps[key] * slowdown
        for slowdowns in found
        for key, slowdown in zip(STATISTICS, slowdowns, strict=True)
    }
    stated = {
        name: value
        for name, curve in curves.items()
        if (value := _stated(curve.results[0])) is not None
    }
    table = _table(ours, ideal_ps, fair_ps, stated, note)
    return Comparison(curves, ours, ideal_ps, fair_ps, stated, pool.title(results), table)


def draw(comparison: Comparison) -> Figure:
    """A bar for each transport, the dots of its seeds, and the lines."""
    figure, panels = style.new_figure(columns=2)
    names = list(comparison.ours["max"])
    figure.set_figheight(max(2.6, 1.4 + 0.42 * len(names)))
    known = [*comparison.ideal_ps.values(), *comparison.fair_ps.values()]
    known += [point.high for point in comparison.ours["max"].values()]
    unit, scale = style.time_unit(known)
    for axes, key, label in zip(panels, STATISTICS, ("last flow", "mean over flows"), strict=True):
        for place, name in enumerate(names):
            point = comparison.ours[key][name]
            shade = comparison.curves[name].look.colour
            axes.barh(place, point.mean / scale, height=0.6, color=shade, alpha=0.75)
            dots = [value / scale for value in point.values]
            axes.plot(dots, [place] * len(dots), "k.", markersize=4)
        axes.axvline(
            comparison.ideal_ps[key] / scale, color=style.IDEAL, linestyle="--", label=pool.IDEAL
        )
        if key in comparison.fair_ps:
            fair = comparison.fair_ps[key] / scale
            axes.axvline(fair, color="black", linestyle=":", label=FAIR)
        axes.set_yticks(range(len(names)), names if axes is panels[0] else [""] * len(names))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"completion time, {label} ({unit})")
    for index, (name, value) in enumerate(comparison.stated.items()):
        panels[0].plot(
            value.time_ps / scale, names.index(name), marker="D", linestyle="none", markersize=6,
            markerfacecolor="none", color="black",
            label="stated in HotNets 2024, figure 5" if index == 0 else "",
        )  # fmt: skip
    figure.suptitle(comparison.title, fontsize="medium")
    several = any(len(point.values) > 1 for point in comparison.ours["max"].values())
    caption = "bars: mean over the seeds; dots: each seed" if several else ""
    style.legend(figure, panels[0], style.OUTSIDE, caption)
    return figure


def _table(
    ours: dict[str, dict[str, sweeps.Spread]],
    ideal_ps: dict[str, float],
    fair_ps: dict[str, float],
    stated: dict[str, Stated],
    note: str,
) -> sweeps.Table:
    unit, scale = style.time_unit(point.high for point in ours["max"].values())
    headers = ["transport", "seeds", f"last flow\n{unit}", "± 95 %", "seeds'\nrange"]
    headers.append("over ideal\n%")
    headers += ["over fair\nshares %"] if fair_ps else []
    headers += ["paper", "difference\n%"] if stated else []
    headers += [f"mean\n{unit}", "over ideal\n%"] + (["over fair\nshares %"] if fair_ps else [])
    rows = []
    for name, last in ours["max"].items():
        mean = ours["mean"][name]
        row = [name, str(len(last.values)), format_number(last.mean / scale)]
        row += [sweeps.plus_minus(last, scale), sweeps.span(last, scale)]
        row.append(sweeps.difference(last.mean, ideal_ps["max"]))
        row += [sweeps.difference(last.mean, fair_ps["max"])] if fair_ps else []
        if stated:
            value = stated.get(name)
            row.append("-" if value is None else value.text)
            row.append(sweeps.difference(last.mean, None if value is None else value.time_ps))
        row += [format_number(mean.mean / scale), sweeps.difference(mean.mean, ideal_ps["mean"])]
        row += [sweeps.difference(mean.mean, fair_ps["mean"])] if fair_ps else []
        rows.append(tuple(row))
    notes = [_both("ideal", ideal_ps, unit, scale)]
    notes += [_both("fair shares", fair_ps, unit, scale)] if fair_ps else []
    notes.append(note)
    if stated:
        above = sweeps.difference(ideal_ps["max"], OPTIMUM_PS)
        notes.append(f"paper: {PAPER}; its optimum is about 1 ms, ours differs by {above} %")
    return sweeps.Table(tuple(headers), rows, tuple(notes))


def _both(name: str, times_ps: dict[str, float], unit: str, scale: float) -> str:
    last, mean = (format_number(times_ps[key] / scale) for key in STATISTICS)
    return f"{name}: last flow {last} {unit}, mean {mean} {unit}"


def _stated(result: Result) -> Stated | None:
    """What the paper states for the transport of a result, if it is the paper's scenario."""
    if not _is_papers(result):
        return None
    name = pool.transport(result)
    if name == "smartt":
        return SINGLE_PATH if pool.resolved(result, "transport.paths") == "ecmp" else None
    return {"roce": ROCE, "ndp": SPRAYED, "homa": SPRAYED}.get(name)


def _is_papers(result: Result) -> bool:
    """Do 8,192 hosts of a two-tier tree send 97.39 MB each at 800 Gbps?"""
    kinds = [pool.resolved(result, f"{section}.kind") for section in ("topology", "traffic")]
    if kinds not in PAPER_KINDS or len(result.flows) != 8192:
        return False
    hosts = [pool.resolved(result, f"topology.{key}") for key in ("leaves", "hosts_per_leaf")]
    rate, size = (
        pool.resolved(result, "topology.host_rate"),
        pool.resolved(result, "traffic.size"),
    )
    return (
        hosts == [128, 64]
        and parse_rate_bps(rate) == parse_rate_bps("800Gbps")
        and parse_bytes(size) == parse_bytes("97.39MB")
    )
