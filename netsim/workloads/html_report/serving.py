"""Serving: goodput, latencies, and the worst requests with their latency breakdowns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from netsim.html_report import parts
from netsim.html_report.completion import looks
from netsim.html_report.overview import FEW_POINTS, causes
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, axis_text, unit_of
from netsim.html_report.slowest import flows_of
from netsim.plots import style
from netsim.plots.flows import distribution, tail
from netsim.plots.style import axis_name
from netsim.results import Result
from netsim.units import format_number, format_time
from netsim.workloads.plots.serving import FIGURES, samples
from netsim.workloads.reports.serving import TIMES
from netsim.workloads.tracing.request_latency import (
    GAP_PARTS,
    LABELS,
    LatencyBreakdown,
    request_latency,
)

ORDER = 2
MAX_CURVES = 12
ALIKE = 0.05  # relative difference up to which two latencies are called equal

WORST = (("tbt_max_ps", 5, "longest gap"), ("ttft_ps", 3, "latest first token"))
"""Column of requests, number of worst requests shown, and their property."""

COLORS = (style.GRAY, style.GREEN, style.VERMILION, style.ORANGE, style.SKY, style.BLACK)
"""Colors of the stages, as in LABELS."""


def headlines(report: Report) -> Iterator[str | parts.Part]:
    """Yield goodput by transport, the part of the latency that differs, and its causes of delay."""
    served = [point for point in report.simulated if "serving" in point.result.summary]
    if not served:
        return
    slo = _serving(served[0].result)["slo"]
    limits = [
        text.format(format_time(int(slo[key]), 4))
        for key, text in (
            ("ttft_ps", "first token within {}"),
            ("tbt_ps", "99 % of gaps within {}"),
        )
        if slo[key] is not None
    ]
    if limits:
        transports = dict.fromkeys(point.transport for point in served)
        for transport in transports if len(served) <= FEW_POINTS else ():
            told = (_goodput(_serving(one.result)) for one in served if one.transport == transport)
            yield (
                f"Goodput of {transport}, requests per second within the SLO of those that "
                f"arrived: {', '.join(told)}."
            )
        yield f"The SLO: {' and '.join(limits)}."
    if len(served) > FEW_POINTS:
        yield _latencies(served)
    worst, best = _furthest(served)
    if best is not None:
        yield _difference(worst, best)
    for title, _, story in itertools.islice(_worst(worst), 1):
        name = title.partition(" (")[0].capitalize()
        yield f"{name} of {worst.label}: {' '.join(story[1:3])}"
    yield from causes(worst)


def _serving(result: Result) -> Mapping[str, Any]:
    found: Mapping[str, Any] = result.summary["serving"]
    return found


def _latencies(points: list[Point]) -> parts.Part:
    found = [(point.label, _serving(point.result)) for point in points]
    times = [(one["ttft_ps"]["p99"], one["tbt_ps"]["p99"]) for _, one in found]
    unit, scale = unit_of(time for both in times for time in both if time)
    rows = []
    for (label, one), both in zip(found, times, strict=True):
        met = one["slo"]["attainment"]
        rates = met and 100 * met, one["slo"]["goodput_per_s"], one["offered_per_s"]
        rows.append([label, *(time and time / scale for time in both), *rates])
    names = (f"TTFT p99, {unit}", f"TBT p99, {unit}", "met, %", "goodput, 1/s", "offered, 1/s")
    return parts.table(["point", *names], rows)


def _goodput(serving: Mapping[str, Any]) -> str:
    good, came = serving["slo"]["goodput_per_s"], serving["offered_per_s"]
    return f"{format_number(good, 3)} of {format_number(came, 4)}"


def _furthest(served: list[Point]) -> tuple[Point, Point | None]:
    """Return the point furthest behind another transport at equal load, and the other's point."""
    alike: dict[str, list[Point]] = {}
    for point in served:
        axes = point.result.experiment["axes"]
        rest = {axis: value for axis, value in axes.items() if axis != "transport"}
        alike.setdefault(repr(rest), []).append(point)

    def met(point: Point) -> float:
        return float(_serving(point.result)["slo"]["attainment"])

    pairs = [(min(its, key=met), max(its, key=met)) for its in alike.values()]
    worst, best = max(pairs, key=lambda pair: met(pair[1]) - met(pair[0]))
    if met(best) - met(worst) > 0.01:
        return worst, best
    return min(served, key=met), None


def _difference(worst: Point, best: Point) -> str:
    ours, theirs = _serving(worst.result), _serving(best.result)
    axes = worst.result.experiment["axes"]
    load = ", ".join(
        f"{axis_name(axis)} = {axis_text(value)}"
        for axis, value in axes.items()
        if axis not in ("transport", "seed")
    )
    told = []
    for key, name in (
        ("ttft_ps", "first token"),
        ("second_token_ps", "second token, which waits for the KV cache,"),
    ):
        one, other = ours[key]["p99"], theirs[key]["p99"]
        if one is None or other is None:
            continue
        a, b = format_time(int(one), 3), format_time(int(other), 3)
        if abs(one - other) <= ALIKE * max(one, other):
            told.append(f"the {name} takes {a} with both")
        else:
            told.append(f"the {name} takes {a} with {worst.transport}, {b} with {best.transport}")
    share = ours["network"]["second_token"]
    network = f"; with {worst.transport}, {100 * share:.0f} % of it is the network" if share else ""
    shares = (f"{100 * one['slo']['attainment']:.0f} %" for one in (ours, theirs))
    return (
        f"{f'With {load}, ' if load else ''}{worst.transport} meets the SLO for {next(shares)} of "
        f"requests, {best.transport} for {next(shares)}. At the 99th percentile "
        f"{', '.join(told)}{network}."
    )


def comparison(report: Report) -> Iterator[Section]:
    served = [point for point in report.simulated if "serving" in point.result.summary]
    served = [point for point in served if point.result.requests is not None][-MAX_CURVES:]
    if not served:
        return
    charts, styles = [], looks([point.color for point in served])
    for name in FIGURES:
        found = [samples(point.result, name) for point in served]
        unit, scale = style.unit_of_all([values for values, _ in found])
        lines = []
        for point, (values, counts), look in zip(served, found, styles, strict=True):
            if len(values):
                x, share = tail(*distribution(values / scale, counts=counts))
                lines.append(parts.line(point.label, x, share, look, steps=True))
        if lines:
            title = f"{name[0].upper()}{name[1:]}"
            charts.append(parts.chart(title, f"time ({unit})", "share", lines, log="y"))
    if charts:
        text = "Shares of requests, and of all gaps between tokens, that are longer than this time."
        order = 6  # after the sweep
        yield Section("latency", "Latencies", (text,), (parts.grid(charts),), order)


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    result = point.result
    if "serving" not in result.summary or result.requests is None:
        return
    yield Section("requests", "Requests", (), (parts.tiles(_tiles(_serving(result))),))
    rows = list(_worst(point))
    if rows:
        unit = unit_of([max(sum(values) for _, values, _ in rows)])
        made = [parts.bar_row(t, [one / unit[1] for one in v], text) for t, v, text in rows]
        text = "From arrival to the last token. Times of flows are estimated as below."
        part = parts.bars(list(zip(LABELS.values(), COLORS, strict=True)), unit[0], made)
        yield Section("worst_requests", "Worst requests", (text,), (part,))


def _tiles(serving: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    slo, share = serving["slo"], serving["network"]["second_token"]
    yield "SLO met", f"{100 * slo['attainment']:.1f} %", f"goodput {_goodput(serving)}/s"
    for key in ("ttft_ps", "second_token_ps", "tbt_ps", "kv_ps"):
        if serving[key]["p99"] is not None:
            high, median = (format_time(int(serving[key][one]), 3) for one in ("p99", "p50"))
            yield TIMES[key], high, f"99th percentile; median {median}"
    if slo["stall_ps"] is not None:
        limit = format_time(slo["stall_ps"])
        yield "stalled", f"{slo['stalled']:,}", f"requests, gap above {limit}"
    if share is not None:
        yield "network", f"{100 * share:.0f} %", "of first to second token"


def _worst(point: Point) -> Iterator[tuple[str, list[float], list[str]]]:
    """Yield title, times by stage and explanation of the worst requests."""
    requests = point.result.requests
    if requests is None or point.result.log is None or point.result.iterations is None:
        return
    seen: set[int] = set()
    for column, count, name in WORST:
        found = requests.drop_nulls(column).sort(column, descending=True).head(count)
        for number in found["request"].to_list():
            if number in seen:
                continue
            seen.add(number)
            breakdown = request_latency(point.result, number)
            rows = breakdown.rows
            length = (rows["end_ps"] - rows["start_ps"]).to_numpy()
            stage = rows["stage"].to_numpy()
            values = [float(length[stage == one].sum()) for one in LABELS]
            prompt, output = (breakdown.request[f"{one}_tokens"] for one in ("prompt", "output"))
            tokens = f"{prompt:,} prompt tokens, {output:,} output tokens"
            title = f"request {number} ({name}; {tokens})"
            yield title, values, list(_story(point, breakdown))


def _story(point: Point, breakdown: LatencyBreakdown) -> Iterator[str]:
    """Yield the longest gap of a request and the flow that its KV cache waited for."""
    one, gaps = breakdown.request, breakdown.gaps()
    first = format_time(one["ttft_ps"], 4) if one["ttft_ps"] is not None else "never"
    yield f"First token after {first}."
    if len(gaps):
        longest = gaps.sort("gap_ps", descending=True).row(0, named=True)
        told = [
            f"{name} {format_time(longest[key], 3)}"
            for key, name in {**GAP_PARTS, "down_ps": "instance down"}.items()
            if longest[key]
        ]
        gap = format_time(longest["gap_ps"], 4)
        yield f"{gap} before token {longest['token']}, its longest gap: {', '.join(told)}."
    for row in breakdown.rows.drop_nulls("flow").iter_rows(named=True):
        flow, flows = int(row["flow"]), flows_of(point)
        times = row["flow_ps"] / max(1, row["ideal_ps"])
        yield (
            f"The last of {one['kv_flows']} KV cache flows was {flows.title(flow)}, "
            f"{format_number(times, 3)} times the time alone."
        )
        yield " ".join(flows.story(flow, flows.busiest(flow)))
