"""What `netsim trace` makes of what it finds: files, a picture, or lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from netsim.errors import InputError
from netsim.writing import replacing_file

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
        with _told(csv), replacing_file(csv) as file:
            table.write_csv(file)
    if parquet:
        columns = {column.name: column.to_arrow() for column in table}
        with _told(parquet):
            write_table(parquet, name, columns)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell whoever asked for a file that it cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
