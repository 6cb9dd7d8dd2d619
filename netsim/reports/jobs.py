"""Jobs of one run (traffic `jobs`): hosts, times and flows of each, and mutual slowdowns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from netsim.common.terminal import Column, Wide, axis_columns, number, time_columns
from netsim.model.columns import Ints
from netsim.model.traffic import Job, Jobs
from netsim.reports.flows import flow_metrics
from netsim.results.run_result import Run, Table

ORDER = 12  # after the table of flows

RUN = "traffic.run"  # axis of the jobs that run
ALL = "all"
MAX_HOSTS = 24  # maximum characters for the hosts of a job


def report(run: Run) -> dict[str, Any]:
    """Add the column `job` of flows; return the metrics of each job."""
    jobs = run.scenario.load.part(Jobs)
    if jobs is None:
        return {}
    flows = run.tables["flows"]
    names = np.full(flows["flow"].size, "", object)
    ends_ps = None
    if run.engine is not None and run.engine.tasks is not None:
        ends_ps = run.engine.task_states().end_ps
    found = []
    for job in jobs.jobs:
        its = slice(job.first_flow, job.first_flow + job.n_flows)
        names[its] = job.name
        own = {name: column[its] for name, column in flows.items()}
        found.append(_metrics(job, own, ends_ps))
    flows["job"] = names.astype(str)
    return {"placement": found}


def _metrics(job: Job, flows: Table, ends_ps: Ints | None) -> dict[str, Any]:
    """Return a job's hosts, start, end, duration (None if it did not end) and flow metrics; for a
    job of a list also its arrival and its wait."""
    done = np.where(flows["fct_ps"] < 0, -1, flows["start_ps"] + flows["fct_ps"])
    done = done if ends_ps is None else np.concatenate([done, ends_ps[job.tasks]])
    end_ps = int(done.max()) if done.min() >= 0 else None
    start_ps: int | None = job.start_ps
    queue: dict[str, int | None] = {}
    if job.start_task >= 0 and ends_ps is not None:
        start_ps = int(ends_ps[job.start_task]) if ends_ps[job.start_task] >= 0 else None
        queued_ps = None if start_ps is None else start_ps - job.start_ps
        queue = {"arrival_ps": job.start_ps, "queued_ps": queued_ps}
    return {
        "job": job.name,
        "hosts": _ranges(job.hosts),
        "n_hosts": job.hosts.size,
        **queue,
        "start_ps": start_ps,
        "end_ps": end_ps,
        "time_ps": None if end_ps is None or start_ps is None else end_ps - start_ps,
        **flow_metrics(flows),
    }


def _ranges(hosts: Ints) -> str:
    """Return hosts in their order, with ranges as in experiment files: "0..7, 12"."""
    cuts = [0, *(np.flatnonzero(np.diff(hosts) != 1) + 1).tolist(), hosts.size]
    runs = [(hosts[first], hosts[last - 1]) for first, last in pairwise(cuts)]
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in runs)


def _short(hosts: str) -> str:
    return hosts if len(hosts) <= MAX_HOSTS else f"{hosts[:MAX_HOSTS].rpartition(',')[0]}, ..."


def sections(summary: Mapping[str, Any]) -> Iterator[Wide]:
    if summary.get("placement"):
        yield _table(told([({}, summary)]), [], "Jobs on their hosts")


class Told(NamedTuple):
    """A job of the point with this index, and its duration alone, if it also ran alone."""

    point: int
    job: Mapping[str, Any]
    alone_ps: int | None

    @property
    def slowdown(self) -> float | None:
        together_ps = self.job["time_ps"]
        return together_ps / self.alone_ps if together_ps and self.alone_ps else None


def told(points: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[Told]:
    """Return the jobs of `points`, which are pairs of axis values and summary. If jobs also ran
    alone, return only the jobs that ran together."""
    found, alone = [], {}
    for k, (axes, summary) in enumerate(points):
        shared = {axis: str(value) for axis, value in axes.items() if axis != RUN}
        for job in summary.get("placement", ()):
            key = (*sorted(shared.items()), job["job"])
            found.append((k, key, job))
            if axes.get(RUN) == job["job"]:
                alone[key] = job["time_ps"]
    together = [one for one in found if points[one[0]][0].get(RUN) == ALL]
    if not (together and alone):
        return [Told(k, job, None) for k, _, job in found]
    return [Told(k, job, alone.get(key)) for k, key, job in together]


def sweep_sections(
    rows: Sequence[Mapping[str, Any]], summaries: Sequence[Mapping[str, Any]], axes: Sequence[str]
) -> Iterator[Wide]:
    """Yield the jobs of each point; if some also ran alone, only the jobs that ran together."""
    points = [
        ({axis: row.get(axis) for axis in (*axes, "seed")}, one)
        for row, one in zip(rows, summaries, strict=True)
    ]
    jobs = told(points)
    if not jobs:
        return
    is_alone = any(one.alone_ps is not None for one in jobs)
    shown = [axis for axis in axes if axis != RUN or not is_alone]
    columns = axis_columns([rows[one.point] for one in jobs], shown)
    yield _table(jobs, columns, "Jobs, alone and together" if is_alone else "Jobs on their hosts")


def _table(jobs: Sequence[Told], columns: list[Column], title: str) -> Wide:
    each = [one.job for one in jobs]
    columns += [
        Column("job", [job["job"] for job in each], left=True),
        Column("hosts", [str(job["n_hosts"]) for job in each], rank=2),
        Column("", [_short(job["hosts"]) for job in each], rank=4, left=True),
    ]
    starts, ends = [job["start_ps"] for job in each], [job["time_ps"] for job in each]
    times = [("start", starts, 1)] if any(starts) else []
    if any("queued_ps" in job for job in each):
        times = [(name, [job[f"{name}_ps"] for job in each], 1) for name in ("arrival", "queued")]
    alone = [one.alone_ps for one in jobs]
    is_alone = any(time is not None for time in alone)
    times += [("alone", alone, 0)] if is_alone else []
    times += [("together" if is_alone else "time", ends, 0)]
    columns += time_columns(times)
    if is_alone:
        columns.append(Column("slowdown", [number(one.slowdown) for one in jobs]))
    columns += time_columns([("FCT\np99", [job["fct_ps"]["p99"] for job in each], 3)])
    return Wide(columns, title=title, elsewhere="summary.json has all")
