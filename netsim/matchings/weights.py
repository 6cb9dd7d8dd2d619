"""Matchings of the largest weight: which racks to join for one slot, so that most bytes go."""

from __future__ import annotations

import heapq

import networkx as nx

from netsim.matchings.perfect import FREE
from netsim.matchings.tables import Submatching, Table


def slot_by_slot(
    table: Table, capacity: int, most: int, *, bidirectional: bool
) -> list[Submatching]:
    """The best matching for a slot of `capacity` bytes, then for what is left, and so on.

    At most `most` of them, and none when nothing is left. With `bidirectional` rows and columns are
    joined in pairs, both ways.
    """
    left = [dict(entries) for entries in table]
    parts: list[Submatching] = []
    while any(left) and len(parts) < most:
        worth = [
            {column: min(amount, capacity) for column, amount in entries.items()}
            for entries in left
        ]
        columns = heaviest_pairs(worth) if bidirectional else heaviest(worth)
        for row, column in enumerate(columns):
            if column in left[row]:
                left[row][column] -= capacity
                if left[row][column] <= 0:
                    del left[row][column]
        parts.append(Submatching(columns, capacity))
    return parts


def heaviest(table: Table) -> list[int]:
    """A column for each row, or -1, no two rows the same, so that the sum is as large as can be.

    Rows join one after the other, each by the cheapest alternating way (H. W. Kuhn's method, with
    Dijkstra's algorithm on what is left of the weights once the prices of rows and columns are
    taken off). A row whose price falls to nothing stays out.
    """
    n = len(table)
    price_of_row = [max(entries.values(), default=0) for entries in table]
    price_of_column = [0] * n
    column_of, row_of = [FREE] * n, [FREE] * n
    for root in range(n):
        came_from: dict[int, int] = {}  # a column's row on the way from the root
        rows, columns = {root: 0}, {}  # what is reached, and at what cost
        heap: list[tuple[int, int, int]] = []
        row, cost = root, 0
        while True:
            heapq.heappush(heap, (cost + price_of_row[row], FREE, row))
            for column, weight in table[row].items():
                if column not in columns:
                    reached = cost + price_of_row[row] + price_of_column[column] - weight
                    heapq.heappush(heap, (reached, column, row))
            cost, end, row = heapq.heappop(heap)
            while end in columns:
                cost, end, row = heapq.heappop(heap)
            if end == FREE:
                break
            came_from[end], columns[end] = row, cost
            if row_of[end] == FREE:
                break
            row = row_of[end]
            rows[row] = cost
        for one, reached in rows.items():
            price_of_row[one] -= cost - reached
        for one, reached in columns.items():
            price_of_column[one] += cost - reached
        if end == FREE:  # `row` stays out, and its column is free for the one before
            end = column_of[row]
            column_of[row] = FREE
        while end != FREE:
            one = came_from[end]
            row_of[end] = one
            column_of[one], end = end, column_of[one]
    return column_of


def heaviest_pairs(table: Table) -> list[int]:
    """As `heaviest`, but rows are joined in pairs, both ways: if i has column j, j has i."""
    graph: nx.Graph[int] = nx.Graph()
    for row, entries in enumerate(table):
        for column, amount in entries.items():
            if row != column:
                back = table[column].get(row, 0)
                graph.add_edge(row, column, weight=amount + back)
    columns = [FREE] * len(table)
    for one, other in nx.max_weight_matching(graph):
        columns[one], columns[other] = other, one
    return columns
