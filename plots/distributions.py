"""Distributions of times and rates, as plots and reports draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.plots import sweeps

if TYPE_CHECKING:
    from netsim.results import Result

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

QUANTILES = 600
"""Points of a curve, and as many in its tail."""

ALIKE = 0.02
"""Relative difference up to which two distributions are drawn as one."""

BINS, FEW = 24, 5
"""Bins of flow sizes, and the flows that a bin needs."""


def pooled(results: Sequence[Result], column: str) -> Floats:
    """Return the values of a column of flows, without missing ones, of all results."""
    found = [result.flows[column].drop_nulls().to_numpy() for result in results]
    return np.concatenate(found).astype(float)


def finished_sizes(results: Sequence[Result]) -> Ints:
    """Return the sizes of the finished flows of all results, in bytes."""
    found = [one.flows.drop_nulls("slowdown")["size_bytes"].to_numpy() for one in results]
    return np.concatenate(found)


def distribution(
    values: Floats, whole: int | None = None, counts: Ints | None = None
) -> tuple[Floats, Floats]:
    """Return increasing values, and the share that is not above each; the first share is 0.

    Shares are of `whole`, which defaults to the number of values; `counts` is how often each
    occurs. Many values are reduced to quantiles, which are closer in the tail.
    """
    if counts is None:
        x, counts = np.unique(values, return_counts=True)
    else:
        order = np.argsort(values, kind="stable")
        x, counts = values[order], counts[order]
    if not len(x):
        return np.zeros(0), np.zeros(0)
    done = np.cumsum(counts)
    chosen = np.unique(np.searchsorted(done, _ranks(int(done[-1])), side="right"))
    x, done = x[chosen].astype(np.float32), done[chosen]
    last = np.append(np.diff(x) > 0, True)
    start = np.nextafter(x[:1], np.float32(-np.inf))
    return np.append(start, x[last]), np.append(0.0, done[last] / (whole or done[-1]))


def _ranks(n: int) -> Ints:
    """Return ranks from 0 to n - 1: evenly spaced, and closer in the tail."""
    if n <= 2 * QUANTILES:
        return np.arange(n)
    tail = n - np.unique(np.geomspace(1, n, QUANTILES).astype(np.int64))
    return np.unique(np.append(np.linspace(0, n - 1, QUANTILES).astype(np.int64), tail))


def tail(x: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Return a distribution as the share above each value, as far as it is not 0."""
    return x[shares < 1], 1 - shares[shares < 1]


def distinct_ideals(results: Sequence[Result]) -> list[Floats]:
    """Return the ideal times of each network and traffic, over all seeds, without duplicates."""
    by_setting: dict[str, dict[int, Result]] = {}
    for result in results:
        seeds = by_setting.setdefault(repr(sweeps.settings(result)), {})
        seeds.setdefault(int(result.experiment["seed"]), result)
    return distinct([pooled(list(seeds.values()), "ideal_ps") for seeds in by_setting.values()])


def distinct(found: Sequence[Floats]) -> list[Floats]:
    """Return the samples whose distributions do not look the same."""
    chosen: list[Floats] = []
    for one in found:
        if len(one) and not any(_alike(one, other) for other in chosen):
            chosen.append(one)
    return chosen


def _alike(one: Floats, other: Floats) -> bool:
    shares = (0.1, 0.5, 0.9, 1.0)
    return np.allclose(np.quantile(one, shares), np.quantile(other, shares), rtol=ALIKE)


def by_size(sizes: Ints, slowdowns: Floats) -> NDArray[np.float64]:
    """Return float64[3, bins]: mean size, median and 99th percentile of bins with enough flows."""
    edges = np.geomspace(sizes.min(), sizes.max() + 1, BINS + 1)
    of_bin = np.digitize(sizes, edges[1:-1])
    order = np.argsort(of_bin, kind="stable")
    found = []
    for its in np.split(order, np.searchsorted(of_bin[order], np.arange(1, BINS))):
        if len(its) >= FEW:
            middle = np.exp(np.log(sizes[its]).mean())
            found.append((middle, *np.percentile(slowdowns[its], [50, 99])))
    return np.array(found).reshape(-1, 3).T
