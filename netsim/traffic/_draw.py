"""Random choices shared by traffic patterns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def derangement(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a permutation of 0..n-1 without fixed points, each equally likely; n >= 2.

    Draws permutations until one has no fixed point: e draws on average.
    """
    identity = np.arange(n)
    while True:
        permutation = rng.permutation(n)
        if not (permutation == identity).any():
            return permutation


def other_hosts(
    src: NDArray[np.int64], n_hosts: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return, for each source, another host, each equally likely."""
    return (src + rng.integers(1, n_hosts, src.size)) % n_hosts
