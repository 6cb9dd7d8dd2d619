"""The network, its links colored by a statistic, over time if it was sampled; the worst links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.html_report import parts
from netsim.html_report.graph import Graph, per_link
from netsim.html_report.parts import USED, Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.html_report.series import utilization_over_time
from netsim.units import format_number

ORDER = 30

Floats = NDArray[np.float64]

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

WORST = 12
"""Links with the highest values of each quantity that are listed."""


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    """Yield the drawing and the worst links, if the result has links."""
    graph = point.graph
    if graph is None:
        return
    values = dict(_values(point))
    drawing = _drawing(point, graph, values)
    failed = _failed(point, graph)
    text = [
        "Each half of a line is the link that starts at its end. Move over it for values; click a "
        "row below to find its link.",
        *_busiest(values, graph),
    ]
    drawing["failed"] = parts.array(failed, "i4")
    yield Section("network", "Network", tuple(text), (drawing, _worst(values, graph)))


def _values(point: Point) -> Iterator[tuple[str, tuple[Floats, str]]]:
    """Yield title -> (value of each link, how to join) of the quantities that occur."""
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
    frames = utilization_over_time(point)
    if frames is not None:
        times, unit, links, matrix = frames
        halves = graph.line_of[links]
        shown = halves >= 0
        joined, place = np.unique(halves[shown], return_inverse=True)
        most = np.zeros((len(joined), matrix.shape[1]))
        np.maximum.at(most, place, matrix[shown])
        drawing["frames"] = {
            "times": parts.array(times, "f8"),
            "unit": unit,
            "halves": parts.array(joined, "i4"),
            "cells": parts.array(np.round(np.clip(most, 0, 1) * 255), "u1"),
        }
    return drawing


def _failed(point: Point, graph: Graph) -> NDArray[np.int64]:
    """Return the lines with failed links."""
    faults = point.result.faults
    if faults is None:
        return np.zeros(0, np.int64)
    links = faults.filter(faults["event"] != "reroute")["link"].drop_nulls().to_numpy()
    halves = graph.line_of[links[links < len(graph.line_of)]]
    return np.unique(halves[halves >= 0] // 2)


def _busiest(values: dict[str, tuple[Floats, str]], graph: Graph) -> Iterator[str]:
    """Yield how busy the links between switches are."""
    if USED in values:
        yield from busiest_links(values[USED][0] / 100, graph)


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
    """Return a table of the links with the highest values of any quantity."""
    found: dict[int, None] = {}
    for values_of, _ in values.values():
        order = np.argsort(-values_of, kind="stable")[:WORST]
        found |= dict.fromkeys(order[values_of[order] > 0].tolist())
    rows = [[graph.link_names[k], *(float(v[k]) for v, _ in values.values())] for k in found]
    halves = [int(graph.line_of[k]) for k in found]
    return parts.table(["worst links", *values], rows, links=halves)
