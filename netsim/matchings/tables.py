"""Demand between racks as a sparse table of integers, stuffing, and prediction errors.

A row is a dict of its columns and bytes, all positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

Table = list[dict[int, int]]


class Submatching(NamedTuple):
    """Part of a demand: `amount` bytes from each row to its column in `columns`; -1 if none."""

    columns: list[int]
    amount: int


def table_of(n: int, entries: Iterable[tuple[int, int, int]]) -> Table:
    """Return the table of n rows with these (row, column, bytes); duplicates add up."""
    table: Table = [{} for _ in range(n)]
    for row, column, amount in entries:
        if amount > 0:
            table[row][column] = table[row].get(column, 0) + amount
    return table


def sums(table: Table) -> tuple[list[int], list[int]]:
    columns = [0] * len(table)
    for entries in table:
        for column, amount in entries.items():
            columns[column] += amount
    return [sum(entries.values()) for entries in table], columns


def stuffed(table: Table) -> Table:
    """Return a copy with bytes added until every row and column sum is the largest.

    This is QuickStuff (H. Liu et al., Scheduling Techniques for Hybrid Circuit/Packet Networks,
    CoNEXT 2015): it first increases existing entries to create few new ones. New entries start with
    those of a row to itself, which need no circuit.
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
    # The rest has equal sums in rows and columns: fill from one corner to the other.
    row = column = 0
    while row < len(table) and column < len(table):
        add(row, column)
        row, column = (row + 1, column) if not rows[row] else (row, column + 1)
    return found


def take(table: Table, columns: Sequence[int], amount: int) -> None:
    """Subtract `amount` from each row's entry in its column, removing entries that reach 0."""
    for row, column in enumerate(columns):
        left = table[row][column] - amount
        if left:
            table[row][column] = left
        else:
            del table[row][column]


Entry = tuple[int, int, int]


def mispredict(
    entries: Sequence[Entry], n: int, share: float, rng: np.random.Generator
) -> list[Entry]:
    """Return entries (row, column, bytes) of n racks with prediction errors. A share of the
    bytes of each entry moves to a random pair of two other racks; the sum stays."""
    rows, columns, amounts = np.array(entries, np.int64).reshape(-1, 3).T
    moved = np.rint(amounts * share).astype(np.int64)
    pair = rng.integers(0, n * (n - 1), rows.size)
    to_row, to_column = np.divmod(pair, n - 1)
    to_column += to_column >= to_row
    found = np.concatenate(
        [np.stack([rows, columns, amounts - moved]), np.stack([to_row, to_column, moved])], axis=1
    )
    return [(row, column, amount) for row, column, amount in found.T.tolist() if amount]
