"""Permanent circuits, as many at each rack as it has uplinks: greedily by bytes."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from netsim.matchings.perfect import FREE
from netsim.matchings.tables import Table

Ints = NDArray[np.int64]


def greedy(table: Table, switches: int, *, bidirectional: bool) -> Ints:
    """Return the permanent matchings of circuit switches: int64[switches, n], each row's column, or
    -1.

    The next circuit goes to the pair with the most bytes per circuit, including the new one, while
    both have a free uplink; two racks may thus have several. With `bidirectional`, circuits join
    both directions and count by the one with more bytes.

    A rack has one uplink to each circuit switch, so assigning circuits to switches is edge
    coloring: if two racks have no free uplink at the same switch, two switches are swapped along a
    chain of circuits. One-way circuits always allow this (D. König, 1916); bidirectional ones may
    not, and the pair then gets no circuit.
    """
    n = len(table)
    ends = 0 if bidirectional else n  # columns are the rows, or separate ends
    joined = np.full((n + ends, switches), FREE, np.int64)
    worth: dict[tuple[int, int], int] = {}
    for row, entries in enumerate(table):
        for column, amount in entries.items():
            if row != column:
                pair = (min(row, column), max(row, column)) if bidirectional else (row, column)
                worth[pair] = max(worth.get(pair, 0), amount)
    heap = [(-float(amount), pair, 1) for pair, amount in worth.items()]
    heapq.heapify(heap)
    while heap:
        _, pair, count = heapq.heappop(heap)
        if _join(joined, pair[0], ends + pair[1]):
            heapq.heappush(heap, (-worth[pair] / (count + 1), pair, count + 1))
    matchings: Ints = joined[:n].T.copy()
    matchings[matchings != FREE] -= ends
    return matchings


def _join(joined: Ints, one: int, other: int) -> bool:
    """Join two ends by a switch if both have a free uplink, modifying `joined`."""
    here = np.flatnonzero(joined[one] == FREE).tolist()
    there = np.flatnonzero(joined[other] == FREE).tolist()
    switch = next((switch for switch in here if switch in there), None)
    if switch is None:
        ways = ((first, second) for first in here for second in there)
        switch = next((way[0] for way in ways if _change(joined, other, way, one)), None)
    if switch is not None:
        joined[one, switch], joined[other, switch] = other, one
    return switch is not None


def _change(joined: Ints, start: int, way: tuple[int, int], avoid: int) -> bool:
    """Swap two switches along the chain of circuits that starts at `start`; return whether it was
    done.

    That end uses the first switch and not the second. Nothing is done if the chain ends at `avoid`,
    whose free uplink it would take.
    """
    chain, turn = [start], 0
    while (following := int(joined[chain[-1], way[turn]])) != FREE:
        chain.append(following)
        turn = 1 - turn
    if chain[-1] == avoid:
        return False
    for end in chain:
        joined[end, list(way)] = joined[end, list(way[::-1])]
    return True
