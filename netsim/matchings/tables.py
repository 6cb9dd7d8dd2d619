"""Demand between racks as a sparse table of whole numbers, and stuffing it.

A row's dict has the columns to which it sends, each with the bytes, more than 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

Table = list[dict[int, int]]


class Submatching(NamedTuple):
    """A part of a demand: `amount` bytes from each row to its column in `columns`; -1 if none."""

    columns: list[int]
    amount: int


def table_of(n: int, entries: Iterable[tuple[int, int, int]]) -> Table:
    """The table of n rows with these entries (row, column, bytes); those of one place are added."""
    table: Table = [{} for _ in range(n)]
    for row, column, amount in entries:
        if amount > 0:
            table[row][column] = table[row].get(column, 0) + amount
    return table


def sums(table: Table) -> tuple[list[int], list[int]]:
    """What is in each row, and in each column."""
    columns = [0] * len(table)
    for entries in table:
        for column, amount in entries.items():
            columns[column] += amount
    return [sum(entries.values()) for entries in table], columns


def stuffed(table: Table) -> Table:
    """A copy with so much added that all rows and columns have the sum of the largest one.

    This is QuickStuff (H. Liu et al., Scheduling Techniques for Hybrid Circuit/Packet Networks,
    CoNEXT 2015): what can be is added to places that have something, so that few new ones are
    needed. Of these come first those of a row to itself, which cost no circuit.
    """
    found = [dict(sorted(entries.items())) for entries in table]
    rows, columns = sums(found)
    full = max(chain(rows, columns), default=0)
    rows, columns = [full - one for one in rows], [full - one for one in columns]

    def add(row: int, column: int) -> None:
        amount = min(rows[row], columns[column])
        if amount:
            found[row][column] = found[row].get(column, 0) + amount
            rows[row] -= amount
            columns[column] -= amount

    for row, entries in enumerate(table):
        for column in sorted(entries):
            add(row, column)
    for row in range(len(table)):
        add(row, row)
    # What is left has the same sum in rows and columns: from one corner to the other.
    row = column = 0
    while row < len(table) and column < len(table):
        add(row, column)
        row, column = (row + 1, column) if not rows[row] else (row, column + 1)
    return found


def take(table: Table, columns: Sequence[int], amount: int) -> None:
    """Take `amount` from the place of each row in its column; what is then empty is left out."""
    for row, column in enumerate(columns):
        left = table[row][column] - amount
        if left:
            table[row][column] = left
        else:
            del table[row][column]


Entry = tuple[int, int, int]


def mispredicted(
    entries: Sequence[Entry], n: int, share: float, rng: np.random.Generator
) -> list[Entry]:
    """The entries (row, column, bytes) of n racks as somebody expects them who errs.

    A share of the bytes of each is expected of a pair of two other racks, drawn at random; the sum
    stays the same.
    """
    rows, columns, amounts = np.array(entries, np.int64).reshape(-1, 3).T
    moved = np.rint(amounts * share).astype(np.int64)
    pair = rng.integers(0, n * (n - 1), rows.size)
    to_row, to_column = np.divmod(pair, n - 1)
    to_column += to_column >= to_row
    found = np.concatenate(
        [np.stack([rows, columns, amounts - moved]), np.stack([to_row, to_column, moved])], axis=1
    )
    return [(row, column, amount) for row, column, amount in found.T.tolist() if amount]
