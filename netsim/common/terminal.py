"""Tables that fit the terminal: if it is narrow, columns are left out or continue below."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from netsim.units import format_number, format_time, written

if TYPE_CHECKING:
    from rich.table import Table


UNITS = (("ps", 1), ("ns", 10**3), ("us", 10**6), ("ms", 10**9), ("s", 10**12))

Row = Mapping[str, Any]


@dataclass
class Column:
    """A column of a `Wide` table. The higher its rank, the sooner it is left out; never at 0. Of
    equal ranks, the last column goes first."""

    header: str
    cells: list[str]
    rank: int = 0
    left: bool = False

    @property
    def name(self) -> str:
        """The header on one line."""
        return self.header.replace("-\n", "-").replace("\n", " ")


@dataclass
class Wide:
    """A table that leaves columns out, or continues below itself, if it is too wide."""

    columns: list[Column]
    title: str = ""
    elsewhere: str = ""  # where to find the columns that are left out

    def table(self) -> Table:
        """The columns as they are."""
        from rich.text import Text

        table = plain_table(title=self.title)
        for column in self.columns:
            justify: Literal["left", "right"] = "left" if column.left else "right"
            table.add_column(column.header, justify=justify, overflow="fold")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            cells = zip(row, self.columns, strict=True)
            table.add_row(*(Text(cell, no_wrap=not column.left) for cell, column in cells))
        return table

    def fitting(self, width: int) -> tuple[Wide, list[str]]:
        """The columns that fit, and the headers of the other columns."""
        kept, gone = list(self.columns), []
        while needed_width(Wide(kept, self.title).table()) > width:
            last = max(reversed(kept), key=lambda column: column.rank)
            if last.rank == 0:
                break
            kept.remove(last)
            gone.append(last)
        for one in sorted(gone, key=lambda column: column.rank):  # narrow ones may still fit
            more = [column for column in self.columns if column is one or column in kept]
            if Wide(more, self.title).fits(width):
                kept = more
        left_out = [column.name for column in self.columns if column not in kept]
        return Wide(kept, self.title, self.elsewhere), left_out

    def split(self, width: int) -> Iterator[Wide]:
        """Tables that fit, one below the other, each with the columns that name the rows. Those are
        the text columns on the left, which wrap if they leave no room for others."""
        names = self.columns[:1]
        for column in self.columns[1:]:
            if not column.left:
                break
            names.append(column)
        rest = self.columns[len(names) :]
        title = self.title
        while rest:
            some = 1
            while some < len(rest) and Wide(names + rest[: some + 1], title).fits(width):
                some += 1
            yield Wide(names + rest[:some], title)
            rest, title = rest[some:], ""

    def html(self) -> str:
        """The table in HTML, with all columns."""
        heads = "".join(f"<th>{escape(column.name)}</th>" for column in self.columns)
        rows = (
            "".join(f"<td>{escape(cell)}</td>" for cell in row)
            for row in zip(*(column.cells for column in self.columns), strict=True)
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"

    def fits(self, width: int) -> bool:
        """Whether no cell of the table needs to wrap."""
        return needed_width(self.table()) <= width


def needed_width(table: Table) -> int:
    """The width at which no cell of a table is wrapped."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=10_000, markup=False, emoji=False)
    return Measurement.get(console, console.options, table).maximum


def show(table: Table | Wide) -> None:
    """Print a table as wide as the terminal or COLUMNS, or in full width if neither is known.

    No number is ever cut off or wrapped: on a narrow terminal a wide table has fewer columns, and
    required columns continue below.
    """
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if isinstance(table, Wide):
        bounded = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
        width = console.width if bounded else None
        for line in wide_lines(table, width):
            if width is None and not isinstance(line, str):
                console.width = max(console.width, needed_width(line))
            console.print(line, soft_wrap=isinstance(line, str))
        return
    console.width = max(console.width, needed_width(table))
    console.print(table)


def wide_lines(table: Wide, width: int | None) -> Iterator[Table | str]:
    """The printed lines of a table at a width; None means unlimited."""
    if width is None or needed_width(table.table()) <= width:
        yield table.table()
        return
    chosen, left_out = table.fitting(width)
    if chosen.fits(width):
        yield chosen.table()
    else:
        for part in chosen.split(width):
            yield part.table()
    elsewhere = f"; {table.elsewhere}" if table.elsewhere else ""
    yield f"no room for: {', '.join(left_out)}{elsewhere}"


def plain_table(*headers: str, title: str = "") -> Table:
    """An empty table in the common style; `title` is printed above it."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, title=title or None, title_justify="left", title_style="bold")
    table.collapse_padding, table.pad_edge = True, False
    for header in headers:
        table.add_column(header)
    return table


def rows_table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Wide:
    """The table of some rows; columns after the first `left` are aligned right."""
    cells = zip(headers, zip(*rows, strict=True), strict=True)
    return Wide([Column(one, list(its), left=k < left) for k, (one, its) in enumerate(cells)])


def pairs_table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """A table of names and values without a header."""
    table = plain_table("", "", title=title)
    table.show_header = False
    for row in rows:
        table.add_row(*row)
    return table


def common_unit(times_ps: Sequence[float | None]) -> tuple[str, int]:
    """The unit of time, and its picoseconds, in which the largest of some times is 1 to 1000."""
    largest = max((time for time in times_ps if time is not None), default=0)
    fitting = [unit for unit in UNITS if unit[1] <= largest]
    return fitting[-1] if fitting else UNITS[0]


def time_columns(columns: Iterable[tuple[str, Sequence[float | None], int]]) -> list[Column]:
    """Return columns (header, times in ps, rank) in one unit, or each time in its own unit if some
    would be below 0.01 in a common one."""
    found = list(columns)
    known = [time for _, times, _ in found for time in times if time]
    unit, scale = common_unit(known)
    if min(known, default=scale) < scale / 100:
        return [
            Column(header, [time_text(time, 4) for time in times], rank)
            for header, times, rank in found
        ]
    return [
        Column(f"{header}\n{unit}", [number(time, scale) for time in times], rank)
        for header, times, rank in found
    ]


def axis_text(value: Any) -> str:
    """A value on an axis; a dash if the point lacks it, as for an axis of another plugin."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else written(value)


def axis_columns(rows: Sequence[Row], axes: Sequence[str]) -> list[Column]:
    """Return a column for each axis, titled by its last word."""
    return [
        Column(axis.rpartition(".")[2], [axis_text(row.get(axis)) for row in rows], left=True)
        for axis in axes
    ]


def percent(share: float | None) -> str:
    """A share in per cent, without the sign; a dash if there is none."""
    return number(share, 0.01)


def any_of(rows: Sequence[Row], name: str) -> bool:
    """Whether a counter is above zero in any row."""
    return any(row.get(name) for row in rows)


def number(value: float | None, scale: float = 1) -> str:
    """A number with four significant digits, never as 1e+03; a dash if there is none."""
    if value is None or math.isnan(value):
        return "-"
    return format_number(value / scale)


def count(value: int | None) -> str:
    """A counter with thousands separators."""
    return "-" if value is None else f"{value:,}"


def time_text(value: float | None, digits: int = 5) -> str:
    """A time in its own unit; a dash if there is none."""
    return "-" if value is None else format_time(round(value), digits)


def done_of(done: int | None, total: int | None) -> str:
    """A number of things, or "done/all" if some are not done."""
    if done is None or total is None:
        return "-"
    return f"{total:,}" if done == total else f"{done:,}/{total:,}"
