"""Jobs of one run (traffic `jobs`): hosts, times and flows of each; how they slow each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from netsim.common.terminal import Column, Wide, number, time_columns
from netsim.model.columns import Ints
from netsim.model.traffic import Job, Jobs
from netsim.reports.flows import flow_metrics
from netsim.results.run_result import Run, Table

ORDER = 12  # after the table of flows

RUN = "traffic.run"  # axis of the jobs that run
ALL = "all"


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
        found.append(_metrics(job, own, None if ends_ps is None else ends_ps[job.tasks]))
    flows["job"] = names.astype(str)
    return {"placement": found}


def _metrics(job: Job, flows: Table, ends_ps: Ints | None) -> dict[str, Any]:
    """Return a job's hosts, start, end and duration (None if it did not end), and its flows'."""
    done = np.where(flows["fct_ps"] < 0, -1, flows["start_ps"] + flows["fct_ps"])
    done = done if ends_ps is None else np.concatenate([done, ends_ps])
    end_ps = int(done.max()) if done.min() >= 0 else None
    return {
        "job": job.name,
        "hosts": _ranges(job.hosts),
        "n_hosts": job.hosts.size,
        "start_ps": job.start_ps,
        "end_ps": end_ps,
        "time_ps": None if end_ps is None else end_ps - job.start_ps,
        **flow_metrics(flows),
    }


def _ranges(hosts: Ints) -> str:
    """Return hosts as in a file, in order: "0..7, 12"."""
    cuts = [0, *(np.flatnonzero(np.diff(hosts) != 1) + 1).tolist(), hosts.size]
    runs = [(hosts[first], hosts[last - 1]) for first, last in pairwise(cuts)]
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in runs)


def sections(summary: Mapping[str, Any]) -> Iterator[Wide]:
    if jobs := summary.get("placement"):
        yield _table(jobs, [], "Jobs on their hosts")


def sweep_sections(
    rows: Sequence[Mapping[str, Any]], summaries: Sequence[Mapping[str, Any]], axes: Sequence[str]
) -> Iterator[Wide]:
    """Yield the jobs of each point; where some ran alone, those that ran together."""
    found = [
        (row, job)
        for row, one in zip(rows, summaries, strict=True)
        for job in one.get("placement", ())
    ]
    alone = {
        _key(row, axes, job): job["time_ps"] for row, job in found if row.get(RUN) == job["job"]
    }
    if alone:
        found = [(row, job) for row, job in found if row.get(RUN) == ALL]
        axes = [axis for axis in axes if axis != RUN]
    if not found:
        return
    columns = [
        Column(axis.rpartition(".")[2], [str(row.get(axis)) for row, _ in found], left=True)
        for axis in axes
    ]
    times = [alone.get(_key(row, axes, job)) for row, job in found] if alone else []
    yield _table([job for _, job in found], columns, "Interference between jobs", times)


def _key(row: Mapping[str, Any], axes: Sequence[str], job: Mapping[str, Any]) -> tuple[str, ...]:
    return (*(str(row.get(axis)) for axis in axes if axis != RUN), job["job"])


def _table(
    jobs: Sequence[Mapping[str, Any]],
    columns: list[Column],
    title: str,
    alone: Sequence[int | None] = (),
) -> Wide:
    columns += [
        Column("job", [job["job"] for job in jobs], left=True),
        Column("hosts", [str(job["n_hosts"]) for job in jobs], rank=2),
        Column("", [job["hosts"] for job in jobs], rank=4, left=True),
    ]
    starts = [("start", [job["start_ps"] for job in jobs], 1)]
    times = [("alone", list(alone), 0)] if alone else []
    times.append(("together" if alone else "time", [job["time_ps"] for job in jobs], 0))
    columns += time_columns([*(starts if any(starts[0][1]) else []), *times])
    if alone:
        longer = [slowdown(job["time_ps"], time) for job, time in zip(jobs, alone, strict=True)]
        columns.append(Column("slowdown", [number(one) for one in longer]))
    columns += time_columns([("FCT\np99", [job["fct_ps"]["p99"] for job in jobs], 3)])
    return Wide(columns, title=title, elsewhere="summary.json has all")


def slowdown(together_ps: int | None, alone_ps: int | None) -> float | None:
    return None if together_ps is None or not alone_ps else together_ps / alone_ps
