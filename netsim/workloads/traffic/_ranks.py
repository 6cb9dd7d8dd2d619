"""Placement of a trace's ranks on hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.params import Param
from netsim.workloads.traffic._job_files import hosts_of_ranks

CONSECUTIVE, RANDOM, FILE = PLACEMENTS = ("consecutive", "random", "file")

PARAMS = [
    Param(
        "placement",
        "choice",
        CONSECUTIVE,
        "rank r on host r, on a random host, or from a file",
        choices=PLACEMENTS,
    ),
    Param("placement_file", "file", None, "file: CSV file with the columns rank and host"),
]


def hosts_of(
    params: Mapping[str, Any],
    n_ranks: int,
    n_hosts: int,
    directory: Path,
    rng: np.random.Generator,
    hint: str | None = None,
) -> NDArray[np.int64]:
    """int64[n_ranks]: the host of each rank. Raises InputError if there are too few hosts."""
    if n_ranks > n_hosts:
        raise InputError(
            f"{n_ranks} ranks exceed the network's {n_hosts} hosts (one rank per host)",
            key="traffic.file",
            hint=hint or "a larger network",
        )
    how, file = params["placement"], params["placement_file"]
    if (how == FILE) != (file is not None):
        what = "missing" if file is None else f"has no effect with placement = {how}"
        raise InputError(what, key="traffic.placement_file", hint="with placement = file")
    if how == FILE:
        return hosts_of_ranks(file, directory, n_ranks, n_hosts)
    return rng.permutation(n_hosts)[:n_ranks] if how == RANDOM else np.arange(n_ranks)
