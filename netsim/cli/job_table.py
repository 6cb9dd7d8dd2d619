"""The tables of a job that `netsim run` prints: where the time of a step went, and bandwidths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netsim.cli.tables import common_unit, count, number
from netsim.cli.wide import Column, Wide
from netsim.units import format_bytes

Job = Mapping[str, Any]


def job_tables(job: Job | None) -> Iterator[Wide]:
    """What summary.json has of a job ("job"), as tables; none if it has nothing."""
    if job is None:
        return
    if job["steps"]:
        yield _steps(job)
    if job["collectives"]:
        yield _collectives(job["collectives"])


def _steps(job: Job) -> Wide:
    """The time of the steps: a column for each part, the mean of all ranks; a row for each step."""
    steps: Sequence[Mapping[str, Any]] = job["steps"]
    unit, scale = common_unit([one["time_ps"] for one in steps])

    def column(title: str, times: Sequence[float], rank: int = 0) -> Column:
        cells = [number(time, scale) for time in times]
        if rank:
            shares = [100 * time / one["time_ps"] for time, one in zip(times, steps, strict=True)]
            cells = [f"{cell} ({share:.1f} %)" for cell, share in zip(cells, shares, strict=True)]
        return Column(f"{title}\n{unit}", cells, rank)

    columns = [
        Column("step", [str(k) for k in range(len(steps))]),
        column("time", [one["time_ps"] for one in steps]),
        column("computing", [one["compute_ps"] for one in steps], 1),
    ]
    if any(one["mfu"] is not None for one in steps):
        cells = ["-" if one["mfu"] is None else f"{100 * one['mfu']:.1f} %" for one in steps]
        columns.insert(2, Column("MFU", cells))
    for kind in dict.fromkeys(kind for one in steps for kind in one["exposed_ps"]):
        times = [one["exposed_ps"].get(kind, 0) for one in steps]
        columns.append(column(f"exposed {kind}".rstrip(), times, 2))
    for name in ("bubble", "skew", "other"):
        times = [one[f"{name}_ps"] for one in steps]
        if any(times) or name == "bubble":
            columns.append(column(name, times, 3))
    return Wide(columns, title="Steps, mean of the ranks", elsewhere="summary.json has all")


def _collectives(found: Sequence[Mapping[str, Any]]) -> Wide:
    """The bandwidths of messages and collectives."""
    unit, scale = common_unit([one["time_ps"] for one in found])
    columns = [
        Column("kind", [one["kind"] or "-" for one in found], left=True),
        Column("", [one["what"] for one in found], left=True),
        Column("ranks", [count(one["ranks"]) for one in found]),
        Column("how many", [count(one["count"]) for one in found], rank=2),
        Column("size", [format_bytes(round(one["size_bytes"]), 4) for one in found], rank=1),
        Column(f"time\n{unit}", [number(one["time_ps"], scale) for one in found]),
        Column(f"longest\n{unit}", [number(one["time_max_ps"], scale) for one in found], rank=3),
    ]
    for name, title in (("algorithm_bps", "algorithm"), ("bus_bps", "bus")):
        columns.append(Column(f"{title}\nGB/s", [number(one[name], 8e9) for one in found]))
    return Wide(columns, title="Messages and collectives", elsewhere="summary.json has all")
