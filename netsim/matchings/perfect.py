"""Perfect matchings of a table: a different column for each row."""

from __future__ import annotations

from collections.abc import Iterator

from netsim.matchings.tables import Table

FREE = -1


def perfect_matching(table: Table, least: int = 1, known: list[int] | None = None) -> list[int]:
    """Return a different column for each row, with entries of at least `least`; [] if there is
    none.

    Hopcroft-Karp, starting with the entries of `known` that are still in the table, so that a
    matching that has lost few entries is repaired quickly.
    """
    n = len(table)
    column_of = [FREE] * n
    row_of = [FREE] * n
    for row, column in enumerate(known or []):
        if table[row].get(column, 0) >= least:
            column_of[row], row_of[column] = column, row
    while FREE in column_of:
        roots = [row for row, column in enumerate(column_of) if column == FREE]
        level = _levels(table, least, row_of, roots)
        if level is None:
            return []
        entries = [iter(one.items()) for one in table]
        for root in roots:
            _augment(entries, least, column_of, row_of, (level, root))
    return column_of


def _levels(table: Table, least: int, row_of: list[int], roots: list[int]) -> list[int] | None:
    """Return the rows before each row on its shortest alternating path; None if no path ends."""
    level = [FREE] * len(table)
    for root in roots:
        level[root] = 0
    reached, ends = list(roots), False
    for row in reached:
        for column, amount in table[row].items():
            if amount < least:
                continue
            other = row_of[column]
            if other == FREE:
                ends = True
            elif level[other] == FREE:
                level[other] = level[row] + 1
                reached.append(other)
    return level if ends else None


def _augment(
    entries: list[Iterator[tuple[int, int]]],
    least: int,
    column_of: list[int],
    row_of: list[int],
    start: tuple[list[int], int],
) -> None:
    """Match the root by an alternating path from level to level, if one is left. `entries` are
    those that no path has tried; `start` is the levels and the root."""
    level, root = start
    rows, columns = [root], [FREE]
    while rows:
        row = rows[-1]
        for column, amount in entries[row]:
            if amount < least:
                continue
            other = row_of[column]
            if other == FREE:
                columns.append(column)
                for one, into in zip(rows, columns[1:], strict=True):
                    column_of[one], row_of[into] = into, one
                return
            if level[other] == level[row] + 1:
                rows.append(other)
                columns.append(column)
                break
        else:
            rows.pop()
            columns.pop()
