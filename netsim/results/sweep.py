"""The table of a sweep: one row per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.documents import COUNTERS
from netsim.errors import InputError
from netsim.results import files
from netsim.results.columns import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from netsim.experiment import Point
    from netsim.results.column import Column

STATISTICS = ("mean", "p50", "p99", "max")

SERVING_COUNTS = ("offered_per_s", "requests_per_s", "tokens_per_s", "restarts")
SERVED = (
    ("queueing", "p99"),
    *(("ttft", name) for name in ("p50", "p99")),
    *(("tbt", name) for name in ("p50", "p99", "max")),
    ("second_token", "p99"),
)
"""Distributions of a serving run, and what of them a row has."""

WHOLE_UNITS = ("flows", "packets", "frames", "packet-hops", "requests", "restarts")
WHOLE = (
    *("seed", "ideal_max_ps", "simulated_ps", "recovery_p50_ps", "recovery_max_ps"),
    *(f"{what}_{statistic}_ps" for what, statistic in SERVED),
)
"""Columns of whole numbers, by unit and by name."""


def point_directory(directory: Path, point: Point, *, sweep: bool) -> Path:
    """Where the result of `point` goes: a folder of its own if it belongs to a sweep."""
    return directory / point.name if sweep else directory


def sweep_row(point: Point, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The row of one point: its axes, then the figures of `netsim.results.COLUMNS["sweep"]`.

    `summary` is that of its result (`netsim.results.summary_of`, or what was read).
    """
    row = _identity(point, summary["stop_reason"])
    row["flows"] = summary["flows"]
    row["flows_finished"] = summary["flows_finished"]
    for key in STATISTICS:
        row[f"fct_{key}_ps"] = summary["fct_ps"].get(key)
    for key in STATISTICS:
        row[f"slowdown_{key}"] = summary["slowdown"].get(key)
    for key in ("ideal_max_ps", *COUNTERS, "simulated_ps", "wall_s", "compile_s", "hash"):
        row[key] = summary.get(key)
    row["fair_max_ps"] = (summary.get("fair_ps") or {}).get("max")
    job = summary.get("job") or {}
    row["step_ps"] = job.get("step_ps")
    for key in ("mfu", "exposed", "bubble", "skew"):
        row[key] = job.get(key)
    row |= serving_figures(summary.get("serving") or {})
    circuits = summary.get("circuits") or {}
    for key in ("no_circuit_drops", "circuit_duty_cycle"):
        row[key] = circuits.get(key)
    recovery = summary.get("recovery") or {}
    row["silent_flows"] = recovery.get("flows")
    row["recovery_p50_ps"], row["recovery_max_ps"] = recovery.get("p50_ps"), recovery.get("max_ps")
    return row


def serving_figures(found: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a serving run; None each if the point is none."""
    row = {key: found.get(key) for key in SERVING_COUNTS}
    slo = found.get("slo") or {}
    row |= {key: slo.get(key) for key in ("goodput_per_s", "stalled")}
    row["slo_attainment"] = slo.get("attainment")
    for what, statistic in SERVED:
        row[f"{what}_{statistic}_ps"] = (found.get(f"{what}_ps") or {}).get(statistic)
    row["network_share"] = (found.get("network") or {}).get("iterations")
    row["available_gpu_share"] = (found.get("failures") or {}).get("available_gpu_share")
    return row


def failed_row(point: Point) -> dict[str, Any]:
    """The row of a point whose run gave no result."""
    return _identity(point, "failed")


def _identity(point: Point, status: str) -> dict[str, Any]:
    row: dict[str, Any] = {"point": point.name, **point.axes}
    row.setdefault("transport", point.transport.name)
    row.setdefault("seed", point.seed)
    row["status"] = status
    return row


def write_sweep(directory: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write the table of a sweep, in one rename. Returns the path of the file.

    Every documented column is there and always has the same type, so that the tables of two
    sweeps can be concatenated. An axis of the sweep has the type of its values.
    """
    import pyarrow as pa

    axes = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS["sweep"])
    columns: dict[str, Any] = {"point": None}
    columns |= {name: _uniform([row.get(name) for row in rows]) for name in axes}
    for column in COLUMNS["sweep"].values():
        values = [row.get(column.name) for row in rows]
        columns[column.name] = pa.array(values, _dtype(column))
    path = directory / files.SWEEP
    try:
        files.write_table(path, "sweep", columns)
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}") from error
    return path


def _dtype(column: Column) -> pa.DataType:
    """The type that a documented column has in every sweep, whether or not it has values."""
    import pyarrow as pa

    if column.name in WHOLE or column.unit in WHOLE_UNITS:
        return pa.int64()
    return pa.float64() if column.unit else pa.string()


def _uniform(values: list[Any]) -> list[Any]:
    """The values with one type: as they are if they agree, numbers as float, all else as text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 and not kinds & {list, tuple, dict}:
        return values
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]
