"""The tables of a job that `netsim run` prints: where the time of a step went, and bandwidths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netsim.cli.tables import common_unit, count, number
from netsim.cli.wide import Column, Wide
from netsim.units import format_bytes

Job = Mapping[str, Any]

MAX_STEPS = 6
"""More would not fit on a screen."""


def job_tables(job: Job | None) -> Iterator[Wide]:
    """What summary.json has of a job ("job"), as tables; none if it has nothing."""
    if job is None:
        return
    if job["steps"]:
        yield _steps(job)
    if job["collectives"]:
        yield _collectives(job["collectives"])


def _steps(job: Job) -> Wide:
    """The time of the steps: a row for each part, the mean of all ranks; a column for each step."""
    steps: Sequence[Mapping[str, Any]] = job["steps"][:MAX_STEPS]
    unit, scale = common_unit([one["time_ps"] for one in steps])
    parts: dict[str, list[float]] = {"computing": [one["compute_ps"] for one in steps]}
    for kind in dict.fromkeys(kind for one in steps for kind in one["exposed_ps"]):
        times = [one["exposed_ps"].get(kind, 0) for one in steps]
        parts[f"exposed {kind}".rstrip()] = times
    for name in ("bubble", "skew", "other"):
        times = [one[f"{name}_ps"] for one in steps]
        if any(times):
            parts[name] = times
    has_mfu = any(one["mfu"] is not None for one in steps)
    names = [f"time, {unit}", *(["MFU"] if has_mfu else []), *parts]
    columns = [Column("", names, left=True)]
    for k, one in enumerate(steps):
        cells = [number(one["time_ps"], scale)]
        if has_mfu:
            cells.append("-" if one["mfu"] is None else f"{100 * one['mfu']:.1f} %")
        for times in parts.values():
            share = 100 * times[k] / one["time_ps"]
            cells.append(f"{number(times[k], scale)} ({share:.1f} %)")
        columns.append(Column(f"step {k}", cells, rank=k))
    left_out = len(job["steps"]) - len(steps)
    title = "Steps, mean of the ranks" + (f", the first {MAX_STEPS}" if left_out else "")
    return Wide(columns, title=title, elsewhere="summary.json has all")


def _collectives(found: Sequence[Mapping[str, Any]]) -> Wide:
    """The bandwidths of messages and collectives."""
    unit, scale = common_unit([one["time_ps"] for one in found])
    columns = [
        Column("kind", [one["kind"] or "-" for one in found], left=True),
        Column("", [one["operation_type"] for one in found], left=True),
        Column("ranks", [count(one["ranks"]) for one in found]),
        Column("how many", [count(one["count"]) for one in found], rank=2),
        Column("size", [format_bytes(round(one["size_bytes"]), 4) for one in found], rank=1),
        Column(f"time\n{unit}", [number(one["time_ps"], scale) for one in found]),
        Column(f"longest\n{unit}", [number(one["time_max_ps"], scale) for one in found], rank=3),
    ]
    for name, title in (("algbw_bps", "algorithm"), ("busbw_bps", "bus")):
        columns.append(Column(f"{title}\nGB/s", [number(one[name], 8e9) for one in found]))
    return Wide(columns, title="Messages and collectives", elsewhere="summary.json has all")
