"""Random choices that several traffic patterns share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def derangement(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A permutation of 0..n-1 without fixed points, each equally likely; n is at least 2.

    Permutations are drawn until one has no fixed point: e draws on average, whatever n is.
    """
    identity = np.arange(n)
    while True:
        permutation = rng.permutation(n)
        if not (permutation == identity).any():
            return permutation


def other_hosts(
    src: NDArray[np.int64], n_hosts: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """For each source a host that is not the source itself, each equally likely."""
    return (src + rng.integers(1, n_hosts, src.size)) % n_hosts
