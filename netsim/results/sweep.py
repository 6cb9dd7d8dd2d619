"""The table of a sweep: one row per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.results import files
from netsim.results.columns import Column, Metric, columns, metrics

if TYPE_CHECKING:
    import pyarrow as pa

    from netsim.experiment import Point

WHOLE_UNITS = ("flows", "packets", "frames", "packet-hops", "requests", "restarts")
"""Units of columns of whole numbers."""


def point_directory(directory: Path, point: Point, *, sweep: bool) -> Path:
    """Where the result of `point` goes: a folder of its own if it belongs to a sweep."""
    return directory / point.name if sweep else directory


def sweep_row(point: Point, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The row of one point: its axes, then the metrics of all reports.

    `summary` is that of its result (`netsim.results.summary_of`, or what was read).
    """
    row = _identity(point, summary["stop_reason"])
    row |= {metric.name: metric.of(summary) for metric in metrics()}
    return {**row, "hash": summary.get("hash")}


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

    axes = dict.fromkeys(name for row in rows for name in row if name not in columns()["sweep"])
    found: dict[str, Any] = {"point": None}
    found |= {name: _uniform([row.get(name) for row in rows]) for name in axes}
    for column in columns()["sweep"].values():
        values = [row.get(column.name) for row in rows]
        found[column.name] = pa.array(values, _dtype(column))
    path = directory / files.SWEEP
    try:
        files.write_table(path, "sweep", found)
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}") from error
    return path


def _dtype(column: Column) -> pa.DataType:
    """The type that a documented column has in every sweep, whether or not it has values."""
    import pyarrow as pa

    whole = isinstance(column, Metric) and column.whole
    if whole or column.name == "seed" or column.unit in WHOLE_UNITS:
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
