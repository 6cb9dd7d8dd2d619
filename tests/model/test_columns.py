"""Cycles in wait-for graphs, compared with networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from netsim.model.columns import NARROW, find_cycle


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [6, 20 * NARROW])
def test_find_cycle_agrees_with_networkx_on_random_graphs(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most))
    waiter, after = rng.integers(0, n, (2, int(rng.integers(0, 2 * n))))
    if seed % 2:  # an acyclic order, with at most one exception
        place = rng.permutation(n)
        waiter, after = np.where(place[waiter] < place[after], (after, waiter), (waiter, after))
        others = waiter != after
        others[: int(rng.integers(2))] = True
        waiter, after = waiter[others], after[others]
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(waiter.tolist(), after.tolist(), strict=True))
    cycle = find_cycle(n, waiter, after)
    assert bool(cycle) != nx.is_directed_acyclic_graph(graph)
    for one, next_one in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert graph.has_edge(one, next_one)


def test_find_cycle_finds_a_short_cycle_among_many_acyclic_nodes() -> None:
    n = 40 * NARROW
    waiter = np.concatenate([np.arange(n // 2, n), [n // 2, n // 2 + 1]])
    after = np.concatenate([np.arange(n // 2), [n // 2 + 1, n // 2]])
    assert sorted(find_cycle(n, waiter, after)) == [n // 2, n // 2 + 1]
    assert find_cycle(n, waiter[:-1], after[:-1]) == []
