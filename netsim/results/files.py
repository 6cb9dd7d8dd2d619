"""Names of a result's files, and how to write JSON and Parquet."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common.discovery import declared
from netsim.common.writing import is_plain_file, replacing_file, write_text
from netsim.results.columns import Column, describe, specs

if TYPE_CHECKING:
    from arro3.core import Array

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
"""Plots not made by `netsim plot --kind`, called KIND.png or KIND_Y.png."""

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
    """Write `columns` (name -> array or list, of one type and of equal length) as Parquet.

    arro3 writes tables, because it is imported in 5 ms; polars reads them and takes 150 ms.
    """
    from arro3.core import Table
    from arro3.io import write_parquet

    arrays = [_array(values, describe(table, name)) for name, values in columns.items()]
    content = BytesIO()  # a file error, such as a full disk, would otherwise cause a panic
    write_parquet(
        Table.from_arrays(arrays, names=list(columns)),
        content,
        compression="zstd(3)",
        key_value_metadata=table_metadata(table, columns),
    )
    with replacing_file(path) as file:
        file.write(content.getbuffer())


def table_metadata(table: str, columns: Iterable[str]) -> dict[str, str]:
    """Return the metadata of a Parquet file: the table's name, units and meanings as JSON."""
    described = {name: describe(table, name) for name in columns}
    about = {name: {"unit": one.unit, "doc": one.doc} for name, one in described.items()}
    return {TABLE: table, "netsim.columns": json.dumps(about)}


def _array(values: Any, column: Column) -> Array:
    """Return a column, with null for missing values."""
    import numpy as np
    from arro3.core import Array, DataType

    if isinstance(values, Array):
        return values
    if not isinstance(values, np.ndarray):
        kind = next((type(value) for value in values if value is not None), str)
        types = {bool: DataType.bool(), int: DataType.int64(), float: DataType.float64()}
        return Array(values, types.get(kind, DataType.string()))
    if values.dtype.kind in "UO":
        text = DataType.string()
        return Array(values.tolist(), text).cast(DataType.dictionary(DataType.uint32(), text))
    array = Array.from_numpy(np.ascontiguousarray(values))
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    elif column.null_below_zero:
        missing = values < 0
    else:
        return array
    rows = np.where(missing, -1, np.arange(values.size))
    return array.take(Array.from_numpy(rows).cast(DataType.uint64()))  # row -1 becomes null


def link_or_copy(path: Path, target: Path) -> None:
    """Link or copy the file `path`, if it exists, to `target`."""
    if not is_plain_file(path):
        return
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copyfile(path, target, follow_symlinks=False)
