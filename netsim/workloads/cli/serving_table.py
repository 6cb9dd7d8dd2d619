"""The tables of a serving run that `netsim run` prints: what users saw, and what machines did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netsim.cli.tables import common_unit, count, number
from netsim.cli.wide import Column, Wide
from netsim.units import format_time

Serving = Mapping[str, Any]

TIMES = {
    "queueing_ps": "waiting for prefill",
    "ttft_ps": "time to first token",
    "kv_ps": "KV cache on its way",
    "second_token_ps": "first to second token",
    "tbt_ps": "time between tokens",
    "latency_ps": "from arrival to last token",
}
"""Distributions of summary.json ("serving"), and what they are called here."""

STATISTICS = ("mean", "p50", "p90", "p99", "max")


def serving_tables(serving: Serving | None) -> Iterator[Wide]:
    """What summary.json has of a serving run ("serving"), as tables; none if it has nothing."""
    if serving is None:
        return
    yield _rates(serving)
    if serving["ttft_ps"]["max"] is not None:
        yield _times(serving)
    yield _roles(serving["roles"])


def _rates(serving: Serving) -> Wide:
    """Requests and tokens per second, and who met the SLO."""
    done, every = serving["requests_done"], serving["requests"]
    slo = serving["slo"]
    columns = [
        Column("requests", [count(every) if done == every else f"{done:,}/{every:,}"]),
        Column("offered\n1/s", [number(serving["offered_per_s"])]),
        Column("done\n1/s", [number(serving["requests_per_s"])]),
        Column("tokens\n1/s", [number(serving["tokens_per_s"])]),
    ]
    if serving["restarts"]:
        columns.append(Column("lost and\nagain", [count(serving["restarts"])]))
    if serving["failures"]["count"]:
        columns.append(Column("failures", [count(serving["failures"]["count"])]))
        columns.append(
            Column("GPUs at\nwork, %", [number(100 * serving["failures"]["available_gpu_share"])])
        )
    limits = [
        f"{name} <= {format_time(limit, 4)}"
        for name, limit in (
            ("TTFT", slo["ttft_ps"]),
            ("TBT", slo["tbt_ps"]),
            ("any gap", slo.get("stall_ps")),
        )
        if limit is not None
    ]
    if limits:
        columns.append(Column(f"met, %\n{', '.join(limits)}", [number(100 * slo["attainment"])]))
        columns.append(Column("goodput\n1/s", [number(slo["goodput_per_s"])]))
        if slo.get("stall_ps") is not None:
            columns.append(Column("stalled", [count(slo["stalled"])]))
    return Wide(columns, title="Requests", elsewhere="summary.json has all")


def _times(serving: Serving) -> Wide:
    """Distributions of times, a row for each."""
    rows = {title: serving[key] for key, title in TIMES.items() if serving[key]["max"] is not None}
    unit, scale = common_unit([row["max"] for row in rows.values()])
    columns = [Column(unit, list(rows), left=True)]
    for rank, name in zip((3, 0, 2, 0, 1), STATISTICS, strict=True):
        columns.append(Column(name, [number(row[name], scale) for row in rows.values()], rank))
    return Wide(columns, title="What requests saw", elsewhere="summary.json has all")


def _roles(roles: Mapping[str, Mapping[str, Any]]) -> Wide:
    """What the machines of each role did."""
    found = list(roles.values())
    unit, scale = common_unit([one["iteration_ps"]["max"] for one in found])

    def share(one: Mapping[str, Any], name: str) -> str:
        return "-" if one[name] is None else number(100 * one[name])

    columns = [
        Column("machines", list(roles), left=True),
        Column("", [count(one["machines"]) for one in found]),
        Column("GPUs", [count(one["hosts"]) for one in found], rank=2),
        Column("iterations", [count(one["iterations"]) for one in found], rank=3),
        Column("batch\nmean", [number(one["batch_mean"]) for one in found], rank=1),
        *(
            Column(f"{name}\n{unit}", [number(one["iteration_ps"][name], scale) for one in found])
            for name in ("p50", "p99")
        ),
        Column("busy\n%", [share(one, "utilization_mean") for one in found]),
        Column("busiest\n%", [share(one, "utilization_max") for one in found], rank=4),
        Column("network\n%", [share(one, "network_share") for one in found]),
    ]
    return Wide(columns, title="Machines and their iterations", elsewhere="summary.json has all")
