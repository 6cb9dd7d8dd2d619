"""What `netsim trace` makes of what it finds: files, a picture, or lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import InputError
from netsim.writing import replacing_file

if TYPE_CHECKING:
    import polars as pl

    from netsim.tracing import FlowTrace


class TraceOutputs(NamedTuple):
    """What was asked for: lines to print (0: all, None: some), and files."""

    limit: int | None
    csv: Path | None
    parquet: Path | None
    quiet: bool
    as_json: bool = False


def flow_json(trace: FlowTrace, events: pl.DataFrame, limit: int | None) -> dict[str, Any]:
    """A flow's trace for programs: what is known of it, its events, where its time went.

    Of events so many as `limit` says, if that is not 0; without what a row has not got.
    """
    from netsim.cli.trace_time import totals

    tables = {"events": events.head(limit) if limit else events, "segments": trace.segments}
    rest = {one.name: getattr(trace, one.name) for one in fields(trace) if one.name not in tables}
    rows = {
        name: [{k: v for k, v in row.items() if v is not None} for row in table.to_dicts()]
        for name, table in tables.items()
    }
    return {**rest, "time": totals(trace.segments).to_dicts(), **rows}


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
