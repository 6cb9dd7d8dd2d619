"""Reports of jobs: operations, parts of step times, bandwidths; the table of a critical path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netsim.common.terminal import (
    Column,
    Wide,
    any_of,
    axis_columns,
    common_unit,
    count,
    number,
    percent,
    time_columns,
)
from netsim.results.columns import Metric, TableSpec
from netsim.results.run_result import Run
from netsim.units import format_bytes, format_time

OPERATIONS = TableSpec.of(
    "operations",
    """
    operation       index  operation, in the order of the traffic
    rank            index  rank that performs it
    host            host   host of the rank
    stream?         index  stream; operations of a rank's stream run in sequence; null without one
    step            index  its step
    kind            -      purpose, such as tp, pp or dp; the kind of its flows
    operation_type  -      compute, join, send, receive, or a collective, as all_reduce
    size_bytes      B      size of the message, or of the collective's buffer
    group?          index  message or collective that it is part of; null for others
    ranks           ranks  ranks that take part in the message or collective
    ready_ps?       ps     when the operations that it waits for at its rank were done; null if they
        are not
    start_ps?       ps     start; for a receive, when its message left; null if it did not start
    end_ps?         ps     end: a send when handed over to the network, a receive when delivered, a
        collective when both hold for all its messages at this rank; null if it is not done
    blocked_by?     index  operation of the same rank that ended last of those it waited for; null
        without any
    is_analytic     -      whether it is a collective timed by a formula, without packets
    algbw_bps       bit/s  algorithm bandwidth of a message or collective: size over the time from
        the last rank's start to the last rank's end; null if timed by a formula
    busbw_bps       bit/s  bus bandwidth: algbw_bps times 2 (n - 1) / n (all_reduce among n ranks),
        (n - 1) / n (reduce_scatter, all_gather, all_to_all, gather, scatter) or 1; comparable to
        link rates
    label*          -      name of the operation in the traffic
    job*            -      with several jobs, its job: traffic, a flow class, or one of traffic
        jobs; each counts its ranks from 0
    """,
    hash_order=4,
)

CRITICAL = TableSpec.of(
    "critical",
    """
    segment       index  segment of the path, in order of time
    start_ps      ps     start, which is the end of the segment before
    end_ps        ps     end
    segment_type  -      compute: a compute task; formula: a collective timed by a formula; join: a
        task without duration; flow: from its start to its delivery; send: a flow until its send
        task was done (handed over or acknowledged); latency of software, before a flow or a
        collective or after a delivery; start: until the start time of a flow that waits for nothing
    start_reason  -      begin (nothing came before), task (the last awaited task ended), stream
        (the compute task before in the stream ended), flow (it was delivered), same_flow (after the
        latency or the start of the same flow)
    host          host   host; for a flow, its source
    to            host   destination of a flow; else null
    task          index  task; null if there is none
    flow          index  flow; null if there is none
    operation     index  operation that starts or ends with the task; null if none does
    stream        index  stream of a compute task; null without one
    kind          -      kind of the flow or the operation, if the traffic names kinds
    label*        -      name of the task or the flow in the traffic
    ideal_ps      ps     completion time of the flow alone in the network; else null
    """,
    of_run=False,
)

TABLES = (OPERATIONS, CRITICAL)
ORDER = 22

NETWORKS = ("scale-up", "scale-out")

EXPOSED_KINDS = ("tp", "cp", "ep", "pp", "dp", "expert_dp", "embedding", "kv")
"""Kinds of communication with a separate metric of exposed time."""

PARTS = tuple(
    Metric(
        f"exposed_{(named := network.replace('-', '_') + f'_{kind}'.rstrip('_'))}",
        "1",
        f"part of `exposed` in which ranks waited for {kind or 'any'} communication over the "
        f"{network} network",
        path=f"job.exposed_by.{named}",
        share=True,
    )
    for network in NETWORKS
    for kind in ("", *EXPOSED_KINDS, "other")
)
"""Exposed communication by network, and by network and kind; null if there is none."""

FORECAST = Metric.each("""
forecast_ps         ps  job.forecast.step_ps    step of the whole job, forecast from a sample
forecast_mfu%       1   job.forecast.mfu        model FLOPs utilization of the whole job, forecast
    from a sample
forecast_exposed%   1   job.forecast.exposed    share of exposed communication in a step of the
    whole job, forecast from a sample
forecast_exposed_scale_up%   1  job.forecast.exposed_by.scale_up   share of exposed communication
    over the scale-up network in a step of the whole job, forecast from a sample
forecast_exposed_scale_out%  1  job.forecast.exposed_by.scale_out  share of exposed communication
    over the scale-out network in a step of the whole job, forecast from a sample
forecast_bubble%    1   job.forecast.bubble     share of the bubble in a step of the whole job,
    forecast from a sample
""")
"""The forecast of a sampled step; null for a whole job."""

SWEEP = (
    *Metric.each("""
step_ps     ps  job.step_ps   mean time of a job's step, the sample's if a sample is simulated; with
    several jobs, this and what follows is of the first
mfu%        1   job.mfu       model FLOPs utilization of a simulated step
mfu_base    -   job.mfu_base  number format of the peak that mfu is a share of
exposed%    1   job.exposed   share of step time in which ranks waited for communication, over any
    network
"""),
    *PARTS,
    *Metric.each("""
bubble%     1   job.bubble    share of step time in which ranks waited for messages not yet sent
skew%       1   job.skew      share of step time in which ranks waited for others in a collective
"""),
    *FORECAST,
    *Metric.each("""
formula_ps  ps  job.forecast.formula.step_ps  step of the whole job by formula (netsim workload
    show), at the network's rates
forecast_difference%  1  job.forecast.difference  forecast_ps over formula_ps, minus one
forecast_residual%    1  job.forecast.residual    simulated step of the sample over its parts put
    together again, minus one; the forecast grows by it
busbw_bps   bit/s  job.busbw_bps  bus bandwidth, if the run is one kind of collective and nothing
    else
"""),
)


def report(run: Run) -> dict[str, Any]:
    """Add the table of operations; return metrics of steps and collectives by job."""
    if not run.scenario.load.parts:
        return {}
    from netsim.workloads.operations.table import (
        OperationTable,
        job_metrics,
        operation_table,
        rows_of_jobs,
    )

    operations = run.scenario.load.part(OperationTable)
    if operations is None or run.engine is None or run.engine.tasks is None:
        return {}
    flows, steps, jobs = run.engine.flow_states(), operations.steps, operations.jobs
    started = np.where(flows.waits_for > 0, -1, flows.start_ps)
    table = operation_table(
        operations,
        run.engine.tasks,
        run.engine.task_states(),
        started,
        None if steps is None else steps.step,
    )
    run.tables["operations"] = table
    found = []
    for rows, job in zip(rows_of_jobs(table, jobs), jobs, strict=True):
        one = job_metrics(rows, job, run.scenario.network)
        found.append(one)
        one["exposed_by"] = _exposed_by(one["steps"])
        if job.steps is None or job.steps.forecast is None or len(one["steps"]) < job.steps.n:
            continue
        if forecast := job.steps.forecast(rows, run.scenario.network, run.point.packets, one):
            forecast["exposed_by"] = _exposed_by([{**forecast, "time_ps": forecast["step_ps"]}])
            one["forecast"] = forecast
    several = {}
    if len(found) > 1:
        several["jobs"] = found
        table["job"] = np.repeat([job.name for job in jobs], [job.n for job in jobs])
    done = int((table["end_ps"] >= 0).sum())
    return {"operations": len(operations), "operations_done": done, "job": found[0], **several}


def _exposed_by(steps: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the parts of `exposed` by the endings of the names of `PARTS`."""
    found: dict[str, float] = {}
    total_ps = sum(one["time_ps"] for one in steps)
    for one in steps:
        for named, time_ps in one["exposed_ps"].items():
            network, _, kind = named.partition(" ")
            kind = kind.partition("_s")[0]  # the levels of data parallelism together
            network = network.replace("-", "_")
            for key in (network, f"{network}_{kind if kind in EXPOSED_KINDS else 'other'}"):
                found[key] = found.get(key, 0) + time_ps / total_ps
    return found


def jobs_of(summary: Mapping[str, Any]) -> list[Job]:
    """Return the metrics of each job of a point; none: []."""
    job = summary.get("job")
    return summary.get("jobs") or ([job] if job else [])


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    jobs = jobs_of(summary)
    for job in jobs:
        if found := job.get("forecast"):
            of = f"of {job['name']}" if len(jobs) > 1 else "of the whole job"
            yield f"step {of}", forecast_text(found)


def forecast_text(found: Mapping[str, Any]) -> str:
    """Return the forecast, its difference from the formula, and the sources of that difference."""
    by = {name: 100 * share for name, share in found["difference_by"].items()}
    most = max(by, key=lambda name: abs(by[name]))
    forecast, formula = (format_time(round(one["step_ps"]), 4) for one in (found, found["formula"]))
    apart = f"{100 * found['difference']:+.1f} %"
    text = f"forecast {forecast}; formula {formula} ({apart}, most of it {most}: {by[most]:+.1f} %)"
    if abs(found["residual"]) > ROUGH:
        apart = f"{100 * found['residual']:+.0f} %"
        text += f"; a rough guess: the sample's step differs from its parts by {apart}"
    return text


ROUGH = 0.1  # residual above which a forecast is called rough


def sections(summary: Mapping[str, Any]) -> Iterator[Wide]:
    jobs = jobs_of(summary)
    for job in jobs:
        of = f" of {job['name']}" if len(jobs) > 1 else ""
        if job["steps"]:
            yield _steps(job, of)
        if job["collectives"]:
            yield _collectives(job["collectives"], of)


def sweep_sections(
    rows: Sequence[Mapping[str, Any]], summaries: Sequence[Mapping[str, Any]], axes: Sequence[str]
) -> Iterator[Wide]:
    """Yield the steps of all jobs of a sweep whose points have several jobs."""
    found = [(row, job) for row, one in zip(rows, summaries, strict=True) for job in jobs_of(one)]
    if not any("jobs" in one for one in summaries):
        return
    named = [
        {**row, **{metric.name: metric.of({"job": job}) for metric in SWEEP}} for row, job in found
    ]
    columns = axis_columns(named, axes)
    columns.append(Column("job", [job["name"] for _, job in found], left=True))
    yield Wide([*columns, *first_columns(named)], title="Jobs", elsewhere="summary.json has all")


def first_columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[Column]:
    """Yield step time and its parts; for single collectives, their time and bus bandwidth."""
    if not any_of(rows, "step_ps"):
        return
    single = all(row.get("busbw_bps") is not None for row in rows)
    times = [("time" if single else "step", "step_ps", 0)]
    if any_of(rows, "forecast_ps"):
        times = [("forecast", "step_ps", 0), ("formula", "formula_ps", 1)]
        times.append(("sample's\nstep", "sampled_ps", 4))
        rows = [_whole(row) for row in rows]
    yield from time_columns(
        (title, [row.get(name) for row in rows], rank) for title, name, rank in times
    )
    if single:
        yield Column("busbw\nGB/s", [number(row["busbw_bps"], 8e9) for row in rows])
    title = _mfu(row.get("mfu_base") for row in rows)
    shares = [(f"{title}\n%", "mfu", 0), ("exposed\n%", "exposed", 0)]
    for one in PARTS:
        _, up_or_out, *kind = one.path.rpartition(".")[2].split("_", 2)
        title = f"exposed\nscale-{up_or_out}\n{' '.join([*kind, '%'])}"
        if any_of(rows, one.name) and any(row.get(one.name) != row.get("exposed") for row in rows):
            shares.append((title, one.name, 4 if kind else 1))
    for title, name, rank in (*shares, ("bubble\n%", "bubble", 2), ("skew\n%", "skew", 3)):
        cells = [percent(row.get(name)) for row in rows]
        yield Column(title, cells, 32 if single or not any_of(rows, name) else rank)


def _whole(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with the forecast of the whole job instead of its sample's values."""
    if row.get("forecast_ps") is None:
        return row
    of_sample = {"skew", *(one.name for one in PARTS)}
    kept = {name: value for name, value in row.items() if name not in of_sample}
    whole = {one.name.removeprefix("forecast_"): row.get(one.name) for one in FORECAST}
    return {**kept, **whole, "step_ps": row["forecast_ps"], "sampled_ps": row["step_ps"]}


def _mfu(bases: Iterable[str | None]) -> str:
    """Return the title of model FLOPs utilization, with the formats of its peak."""
    return "\n".join(("MFU", *dict.fromkeys(base for base in bases if base)))


Job = Mapping[str, Any]

MAX_STEPS = 6  # most steps printed

WAITS = ("bubble", "skew", "other")


def step_parts(step: Mapping[str, Any]) -> dict[str, float]:
    """Return the parts of a step's time, in ps: compute, exposed by network and kind, and waits."""
    found = {"compute": float(step["compute_ps"])}
    found |= {f"exposed {kind}".rstrip(): float(ps) for kind, ps in step["exposed_ps"].items()}
    return found | {name: step[f"{name}_ps"] for name in WAITS if step.get(f"{name}_ps")}


def whole_steps(job: Job) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and steps of the whole job's forecast and formula; [] without a sample."""
    if not (found := job.get("forecast")):
        return []
    whole = [("forecast", found), ("formula", found["formula"])]
    return [(name, {**one, "time_ps": one["step_ps"]}) for name, one in whole]


def _steps(job: Job, of: str) -> Wide:
    """Return the parts of steps, averaged over ranks; for a sample, also the whole job's."""
    steps = [(f"step {k}", one) for k, one in enumerate(job["steps"][:MAX_STEPS])]
    omitted = len(job["steps"]) - len(steps)
    title = f"Steps{of}" + (" (sample)" if "forecast" in job else "")
    title += ", mean of the ranks" + (f", the first {MAX_STEPS}" if omitted else "")
    if whole := whole_steps(job):
        title += "; forecast and formula (slowest stage) of the whole job"
        steps += whole
    each = [step_parts(one) for _, one in steps]
    names = sorted(dict.fromkeys(name for one in each for name in one), key=WAITS.__contains__)
    parts = {name: [one.get(name, 0) for one in each] for name in names}
    has_mfu = any(one["mfu"] is not None for _, one in steps)
    mfu = [_mfu([job.get("mfu_base")]).replace("\n", ", ")] if has_mfu else []
    columns = [Column("", ["time", *mfu, *parts], left=True)]
    for k, (name, one) in enumerate(steps):
        unit, scale = common_unit([one["time_ps"]])
        cells = [number(one["time_ps"], scale)]
        if has_mfu:
            cells.append("-" if one["mfu"] is None else f"{100 * one['mfu']:.1f} %")
        for times in parts.values():
            share = 100 * times[k] / one["time_ps"]
            cells.append(f"{number(times[k], scale)} ({share:.1f} %)")
        columns.append(Column(f"{name}\n{unit}", cells, rank=k))
    return Wide(columns, title=title, elsewhere="summary.json has all")


def _collectives(found: Sequence[Mapping[str, Any]], of: str) -> Wide:
    """Return the bandwidths of messages and collectives."""
    columns = [
        Column("kind", [one["kind"] or "-" for one in found], left=True),
        Column("", [one["operation_type"] for one in found], left=True),
        Column("ranks", [count(one["ranks"]) for one in found]),
        Column("count", [count(one["count"]) for one in found], rank=2),
        Column("size", [format_bytes(round(one["size_bytes"]), 4) for one in found], rank=1),
        *time_columns(
            (title, [one[f"time_{name}"] for one in found], rank)
            for title, name, rank in (("time", "ps", 0), ("longest", "max_ps", 3))
        ),
    ]
    for name, title in (("algbw_bps", "algorithm"), ("busbw_bps", "bus")):
        columns.append(Column(f"{title}\nGB/s", [number(one[name], 8e9) for one in found]))
    return Wide(columns, title=f"Messages and collectives{of}", elsewhere="summary.json has all")
