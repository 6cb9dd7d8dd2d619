"""The contents of a result: tables, columns of sweeps, and the reports that make them.

A report is a file in a folder `reports`, of the simulator or of an application. It may have

- `TABLES`: `TableSpec`s, each written as NAME.parquet and read back as `result.NAME`;
- `SWEEP`: `Metric`s, columns of the sweep table;
- `report(run)`: adds tables to `run.tables` and returns its part of the summary;
- `lines(summary)` and `sections(summary)`: what `netsim run` prints for a point, as rows of its
table (pairs of texts) and as further tables (`netsim.common.terminal`);
- `first_columns(rows)`: its columns in the printed sweep table before the flow columns, which are
then dropped first if space is short;
- `sweep_columns(rows)`: its columns after the flow columns, besides those with a `Metric.title`;
- `sweep_sections(rows, summaries, axes)`: further printed tables of a sweep;
- `ORDER`: its position among the reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from textwrap import dedent
from types import ModuleType
from typing import Any

from netsim.common.discovery import modules
from netsim.frozen import frozen


@frozen
class Column:
    """One column of a table; unit and doc are also stored in the Parquet file."""

    name: str
    unit: str
    doc: str
    null_below_zero: bool = False  # negative numbers in memory mean "missing" and are null on disk
    optional: bool = False  # missing from some tables


@frozen
class Metric(Column):
    """A column of a sweep, found at `path` in the summary (default: its name).

    With a `title` it is also printed if any point has it and there is room; the highest `rank` is
    dropped first. A `whole` number is stored as an integer.
    """

    path: str = ""
    title: str = ""
    rank: int = 3
    whole: bool = False
    share: bool = False  # a share, which tables show in per cent

    @staticmethod
    def each(text: str) -> tuple[Metric, ...]:
        """Return metrics from lines of name, unit ("-" for none), path and meaning. `%` after a
        name is `share`, `#` is `whole`. Lines are as in `TableSpec.of`."""
        return tuple(
            Metric(
                name.rstrip("%#"),
                unit.strip("-"),
                doc,
                path=path,
                share="%" in name,
                whole="#" in name,
            )
            for name, unit, path, doc in _rows(text, 4)
        )

    def of(self, summary: Mapping[str, Any]) -> Any:
        value: Any = summary
        for key in (self.path or self.name).split("."):
            value = (value or {}).get(key)
        return value


def _rows(text: str, width: int) -> list[list[str]]:
    """Return the cells of lines, separated by spaces; indented lines continue the last cell."""
    rows: list[list[str]] = []
    for line in dedent(text).strip("\n").split("\n"):
        if line.startswith(" "):
            rows[-1][-1] += f" {line.strip()}"
        else:
            rows.append(line.split(maxsplit=width - 1))
    return rows


@frozen
class TableSpec:
    """A table: its columns, and its position in the result's hash, 0 if excluded."""

    name: str
    columns: tuple[Column, ...]
    hash_order: int = 0
    of_run: bool = True  # whether runs write it; `netsim trace` writes the others

    @classmethod
    def of(cls, name: str, text: str, *, hash_order: int = 0, of_run: bool = True) -> TableSpec:
        """Return a table from lines of name, unit ("-" for none) and meaning, with spaces between.

        A meaning continues on lines that are indented more. `?` after a name is `null_below_zero`,
        `*` is `optional`.
        """
        columns = tuple(
            Column(written.rstrip("?*"), unit.strip("-"), doc, "?" in written, "*" in written)
            for written, unit, doc in _rows(text, 3)
        )
        return cls(name, columns, hash_order, of_run)

    @property
    def file(self) -> str:
        return f"{self.name}.parquet"

    def schema(self, **types: Any) -> dict[str, Any]:
        """Return the columns' polars types: integers for columns with a unit, text for others,
        unless `types` names the type."""
        import polars as pl

        return {c.name: pl.Int64 if c.unit else pl.String for c in self.columns} | types


SWEEP_COLUMNS = (
    Column("point", "", "name of the point, which is also its folder"),
    Column("transport", "", "transport of the point"),
    Column("seed", "", "seed of the point"),
    Column(
        "status",
        "",
        "how the run ended: finished, measured, time_limit, undelivered, stalled, interrupted or "
        "failed",
    ),
)


@cache
def reports() -> tuple[ModuleType, ...]:
    """Return all reports, in order."""
    found = [import_module(name) for name in modules("reports").values()]
    return tuple(sorted(found, key=lambda one: getattr(one, "ORDER", 1000)))


def each(name: str) -> list[Any]:
    """Return the reports' declarations under a name, such as "lines"."""
    return [getattr(report, name) for report in reports() if hasattr(report, name)]


@cache
def specs() -> dict[str, TableSpec]:
    """Return all tables by name."""
    return {one.name: one for tables in each("TABLES") for one in tables}


@cache
def metrics() -> tuple[Metric, ...]:
    return tuple(one for metrics in each("SWEEP") for one in metrics)


@cache
def columns() -> dict[str, dict[str, Column]]:
    """Return the columns of each table, including the sweep table, by name."""
    tables = {one.name: one.columns for one in specs().values()}
    digest = Column("hash", "", "SHA-256 over flows, links, tasks, operations, series and log")
    tables["sweep"] = (*SWEEP_COLUMNS, *metrics(), digest)
    return {table: {column.name: column for column in of} for table, of in tables.items()}


def describe(table: str, name: str) -> Column:
    """Return a column's documentation; an empty one if the column is unknown."""
    return columns()[table].get(name, Column(name, "", ""))
