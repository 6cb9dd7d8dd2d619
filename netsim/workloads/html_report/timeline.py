"""The timeline of a run's tasks, with the critical path."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.units import format_time
from netsim.workloads.plots.timeline import MAX_ROWS, RESOLUTION, bar_styles, path_line
from netsim.workloads.plots.timeline_bars import Timeline, View, timeline_of
from netsim.workloads.tracing.critical_path import CriticalPath, critical_path

ORDER = 20
PATH_HOSTS, SHORT = 8, 2000
"""Hosts with the longest time on the critical path; its segments shorter than 1/SHORT of the time
are joined."""


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    """Yield the timeline of a result with tasks."""
    result = point.result
    if result.tasks is None:
        return
    path, why = _path(point)
    hosts = None if path is None else path.hosts(PATH_HOSTS) or None
    try:
        found = timeline_of([result], View(hosts, path=path), MAX_ROWS).merged(RESOLUTION)
    except InputError:
        return
    text = [f"{found.left_out:,} more rows are left out."] if found.left_out else []
    made = [_drawing(found, path)]
    if path is None:
        text.append(f"Without the critical path: {why}.")
    else:
        text.append(
            f"The {len(hosts or ())} hosts with the longest time on the critical path, the chain "
            "of tasks and flows back from the end. Only what shortens it ends the run earlier."
        )
        made.append(_by_kind(path))
    yield Section("timeline", "Timeline", tuple(text), tuple(made))


def headlines(report: Report) -> Iterator[str]:
    """Yield what the critical path of a single run consists of."""
    if len(report.simulated) != 1 or report.simulated[0].result.tasks is None:
        return
    path, _ = _path(report.simulated[0])
    if path is None or not path.end_ps:
        return
    total, told = path.end_ps - path.start_ps, []
    for row in path.by_kind().head(3).iter_rows(named=True):
        name = f"{row['segment_type']} {row['kind'] or ''}".strip()
        beyond = row["waited_ps"]
        more = f" ({100 * beyond / total:.0f} % beyond the time alone)" if beyond else ""
        told.append(f"{name} {100 * row['time_ps'] / total:.0f} %{more}")
    yield f"The critical path, {format_time(total, 4)}: {', '.join(told)} and others."


@lru_cache(maxsize=1)
def _path(point: Point) -> tuple[CriticalPath | None, str]:
    """Return the critical path, or why there is none."""
    try:
        return critical_path(point.result, trust=point.trust), ""
    except InputError as error:
        return None, error.message


def _drawing(found: Timeline, path: CriticalPath | None) -> dict[str, Any]:
    """Return rows, bars and the path's line."""
    bars = found.bars
    unit, scale = unit_of([found.to_ps])
    styles = bar_styles(bars)
    names = list(styles)
    number = {name: k for k, name in enumerate(names)}
    x, y = np.zeros(0), np.zeros(0)
    if path is not None:
        short = (found.to_ps - found.from_ps) / SHORT
        x, y = path_line(path.segments, found.rows, short)
    return {
        "kind": "timeline",
        "rows": found.rows["title"].to_list(),
        "unit": unit,
        "from": found.from_ps / scale,
        "to": found.to_ps / scale,
        "start": parts.array(bars["start_ps"].to_numpy() / scale, "f8"),
        "end": parts.array(bars["end_ps"].to_numpy() / scale, "f8"),
        "row": parts.array(bars["row"].to_numpy(), "u2"),
        "place": parts.array(bars["place"].to_numpy(), "u1"),
        "category": parts.array([min(number[c], 255) for c in bars["category"].to_list()], "u1"),
        "categories": names,
        "colors": [one.color for one in styles.values()],
        "path_x": parts.array(x / scale, "f8"),
        "path_y": parts.array(y, "f4"),
    }


def _by_kind(path: CriticalPath) -> parts.Part:
    """Return the time of the path by type and kind."""
    table = path.by_kind()
    unit, scale = unit_of(table["time_ps"].to_list())
    total = max(1, path.end_ps - path.start_ps)
    rows = [
        [
            f"{row['segment_type']} {row['kind'] or ''}".strip(),
            row["segments"],
            row["time_ps"] / scale,
            100 * row["time_ps"] / total,
            None if row["ideal_ps"] is None else row["ideal_ps"] / scale,
            None if row["waited_ps"] is None else row["waited_ps"] / scale,
        ]
        for row in table.filter(table["time_ps"] > 0).iter_rows(named=True)
    ]
    names = ("on the critical path", "segments", f"time, {unit}", "share, %",
             f"alone, {unit}", f"beyond, {unit}")  # fmt: skip
    return parts.table(names, rows)
