"""The slowest flows: their time divided, their paths, and who shared these."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netsim.html_report.flow_stories import flow_bars, flows_of
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of

ORDER = 60
MOST = 12


def slowest_flows(point: Point, most: int) -> list[int]:
    """Return the started flows that took longest beyond their time alone."""
    flows = flows_of(point)
    started = point.result.flows["start_ps"].is_not_null().to_numpy()
    longer = np.where(started, flows.time - flows.ideal, -1)
    chosen = np.argsort(-longer, kind="stable")[:most]
    return [int(flow) for flow in chosen if longer[flow] > 0]


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    """Yield the flows with the longest time beyond that alone in the network."""
    result = point.result
    if point.is_ideal or point.graph is None or not len(result.flows):
        return
    flows, chosen = flows_of(point), slowest_flows(point, MOST)
    if not chosen:
        return
    text = [
        "Flows that lost the most time. Estimated from the tables: every flow is taken to send at "
        "its mean rate; its busiest link is the one where its own bytes and those of others took "
        "longest in its time.",
    ]
    if flows.paths is None:
        text.append("Packets take several paths, so only the links of both hosts are compared.")
    unit = unit_of(flows.time[chosen])
    part = flow_bars(flows, chosen, unit)
    yield Section("slowest", "Slowest flows", tuple(text), (part,))
