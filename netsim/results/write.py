"""Write results atomically as directories, and the table of a sweep."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common.writing import replacing_file
from netsim.errors import InputError
from netsim.results import destination, files
from netsim.results.columns import Column, Metric, columns, metrics, specs
from netsim.results.destination import real
from netsim.results.provenance import LIBRARIES, Provenance, provenances
from netsim.results.read import Result
from netsim.version import __version__

if TYPE_CHECKING:
    from arro3.core import DataType

    from netsim.experiment import Point
    from netsim.results.run_result import RunResult


WHOLE_UNITS = ("flows", "packets", "frames", "packet-hops", "requests", "restarts")
"""Units of integer columns."""


def write_result(
    directory: Path | str,
    point: Point,
    result: RunResult,
    provenance: Provenance | None = None,
    *,
    keep_checkpoint: bool = False,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Write `result` of `point` to `directory`, replacing an earlier result there; return the
    directory.

    The files are written to a temporary directory that is then renamed, so readers see the old or
    the new result, never a mixture. A replaced complete result from other code or values moves to
    DIRECTORY.previous.

    `provenance` is the point's when the run began, `origin` the experiment's. With
    `keep_checkpoint`, the checkpoint there stays.

    Raises InputError if the directory holds files that netsim did not write, or cannot be written.
    """
    directory = Path(directory)
    target, provenance = real(directory), provenance or provenances([point])[0]
    destination.check_folders({target: provenance.fingerprint}, [])
    tables = {**result.tables}
    if not point.outputs.links:
        del tables["links"]
    about = {**_experiment(point, result, provenance), "origin": origin}
    with destination.replacing(target, provenance.fingerprint) as scratch:
        for name, table in tables.items():
            files.write_table(scratch / specs()[name].file, name, table)
        files.write_json(scratch / files.SUMMARY, summary_of(result))
        files.write_json(scratch / files.EXPERIMENT, about)
        if keep_checkpoint:
            files.link_or_copy(target / files.CHECKPOINT, scratch / files.CHECKPOINT)
    return directory


def receive(directory: Path, contents: Mapping[str, bytes], fingerprint: str) -> None:
    """Write the files of a result from a machine that cannot access `directory`, as `write_result`
    does.

    Raises InputError, and changes nothing, unless it is a result with this fingerprint.
    """
    target = real(directory)
    destination.check_folders({target: fingerprint}, [])
    with destination.replacing(target, fingerprint) as scratch:
        for name, content in contents.items():
            if name not in (*files.tables(), files.SUMMARY, files.EXPERIMENT):
                raise InputError(f"a worker sent the file {name!r}, which no result has")
            with replacing_file(scratch / name) as file:
                file.write(content)
        checked(scratch, fingerprint)


def checked(directory: Path, fingerprint: str) -> Result:
    """Return the result in `directory`. Raises InputError unless it has this fingerprint."""
    result = Result(directory)
    if result.fingerprint != fingerprint:
        raise InputError("is of another experiment", file=str(directory))
    return result


def summary_of(result: RunResult) -> dict[str, Any]:
    """Return the summary of a result as written."""
    summary: dict[str, Any] = files.plain(
        {
            "complete": result.complete,
            "stop_reason": result.stop_reason,
            "reason": result.reason,
            **result.summary,
            "hash": result.hash,
        }
    )
    return summary


def _experiment(point: Point, result: RunResult, provenance: Provenance) -> dict[str, Any]:
    """Return the information needed to repeat the run and compare its result."""
    return {
        "format": files.FORMAT,
        "point": point.name,
        "axes": point.axes,
        "seed": point.seed,
        "hash": result.hash,
        "versions": dict(versions()),
        "git": provenance.git(),
        "fingerprint": provenance.fingerprint,
        "plugins": list(provenance.plugins),
        "directory": str(point.directory),
        "resolved": point.resolved,
        "tables": list(result.tables),
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of netsim, Python and decisive libraries, and the machine."""
    found = {"netsim": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = metadata.version(name)
    found["machine"] = f"{platform.system()} {platform.machine()}"
    return found


def point_directory(directory: Path, point: Point, *, sweep: bool) -> Path:
    """Return where the result of `point` goes: its own folder in a sweep."""
    return directory / point.name if sweep else directory


def sweep_row(point: Point, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of one point: its axes, then the metrics of its result's `summary`."""
    return _with_metrics(_identity(point, summary["stop_reason"]), summary)


def result_row(result: Result) -> dict[str, Any]:
    """Return the row of a written result, the same as its `sweep_row`."""
    about = result.experiment
    transport = about["resolved"]["transport"]["kind"]
    row = _row_head(result.name, about["axes"], transport, about["seed"], result.status)
    return _with_metrics(row, result.summary)


def failed_row(point: Point) -> dict[str, Any]:
    """Return the row of a point without a result."""
    return _identity(point, "failed")


def _identity(point: Point, status: str) -> dict[str, Any]:
    return _row_head(point.name, point.axes, point.transport.name, point.seed, status)


def _row_head(
    name: str, axes: Mapping[str, Any], transport: str, seed: int, status: str
) -> dict[str, Any]:
    row: dict[str, Any] = {"point": name, **axes}
    row.setdefault("transport", transport)
    row.setdefault("seed", seed)
    row["status"] = status
    return row


def _with_metrics(row: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    found = {metric.name: metric.of(summary) for metric in metrics()}
    return {**row, **found, "hash": summary.get("hash")}


def write_sweep(directory: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write the table of a sweep atomically; return its path.

    Every documented column is present with a fixed type, so that tables of two sweeps can be
    concatenated. An axis has the type of its values.
    """
    from arro3.core import Array

    axes = dict.fromkeys(name for row in rows for name in row if name not in columns()["sweep"])
    found: dict[str, Any] = {"point": None}
    found |= {name: _uniform([row.get(name) for row in rows]) for name in axes}
    for column in columns()["sweep"].values():
        values = [row.get(column.name) for row in rows]
        found[column.name] = Array(values, _data_type(column))
    path = directory / files.SWEEP
    try:
        files.write_table(path, "sweep", found)
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}") from error
    return path


def _data_type(column: Column) -> DataType:
    """Return the fixed type of a documented column."""
    from arro3.core import DataType

    whole = isinstance(column, Metric) and column.whole
    if whole or column.name == "seed" or column.unit in WHOLE_UNITS:
        return DataType.int64()
    return DataType.float64() if column.unit else DataType.string()


def _uniform(values: list[Any]) -> list[Any]:
    """Return values of one type: unchanged if they agree, else as floats or texts."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 and not kinds & {list, tuple, dict}:
        return values
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]
