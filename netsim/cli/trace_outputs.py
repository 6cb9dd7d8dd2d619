"""What `netsim trace` makes of what it finds: files, a picture, or lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import InputError

if TYPE_CHECKING:
    import polars as pl


class Outputs(NamedTuple):
    """What was asked for: lines to print (0: all), and files."""

    limit: int
    csv: Path | None
    parquet: Path | None
    quiet: bool


def write_tables(name: str, table: pl.DataFrame, csv: Path | None, parquet: Path | None) -> None:
    """Write a table of `netsim.results.COLUMNS` as CSV and Parquet. Raises InputError."""
    from netsim.results.files import write_table

    if csv:
        _write(csv, lambda: table.write_csv(csv))
    if parquet:
        columns = {column.name: column.to_arrow() for column in table}
        _write(parquet, lambda: write_table(parquet, name, columns))


def _write(path: Path, write: Callable[[], Any]) -> None:
    try:
        write()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
