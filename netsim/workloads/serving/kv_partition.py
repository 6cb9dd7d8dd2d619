"""The shares of a KV cache that GPUs of two instances exchange.

The GPUs of an instance share the cache evenly, in order: GPU i of m holds it from i / m to (i + 1)
/ m. The overlap of a pair of GPUs is one flow: m + n - gcd(m, n) flows between m and n GPUs, which
is the larger number if the smaller divides it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KvPartition:
    """The f flows of a KV cache between `sources` and `sinks` GPUs, in the order of the cache.

    Attributes:
        source, sink: int64[f], GPUs of either instance.
        bounds: int64[f + 1], where the flows' shares end, in units of `whole`.
    """

    sources: int
    sinks: int
    source: Ints
    sink: Ints
    bounds: Ints

    def __len__(self) -> int:
        return int(self.source.size)

    @property
    def whole(self) -> int:
        """The size of the cache in units of which each GPU holds an integer number."""
        return int(self.bounds[-1])

    def sizes(self, n_bytes: Ints, parts: int) -> Ints:
        """int64[n, parts, f]: bytes of each flow of n caches sent in equal parts; at least 1."""
        ends = _scaled(n_bytes[:, None], self.bounds, self.whole)
        of_flow = np.diff(ends)[:, None, :]
        ends = of_flow * np.arange(parts + 1)[:, None] // parts
        found: Ints = np.maximum(np.diff(ends, axis=1), 1)
        return found


def _scaled(n_bytes: Ints, part: Ints, whole: int) -> Ints:
    """`n_bytes` * `part` / `whole`, rounded down, without overflow of the product."""
    found: Ints = n_bytes // whole * part + n_bytes % whole * part // whole
    return found


def flows_between(sources: int, sinks: int) -> int:
    """Return how many flows `partition` has."""
    return sources + sinks - math.gcd(sources, sinks)


def partition(sources: int, sinks: int) -> KvPartition:
    """Return the flows between two instances."""
    whole = math.lcm(sources, sinks)
    bounds = np.union1d(
        np.arange(sources + 1) * (whole // sources), np.arange(sinks + 1) * (whole // sinks)
    )
    begin = bounds[:-1]
    return KvPartition(
        sources, sinks, begin * sources // whole, begin * sinks // whole, bounds.astype(np.int64)
    )
