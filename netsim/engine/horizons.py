"""How far each part of a network may simulate on its own (`partitioned.py`)."""

from __future__ import annotations

import numpy as np

from netsim.engine.kernels.ids import Array
from netsim.engine.kernels.layout import INF

NEVER = INF // 2
"""The delay between parts of which one never affects the other."""

SHORT_S, LONG_S = 0.02, 0.1
"""Seconds for which the slowest part should simulate on its own, so that all can soon stop at one
time."""

FIRST_SPAN = 64
"""Windows that a part may be ahead of the last one at first."""


def shortest_delays(direct: Array) -> Array:
    """Return the shortest time in which an event in one part can cause an event in another,
    int64[n, n]. ``direct`` has that time for neighbors, and NEVER for others."""
    delays = direct.copy()
    for over in range(len(delays)):
        np.minimum(delays, delays[:, over, None] + delays[over], out=delays)
    return np.minimum(delays, NEVER)


class Horizons:
    """The horizon of part ``part``: the time before which no other part can affect it. ``delays``
    are those of `shortest_delays`."""

    def __init__(self, delays: Array, part: int, window_ps: int) -> None:
        others = np.arange(len(delays)) != part
        self.delays, self.window_ps = delays, window_ps
        self._to_here = np.where(others, delays[:, part], NEVER)
        self._span_ps = FIRST_SPAN * window_ps

    def horizon_ps(self, next_ps: Array) -> int:
        """Return the horizon, given the time of each part's next event, int64[n]. No part gets far
        ahead of the others, since all must be able to stop soon at one time."""
        soonest_ps = np.minimum(next_ps, NEVER)
        return int(min((soonest_ps + self._to_here).min(), soonest_ps.min() + self._span_ps))

    def learn(self, seconds: float) -> None:
        """Set how far ahead a part may be from the time that the slowest took."""
        if seconds > LONG_S:
            self._span_ps = max(self._span_ps // 2, self.window_ps)
        elif seconds < SHORT_S:
            self._span_ps = min(2 * self._span_ps, NEVER)
