"""Percentiles: the smallest value that at least a given share of the values does not exceed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


class CountedValues:
    """Distinct values and their counts, collected in parts."""

    def __init__(self) -> None:
        self._values: list[Ints] = []
        self._counts: list[Ints] = []

    def add(self, values: Ints) -> None:
        """Add values."""
        found, counts = np.unique(values, return_counts=True)
        self._values.append(found)
        self._counts.append(counts.astype(np.int64))

    def table(self) -> tuple[Ints, Ints]:
        """Return the distinct values in ascending order, and their counts."""
        none = np.zeros(0, np.int64)
        values, counts = (np.concatenate([none, *of]) for of in (self._values, self._counts))
        found, which = np.unique(values, return_inverse=True)
        return found, np.bincount(which.reshape(-1), counts, found.size).astype(np.int64)

    def distribution(self) -> dict[str, float | None]:
        """Return mean, percentiles and maximum; all None without values."""
        values, counts = self.table()
        if not values.size:
            return dict.fromkeys(("mean", *SHARES, "max"))
        upto = np.cumsum(counts)
        mean = float((values * (counts / upto[-1])).sum())
        places = [np.searchsorted(upto, _rank(upto[-1:], share))[0] for share in SHARES.values()]
        told = dict(zip(SHARES, (int(values[place]) for place in places), strict=True))
        return {"mean": mean, **told, "max": int(values[-1])}


def distribution(values: Ints) -> dict[str, float | None]:
    """Return mean, percentiles and maximum; all None without values."""
    found = CountedValues()
    found.add(values)
    return found.distribution()


def percentiles(values: Ints, count: Ints, shares: Sequence[float]) -> list[Ints]:
    """Return percentiles of k groups, one int64[k] per share; -1 for empty groups.

    `values` holds the groups one after another, sorted within each; `count`, int64[k], their sizes.
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
    """Return the rank, 1 to `count`, of a percentile."""
    # Tolerate rounding: 0.99 * 100 may exceed 99 in double precision.
    return np.clip(np.ceil(share * count - 1e-9 * count).astype(np.int64), 1, count)
