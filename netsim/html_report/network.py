"""The network with links colored by a statistic, and the worst links; heat maps of samples over
time; which node paused which by PFC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from netsim.common.documents import DAMAGED
from netsim.errors import InputError
from netsim.html_report import parts
from netsim.html_report.parts import USED, Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.model.columns import Floats
from netsim.plots.networks import Graph, failed_links, links_of_table, natural, per_link
from netsim.units import format_number, format_time

ORDER, AFTER = 30, 50  # position of the network and the heat maps, and of the pauses


QUANTITIES = (
    ("utilization", USED, "max", "%"),
    ("paused_ps", "time paused", "max", "time"),
    ("pfc_pauses_sent", "PFC frames sent", "sum", ""),
    ("max_queue_bytes", "largest queue (KB)", "max", "KB"),
    ("drops", "packets dropped", "sum", ""),
    ("trims", "packets trimmed", "sum", ""),
    ("ecn_marks", "packets marked by ECN", "sum", ""),
    ("lost", "packets lost on the link", "sum", ""),
)
"""Column -> title, how links of a line are joined, and unit."""

WORST = 12  # links with the highest values of each quantity that are listed


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    """Yield the drawing and the worst links, samples over time, and PFC pauses between nodes."""
    yield from _network(point)
    yield from _over_time(point)
    yield from _pauses(point)


def _network(point: Point) -> Iterator[Section]:
    graph = point.graph
    if graph is None:
        return
    values = dict(_values(point))
    drawing = _drawing(point, graph, values)
    halves = graph.line_of[failed_links(point.result.faults)]
    text = [
        "Each half of a line is the link that starts at its end. Move over it for values; click a "
        "row below to find its link.",
        *(busiest_links(values[USED][0] / 100, graph) if USED in values else ()),
    ]
    drawing["failed"] = parts.array(np.unique(halves[halves >= 0] // 2), "i4")
    yield Section("network", "Network", tuple(text), (drawing, _worst(values, graph)))


def _values(point: Point) -> Iterator[tuple[str, tuple[Floats, str]]]:
    """Yield (title, (value of each link, how to combine values)) for each nonzero quantity."""
    links = point.result.links
    for column, title, how, unit in QUANTITIES:
        if column not in links.columns:
            continue
        found = per_link(links, column)
        if not found.any():
            continue
        if unit == "KB":
            found = found / 1e3
        if unit == "%":
            found = 100 * found
        if unit == "time":
            name, scale = unit_of(found)
            found, title = found / scale, f"{title} ({name})"  # noqa: PLW2901
        yield title, (found, how)


def _drawing(point: Point, graph: Graph, values: dict[str, tuple[Floats, str]]) -> dict[str, Any]:
    half_links = np.bincount(graph.line_of[graph.line_of >= 0], minlength=2 * len(graph.ends))
    drawing: dict[str, Any] = {
        "kind": "network",
        "names": graph.names,
        "x": parts.array(graph.x),
        "y": parts.array(graph.y),
        "hosts": parts.array(graph.is_host, "u1"),
        "ends": parts.array(graph.ends.ravel(), "i4"),
        "links": parts.array(half_links, "i4"),
        "values": {
            title: {
                "of": parts.array(graph.per_half(found, how)),
                "top": 100.0 if title == USED else float(found.max()),
            }
            for title, (found, how) in values.items()
        },
    }
    ports = sampled(point, "port")
    if ports is not None:
        halves = graph.line_of[ports.index]
        shown = halves >= 0
        shared, place = np.unique(halves[shown], return_inverse=True)
        cells = ports.joined(ports.used)
        most = np.zeros((len(shared), cells.shape[1]))
        np.maximum.at(most, place, cells[shown])
        ends, unit = ports.ends
        drawing["frames"] = {
            "times": parts.array(ends, "f8"),
            "unit": unit,
            "halves": parts.array(shared, "i4"),
            "cells": parts.array(np.round(np.clip(most, 0, 1) * 255), "u1"),
        }
    return drawing


def busiest_links(used: Floats, graph: Graph) -> Iterator[str]:
    """Yield the mean and largest utilization of the links between switches."""
    hosts = {k for k, name in enumerate(graph.names) if graph.is_host[k]}
    shown = graph.line_of >= 0
    inner = np.zeros(len(used), bool)
    ends = graph.ends[graph.line_of[shown] // 2]
    inner[np.flatnonzero(shown)] = ~np.isin(ends, list(hosts)).any(axis=1)
    if inner.any():
        top = int(np.argmax(np.where(inner, used, -1)))
        yield (
            f"Links between switches are {percent(used[inner].mean())} utilized on average over "
            f"the run; the busiest, {graph.link_names[top]}, {percent(used[top])}."
        )


def percent(share: float) -> str:
    """Return a share as "12 %" or "0.34 %"."""
    return f"{format_number(100 * float(share), 2)} %"


def _worst(values: dict[str, tuple[Floats, str]], graph: Graph) -> parts.Part:
    found: dict[int, None] = {}
    for values_of, _ in values.values():
        order = np.argsort(-values_of, kind="stable")[:WORST]
        found |= dict.fromkeys(order[values_of[order] > 0].tolist())
    rows = [[graph.link_names[k], *(float(v[k]) for v, _ in values.values())] for k in found]
    halves = [int(graph.line_of[k]) for k in found]
    return parts.table(["worst links", *values], rows, links=halves)


MAX_ROWS, MAX_TIMES = 512, 400
"""Rows and intervals of a heat map; the rows with the most bytes are chosen, intervals joined."""

SAMPLED = {
    "port": (
        ("max_queue_bytes", "largest queue (KB)", "max"),
        ("paused_ps", "share of time paused", "time"),
        ("drops", "packets dropped", "sum"),
        ("trims", "packets trimmed", "sum"),
        ("ecn_marks", "packets marked", "sum"),
    ),
    "host": (("received_bytes", "rate received (Gbit/s)", "rate"),),
    "flow": (("delivered_bytes", "rate delivered (Gbit/s)", "rate"),),
}
"""Entity -> column, title, and how intervals are joined."""


def _over_time(point: Point) -> Iterator[Section]:
    maps = [one for entity in SAMPLED if (one := _map(point, entity)) is not None]
    if maps:
        text = "Click a row to see it as a line; choose the quantity above the map."
        yield Section("series", "Over time", (text,), tuple(maps))


class Sampled:
    """Samples of the entities of a kind: float64[entities, intervals] of each column.

    Ports with several classes have one row, with the sum. Raises InputError if entities have
    different intervals.
    """

    def __init__(self, point: Point, rows: pl.DataFrame, columns: Iterable[str]) -> None:
        self.index, first, place = np.unique(
            rows["entity_index"].to_numpy(), return_index=True, return_inverse=True
        )
        self.times, at = np.unique(rows["time_ps"].to_numpy(), return_inverse=True)
        if len(self.index) * len(self.times) > 2 * len(rows):
            raise InputError("entities have different intervals", key="series", hint=DAMAGED)
        self.step = -(-len(self.times) // MAX_TIMES)  # intervals that are joined into one
        self.names = [str(rows["name"][int(k)]) for k in first]
        self.lengths = np.diff(self.times, prepend=0)
        self.cells = {}
        for column in columns:
            if column in rows.columns:
                matrix = np.zeros((len(self.index), len(self.times)))
                values = rows[column].fill_null(0).to_numpy().astype(float)
                np.add.at(matrix, (place, at), values)
                self.cells[column] = matrix
        self.links = point.result.links

    @property
    def used(self) -> Floats:
        rates = dict(self.links.select("link", "rate_bps").rows())
        rate = np.array([rates.get(k, 0) for k in self.index.tolist()], float)
        used: Floats = 8e12 * self.cells["sent_bytes"] / np.maximum(rate[:, None] * self.lengths, 1)
        return used

    @property
    def ends(self) -> tuple[Floats, str]:
        """The ends of joined intervals, and their unit."""
        unit, scale = unit_of([self.times[-1]])
        return np.append(self.times[self.step - 1 : -1 : self.step], self.times[-1]) / scale, unit

    def joined(self, matrix: Floats) -> Floats:
        """Return the largest value of each group of joined intervals."""
        padded = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % self.step)))
        joined: Floats = padded.reshape(len(matrix), -1, self.step).max(axis=2)
        return joined


def sampled(point: Point, entity: str) -> Sampled | None:
    """Return the samples of a kind of entity, or None."""
    series = point.result.series
    rows = None if series is None else series.filter(series["entity"] == entity)
    if rows is None or not len(rows):
        return None
    return Sampled(point, rows, ["sent_bytes", *(column for column, _, _ in SAMPLED[entity])])


def _map(point: Point, entity: str) -> parts.Part | None:
    """Return the heat map of the entities of a kind."""
    its = sampled(point, entity)
    if its is None:
        return None
    names = its.names
    if entity == "port" and point.graph is not None:
        names = [point.graph.link_names[k] for k in its.index.tolist()]
    busiest = sorted(
        np.argsort(-its.cells["sent_bytes"].sum(axis=1), kind="stable")[:MAX_ROWS].tolist(),
        key=lambda k: natural(names[k]),
    )
    found = {USED: 100 * its.used} if entity == "port" else {}
    for column, title, how in SAMPLED[entity]:
        if column in its.cells and its.cells[column].any():
            per = {"time": 1 / its.lengths, "rate": 8e3 / its.lengths}.get(how, 1.0)
            found[title] = its.cells[column] * per / (1e3 if title.endswith("(KB)") else 1)
    ends, unit = its.ends
    shown = f", the {len(busiest):,} busiest of {len(names):,}" if len(busiest) < len(names) else ""
    joined = {title: its.joined(matrix[busiest]) for title, matrix in found.items()}
    title = f"{entity.capitalize()}s{shown}"
    return parts.heatmap(title, [names[k] for k in busiest], ends, unit, joined)


MAX_ROOTS, MAX_CHILDREN, MAX_DEPTH = 12, 8, 5

Stopped = dict[int, dict[int, int]]  # node -> nodes that it stopped -> for how long, in ps


def _pauses(point: Point) -> Iterator[Section]:
    """Yield the cycle of a deadlock, and the tree, if a port was paused."""
    if point.result.deadlock is not None and len(point.result.deadlock):
        yield _deadlock(point.result.deadlock)
    stopped, names = stopped_by(point)
    if not stopped:
        return
    text = (
        "A node stops a neighbor when packets from it fill a queue; the neighbor's queue fills "
        "then, and it may stop others. Bars are the time for which the neighbor's port was "
        "stopped, relative to the run.",
    )
    roots = pause_tree(stopped, names, int(point.result.summary["simulated_ps"]))
    yield Section("pauses", "Who stopped whom", text, (parts.tree(roots),), AFTER)


def _deadlock(cycle: pl.DataFrame) -> Section:
    unit, scale = unit_of([cycle["paused_since_ps"].max()])
    rows = [
        [
            f"{row['port']}, class {row['traffic_class']}",
            f"{row['waits_for_port']}, class {row['waits_for_class']}",
            row["held_bytes"] / 1e3,
            row["paused_since_ps"] / scale,
        ]
        for row in cycle.iter_rows(named=True)
    ]
    names = ("port", "waits for", "packets that wait there (KB)", f"stopped since ({unit})")
    text = ("These ports wait for each other in a cycle and never send again.",)
    return Section("deadlock", "Deadlock", text, (parts.table(names, rows),), AFTER)


def stopped_by(point: Point) -> tuple[Stopped, list[str]]:
    """Return how long each node stopped each other node, and the names of nodes."""
    if point.graph is None:
        return {}, []
    paused, links = per_link(point.result.links, "paused_ps"), links_of_table(point.result.links)
    found: Stopped = {}
    ends = zip(links.start.tolist(), links.end.tolist(), links.number.tolist(), strict=True)
    for a, b, link in ends:
        if paused[link] > 0:  # b stopped a
            its = found.setdefault(b, {})
            its[a] = its.get(a, 0) + int(paused[link])
    return found, links.names


def pause_tree(stopped: Stopped, names: list[str], total_ps: int) -> list[dict[str, Any]]:
    """Return the trees of pauses, one for each node that paused others but was not paused itself.

    If every node was paused, all are roots. Those that caused the longest pauses, minus the pauses
    they suffered, come first; `total_ps` is the length of the run."""
    suffered: dict[int, int] = {}
    for its in stopped.values():
        for node, time in its.items():
            suffered[node] = suffered.get(node, 0) + time
    excess = {node: sum(its.values()) - suffered.get(node, 0) for node, its in stopped.items()}
    roots = sorted(excess, key=lambda node: (suffered.get(node, 0) > 0, -excess[node]))
    if any(not suffered.get(node) for node in roots):
        roots = [node for node in roots if not suffered.get(node)]
    return [
        _node(
            f"{names[node]} stopped {len(stopped[node]):,} neighbors, in total for "
            f"{format_time(sum(stopped[node].values()), 4)}",
            max(stopped[node].values()) / max(total_ps, 1),
            _children(stopped, names, (node,), total_ps),
        )
        for node in roots[:MAX_ROOTS]
    ]


def _node(text: str, share: float, children: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": text, "share": min(1.0, share), "children": children}


def _children(
    stopped: Stopped, names: list[str], way: tuple[int, ...], total_ps: int
) -> list[dict[str, Any]]:
    its: Mapping[int, int] = stopped.get(way[-1], {})
    order = sorted(its, key=lambda node: -its[node])
    made = []
    for node in order[:MAX_CHILDREN]:
        again = node in way
        deeper = not again and len(way) < MAX_DEPTH
        text = f"{names[node]} stopped for {format_time(its[node], 4)}{' (a cycle)' * again}"
        below = _children(stopped, names, (*way, node), total_ps) if deeper else []
        made.append(_node(text, its[node] / max(total_ps, 1), below))
    if rest := order[MAX_CHILDREN:]:
        text = f"{len(rest):,} more, at most {format_time(its[rest[0]], 4)} each"
        made.append(_node(text, 0.0, []))
    return made


def longest_pause(point: Point) -> tuple[str, int] | None:
    """Return the link that was stopped longest and its time; None without pauses."""
    if point.graph is None:
        return None
    paused = per_link(point.result.links, "paused_ps")
    link = int(np.argmax(paused)) if len(paused) else 0
    return (point.graph.link_names[link], int(paused[link])) if paused.any() else None
