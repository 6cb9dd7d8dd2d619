"""Breakdown of the slowest flows' time: alone, sharing a link with other flows, or neither.

This is an estimate from the result's tables, which assumes that each flow sends at its mean rate
from start to end. On the most used link of the flow's path, the bytes of other flows took time that
the flow did not get. In the rest of the time that link was idle or repeated packets: pauses,
timeouts, congestion control, queues elsewhere.

With `--explain N`, the slowest flows are simulated again to find the exact causes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netsim.frozen import frozen
from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.model.columns import Floats, Ints
from netsim.plots import style
from netsim.plots.networks import per_link
from netsim.tracing.causes import CAUSES
from netsim.tracing.record import Replay
from netsim.tracing.why import explain_flows
from netsim.units import format_bytes, format_time

ORDER, EXPLAINED = 60, 58  # positions of the slowest and of the explained flows


CATEGORIES = (
    ("alone in the network", style.GREEN),
    ("other flows on its busiest link", style.VERMILION),
    ("stopped, waiting or repeating", style.GRAY),
)
MAX_SHARERS, MAX_PAUSED = 4, 3


@frozen
class Sharing:
    """A link of a flow's path, or all ports of one of its hosts, and the bytes that other flows
    moved there meanwhile."""

    name: str
    rate_bps: float
    flows: Ints
    moved: Floats


class Flows:
    """The flows of a point as arrays, with an index from links to flows."""

    def __init__(self, point: Point) -> None:
        self.point = point
        table, links = point.result.flows, point.result.links
        end_ps = int(point.result.summary["simulated_ps"])
        self.src, self.dst, self.size, self.ideal = (
            table[name].to_numpy() for name in ("src", "dst", "size_bytes", "ideal_ps")
        )
        self.start = table["start_ps"].fill_null(end_ps).to_numpy()
        fct = table["fct_ps"].fill_null(-1).to_numpy()
        self.end = np.where(fct >= 0, self.start + fct, np.maximum(end_ps, self.start))
        self.time = np.maximum(self.end - self.start, 1)
        self.paths = point.paths
        first = links.filter(links["traffic_class"] == 0).sort("link")
        self.rate = per_link(first, "rate_bps")
        self.paused = per_link(links, "paused_ps")
        self.lost = per_link(links, "drops") + per_link(links, "lost")
        self.ends = first["from_node"].to_numpy(), first["to_node"].to_numpy()
        if self.paths is not None:
            order = np.argsort(self.paths, axis=None, kind="stable")
            self.sorted_links = self.paths.ravel()[order]
            self.flow_of = order // self.paths.shape[1]

    def on_link(self, link: int) -> Ints:
        """Return the flows whose path has a link."""
        first, last = np.searchsorted(self.sorted_links, [link, link + 1])
        found: Ints = self.flow_of[first:last]
        return found

    def path(self, flow: int) -> list[int]:
        """Return the links of a flow's path; empty if its packets take several."""
        return (
            [] if self.paths is None else [link for link in self.paths[flow].tolist() if link >= 0]
        )

    def _users(self, flow: int) -> Iterator[tuple[str, float, Ints]]:
        """Yield name, rate and flows of each link of a path, or of the ports of both hosts."""
        graph = self.point.graph
        assert graph is not None
        for link in self.path(flow):
            yield graph.link_names[link], float(self.rate[link]), self.on_link(link)
        if self.paths is None:
            for end, nodes, name in zip(
                (self.src, self.dst), self.ends, ("out of", "into"), strict=True
            ):
                host = int(end[flow])
                rate = float(self.rate[nodes == host].sum())
                yield f"links {name} h{host}", rate, np.flatnonzero(end == host)

    def busiest(self, flow: int) -> Sharing | None:
        best, top = None, -1.0
        for name, rate, users in self._users(flow):
            others = users[users != flow]
            together = np.minimum(self.end[others], self.end[flow]) - np.maximum(
                self.start[others], self.start[flow]
            )
            others, together = others[together > 0], together[together > 0]
            moved = self.size[others] * (together / self.time[others])
            used = float(moved.sum() + self.size[flow]) / max(rate, 1.0)
            if used > top:
                top, best = used, Sharing(name, rate, others, moved)
        return best

    def budget(self, flow: int, sharing: Sharing | None) -> list[float]:
        """Return the time of a flow in ps by CATEGORIES."""
        total, alone = float(self.time[flow]), float(self.ideal[flow])
        alone = min(alone, total)
        shared = 0.0
        if sharing is not None and sharing.rate_bps > 0:
            shared = min(total - alone, float(sharing.moved.sum()) * 8e12 / sharing.rate_bps)
        return [alone, shared, total - alone - shared]

    def story(self, flow: int, sharing: Sharing | None) -> Iterator[str]:
        graph, path = self.point.graph, self.path(flow)
        if graph is not None and path:
            nodes = [graph.link_names[path[0]].partition(" → ")[0]]
            nodes += [graph.link_names[link].partition(" → ")[2] for link in path]
            yield f"Path: {' → '.join(nodes)}."
        if sharing is not None:
            yield self._shared(flow, sharing)
        stopped = sorted(path, key=lambda link: -self.paused[link])[:MAX_PAUSED]
        told = [f"{graph.link_names[k]} for {format_time(int(self.paused[k]), 4)}"
                for k in stopped if graph is not None and self.paused[k] > 0]  # fmt: skip
        if told:
            yield f"PFC stopped, over the whole run: {', '.join(told)}."
        lost = int(sum(self.lost[link] for link in path))
        if lost:
            yield f"Links of the path dropped or lost {lost:,} packets of all flows."
        repeated = int(self.point.result.flows["retransmits"][flow])
        if repeated:
            packets = int(self.point.result.flows["packets"][flow])
            yield f"It sent {repeated:,} of its {packets:,} packets again."

    def _shared(self, flow: int, sharing: Sharing) -> str:
        if not len(sharing.flows):
            return f"No other flow used {sharing.name} in its time."
        order = np.argsort(-sharing.moved, kind="stable")[:MAX_SHARERS]
        named = ", ".join(
            f"flow {other} ({self.route(other)}, {format_bytes(int(moved), 3)})"
            for other, moved in zip(
                sharing.flows[order].tolist(), sharing.moved[order].tolist(), strict=True
            )
        )
        count, total = len(sharing.flows), format_bytes(int(sharing.moved.sum()), 3)
        more = f" and {count - len(order):,} more" if count > len(order) else ""
        many = "flow" if count == 1 else "flows"
        return (
            f"Shared with {count:,} {many} on {sharing.name}: they moved {total} there while it "
            f"moved {format_bytes(int(self.size[flow]), 3)}: {named}{more}."
        )

    def route(self, flow: int) -> str:
        """Return "h3 → h9"."""
        return f"h{self.src[flow]} → h{self.dst[flow]}"

    def title(self, flow: int) -> str:
        """Return a flow's number, hosts, size and time."""
        size, time = format_bytes(int(self.size[flow]), 4), format_time(int(self.time[flow]), 4)
        return f"flow {flow}: {self.route(flow)}, {size} in {time}"


@lru_cache(maxsize=1)
def flows_of(point: Point) -> Flows:
    """Return the flows of a point; keep the last point's flows."""
    return Flows(point)


def flow_bars(flows: Flows, chosen: Sequence[int], unit: tuple[str, float]) -> dict[str, Any]:
    rows = []
    for flow in chosen:
        sharing = flows.busiest(flow)
        values = [one / unit[1] for one in flows.budget(flow, sharing)]
        rows.append(parts.bar_row(flows.title(flow), values, list(flows.story(flow, sharing))))
    return parts.bars(CATEGORIES, unit[0], rows)


MOST = 12


def slowest_flows(point: Point, most: int) -> list[int]:
    """Return the started flows with the largest delay beyond their ideal time."""
    flows = flows_of(point)
    started = point.result.flows["start_ps"].is_not_null().to_numpy()
    longer = np.where(started, flows.time - flows.ideal, -1)
    chosen = np.argsort(-longer, kind="stable")[:most]
    return [int(flow) for flow in chosen if longer[flow] > 0]


def of_point(report: Report, point: Point) -> Iterator[Section]:
    """Yield the flows with the largest delay beyond their time alone in the network."""
    yield from _explained(report, point)
    result = point.result
    if point.is_ideal or point.graph is None or not len(result.flows):
        return
    flows, chosen = flows_of(point), slowest_flows(point, MOST)
    if not chosen:
        return
    text = [
        "Flows that lost the most time. Estimated from the tables: every flow is taken to send at "
        "its mean rate; its busiest link is the one where its own bytes and those of others took "
        "longest in its time."
    ]
    if flows.paths is None:
        text.append("Packets take several paths, so only the links of both hosts are compared.")
    unit = unit_of(flows.time[chosen])
    part = flow_bars(flows, chosen, unit)
    yield Section("slowest", "Slowest flows", tuple(text), (part,))


COLORS = (
    *(style.GREEN, style.VERMILION, style.ORANGE, style.PINK, style.BLUE, style.SKY, style.BROWN),
    *(style.PURPLE, style.OLIVE, style.YELLOW, style.BLACK, style.GRAY, "#A6CEE3", "#B2DF8A"),
)
"""A color for each cause."""


def _explained(report: Report, point: Point) -> Iterator[Section]:
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
    categories = [(CAUSES[c], COLORS[list(CAUSES).index(c)]) for c in causes]
    text = "Simulated again with recording on, as by netsim why: every part is exact."
    part = parts.bars(categories, unit[0], rows)
    yield Section("explained", "Slowest flows, explained", (text,), (part,), EXPLAINED)
