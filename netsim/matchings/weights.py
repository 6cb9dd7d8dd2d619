"""Maximum-weight matchings: racks to join for one slot to carry the most bytes."""

from __future__ import annotations

import heapq

from netsim.matchings.perfect import FREE
from netsim.matchings.tables import Submatching, Table


def slot_by_slot(
    table: Table, capacity: int, most: int, *, bidirectional: bool
) -> list[Submatching]:
    """Return the best matching for a slot of `capacity` bytes, then for the remaining bytes, and so
    on.

    Stops after `most` matchings or when nothing remains. With `bidirectional`, matchings are
    symmetric.
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
    """Return each row's column, or -1, all different, with the largest sum of entries.

    Rows join one by one, each by the cheapest alternating path (H. W. Kuhn's method, with
    Dijkstra's algorithm on reduced weights). A row whose price falls to 0 stays out.
    """
    n = len(table)
    price_of_row = [max(entries.values(), default=0) for entries in table]
    price_of_column = [0] * n
    column_of, row_of = [FREE] * n, [FREE] * n
    for root in range(n):
        came_from: dict[int, int] = {}  # previous row of a column
        rows, columns = {root: 0}, {}  # cost of those reached
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
        if end == FREE:  # `row` stays out, and the previous row may take its column
            end = column_of[row]
            column_of[row] = FREE
        while end != FREE:
            one = came_from[end]
            row_of[end] = one
            column_of[one], end = end, column_of[one]
    return column_of


def heaviest_pairs(table: Table) -> list[int]:
    """Return `heaviest` for symmetric matchings: if i has column j, j has i."""
    import networkx as nx

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
