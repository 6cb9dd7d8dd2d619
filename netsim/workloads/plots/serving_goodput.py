"""Comparison of serving runs: goodput, SLO attainment, available GPUs, time to first token.

Left: goodput, requests per second that met the SLO. A bar is the mean over seeds, and a dot one
seed. Middle: their share of all requests. Next to it is the mean share of GPUs in service, measured
and by formula (`netsim.workloads.serving.metrics`) if there is one. Right: the 99th percentile of
the time to first token; a ring is its mean over seeds. Transports differ in color.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.units import format_number, parse_time_ps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result


PLOT = "comparison of serving runs: goodput, SLO attainment, available GPUs, TTFT"


@dataclass(frozen=True)
class GoodputBar:
    """A point of a sweep over its seeds: shares, and times in picoseconds."""

    label: str
    color: str
    met: sweeps.Spread
    capacity: sweeps.Spread
    by_formula: float | None
    ttft_p99_ps: sweeps.Spread
    failures: float
    restarts: float
    goodput_per_s: sweeps.Spread
    stalled: float
    second_token_p99_ps: float


@dataclass(frozen=True)
class GoodputComparison:
    """Bars in the order of the sweep."""

    bars: list[GoodputBar]
    title: str
    table: sweeps.Table


def compare(results: Sequence[Result]) -> GoodputComparison:
    """Return the bars. Raises InputError if a result is not of a serving run."""
    for result in results:
        if "serving" not in result.summary:
            hint = 'choose runs with [traffic] kind = "serving"'
            raise InputError("serves no requests", file=str(result.path), hint=hint)
    curves = seed_curves.curves(results)
    several = len({curve.transport for curve in curves}) > 1
    bars = [_bar(curve, curve.curve_style.color if several else style.color(5)) for curve in curves]
    return GoodputComparison(bars, seed_curves.title(results), _table(bars))


def _bar(curve: seed_curves.Curve, color: str) -> GoodputBar:
    def over_seeds(*keys: str) -> sweeps.Spread:
        found = []
        for result in curve.results:
            value: Any = result.summary["serving"]
            for key in keys:
                value = value.get(key)
            found.append(float("inf") if value is None else float(value))
        spread = sweeps.spread_of(found)
        assert spread is not None  # every curve has results
        return spread

    return GoodputBar(
        label=curve.label,
        color=color,
        met=over_seeds("slo", "attainment"),
        capacity=over_seeds("failures", "available_gpu_share"),
        by_formula=by_formula(curve.results[0]),
        ttft_p99_ps=over_seeds("ttft_ps", "p99"),
        failures=over_seeds("failures", "count").mean,
        restarts=over_seeds("restarts").mean,
        goodput_per_s=over_seeds("slo", "goodput_per_s"),
        stalled=over_seeds("slo", "stalled").mean,
        second_token_p99_ps=over_seeds("second_token_ps", "p99").mean,
    )


def by_formula(result: Result) -> float | None:
    """Return the expected share of available GPUs; None without a formula.

    There is a formula for random failures of instances of one role.
    """
    from netsim.workloads.serving.failures import Policy
    from netsim.workloads.serving.metrics import expected_capacity

    def value(name: str) -> Any:
        return seed_curves.resolved(result, f"traffic.{name}")

    roles = list(result.summary["serving"]["roles"].values())
    if len(roles) != 1 or value("failure_trace"):
        return None
    if not value("mtbf"):
        return 1.0
    mtbf_ps, repair_ps, swap_ps, restart_ps = (
        parse_time_ps(value(name) or "0ps")
        for name in ("mtbf", "repair_time", "swap_time", "restart_time")
    )
    policy = Policy(
        mtbf_ps, repair_ps, swap_ps, value("spares") or 0, value("on_failure"), restart_ps
    )
    instances = roles[0]["instances"]
    return expected_capacity(policy, roles[0]["hosts"] // instances, instances)


def draw(comparison: GoodputComparison) -> Figure:
    """Draw bars of goodput and attainment per point with the share of GPUs in service, and times to
    first token."""
    bars = comparison.bars
    colors = [bar.color for bar in bars]
    figure, (left, middle, right) = style.new_figure(columns=3)
    figure.set_figheight(max(2.6, 1.6 + 0.3 * len(bars)))
    unit, scale = style.time_unit(bar.ttft_p99_ps.high for bar in bars)
    met = {bar.label: sweeps.scaled(bar.met, 0.01) for bar in bars}
    sweeps.bars(left, {bar.label: bar.goodput_per_s for bar in bars}, colors)
    marks = {bar.label: 100 * max(bar.capacity.mean, bar.by_formula or 0.0) for bar in bars}
    sweeps.bars(middle, met, colors, marks)
    sweeps.names_below(right, list(met))
    for place, bar in enumerate(bars):
        ttft = sweeps.scaled(bar.ttft_p99_ps, scale)
        right.plot(ttft.mean, place, "o", color=bar.color, markersize=8, markerfacecolor="none")
        right.plot(ttft.values, [place] * len(ttft.values), "k.", markersize=4)
        style.write_value(right, (ttft.high, place), ttft.mean, (7, 0))
        first = place == 0
        middle.plot(
            100 * bar.capacity.mean, place, "k|", markersize=13, markeredgewidth=1.6,
            label="GPUs in service, measured" if first else None,
        )  # fmt: skip
        if bar.by_formula is not None:
            middle.plot(
                100 * bar.by_formula, place, "kD", markersize=5.5, markerfacecolor="none",
                label="GPUs in service, by formula" if first else None,
            )  # fmt: skip
    left.set_xlim(0, 1.15 * left.get_xlim()[1])
    left.set_xlabel("goodput: requests/s that met the SLO")
    middle.set_xlim(0, 115)
    middle.set_xlabel("requests that met the SLO (%)")
    style.logarithmic(right, "x")
    right.margins(x=0.15)
    right.set_xlabel(f"time to first token, 99th percentile ({unit})")
    caption = sweeps.caption([bar.met for bar in bars], "bars and rings", "dots: each")
    return style.finish(figure, middle, comparison.title, style.OUTSIDE, caption)


def _table(bars: Sequence[GoodputBar]) -> sweeps.Table:
    unit, scale = style.time_unit(bar.ttft_p99_ps.high for bar in bars)
    gap_unit, gap_scale = style.time_unit(
        bar.second_token_p99_ps for bar in bars if bar.second_token_p99_ps < float("inf")
    )
    headers = (
        *("", "seeds", "failures", "GPUs in\nservice, %", "by\nformula", "restarts"),
        *("met\n%", "seeds'\nrange", "goodput\n1/s", f"TTFT p99\n{unit}"),
        *(f"first gap\np99 {gap_unit}", "stalled"),
    )
    rows: list[tuple[str, ...]] = [
        (
            bar.label,
            str(len(bar.met.values)),
            format_number(bar.failures, 3),
            f"{100 * bar.capacity.mean:.1f}",
            "-" if bar.by_formula is None else f"{100 * bar.by_formula:.1f}",
            format_number(bar.restarts, 3),
            f"{100 * bar.met.mean:.1f}",
            sweeps.span(bar.met, 0.01),
            format_number(bar.goodput_per_s.mean, 3),
            format_number(bar.ttft_p99_ps.mean / scale, 3),
            format_number(bar.second_token_p99_ps / gap_scale, 3),
            format_number(bar.stalled, 3),
        )
        for bar in bars
    ]
    return sweeps.Table(headers, rows)
