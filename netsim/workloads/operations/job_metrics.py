"""Metrics of a job: step time, model FLOPs utilization, exposed communication, bandwidths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.workloads.operations.operation_rows import collective_instances, factors
from netsim.workloads.operations.step_times import MeasuredStep, step_times

if TYPE_CHECKING:
    from netsim.results.run_result import Table
    from netsim.workloads.operations.table import JobSteps


def job_metrics(table: Table | None, steps: JobSteps | None) -> dict[str, Any]:
    """Return the operations' part of the summary.

    "operations" counts them. "job" has, for each complete step ("steps") and in total, the time and
    its mean breakdown over ranks (`step_times`): compute, exposed communication by kind, bubble and
    skew; the model FLOPs utilization if FLOPs and peak are known; and the bandwidths of messages
    and collectives ("collectives").
    """
    if table is None:
        return {}
    done = int((table["end_ps"] >= 0).sum())
    found = step_times(table)
    entries = [_step(one, steps) for one in found]
    job: dict[str, Any] = {"steps": entries, "step_ps": None, "mfu": None}
    if entries:
        total = sum(one["time_ps"] for one in entries)
        job["step_ps"] = total / len(entries)
        job["mfu"] = _utilization(job["step_ps"], steps)
        job["exposed"] = sum(sum(one["exposed_ps"].values()) for one in entries) / total
        for name in ("bubble", "skew"):
            job[name] = sum(one[f"{name}_ps"] for one in entries) / total
    job["collectives"] = _collectives(table)
    return {"operations": table["rank"].size, "operations_done": done, "job": job}


def _step(found: MeasuredStep, steps: JobSteps | None) -> dict[str, Any]:
    time_ps = found.end_ps - found.start_ps
    exposed = zip(found.kinds, found.exposed_ps.mean(0).tolist(), strict=True)
    return {
        "time_ps": time_ps,
        "compute_ps": float(found.compute_ps.mean()),
        "exposed_ps": dict(sorted(exposed, key=lambda pair: -pair[1])),
        "bubble_ps": float(found.bubble_ps.mean()),
        "skew_ps": float(found.skew_ps.mean()),
        "other_ps": float(found.other_ps.mean()),
        "mfu": _utilization(time_ps, steps),
    }


def _utilization(time_ps: float, steps: JobSteps | None) -> float | None:
    if steps is None or not steps.model_flops or not steps.peak_flops or time_ps <= 0:
        return None
    return steps.model_flops / (time_ps / 1e12 * steps.peak_flops)


def _collectives(table: Table) -> list[dict[str, Any]]:
    """Return messages and collectives by kind, operation type and number of ranks.

    A bandwidth is the sum of sizes over the sum of times; None if the times are analytic.
    """
    found = collective_instances(table)
    timed = np.flatnonzero((found.length_ps > 0) & (found.size_bytes > 0))
    rows = found.first[timed]
    what = np.where(
        table["operation_type"][rows] == "receive", "send", table["operation_type"][rows]
    )
    keys = np.array([table["kind"][rows], what, table["ranks"][rows].astype(str)])
    _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    entries = []
    for k, row in enumerate(rows[first].tolist()):
        these = timed[which == k]
        size, length = found.size_bytes[these], found.length_ps[these]
        formula = bool(table["is_analytic"][row])
        rate = 8e12 * size.sum() / length.sum()
        factor = factors(what[first[k] :][:1], table["ranks"][row : row + 1])[0]
        entries.append(
            {
                "kind": str(table["kind"][row]),
                "operation_type": str(what[first[k]]),
                "ranks": int(table["ranks"][row]),
                "count": these.size,
                "size_bytes": float(size.mean()),
                "time_ps": float(length.mean()),
                "time_max_ps": int(length.max()),
                "algbw_bps": None if formula else float(rate),
                "busbw_bps": None if formula else float(rate * factor),
            }
        )
    return entries
