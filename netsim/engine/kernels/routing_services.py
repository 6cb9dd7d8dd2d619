"""Functions that a routing algorithm's handlers call, imported from `netsim.routing`."""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.ids import LocalPort
from netsim.engine.kernels.indexing import queue_of
from netsim.engine.kernels.specialization_constants import N_CLASSES


def candidate(env: Any, first: int, k: int) -> LocalPort:
    """Return the local port of candidate ``k`` of the list that begins at ``first``."""
    return LocalPort(env.net.route_ports[first + k])


def held(env: Any, p: LocalPort) -> int:
    """Return the bytes that local port ``p`` holds in all classes, with the packet being sent."""
    total = 0
    for cls in range(N_CLASSES):
        total += env.links.queues[queue_of(env.switch.first_port + p, cls)].bytes
    return total
