"""Which GPU of one instance has which part of a KV cache that another instance's GPUs are to have.

Each instance's GPUs share it evenly and in order, so that GPU i of m has what is between i / m and
(i + 1) / m of it. What a pair of GPUs have in common is one flow: m + n - gcd(m, n) of them between
m and n GPUs, which is the larger of both where the smaller divides it.
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
        bounds: int64[f + 1], where the flows' parts end, of `whole`.
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
        """All of the cache, in units of which each GPU has a whole number."""
        return int(self.bounds[-1])

    def sizes(self, n_bytes: Ints, parts: int) -> Ints:
        """int64[n, parts, f]: bytes of each flow of n caches that go in equal parts; at least 1."""
        ends = _scaled(n_bytes[:, None], self.bounds, self.whole)
        of_flow = np.diff(ends)[:, None, :]
        ends = of_flow * np.arange(parts + 1)[:, None] // parts
        found: Ints = np.maximum(np.diff(ends, axis=1), 1)
        return found


def _scaled(n_bytes: Ints, part: Ints, whole: int) -> Ints:
    """`n_bytes` * `part` / `whole`, rounded down, though the product may not fit into 64 bits."""
    found: Ints = n_bytes // whole * part + n_bytes % whole * part // whole
    return found


def flows_between(sources: int, sinks: int) -> int:
    """How many flows `partition` has."""
    return sources + sinks - math.gcd(sources, sinks)


def partition(sources: int, sinks: int) -> KvPartition:
    """The flows between two instances of so many GPUs."""
    whole = math.lcm(sources, sinks)
    bounds = np.union1d(
        np.arange(sources + 1) * (whole // sources), np.arange(sinks + 1) * (whole // sinks)
    )
    begin = bounds[:-1]
    return KvPartition(
        sources, sinks, begin * sources // whole, begin * sinks // whole, bounds.astype(np.int64)
    )
