"""What a result consists of: tables, columns of sweeps, and the reports that declare and make them.

A report is a file in a folder `reports`, of the simulator or of an application. It may have

- `TABLES`: each a `TableSpec`, written as NAME.parquet and read back as `result.NAME`;
- `SWEEP`: each a `Metric`, a column of the table of a sweep;
- `report(run)`: puts rows into `run.tables` and returns its part of the summary;
- `lines(summary)` and `sections(summary)`: what `netsim run` prints of one point, as pairs of texts
  in its table and as tables of their own (`netsim.terminal`);
- `sweep_columns(rows)`: its columns in the printed table of a sweep, for more than `Metric.title`;
- `ORDER`: its place among the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netsim.discovery import modules

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Column:
    """One column of a table. Its unit and text are also stored in the Parquet file."""

    name: str
    unit: str
    doc: str
    null_below_zero: bool = False
    """In memory a negative number says "there is none"; on disk that is null."""
    optional: bool = False
    """Not every table has it."""


@dataclass(frozen=True)
class Metric(Column):
    """A column of a sweep: `path` says where in the summary it stands, by default under its name.

    With a `title` it is also printed where any point has it, as long as there is room: columns with
    the highest `rank` are left out first. A `whole` number is stored as an integer.
    """

    path: str = ""
    title: str = ""
    rank: int = 3
    whole: bool = False

    def of(self, summary: Mapping[str, Any]) -> Any:
        """Return its value in a summary, or None."""
        value: Any = summary
        for key in (self.path or self.name).split("."):
            value = (value or {}).get(key)
        return value


@dataclass(frozen=True)
class TableSpec:
    """A table: its columns, and its place in the hash of a result, 0 if it is not in it."""

    name: str
    columns: tuple[Column, ...]
    hash_order: int = 0
    of_run: bool = True
    """Is it written by a run? Others are those that `netsim trace` can write."""

    @property
    def file(self) -> str:
        """Its file in the directory of a result."""
        return f"{self.name}.parquet"


SWEEP_COLUMNS = (
    Column("point", "", "name of the point, which is also its folder"),
    Column("transport", "", "transport of the point"),
    Column("seed", "", "seed of the point"),
    Column(
        "status",
        "",
        "how the run ended: finished, time_limit, undelivered, stalled, interrupted or failed",
    ),
)


@cache
def reports() -> tuple[ModuleType, ...]:
    """All reports, in order."""
    found = [import_module(name) for name in modules("reports").values()]
    return tuple(sorted(found, key=lambda one: getattr(one, "ORDER", 1000)))


def each(name: str) -> list[Any]:
    """What reports declare by a name, such as "lines", of those that do."""
    return [getattr(report, name) for report in reports() if hasattr(report, name)]


@cache
def specs() -> dict[str, TableSpec]:
    """All tables by name."""
    return {one.name: one for tables in each("TABLES") for one in tables}


@cache
def metrics() -> tuple[Metric, ...]:
    """What reports add to the table of a sweep."""
    return tuple(one for metrics in each("SWEEP") for one in metrics)


@cache
def columns() -> dict[str, dict[str, Column]]:
    """The columns of each table, with that of sweeps, by name."""
    tables = {one.name: one.columns for one in specs().values()}
    digest = Column("hash", "", "SHA-256 over flows, links, tasks, operations, series and log")
    tables["sweep"] = (*SWEEP_COLUMNS, *metrics(), digest)
    return {table: {column.name: column for column in of} for table, of in tables.items()}


def describe(table: str, name: str) -> Column:
    """The documentation of a column; for one that is not known, a column without unit or text."""
    return columns()[table].get(name, Column(name, "", ""))
