"""Parts of jobs' steps: compute, exposed communication by network and kind, bubble and skew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netsim.html_report import parts
from netsim.html_report.overview import FEW_POINTS
from netsim.html_report.parts import Section
from netsim.html_report.report import Report, unit_of
from netsim.units import format_time
from netsim.workloads.reports.job import forecast_text, jobs_of

ORDER = 3
MAX_STEPS = 6

COMPUTE, BUBBLE, SKEW, OTHER = "#56B4E9", "#999999", "#CC79A7", "#000000"
KINDS = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#8C510A", "#5E3C99", "#7A7A00", "#F0E442")

WAITS = {
    "bubble": "waiting for messages not yet sent (bubble)",
    "skew": "waiting for others in a collective (skew)",
    "other": "other",
}


def headlines(report: Report) -> Iterator[str | parts.Part]:
    """Yield what a step's time was spent on, by point; of many points, as a table."""
    if len(report.simulated) > FEW_POINTS:
        yield from _last_steps(report)
        return
    for point in report.simulated:
        jobs = jobs_of(point.result.summary)
        for job in jobs:
            if not job["steps"]:
                continue
            step = _shown(job)
            named = _parts(step)
            order = sorted(named, key=lambda name: -named[name])
            told = [f"{name} {100 * named[name] / step['time_ps']:.1f} %" for name in order[:5]]
            of = f"{point.label}: a" if len(report.simulated) > 1 else "A"
            whose = f" of {job['name']}" if len(jobs) > 1 else ""
            time = format_time(int(step["time_ps"]), 4)
            if found := job.get("forecast"):
                yield f"{of} step of the whole job{whose}: {forecast_text(found)}."
                time += " by forecast"
            yield f"{of} step{whose} takes {time}: {', '.join(told)}."
            if named and not order[0].startswith("compute"):
                yield f"Ranks wait for communication for {_waiting(step)}."


def _shown(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the whole job's step, forecast from a sample, or the last simulated one."""
    found = job.get("forecast")
    return {**found, "time_ps": found["step_ps"]} if found else job["steps"][-1]


def _last_steps(report: Report) -> Iterator[parts.Part]:
    """Yield a table of the last step of each job of each point, if there are jobs."""
    found = [
        (point.label, job, _shown(job))
        for point in report.simulated
        for job in jobs_of(point.result.summary)
        if job["steps"]
    ]
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
    """Return how long ranks wait for communication, in total and over each network."""
    by: dict[str, float] = {}
    for named, time in step["exposed_ps"].items():
        network = named.partition(" ")[0]
        by[network] = by.get(network, 0) + time
    total = sum(by.values())
    shares = [f"{network} {100 * time / step['time_ps']:.1f} %" for network, time in by.items()]
    share = f"{100 * total / step['time_ps']:.1f} %"
    return f"{format_time(int(total), 4)} of it ({share}: {', '.join(shares)})"


def _parts(step: Mapping[str, Any]) -> dict[str, float]:
    found = {"compute": float(step["compute_ps"])}
    for kind, time in step["exposed_ps"].items():
        found[f"exposed {kind}".rstrip()] = float(time)
    for key, name in WAITS.items():
        if step.get(f"{key}_ps"):
            found[name] = float(step[f"{key}_ps"])
    return found


def comparison(report: Report) -> Iterator[Section]:
    """Yield a bar per step and point, if the results are of a job."""
    rows: list[tuple[str, dict[str, float], list[str]]] = []
    for point in report.simulated:
        jobs = jobs_of(point.result.summary)
        for job in jobs:
            whose = f" of {job['name']}" if len(jobs) > 1 else ""
            steps = [(f"step {k}", one) for k, one in enumerate(job["steps"][:MAX_STEPS])]
            if found := job.get("forecast"):
                # Parts of a scaled sample would be invisible beside the job's.
                whole = [("forecast", found), ("formula", found["formula"])]
                steps = [(name, {**one, "time_ps": one["step_ps"]}) for name, one in whole]
            for name, step in steps:
                time = format_time(int(step["time_ps"]), 4)
                base = job.get("mfu_base") or "peak"
                mfu = (
                    f", MFU {100 * step['mfu']:.1f} % of {base}" if step["mfu"] is not None else ""
                )
                title = f"{point.label}, {name}{whose}: {time}{mfu}"
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
    text = (
        "Means of the ranks. Exposed: time in which ranks wait for this communication, over the "
        "scale-up network (such as NVLink) or any other (scale-out)."
    )
    yield Section("steps", "Steps", (text,), (parts.bars(categories, unit, made),))
