"""What a run is to keep over time: of which queues, hosts, flows, how often, in how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

MIN_INTERVALS = 16
"""So many intervals there is room for at least: with fewer, thinning would leave no series."""


@dataclass(frozen=True, eq=False)
class Sampling:
    """The series of a run. `ports`, `hosts` and `flows` are numbers, in ascending order.

    `interval_ps` is how long an interval is at first; None: there are no series. `fields` are
    names of flows' state, such as "tx.cwnd". The samples take `sample_budget_bytes` at most. With
    `queues`, the mean and the 99th percentile of every switch's queues are kept besides.
    """

    interval_ps: int | None
    ports: Numbers
    hosts: Numbers
    flows: Numbers
    fields: tuple[str, ...] = ()
    sample_budget_bytes: int = 64_000_000
    queues: bool = False
