"""Which ports PFC has stopped, and which packets wait for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.engine.occupancy import in_queues
from netsim.engine.state import State
from netsim.engine.state_views import counts
from netsim.limits import CLASSES

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pauses:
    """Pauses between windows; ports and their classes as port * n_queues + class.

    Attributes:
        n_queues: queues of a port, one for each class (and level).
        is_stopped: bool[n_ports * classes], the neighbor pauses the class, and the port does not
            send.
        since_ps: int64[n_ports * classes], since when, if stopped.
        came_by, leaves_by: int64[n], of each packet that waits at a switch: where it counts at the
            port by which it came, and where it waits.
        size_bytes: int64[n], of these packets.
    """

    n_queues: int
    is_stopped: NDArray[np.bool_]
    since_ps: Ints
    came_by: Ints
    leaves_by: Ints
    size_bytes: Ints


def pauses(state: State) -> Pauses | None:
    """Return the pauses, None if the queue discipline does not tell by which port a packet came."""
    links = state.links
    if links.origins.shape[0] <= 1:
        return None
    ports, queues, pool = (np.asarray(one) for one in (links.ports, links.queues, links.pool))
    n_queues = queues.size // ports.size
    cls = np.arange(n_queues)
    is_paused = ports["paused"][:, None] >> cls & 1 == 1
    # Without a request there, a frame that ends the pause is on its way.
    asks = ports["pause_requested"][np.asarray(state.net.port_peer)][:, None] >> cls & 1 == 1
    sends = (ports["tx_bytes"] > 0) & (ports["free_at"] >= counts(state).now_ps)
    stopped = is_paused & asks & ~sends[:, None]
    leaves_by = np.repeat(np.arange(queues.size), queues["tail"] - queues["head"])
    slots = in_queues(state)
    node = np.asarray(state.net.port_node)[leaves_by // n_queues]
    port, cls = np.divmod(np.asarray(links.origins)[slots], CLASSES)
    came_by = np.asarray(state.net.first_port)[node] + port
    return Pauses(
        n_queues=n_queues,
        is_stopped=stopped.reshape(-1),
        since_ps=np.array(queues["paused_since"]),
        came_by=came_by * n_queues + cls,
        leaves_by=leaves_by,
        size_bytes=pool["size_bytes"][slots].astype(np.int64),
    )
