"""Read results."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common import documents
from netsim.common.documents import DAMAGED, read_object
from netsim.common.inputs import file_size, is_file, path_problem
from netsim.errors import InputError, did_you_mean
from netsim.frozen import frozen
from netsim.results import files
from netsim.results.columns import columns, specs
from netsim.units import written

if TYPE_CHECKING:
    import polars as pl


class Result:
    """The result of one run; its tables are read on first use.

    Attributes: `flows`, `links` and the other tables (polars DataFrames with the columns of
    `netsim.results.COLUMNS`, or None if the run has no such table), `summary` and `experiment`
    (dicts), `complete`, `status` and `reason`, `name`, `path`.

    Raises InputError, also on first use of a table, if the files are damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        experiment = path / files.EXPERIMENT
        _check_format(experiment)
        self.summary: dict[str, Any] = read_object(path / files.SUMMARY, documents.SUMMARY)
        for key, value in self.summary.items():
            if isinstance(value, int) and not 0 <= value < 2**63:
                file = str(path / files.SUMMARY)
                raise InputError("out of range", file=file, key=key, hint=DAMAGED)
        self.experiment: dict[str, Any] = read_object(experiment, documents.EXPERIMENT)
        if self.experiment["hash"] != self.summary["hash"]:
            message = f"conflicts with the hash in {files.SUMMARY}: one of the files has changed"
            raise InputError(message, file=str(experiment), key="hash")

    @cached_property
    def flows(self) -> pl.DataFrame:
        """One row per flow."""
        return _read_table(self.path / files.FLOWS, "flows")

    @cached_property
    def links(self) -> pl.DataFrame:
        """One row per directed link and traffic class, unless disabled in [outputs]."""
        return _read_table(self.path / files.LINKS, "links")

    def __getattr__(self, name: str) -> pl.DataFrame | None:
        if name.startswith("_") or name not in specs():
            raise AttributeError(f"unknown table {name}")
        table = None
        if name in self.experiment["tables"]:
            table = _read_table(self.path / specs()[name].file, name)
        self.__dict__[name] = table
        return table

    @property
    def complete(self) -> bool:
        """Whether every flow was delivered."""
        return bool(self.summary["complete"])

    @property
    def status(self) -> str:
        """How the run ended: finished, time_limit, undelivered, stalled or interrupted."""
        return str(self.summary["stop_reason"])

    @property
    def reason(self) -> str | None:
        """Why the result is incomplete; None if it is complete or was interrupted."""
        reason = self.summary.get("reason")
        return None if reason is None else str(reason)

    @property
    def name(self) -> str:
        return str(self.experiment["point"])

    @property
    def fingerprint(self) -> str:
        """The hash of everything that decides the result."""
        return str(self.experiment.get("fingerprint"))

    def matches_hash(self) -> bool | None:
        """Return whether the tables match the hash; None without links."""
        from netsim.results.run_result import hashed, result_hash

        if not (self.path / files.LINKS).exists():
            return None
        tables = {name: getattr(self, name) for name in hashed()}
        arrays = {name: _arrays(table) for name, table in tables.items() if table is not None}
        return bool(result_hash(arrays) == self.summary["hash"])

    def __repr__(self) -> str:
        partial = "" if self.complete else ", partial"
        return f"<Result {self.name}: {self.summary['flows']} flows{partial}>"


@frozen
class FailedPoint:
    """A point whose run failed without a result; `reason` says why."""

    name: str
    path: Path
    reason: str
    status: str = "failed"
    complete: bool = False


class Sweep:
    """The results of a sweep: `table` has a row per point, `points` the results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table: pl.DataFrame = _read_table(path / files.SWEEP, "sweep")

    @cached_property
    def points(self) -> list[Result]:
        """Results of the points, in the order of the table."""
        done = [row["point"] for row in self.table.to_dicts() if row.get("status") != "failed"]
        folders = [self.path / str(name) for name in done]
        return [Result(folder) for folder in folders if (folder / files.SUMMARY).exists()]

    def __repr__(self) -> str:
        return f"<Sweep {self.path.name}: {len(self.table)} points>"


def is_sweep(path: Path | str) -> bool:
    """Return whether `path` has a sweep."""
    return is_file(Path(path) / files.SWEEP)


def load(path: Path | str) -> Result | Sweep:
    """Load the result or sweep in `path`. Raises InputError if there is none or it is damaged."""
    return load_sweep(path) if is_sweep(path) else load_result(path)


def load_result(path: Path | str) -> Result:
    """Load the result in `path`. Raises InputError if there is none or it is damaged."""
    path = Path(path)
    if is_sweep(path):
        raise InputError(f"{path} contains a sweep", hint=f"name a point; {_points(path)}")
    if problem := path_problem(str(path)):
        raise InputError(f"{written(str(path))} {problem}")
    if not (path / files.SUMMARY).is_file():
        raise InputError(f"no result in {path}", hint=_why_none(path))
    return Result(path)


def load_sweep(path: Path | str) -> Sweep:
    """Load the sweep in `path`. Raises InputError if there is none or its table is damaged."""
    path = Path(path)
    if not is_sweep(path):
        raise InputError(f"no sweep in {path}", hint=f"{files.SWEEP} is missing")
    return Sweep(path)


def results_in(path: Path | str) -> list[Result]:
    """Return the result in `path`, or the results of a sweep. Raises InputError if there are
    none."""
    loaded = load(path)
    if isinstance(loaded, Result):
        return [loaded]
    if not loaded.points:
        raise InputError(f"no finished points in the sweep {path}")
    return loaded.points


def recorded_complete(directory: Path) -> bool | None:
    """Return whether the result in `directory` is complete; None if it cannot be read."""
    try:
        return bool(read_object(directory / files.SUMMARY, {"complete": bool})["complete"])
    except InputError:
        return None


def _check_format(path: Path) -> None:
    """Raise InputError for a result of another format."""
    content = read_object(path, {"format?": int, "versions?": {"netsim?": str}})
    written = content.get("format")
    if written != files.FORMAT:
        by = content.get("versions", {}).get("netsim", "an unknown version")
        columns = "columns were renamed; " if written == 1 else ""
        message = f"unreadable format {written}, written by netsim {by}"
        hint = f"this version reads format {files.FORMAT}: {columns}run the experiment again"
        raise InputError(message, file=str(path), key="format", hint=hint)


def _points(sweep: Path, word: str = "") -> str:
    """List the points of a sweep, or suggest the one that `word` may mean."""
    names = sorted(folder.name for folder in sweep.iterdir() if folder.is_dir())
    hint = did_you_mean(word, names)
    many = len(names) > 8 and "did you mean" not in hint
    return f"there are {len(names)}, such as {names[0]}" if many else hint


def _why_none(path: Path) -> str:
    if not path.exists():
        sweep = path.parent
        return _points(sweep, path.name) if is_sweep(sweep) else "no such directory"
    if (path / files.CHECKPOINT).is_file():
        return f"unfinished: `netsim run {path}` continues the run"
    return f"{files.SUMMARY} is missing" if path.is_dir() else "it is a file"


def _read_table(path: Path, name: str) -> pl.DataFrame:
    """Read a table and check that it has the required columns, and numbers in numeric ones."""
    import polars as pl

    file_size(path)
    try:
        # Text columns are strings, so that `.str` works, not categories.
        table = pl.read_parquet(path).with_columns(pl.col(pl.Categorical).cast(pl.String))
    except OSError as error:
        reason = error.strerror or "not a Parquet file"
        raise InputError(f"cannot be read: {reason}", file=str(path), hint=DAMAGED) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError("not a Parquet file", file=str(path), hint=DAMAGED) from error
    if name == "sweep":
        required = ["point"]
    elif len(table):
        required = [one.name for one in columns()[name].values() if not one.optional]
    else:
        required = []
    for column in required:
        if column not in table.columns:
            raise InputError("missing column", file=str(path), key=column, hint=DAMAGED)
        number = columns()[name][column].unit != ""
        if number and not (table[column].dtype.is_numeric() or table[column].dtype == pl.Null):
            raise InputError("must be numbers", file=str(path), key=column)
    return table


def _arrays(table: pl.DataFrame) -> dict[str, Any]:
    """Return the columns as in memory: missing values are negative or NaN."""
    import numpy as np

    arrays = {}
    for column in table:
        if column.dtype.is_integer():
            arrays[column.name] = column.fill_null(-1).to_numpy()
        elif column.dtype.is_float():
            arrays[column.name] = column.fill_null(float("nan")).to_numpy()
        else:
            arrays[column.name] = np.array(column.to_list())
    return arrays
