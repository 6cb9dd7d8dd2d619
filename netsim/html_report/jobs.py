"""Jobs of one run (traffic `jobs`): their hosts, and their durations alone and together."""

from __future__ import annotations

from collections.abc import Iterator

from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Report, unit_of
from netsim.reports.jobs import told

ORDER = 12


def comparison(report: Report) -> Iterator[Section]:
    jobs = told([(one.result.experiment["axes"], one.result.summary) for one in report.points])
    if not jobs:
        return
    unit, scale = unit_of([one.job["time_ps"] or 0 for one in jobs])
    came = ("arrival", "queued") if "queued_ps" in jobs[0].job else ("start",)
    rows = [
        [
            report.points[one.point].label,
            one.job["job"],
            one.job["hosts"],
            *(None if time is None else time / scale for time in times),
            one.slowdown,
        ]
        for one in jobs
        for times in [
            (*(one.job.get(f"{name}_ps") for name in came), one.alone_ps, one.job["time_ps"])
        ]
    ]
    names = (f"{name}, {unit}" for name in (*came, "alone", "time"))
    made = parts.table(["point", "job", "hosts", *names, "slowdown"], rows)
    text = [
        f"{one.job['job']} takes {one.slowdown:.4g} times as long with the others as alone "
        f"({report.points[one.point].label})."
        for one in sorted(jobs, key=lambda one: -(one.slowdown or 0))[:1]
        if one.slowdown
    ]
    yield Section("jobs", "Jobs", tuple(text), (made,))
