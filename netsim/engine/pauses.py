"""Which ports PFC has stopped, and which packets wait for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.engine.occupancy import in_queues
from netsim.engine.state import State
from netsim.engine.state_views import counts, paused_classes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pauses:
    """Pauses between windows; ports and classes as port * n_traffic_classes + class.

    Attributes:
        is_stopped: bool[n_ports * classes], the neighbor pauses the class, and the port does not
            send.
        since_ps: int64[n_ports * classes], since when, if stopped.
        came_by, leaves_by: int64[n], of each packet that waits at a switch: where it counts at the
            port by which it came, and where it waits.
        size_bytes: int64[n], of these packets.
    """

    is_stopped: NDArray[np.bool_]
    since_ps: Ints
    came_by: Ints
    leaves_by: Ints
    size_bytes: Ints


def pauses(state: State, n_traffic_classes: int) -> Pauses | None:
    """Return the pauses, None if the queue discipline does not tell by which port a packet came."""
    links = state.links
    if links.ingress.shape[0] <= 1:
        return None
    ports, pool = np.asarray(links.ports), np.asarray(links.pool)
    cls = np.arange(n_traffic_classes)
    is_paused = paused_classes(state)[:, None] >> cls & 1 == 1
    # A neighbor that asks for packets again lets them come soon.
    asks = ports["pause_requested"][np.asarray(state.net.port_peer)][:, None] >> cls & 1 == 1
    sends = (ports["tx_bytes"] > 0) & (ports["free_at"] >= counts(state).now_ps)
    stopped = is_paused & asks & ~sends[:, None]
    queues = np.asarray(links.queues)
    leaves_by = np.repeat(np.arange(queues.size), queues["tail"] - queues["head"])
    slots = in_queues(state)
    node = np.asarray(state.net.port_node)[leaves_by // n_traffic_classes]
    came_by = np.asarray(state.net.first_port)[node] + np.asarray(links.ingress)[slots]
    return Pauses(
        is_stopped=stopped.reshape(-1),
        since_ps=np.array(queues["paused_since"]),
        came_by=came_by * n_traffic_classes + pool["prio"][slots],
        leaves_by=leaves_by,
        size_bytes=pool["size_bytes"][slots].astype(np.int64),
    )
