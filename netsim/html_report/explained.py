"""With `--explain N`: the slowest flows simulated again, their time by exact causes."""

from __future__ import annotations

from collections.abc import Iterator

from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.html_report.slowest import slowest_flows
from netsim.tracing.causes import CAUSES
from netsim.tracing.record import Replay
from netsim.tracing.why import explain_flows

ORDER = 58

COLORS = (
    "#009E73", "#D55E00", "#E69F00", "#CC79A7", "#0072B2", "#56B4E9", "#8C510A", "#5E3C99",
    "#7A7A00", "#F0E442", "#000000", "#999999", "#A6CEE3", "#B2DF8A", "#FB9A99", "#CAB2D6",
)  # fmt: skip


def of_point(report: Report, point: Point) -> Iterator[Section]:
    """Yield the explained flows of the worst point."""
    if not report.explain or point is not report.worst:
        return
    times = point.result.flows["fct_ps"]
    chosen = [flow for flow in slowest_flows(point, report.explain) if times[flow] is not None]
    if not chosen:
        return
    found = explain_flows(Replay.of(point.result, trust=point.trust), chosen)
    causes = list(dict.fromkeys(cause for one in found.values() for cause in one.by_cause()))
    causes.sort(key=list(CAUSES).index)
    unit = unit_of(one.total_ps for one in found.values())
    rows = [
        parts.bar_row(
            one.subject, [one.by_cause().get(c, 0) / unit[1] for c in causes], [one.text()]
        )
        for one in found.values()
    ]
    categories = [(CAUSES[c], COLORS[list(CAUSES).index(c) % len(COLORS)]) for c in causes]
    text = "Simulated again with recording on, as by netsim why: every part is exact."
    part = parts.bars(categories, unit[0], rows)
    yield Section("explained", "Slowest flows, explained", (text,), (part,))
