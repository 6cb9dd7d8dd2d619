"""Read what a run has written."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.results import files

if TYPE_CHECKING:
    import polars as pl


class Result:
    """The result of one run. The tables are read when they are first asked for.

    Attributes: `flows` and `links` (polars DataFrames, columns as in `netsim.results.COLUMNS`),
    `summary` and `experiment` (dicts), `complete` (False for a partial result), `name`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.summary: dict[str, Any] = _read_json(path / files.SUMMARY)
        self.experiment: dict[str, Any] = _read_json(path / files.EXPERIMENT)

    @cached_property
    def flows(self) -> pl.DataFrame:
        """One row per flow."""
        return _read_table(self.path / files.FLOWS)

    @cached_property
    def links(self) -> pl.DataFrame:
        """One row per directed link and traffic class, unless the experiment left them out."""
        return _read_table(self.path / files.LINKS)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end; a partial result holds what was done until then."""
        return bool(self.summary["complete"])

    @property
    def name(self) -> str:
        """Name of the point."""
        return str(self.experiment["point"])

    def __repr__(self) -> str:
        partial = "" if self.complete else ", partial"
        return f"<Result {self.name}: {self.summary['flows']} flows{partial}>"


class Sweep:
    """The results of a sweep: `table` (one row per point) and `points` (their results)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table: pl.DataFrame = _read_table(path / files.SWEEP)

    @cached_property
    def points(self) -> list[Result]:
        """The results of the points that were written, in the order of the table."""
        folders = (self.path / name for name in self.table["point"])
        return [Result(folder) for folder in folders if (folder / files.SUMMARY).exists()]

    def __repr__(self) -> str:
        return f"<Sweep {self.path.name}: {len(self.table)} points>"


def is_sweep(path: Path | str) -> bool:
    """Whether a sweep, not a single result, was written to `path`."""
    return (Path(path) / files.SWEEP).is_file()


def load(path: Path | str) -> Result:
    """The result that a run has written to the directory `path`.

    Raises InputError if there is none.
    """
    path = Path(path)
    if is_sweep(path):
        raise InputError(
            f"{path} holds a sweep",
            hint="load one of its folders, or all of it with netsim.load_sweep",
        )
    if not (path / files.SUMMARY).is_file():
        raise InputError(f"{path} holds no result", hint=f"{files.SUMMARY} is missing")
    return Result(path)


def load_sweep(path: Path | str) -> Sweep:
    """The sweep that a run has written to the directory `path`.

    Raises InputError if there is none.
    """
    path = Path(path)
    if not is_sweep(path):
        raise InputError(f"{path} holds no sweep", hint=f"{files.SWEEP} is missing")
    return Sweep(path)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", file=str(path)) from error
    if not isinstance(content, dict):
        raise InputError("is not a JSON object", file=str(path))
    return content


def _read_table(path: Path) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read: {error}", file=str(path)) from error
