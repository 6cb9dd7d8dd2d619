"""Demand-aware schedules against their theoretical properties and networkx."""

from collections.abc import Iterable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.model.demand import (
    FREE,
    Submatching,
    Table,
    birkhoff,
    greedy,
    heaviest,
    heaviest_pairs,
    perfect_matching,
    slot_by_slot,
    solstice,
    stuffed,
    sums,
    table_of,
)


@st.composite
def tables(draw: st.DrawFn, most_rows: int = 7, most: int = 40) -> Table:
    n = draw(st.integers(1, most_rows))
    place = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(0, most))
    return table_of(n, draw(st.lists(place, max_size=n * n)))


def sum_of(parts: Iterable[Submatching], n: int) -> Table:
    return table_of(
        n, ((row, column, part.amount) for part in parts for row, column in enumerate(part.columns))
    )


def is_matching(columns: list[int]) -> bool:
    matched = [column for column in columns if column != FREE]
    return len(set(matched)) == len(matched)


@given(tables())
def test_stuffed_table_has_equal_row_and_column_sums(table: Table) -> None:
    found = stuffed(table)
    rows, columns = sums(table)
    full = max(rows + columns)
    assert sums(found) == ([full] * len(table), [full] * len(table))
    for row, entries in enumerate(table):
        assert all(found[row][column] >= amount for column, amount in entries.items())
    assert sum(map(len, found)) <= sum(map(len, table)) + 3 * len(table)


@given(tables(), st.integers(1, 20))
def test_perfect_matching_exists_exactly_when_networkx_finds_one(table: Table, least: int) -> None:
    n = len(table)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(2 * n))
    graph.add_edges_from(
        (row, n + column)
        for row, entries in enumerate(table)
        for column, amount in entries.items()
        if amount >= least
    )
    known = nx.bipartite.maximum_matching(graph, top_nodes=range(n))
    found = perfect_matching(table, least)
    assert bool(found) == (len(known) == 2 * n)
    if found:
        assert sorted(found) == list(range(n))
        assert all(table[row][column] >= least for row, column in enumerate(found))


@pytest.mark.parametrize("decompose", [birkhoff, solstice])
@given(table=tables())
def test_decomposition_parts_sum_to_the_stuffed_table(decompose: type, table: Table) -> None:
    whole = stuffed(table)
    n = len(table)
    parts = decompose(whole)
    assert sum_of(parts, n) == whole
    assert len(parts) <= n * n - 2 * n + 2
    assert all(sorted(part.columns) == list(range(n)) for part in parts)
    assert sum(part.amount for part in parts) == sums(whole)[0][0]


def permutations(n: int, amounts: list[int]) -> Table:
    """Return a table that is a sum of cyclic shifts with these amounts."""
    return table_of(
        n, ((row, (row + shift) % n, a) for shift, a in enumerate(amounts, 1) for row in range(n))
    )


def test_solstice_recovers_permutations_of_distinct_amounts() -> None:
    amounts = [1000, 300, 100, 30]
    parts = solstice(stuffed(permutations(9, amounts)))
    assert [part.amount for part in parts] == amounts
    for shift, part in enumerate(parts, 1):
        assert part.columns == [(row + shift) % 9 for row in range(9)]


@given(tables(most_rows=6))
def test_heaviest_matching_weight_equals_networkx(table: Table) -> None:
    n = len(table)
    graph: nx.Graph[int] = nx.Graph()
    for row, entries in enumerate(table):
        graph.add_weighted_edges_from((row, n + column, w) for column, w in entries.items())
    known = sum(graph.edges[edge]["weight"] for edge in nx.max_weight_matching(graph))
    columns = heaviest(table)
    assert is_matching(columns)
    pairs = [(row, column) for row, column in enumerate(columns) if column != FREE]
    assert sum(table[row][column] for row, column in pairs) == known


def test_heaviest_pairs_adds_the_demand_of_both_directions() -> None:
    table = table_of(4, [(0, 1, 5), (1, 2, 7), (2, 1, 4), (2, 3, 5), (3, 3, 99)])
    assert heaviest_pairs(table) == [FREE, 2, 1, FREE]
    assert heaviest(table) == [1, 2, FREE, 3]
    table = table_of(4, [(0, 1, 6), (1, 2, 7), (2, 1, 4), (2, 3, 6)])
    assert heaviest_pairs(table) == [1, 0, 3, 2]


@given(tables(), st.integers(1, 15), st.booleans())
def test_slot_by_slot_schedule_carries_all_demand(
    table: Table, capacity: int, bidirectional: bool
) -> None:
    for row, entries in enumerate(table):
        entries.pop(row, None)
    parts = slot_by_slot(table, capacity, 1000, bidirectional=bidirectional)
    carried = sum_of((part for part in parts), len(table)) if not bidirectional else None
    for part in parts:
        assert part.amount == capacity
        assert is_matching(part.columns)
        if bidirectional:
            for row, column in enumerate(part.columns):
                assert column == FREE or part.columns[column] == row
    if carried is not None:
        for row, entries in enumerate(table):
            assert all(carried[row][column] >= amount for column, amount in entries.items())
    assert slot_by_slot(table, capacity, 2, bidirectional=bidirectional) == parts[:2]


@given(tables(), st.integers(1, 5), st.booleans())
def test_greedy_circuits_are_maximal_matchings(
    table: Table, switches: int, bidirectional: bool
) -> None:
    matchings = greedy(table, switches, bidirectional=bidirectional)
    n = len(table)
    assert matchings.shape == (switches, n)
    for columns in matchings.tolist():
        assert is_matching(columns)
        for row, column in enumerate(columns):
            assert column != row
            assert (
                column == FREE or column in table[row] or (bidirectional and row in table[column])
            )
            assert not bidirectional or column == FREE or columns[column] == row
    if not bidirectional:
        # Every demanded pair without a circuit lacks a free uplink at one end.
        sends, receives = (matchings == FREE).any(axis=0), np.ones(n, bool)
        for row in range(n):
            receives[row] = (matchings == row).sum() < switches
        joined = {(row, c) for columns in matchings.tolist() for row, c in enumerate(columns)}
        for row, entries in enumerate(table):
            for column in entries.keys() - {row}:
                assert (row, column) in joined or not (sends[row] and receives[column])


@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_greedy_serves_one_permutation_per_switch_completely(
    n: int, switches: int, seed: int
) -> None:
    """Demand that sums one random permutation per switch gets a circuit for every part."""
    rng = np.random.default_rng(seed)
    entries = [
        (row, column, 7)
        for _ in range(switches)
        for row, column in enumerate(rng.permutation(n).tolist())
    ]
    whole = table_of(n, [entry for entry in entries if entry[0] != entry[1]])
    matchings = greedy(whole, switches, bidirectional=False)
    pairs = [pair for columns in matchings.tolist() for pair in enumerate(columns)]
    circuits = table_of(n, [(row, column, 7) for row, column in pairs if column != FREE])
    for row, column in ((row, column) for row, one in enumerate(whole) for column in one):
        assert circuits[row].get(column, 0) >= whole[row][column]
