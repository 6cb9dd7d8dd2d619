"""Who stopped whom by PFC: a tree from the switches that were not stopped themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.html_report import parts
from netsim.html_report.graph import per_link
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.units import format_time

if TYPE_CHECKING:
    import polars as pl

ORDER = 50
MAX_ROOTS, MAX_CHILDREN, MAX_DEPTH = 12, 8, 5

Stopped = dict[int, dict[int, int]]
"""Node -> nodes that it stopped -> for how long, in ps."""


def of_point(_report: Report, point: Point) -> Iterator[Section]:
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
    yield Section("pauses", "Who stopped whom", text, (parts.tree(roots),))


def _deadlock(cycle: pl.DataFrame) -> Section:
    """Return the links that wait for each other."""
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
    return Section("deadlock", "Deadlock", text, (parts.table(names, rows),))


def stopped_by(point: Point) -> tuple[Stopped, list[str]]:
    """Return who stopped whom, and the names of the nodes."""
    if point.graph is None:
        return {}, []
    links = point.result.links
    paused = per_link(links, "paused_ps")
    first = links.unique("link", keep="first").sort("link")
    start, end = first["from_node"].to_list(), first["to_node"].to_list()
    names = [""] * (max([*start, *end]) + 1)
    for node, name in zip(start, first["from_name"].to_list(), strict=True):
        plain = str(name).partition(":")[0]
        names[node] = plain if plain == f"h{node}" else str(name)
    found: Stopped = {}
    for a, b, link in zip(start, end, first["link"].to_list(), strict=True):
        if paused[link] > 0:  # b stopped a
            its = found.setdefault(b, {})
            its[a] = its.get(a, 0) + int(paused[link])
    return found, names


def pause_tree(stopped: Stopped, names: list[str], total_ps: int) -> list[dict[str, Any]]:
    """Return the roots: nodes by how much longer they stopped others than they were stopped."""
    suffered: dict[int, int] = {}
    for its in stopped.values():
        for node, time in its.items():
            suffered[node] = suffered.get(node, 0) + time
    excess = {node: sum(its.values()) - suffered.get(node, 0) for node, its in stopped.items()}
    roots = sorted(excess, key=lambda node: (suffered.get(node, 0) > 0, -excess[node]))
    if any(not suffered.get(node) for node in roots):
        roots = [node for node in roots if not suffered.get(node)]
    made = []
    for node in roots[:MAX_ROOTS]:
        time = sum(stopped[node].values())
        text = f"{names[node]} stopped {len(stopped[node]):,} neighbors, in total for "
        made.append(
            {
                "text": text + format_time(time, 4),
                "share": min(1.0, max(stopped[node].values()) / max(total_ps, 1)),
                "children": _children(stopped, names, (node,), total_ps),
            }
        )
    return made


def _children(
    stopped: Stopped, names: list[str], way: tuple[int, ...], total_ps: int
) -> list[dict[str, Any]]:
    its: Mapping[int, int] = stopped.get(way[-1], {})
    order = sorted(its, key=lambda node: -its[node])
    made: list[dict[str, Any]] = []
    for node in order[:MAX_CHILDREN]:
        again = node in way
        deeper = not again and len(way) < MAX_DEPTH
        text = f"{names[node]} stopped for {format_time(its[node], 4)}"
        made.append(
            {
                "text": text + (" (a cycle)" if again else ""),
                "share": min(1.0, its[node] / max(total_ps, 1)),
                "children": _children(stopped, names, (*way, node), total_ps) if deeper else [],
            }
        )
    if len(order) > MAX_CHILDREN:
        rest = order[MAX_CHILDREN:]
        made.append({"text": f"{len(rest):,} more, at most {format_time(its[rest[0]], 4)} each",
                     "share": 0.0, "children": []})  # fmt: skip
    return made


def longest_pause(point: Point) -> tuple[str, int] | None:
    """Return the link that was stopped longest and its time; None without pauses."""
    if point.graph is None:
        return None
    paused = per_link(point.result.links, "paused_ps")
    link = int(np.argmax(paused)) if len(paused) else 0
    return (point.graph.link_names[link], int(paused[link])) if paused.any() else None
