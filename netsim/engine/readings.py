"""Counters of a run, read at the edges of a measured window's batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import Ints

OF_QUEUES = ("sent_packets", "sent_bytes", "drops", "trims", "ecn_marks", "pfc_pauses", "paused_ps")
"""Counters of links and classes (`LinkCounters`) that are read."""


def packets_of(received_bytes: Ints, payload_bytes: int) -> Ints:
    """Return the packets that a flow's payload came in, all full but one."""
    return -(-received_bytes // payload_bytes)


class Readings:
    """Counters of hosts and links at the first and the last edge of a window, and what each group
    of flows has received by every edge.

    Attributes:
        edges_ps: int64[k + 1], the edges of k batches, rising.
        n_taken: int64[1], edges that have been read.
        of_groups: int64[k + 1, 2, groups], payload received by the flows of each group, and the
            packets that it came in.
        received_bytes: int64[2, n_flows], payload of each flow.
        queues: int64[2, counters, links and classes], in the order of `OF_QUEUES`.
        arrivals: int64[2, 2], packets that arrived at hosts, and links that these crossed.
    """

    def __init__(
        self, edges_ps: Ints, group: Ints, n_groups: int, n_queues: int, payload_bytes: int
    ) -> None:
        """Prepare to read; `group` is int64[n_flows], below `n_groups`, and `payload_bytes` that of
        a full packet."""
        self.edges_ps, self._group, self._payload_bytes = edges_ps, group, payload_bytes
        self.n_taken = np.zeros(1, np.int64)
        self.of_groups = np.zeros((edges_ps.size, 2, n_groups), np.int64)
        self.received_bytes = np.zeros((2, group.size), np.int64)
        self.queues = np.zeros((2, len(OF_QUEUES), n_queues), np.int64)
        self.arrivals = np.zeros((2, 2), np.int64)

    @property
    def next_ps(self) -> int | None:
        """The next edge, None once all have been read."""
        taken = int(self.n_taken[0])
        return int(self.edges_ps[taken]) if taken < self.edges_ps.size else None

    def take(self, engine: Engine) -> None:
        """Read the counters of an engine that has simulated all up to the next edge."""
        taken, received = int(self.n_taken[0]), engine.flow_states().received_bytes
        for k, counted in enumerate((received, packets_of(received, self._payload_bytes))):
            found = np.bincount(self._group, counted, self.of_groups.shape[2])
            self.of_groups[taken, k] = found  # exact: less than 2**53
        if taken in (0, self.edges_ps.size - 1):
            end = int(taken > 0)
            self.received_bytes[end] = received
            counters = engine.link_counters()
            self.queues[end] = [getattr(counters, name) for name in OF_QUEUES]
            self.arrivals[end] = engine.arrivals()
        self.n_taken += 1

    def in_window(self, name: str) -> Ints:
        """Return by how much a counter of `OF_QUEUES` grew in the window, for each link and
        class."""
        first, last = self.queues[:, OF_QUEUES.index(name)]
        found: Ints = last - first
        return found

    def arrays(self) -> dict[str, Ints]:
        """Return what a checkpoint saves, by name."""
        left_out = ("edges_ps", "_group", "_payload_bytes")
        return {name: array for name, array in vars(self).items() if name not in left_out}

    def restore(self, saved: Mapping[str, Ints]) -> None:
        """Restore these arrays. Raises ValueError if they are of other readings."""
        own = self.arrays()
        if saved.keys() != own.keys():
            raise ValueError("other readings")
        for name, array in own.items():
            if saved[name].shape != array.shape:
                raise ValueError(f"{name} has another shape")
            array[:] = saved[name]
        if not 0 <= self.n_taken[0] <= self.edges_ps.size:
            raise ValueError("n_taken is out of range")
