"""Tables in users' files: columns of cells; errors give the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common import inputs
from netsim.common.inputs import at_line, read_text, whole
from netsim.common.memory import require_room
from netsim.errors import InputError, raise_all
from netsim.frozen import frozen
from netsim.units import written

Cells = Sequence[Any] | NDArray[Any]

MAX_REPORTED = 20  # most rows reported for one kind of mistake; the rest are counted


@frozen
class Rows:
    """Columns of cells as read, and a function that returns the error for a row. `lines` are line
    numbers of a CSV file's header and rows."""

    path: Path
    columns: Mapping[str, Cells]
    n_rows: int
    error: Callable[[int, str], InputError]
    lines: Sequence[int] = ()


def read_csv(path: Path) -> Rows:
    """Return the rows of a CSV file whose first line names the columns."""
    lines: list[int] = []
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for cells in reader:
            if cells and not cells[0].lstrip().startswith("#"):
                rows.append(cells)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise at_line(path, reader.line_num, f"is not CSV: {error}") from None
    if not rows:
        raise InputError("is empty", file=str(path), hint="the first line names the columns")
    names = [name.strip() for name in rows[0]]
    raise_some(
        at_line(path, line, f"has {len(cells)} values for {len(names)} columns")
        for line, cells in zip(lines, rows, strict=True)
        if len(cells) != len(names)
    )
    body = rows[1:]
    columns: dict[str, Cells] = dict(zip(names, zip(*body, strict=True), strict=False))
    if len(set(names)) < len(names):
        raise at_line(path, lines[0], "duplicate column")
    return Rows(
        path,
        columns or dict.fromkeys(names, ()),
        len(body),
        lambda row, message: at_line(path, lines[row + 1], message),
        lines,
    )


def read_json(path: Path) -> Rows:
    """Return the rows of a JSON list of objects; keys are columns and may be missing. Cells are
    text, as in a CSV file: a number as written, the items of a list joined by spaces."""
    body = inputs.read_json(path, parse_int=str, parse_float=str, object_pairs_hook=_Object)
    is_list = isinstance(body, list) and not isinstance(body, _Object)
    if not is_list or not all(isinstance(row, _Object) for row in body):
        hint = 'such as [{"kind": "join", "host": 0}]'
        raise InputError("must be a list of objects", file=str(path), hint=hint, code="wrong_type")

    def error(row: int, message: str) -> InputError:
        return InputError(message, file=str(path), key=f"[{row}]")

    names = dict.fromkeys(name for row in body for name, _ in row)
    what = f"{len(body):,} objects of {len(names):,} different keys"
    require_room(8 * len(names) * len(body), what=what)
    columns = {name: [""] * len(body) for name in names}
    for number, row in enumerate(body):
        if len(dict(row)) < len(row):
            raise error(number, "duplicate key")
        for name, value in row:
            cell = _cell(value)
            if cell is None:
                what = written(str(value))
                raise error(number, f"{written(name)}: {what} is neither text nor a number")
            columns[name][number] = cell
    return Rows(path, dict(columns), len(body), error)


class _Object(list[Any]):
    """The key-value pairs of a JSON object, as written."""


def _cell(value: Any) -> str | None:
    """Return a JSON value as a table cell; None if it is not text, a number or a flat list."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not isinstance(value, _Object):
        return " ".join(value) if all(isinstance(one, str) for one in value) else None
    return None


def integers(table: Rows, name: str) -> NDArray[np.int64]:
    cells = table.columns[name]
    if not isinstance(cells, np.ndarray):
        return np.array(each(table, name, whole), np.int64)
    too_large = cells > np.iinfo(np.int64).max
    fail_at(table, too_large, lambda row: f"{name} {cells[row]} is too large")
    return cells.astype(np.int64)


def each(table: Rows, name: str, convert: Callable[[Any], Any]) -> list[Any]:
    """Return a column's cells, converted; errors give their rows."""
    cells = table.columns[name]
    try:
        return list(map(convert, cells))
    except (ValueError, TypeError, OverflowError, InputError):
        raise_some(_misread(table, name, convert))
        raise


def _misread(table: Rows, name: str, convert: Callable[[Any], Any]) -> Iterator[InputError]:
    """Yield the errors of a column's cells that cannot be converted."""
    for row, cell in enumerate(table.columns[name]):
        try:
            convert(cell)
        except InputError as error:
            yield table.error(row, f"{name}: {error}")
        except (ValueError, TypeError, OverflowError):
            yield table.error(row, f"{name}: {written(cell)} is not a number")


def fail_at(table: Rows, bad: NDArray[np.bool_], message: Callable[[int], str]) -> None:
    """Raise errors for the rows that are bad."""
    raise_some(table.error(row, message(row)) for row in np.flatnonzero(bad).tolist())


def raise_some(errors: Iterator[InputError]) -> None:
    """Raise the first errors at once, if any, with a count of the others."""
    first = list(islice(errors, MAX_REPORTED))
    if more := sum(1 for _ in errors):
        first.append(InputError(f"{more:,} more rows like these", file=first[0].file))
    raise_all(first)


class Mistakes:
    """Collects errors of several columns, to raise them at once."""

    def __init__(self) -> None:
        self._errors: list[InputError] = []

    def of(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Call a reader; return None if it raises errors."""
        try:
            return read(*arguments)
        except InputError as error:
            self._errors += error.errors
            return None

    def raise_all(self) -> None:
        raise_all(self._errors)
