"""Ranks of a trace on hosts of a network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.params import Param

CONSECUTIVE, RANDOM = PLACEMENTS = ("consecutive", "random")

PLACEMENT = Param(
    "placement", "choice", CONSECUTIVE, "rank r is on host r, or on any", choices=PLACEMENTS
)


def hosts_of(
    n_ranks: int, n_hosts: int, placement: str, rng: np.random.Generator
) -> NDArray[np.int64]:
    """int64[n_ranks]: the host of each rank. Raises InputError if there are too few."""
    if n_ranks > n_hosts:
        raise InputError(
            f"{n_ranks} ranks, each on a host of its own, and the network has {n_hosts} hosts",
            key="traffic.file",
            hint="a larger network",
        )
    return rng.permutation(n_hosts)[:n_ranks] if placement == RANDOM else np.arange(n_ranks)
