"""Names of a result's files, and how to write JSON and Parquet."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common.discovery import declared
from netsim.common.writing import is_plain_file, replacing_file, write_text
from netsim.results.columns import Column, describe, specs

if TYPE_CHECKING:
    import polars as pl

FORMAT = 2  # version of the layout of a result directory

FLOWS = "flows.parquet"
LINKS = "links.parquet"
SUMMARY = "summary.json"
EXPERIMENT = "experiment.json"
SWEEP = "sweep.parquet"
CHECKPOINT = "checkpoint.netsim"
SHARD = "shard.json"
REPORT = "report.html"

TABLE = "netsim.table"  # key of a table's name in the metadata of Parquet files

PICTURE = re.compile(r"(trace_[0-9]+|(fct|slowdown)_(mean|p50|p99|max)_\w+)\.png")
"""Plots other than those of `netsim plot --kind`, called KIND.png or KIND_Y.png."""

LEFT_OVER = re.compile(r"\.(.+)\.[a-z0-9_]+\.(tmp|old)")  # temporary names of killed runs

OTHERS = frozenset((SUMMARY, EXPERIMENT, CHECKPOINT, SHARD, REPORT))
"""Files of a result besides its tables."""


def is_ours(name: str) -> bool:
    """Return whether netsim writes files of that name to a result directory."""
    if left := LEFT_OVER.fullmatch(name):
        name = left[1]
        return name == SWEEP or is_ours(name)
    if name in OTHERS or PICTURE.fullmatch(name) or name in tables():
        return True
    plots = declared("plots", "PLOTS").values() if name.endswith(".png") else ()
    kinds = (kind for its in plots for kind in its)
    return any(name == f"{kind}.png" or name.startswith(f"{kind}_") for kind in kinds)


def tables() -> set[str]:
    """Return the names of the table files that runs write."""
    return {one.file for one in specs().values() if one.of_run}


def plain(value: Any) -> Any:
    """Return `value` as JSON-compatible types; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # a numpy scalar or array
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as indented JSON."""
    write_text(path, json.dumps(plain(content), indent=2, ensure_ascii=False) + "\n")


def write_table(path: Path, table: str, columns: Mapping[str, Any]) -> None:
    """Write `columns` (name -> array, list or Series of equal length) as Parquet. The metadata have
    the table's name, and the unit and meaning of each column as JSON."""
    import polars as pl

    described = {name: describe(table, name) for name in columns}
    frame = pl.DataFrame(
        [_series(name, columns[name], column) for name, column in described.items()]
    )
    about = {name: {"unit": one.unit, "doc": one.doc} for name, one in described.items()}
    metadata = {TABLE: table, "netsim.columns": json.dumps(about)}
    with replacing_file(path) as file:
        frame.write_parquet(file, metadata=metadata)


def _series(name: str, values: Any, column: Column) -> pl.Series:
    """Return a column, with null for missing values."""
    import numpy as np
    import polars as pl

    if not isinstance(values, np.ndarray):
        return pl.Series(name, values)
    if values.dtype.kind in "UO":
        return pl.Series(name, values.tolist(), pl.Categorical)
    series = pl.Series(name, values)
    if values.dtype.kind == "f":
        return series.fill_nan(None)
    return series.set(series < 0, None) if column.null_below_zero else series


def link_or_copy(path: Path, target: Path) -> None:
    """Link or copy the file `path`, if there is one, to `target`."""
    if not is_plain_file(path):
        return
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copyfile(path, target, follow_symlinks=False)
