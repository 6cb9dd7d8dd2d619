"""Random matchings of racks, by which every two meet once, and how near they bring all.

The round-robin matchings of the circle method are reflections: what several of them join
is a graph in which racks are farther apart than in a random one. Here any set of rounds is much
like random matchings, which make an expander.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.model.schedules import NONE, round_robin_matchings

Ints = NDArray[np.int64]

SWAPS = 10
"""For each round, exchanges with others; measured: with more nothing comes nearer."""


def random_rounds(racks: int, rng: np.random.Generator) -> Ints:
    """Matchings in which each rack meets each other one once, int64[rounds, racks].

    A 1-factorization of the complete graph. It starts with round-robin matchings in each half,
    and then all of one against those of the other, in a random order; then two rounds at a time
    exchange one of the cycles that they make together. With an odd number of racks each has one
    round without a partner.
    """
    rounds = _halves(racks + racks % 2, rng).tolist()
    for _ in range(SWAPS * len(rounds) if len(rounds) > 1 else 0):
        one, other = rng.choice(len(rounds), 2, replace=False).tolist()
        _exchange(rounds[one], rounds[other], int(rng.integers(racks)))
    found = np.array(rounds, np.int64)[rng.permutation(len(rounds)), :racks]
    found[found >= racks] = NONE
    return found


def _halves(racks: int, rng: np.random.Generator) -> Ints:
    """The rounds of an even number of racks before they exchange anything."""
    half = racks // 2
    sides = rng.permutation(racks).reshape(2, half)
    within = round_robin_matchings(half)
    rounds = np.full((len(within), racks), NONE)
    for side in sides:
        rounds[:, side] = np.where(within == NONE, NONE, side[within])
    left, right = sides
    if half % 2:
        # In each round one of each half is left over: these two meet, and not again.
        left, right = (side[(within == NONE).argmax(axis=1)] for side in sides)
        at = np.arange(half)
        rounds[at, left], rounds[at, right] = right, left
    across = np.full((half - half % 2, racks), NONE)
    for shift, matching in enumerate(across, half % 2):
        others = np.roll(right, shift)
        matching[left], matching[others] = others, left
    return np.concatenate([rounds, across])


def _exchange(one: list[int], other: list[int], start: int) -> None:
    """Exchange between two rounds the pairs on their cycle through a rack."""
    cycle, rack = [start], start
    while (rack := other[one[rack]]) != start:
        cycle.append(rack)
    for rack in [*cycle, *(one[rack] for rack in cycle)]:
        one[rack], other[rack] = other[rack], one[rack]


def pairs_by_circuits(partners: Ints) -> list[int]:
    """How many ordered pairs of racks are 1, 2, ... circuits from each other.

    `partners` (int64[n, k]) are the racks to which each has a circuit, itself in place of none.
    Pairs that no circuits join, however many, are not counted.
    """
    reached = np.packbits(np.eye(len(partners), dtype=bool), axis=1)
    counts: list[int] = []
    while True:
        further = reached.copy()
        for column in partners.T:
            further |= reached[column]
        more = int(np.bitwise_count(further).sum()) - int(np.bitwise_count(reached).sum())
        if not more:
            return counts
        counts.append(more)
        reached = further
