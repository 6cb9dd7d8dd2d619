"""Parts of a job's step: compute, exposed communication by kind, bubble and skew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Report, unit_of
from netsim.units import format_time

ORDER = 3
MAX_STEPS = 6

COMPUTE, BUBBLE, SKEW, OTHER = "#56B4E9", "#999999", "#CC79A7", "#000000"
KINDS = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#8C510A", "#5E3C99", "#7A7A00", "#F0E442")

WAITS = {
    "bubble": "waiting for messages not yet sent (bubble)",
    "skew": "waiting for others in a collective (skew)",
    "other": "other",
}


def headlines(report: Report) -> Iterator[str]:
    """Yield what a step's time was spent on, by point."""
    for point in report.simulated[:MAX_STEPS]:
        job = point.result.summary.get("job")
        if not job or not job["steps"]:
            continue
        step = job["steps"][-1]
        named = _parts(step)
        order = sorted(named, key=lambda name: -named[name])
        told = [f"{name} {100 * named[name] / step['time_ps']:.1f} %" for name in order[:5]]
        of = f"{point.label}: a" if len(report.simulated) > 1 else "A"
        yield f"{of} step takes {format_time(int(step['time_ps']), 4)}: {', '.join(told)}."
        if named and not order[0].startswith("compute"):
            exposed = sum(step["exposed_ps"].values())
            share = f"{100 * exposed / step['time_ps']:.1f} %"
            time = format_time(int(exposed), 4)
            yield f"Ranks wait for communication for {time} of it ({share})."


def _parts(step: Mapping[str, Any]) -> dict[str, float]:
    found = {"compute": float(step["compute_ps"])}
    for kind, time in step["exposed_ps"].items():
        found[f"exposed {kind}".rstrip()] = float(time)
    for key, name in WAITS.items():
        if step[f"{key}_ps"]:
            found[name] = float(step[f"{key}_ps"])
    return found


def comparison(report: Report) -> Iterator[Section]:
    """Yield a bar per step and point, if the results are of a job."""
    rows: list[tuple[str, dict[str, float], list[str]]] = []
    for point in report.simulated:
        job = point.result.summary.get("job")
        for number, step in enumerate((job or {}).get("steps", [])[:MAX_STEPS]):
            time = format_time(int(step["time_ps"]), 4)
            mfu = f", MFU {100 * step['mfu']:.1f} %" if step["mfu"] is not None else ""
            title = f"{point.label}, step {number}: {time}{mfu}"
            rows.append((title, _parts(step), []))
    if not rows:
        return
    names = list(dict.fromkeys(name for _, step, _ in rows for name in step))
    names.sort(key=lambda name: (name in WAITS.values(), name != "compute"))
    kinds = iter(KINDS * (1 + len(names) // len(KINDS)))
    fixed = {"compute": COMPUTE, **dict(zip(WAITS.values(), (BUBBLE, SKEW, OTHER), strict=True))}
    categories = [(name, fixed.get(name) or next(kinds)) for name in names]
    unit, scale = unit_of([max(sum(step.values()) for _, step, _ in rows)])
    made = [
        parts.bar_row(title, [step.get(name, 0) / scale for name in names], text)
        for title, step, text in rows
    ]
    text = "Means of the ranks. Exposed: time in which ranks wait for this communication."
    yield Section("steps", "Steps", (text,), (parts.bars(categories, unit, made),))
