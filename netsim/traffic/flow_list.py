"""Flows listed in a CSV or Parquet file.

Each row is a flow, numbered from 0. Columns:

- src, dst: hosts;
- size_bytes, or size as text with a unit ("2MB");
- start_ps, start_ns, start_us, start_ms or start_s (rounded to the nearest ps), or start as text
  with a unit ("1.5us"); default 0;
- class: traffic class, optional;
- routing_table: name of the routing table of the flow's data, optional; empty: by the topology's
  rules;
- after: optional; flows, separated by spaces, that must complete before this one starts.
  Its start then counts from the end of the last one.

A CSV file names its columns in the first line. Empty lines and lines that begin with # are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import require_file, unreadable, user_path, whole
from netsim.errors import InputError, did_you_mean
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.limits import CLASSES, HORIZON_PS
from netsim.model.checks import CLASSES_HINT, HORIZON, no_class
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.traffic._rows import (
    Cells,
    Mistakes,
    Rows,
    each,
    fail_at,
    integers,
    raise_some,
    read_csv,
)
from netsim.units import parse_bytes, parse_time_ps, shortened, written

if TYPE_CHECKING:
    import polars as pl

PARAMS = [Param("file", "file", REQUIRED, "a .csv or .parquet file")]

TABLE = "routing_table"
START_SCALE = {"start_ps": 1, "start_ns": 10**3, "start_us": 10**6, "start_ms": 10**9}
START_SCALE["start_s"] = 10**12
COLUMNS = ("src", "dst", "size_bytes", "size", *START_SCALE, "start", "class", TABLE, "after")
# From here on double precision does not hold whole picoseconds.
EXACT = 2.0**53
TOO_LARGE = "is too large to be exact to the picosecond"


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    path = user_path(params["file"], context.directory)
    table = _read_parquet(path, context) if path.suffix == ".parquet" else read_csv(path)
    _check_columns(table)
    mistakes = Mistakes()
    src, dst = (mistakes.of(_hosts, table, name, network.n_hosts) for name in ("src", "dst"))
    if src is not None and dst is not None:
        mistakes.of(fail_at, table, src == dst, lambda row: f"host {src[row]} sends to itself")
    cls = mistakes.of(_classes, table, context.n_traffic_classes) if "class" in table.columns else 0
    sizes, starts = mistakes.of(_sizes, table), mistakes.of(_starts, table)
    after = mistakes.of(_after, table) if "after" in table.columns else None
    tables = mistakes.of(_tables, table, network) if TABLE in table.columns else None
    mistakes.raise_all()
    result = FlowTable(src, dst, sizes, starts, cls=cls)
    if tables is not None:
        result.use_tables(*tables)
    if after is not None:
        result.wait_for(after)
    return result


def _hosts(table: Rows, name: str, n_hosts: int) -> NDArray[np.int64]:
    hosts = integers(table, name)
    fail_at(
        table,
        (hosts < 0) | (hosts >= n_hosts),
        lambda row: f"{name} {hosts[row]} does not exist (hosts are 0..{n_hosts - 1})",
    )
    return hosts


def _classes(table: Rows, n_traffic_classes: int | None) -> NDArray[np.int64]:
    classes = integers(table, "class")
    known = CLASSES if n_traffic_classes is None else n_traffic_classes
    errors = (
        table.error(row, no_class(int(classes[row]), known))
        for row in np.flatnonzero((classes < 0) | (classes >= known)).tolist()
    )
    raise_some(e.replace(hint=CLASSES_HINT) for e in errors)
    return classes


def _tables(table: Rows, network: Network) -> tuple[NDArray[np.int64], list[str]]:
    """Return the routing table of each flow and the names of tables."""
    names = ["", *(() if network.policy is None else network.policy.names)]
    number = {name: k for k, name in enumerate(names)}
    cells = [cell.strip() for cell in table.columns[TABLE]]
    found = np.array([number.get(cell, -1) for cell in cells], np.int64)
    known = f"the topology has {', '.join(names[1:])}" if names[1:] else "the topology has only one"
    fail_at(
        table, found < 0, lambda row: f"no routing table is named {written(cells[row])} ({known})"
    )
    return found, names


def _read_parquet(path: Path, context: TrafficContext) -> Rows:
    import polars as pl

    require_file(path)
    try:
        # A few bytes can encode any number of rows.
        rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        context.reserve(rows.select(pl.len()).collect().item(), key="traffic.file")
        table = rows.collect()
    except OSError as error:
        raise unreadable(path, error) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise InputError("is not a valid Parquet file", file=str(path)) from None
    return Rows(
        path,
        {column.name: _cells(path, column) for column in table},
        len(table),
        lambda row, message: InputError(message, file=str(path), key=f"row {row}"),
    )


def _cells(path: Path, column: pl.Series) -> Cells:
    """Return a column of a Parquet file: an array of numbers, or a list of texts or lists."""
    import polars as pl

    name, kind = column.name, column.dtype
    if name not in COLUMNS:
        return ()  # reported later with all unknown columns
    texts = kind in (pl.String, pl.Categorical, pl.Enum)
    whole_numbers = kind.is_integer()
    if name in ("size", "start", TABLE):
        right, what = texts, "text"
    elif name == "after":
        lists = isinstance(kind, pl.List) and (kind.inner.is_integer() or kind.inner == pl.Null)
        right = texts or whole_numbers or lists
        what = "text, whole numbers or lists of them"
    elif name in START_SCALE and name != "start_ps":
        right, what = whole_numbers or kind.is_float(), "numbers"
    else:
        right, what = whole_numbers, "whole numbers"
    if not right:
        raise InputError(f"column {name} must have {what}, not {kind}", file=str(path))
    if column.null_count():
        raise InputError(f"column {name} has empty cells", file=str(path))
    cells: Cells = column.to_numpy() if name != "after" and not texts else column.to_list()
    return cells


def _check_columns(table: Rows) -> None:
    names, file = table.columns, str(table.path)
    for name in names:
        if name not in COLUMNS:
            raise InputError(
                f"unknown column {written(name)}", file=file, hint=did_you_mean(name, COLUMNS)
            )
    for name in ("src", "dst"):
        if name not in names:
            raise InputError(f"column {name} is missing", file=file, code="missing")
    if ("size_bytes" in names) == ("size" in names):
        raise InputError("needs one column size_bytes or size", file=file)
    starts = [name for name in names if name.startswith("start")]
    if len(starts) > 1:
        raise InputError(f"has several start columns: {', '.join(starts)}", file=file)
    if not table.n_rows:
        raise InputError("has no flows", file=file)


def _sizes(table: Rows) -> NDArray[np.int64]:
    if "size" in table.columns:
        sizes = np.array(each(table, "size", parse_bytes), np.int64)
    else:
        sizes = integers(table, "size_bytes")
    fail_at(table, sizes < 1, lambda row: f"size of {sizes[row]} bytes must be positive")
    return sizes


def _starts(table: Rows) -> NDArray[np.int64]:
    name = next((name for name in table.columns if name.startswith("start")), None)
    if name is None:
        return np.zeros(table.n_rows, np.int64)
    if name == "start":
        return np.array(each(table, name, parse_time_ps), np.int64)
    cells = table.columns[name]

    def shown(row: int) -> str:
        return f"{name} {shortened(str(cells[row]))}"

    if name == "start_ps":
        starts = integers(table, name)
    else:
        numbers = cells if isinstance(cells, np.ndarray) else each(table, name, float)
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.asarray(numbers, np.float64) * START_SCALE[name]
        too_large = ~(np.abs(exact) < EXACT)
        fail_at(table, too_large, lambda row: f"{shown(row)} {TOO_LARGE}")
        starts = np.rint(exact).astype(np.int64)
    fail_at(table, starts < 0, lambda row: f"{shown(row)} is negative")
    fail_at(table, starts >= HORIZON_PS, lambda row: f"{shown(row)} is too late: {HORIZON}")
    return starts


def _after(table: Rows) -> list[list[int]]:
    """Return, for each flow, the flows it waits for; a cell is text, a number or a list."""

    def flows_of(cell: Any) -> list[int]:
        if isinstance(cell, str):
            return [whole(word) for word in cell.split()]
        return [cell] if isinstance(cell, int) else [int(flow) for flow in cell]

    after = each(table, "after", flows_of)
    raise_some(
        table.error(row, f"after: flow {flow} does not exist")
        for row, flows_before in enumerate(after)
        for flow in flows_before
        if not 0 <= flow < table.n_rows
    )
    return after
