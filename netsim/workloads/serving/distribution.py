"""Percentiles of what a serving run took: the least value that so many percent do not exceed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


class CountedValues:
    """Values and how often there is each, gathered bit by bit."""

    def __init__(self) -> None:
        self._values: list[Ints] = []
        self._counts: list[Ints] = []

    def add(self, values: Ints) -> None:
        """Take more values."""
        found, counts = np.unique(values, return_counts=True)
        self._values.append(found)
        self._counts.append(counts.astype(np.int64))

    def table(self) -> tuple[Ints, Ints]:
        """Each value once, rising, and how often there is each."""
        none = np.zeros(0, np.int64)
        values, counts = (np.concatenate([none, *of]) for of in (self._values, self._counts))
        found, which = np.unique(values, return_inverse=True)
        return found, np.bincount(which.reshape(-1), counts, found.size).astype(np.int64)

    def distribution(self) -> dict[str, float | None]:
        """Mean, percentiles and largest; None each if there is no value."""
        values, counts = self.table()
        if not values.size:
            return dict.fromkeys(("mean", *SHARES, "max"))
        upto = np.cumsum(counts)
        mean = float((values * (counts / upto[-1])).sum())
        places = [np.searchsorted(upto, _rank(upto[-1:], share))[0] for share in SHARES.values()]
        told = dict(zip(SHARES, (int(values[place]) for place in places), strict=True))
        return {"mean": mean, **told, "max": int(values[-1])}


def distribution(values: Ints) -> dict[str, float | None]:
    """Mean, percentiles and largest of some values; None each if there are none."""
    found = CountedValues()
    found.add(values)
    return found.distribution()


def percentiles(values: Ints, count: Ints, shares: Sequence[float]) -> list[Ints]:
    """Percentiles of each of k groups, int64[k] for each share; -1 where a group is empty.

    `values` has those of one group behind those of another, rising in each, and `count`, int64[k],
    says how many each has.
    """
    first = np.cumsum(count) - count
    some = count > 0
    found = []
    for share in shares:
        at = np.full(count.size, -1, np.int64)
        at[some] = values[first[some] + _rank(count[some], share) - 1]
        found.append(at)
    return found


def _rank(count: Ints, share: float) -> Ints:
    """How many of `count` values are a share of them, at least: 1 to `count`."""
    # A hundredth is a little more than 0.01 in double precision, and 99 of 100 are 99 %.
    return np.clip(np.ceil(share * count - 1e-9 * count).astype(np.int64), 1, count)
