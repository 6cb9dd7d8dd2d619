"""Settings of a run's time series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.frozen import frozen

Numbers = NDArray[np.int64]

MIN_INTERVALS = 16
"""Minimum number of intervals to reserve memory for; fewer would make no series after thinning."""


@frozen(eq=False)
class Sampling:
    """The time series of a run. `ports`, `hosts` and `flows` are numbers in ascending order.

    `interval_ps` is the initial interval; None: no series. `fields` are names of flow state, such
    as "tx.cwnd". Samples take at most `sample_budget_bytes`. `queues` adds the mean and the 99th
    percentile of every switch queue.
    """

    interval_ps: int | None
    ports: Numbers
    hosts: Numbers
    flows: Numbers
    fields: tuple[str, ...] = ()
    sample_budget_bytes: int = 64_000_000
    queues: bool = False
