"""Jobs: parts of their steps (compute, exposed communication by network and kind, bubble and skew);
the timeline of a run's tasks, with the critical path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.html_report import parts
from netsim.html_report.overview import FEW_POINTS
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of
from netsim.plots import style
from netsim.units import format_time
from netsim.workloads.plots import timeline
from netsim.workloads.reports.job import (
    MAX_STEPS,
    forecast_text,
    jobs_of,
    step_parts,
    whole_steps,
)
from netsim.workloads.tracing.critical_path import CriticalPath, critical_path

ORDER, TIMELINE = 3, 20  # position of the steps, and of the timeline

COMPUTE, BUBBLE, SKEW, OTHER = style.SKY, style.GRAY, style.PINK, style.BLACK
KINDS = (
    *(style.VERMILION, style.ORANGE, style.GREEN, style.BLUE, style.BROWN),
    *(style.PURPLE, style.OLIVE, style.YELLOW),
)

WAITS = {
    "bubble": "waiting for messages not yet sent (bubble)",
    "skew": "waiting for others in a collective (skew)",
    "other": "other",
}


def headlines(report: Report) -> Iterator[str | parts.Part]:
    """Yield the parts of steps, and of the critical path of a single run."""
    yield from _steps_told(report)
    yield from _path_told(report)


def _steps_told(report: Report) -> Iterator[str | parts.Part]:
    """Yield the breakdown of a step's time by point, as a table if there are many points."""
    if len(report.simulated) > FEW_POINTS:
        yield from _last_steps(report)
        return
    for point, job, whose in _jobs(report):
        step = _shown(job)
        named = _parts(step)
        order = sorted(named, key=lambda name: -named[name])
        told = [f"{name} {100 * named[name] / step['time_ps']:.1f} %" for name in order[:5]]
        of = f"{point.label}: a" if len(report.simulated) > 1 else "A"
        time = format_time(int(step["time_ps"]), 4)
        if found := job.get("forecast"):
            yield f"{of} step of the whole job{whose}: {forecast_text(found)}."
            time += " by forecast"
        yield f"{of} step{whose} takes {time}: {', '.join(told)}."
        if named and not order[0].startswith("compute"):
            yield f"Ranks wait for communication for {_waiting(step)}."


def _jobs(report: Report) -> Iterator[tuple[Point, Mapping[str, Any], str]]:
    """Yield each job with a step, its point, and " of NAME" if the point has several jobs."""
    for point in report.simulated:
        jobs = jobs_of(point.result.summary)
        for job in jobs:
            if job["steps"]:
                yield point, job, f" of {job['name']}" if len(jobs) > 1 else ""


def _shown(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the whole job's step, forecast from a sample, or the last simulated one."""
    whole = whole_steps(job)
    return whole[0][1] if whole else job["steps"][-1]


def _last_steps(report: Report) -> Iterator[parts.Part]:
    """Yield a table of the last step of each job of each point, if there are jobs."""
    found = [(point.label, job, _shown(job)) for point, job, _ in _jobs(report)]
    if not found:
        return
    unit, scale = unit_of([step["time_ps"] for _, _, step in found])
    names = list(dict.fromkeys(name for _, _, step in found for name in _parts(step)))
    rows = []
    for label, job, step in found:
        time, mfu, its = step["time_ps"], step["mfu"], _parts(step)
        shares = (100 * its.get(name, 0) / time for name in names)
        rows.append([label, job["name"], time / scale, mfu and 100 * mfu, *shares])
    titles = (f"{name}, %" for name in ("MFU", *names))
    yield parts.table(["point", "job", f"step, {unit}", *titles], rows)


def _waiting(step: Mapping[str, Any]) -> str:
    by: dict[str, float] = {}
    for named, time in step["exposed_ps"].items():
        network = named.partition(" ")[0]
        by[network] = by.get(network, 0) + time
    total = sum(by.values())
    shares = [f"{network} {100 * time / step['time_ps']:.1f} %" for network, time in by.items()]
    share = f"{100 * total / step['time_ps']:.1f} %"
    return f"{format_time(int(total), 4)} of it ({share}: {', '.join(shares)})"


def _parts(step: Mapping[str, Any]) -> dict[str, float]:
    return {WAITS.get(name, name): time for name, time in step_parts(step).items()}


def comparison(report: Report) -> Iterator[Section]:
    """Yield a bar per step and point, if the results have a job."""
    rows: list[tuple[str, dict[str, float]]] = []
    for point, job, whose in _jobs(report):
        steps = [(f"step {k}", one) for k, one in enumerate(job["steps"][:MAX_STEPS])]
        # Parts of a scaled sample would be invisible beside the job's.
        for name, step in whole_steps(job) or steps:
            mfu, base = step["mfu"], job.get("mfu_base") or "peak"
            time = format_time(int(step["time_ps"]), 4)
            time += "" if mfu is None else f", MFU {100 * mfu:.1f} % of {base}"
            rows.append((f"{point.label}, {name}{whose}: {time}", _parts(step)))
    if not rows:
        return
    names = list(dict.fromkeys(name for _, step in rows for name in step))
    names.sort(key=lambda name: (name in WAITS.values(), name != "compute"))
    kinds = iter(KINDS * (1 + len(names) // len(KINDS)))
    fixed = {"compute": COMPUTE, **dict(zip(WAITS.values(), (BUBBLE, SKEW, OTHER), strict=True))}
    categories = [(name, fixed.get(name) or next(kinds)) for name in names]
    unit, scale = unit_of([max(sum(step.values()) for _, step in rows)])
    made = [
        parts.bar_row(title, [step.get(name, 0) / scale for name in names], [])
        for title, step in rows
    ]
    text = (
        "Means of the ranks. Exposed: time in which ranks wait for this communication, over the "
        "scale-up network (such as NVLink) or any other (scale-out)."
    )
    yield Section("steps", "Steps", (text,), (parts.bars(categories, unit, made),))


PATH_HOSTS, SHORT = 8, 2000
"""Hosts with the longest time on the critical path; its segments shorter than 1/SHORT of the time
are joined."""


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    result = point.result
    if result.tasks is None:
        return
    path, why = _path(point)
    hosts = None if path is None else path.hosts(PATH_HOSTS) or None
    try:
        found = timeline.timeline_of(
            [result], timeline.View(hosts, path=path), timeline.MAX_ROWS
        ).merged(timeline.RESOLUTION)
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
    yield Section("timeline", "Timeline", tuple(text), tuple(made), TIMELINE)


def _path_told(report: Report) -> Iterator[str]:
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


def _drawing(found: timeline.Timeline, path: CriticalPath | None) -> dict[str, Any]:
    bars = found.bars
    unit, scale = unit_of([found.to_ps])
    styles = timeline.bar_styles(bars)
    names = list(styles)
    number = {name: k for k, name in enumerate(names)}
    x, y = np.zeros(0), np.zeros(0)
    if path is not None:
        short = (found.to_ps - found.from_ps) / SHORT
        x, y = timeline.path_line(path.segments, found.rows, short)
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
