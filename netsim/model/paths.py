"""The links that flows cross: the first of all shortest paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.model.routing import COUNT_BITS, COUNT_MASK

if TYPE_CHECKING:
    from netsim.model.network import Network

Ints = NDArray[np.int64]


def walk(
    network: Network, src: Ints, dst: Ints
) -> Iterator[tuple[Ints, Ints, NDArray[np.bool_], Ints]]:
    """The first shortest paths from hosts' ports to addresses of others, link by link.

    Yields for each step (flow, port, delivers, parallel), arrays of one length: the flows that
    are still on their way, the global port each leaves by, whether that port leads to its host,
    and among how many ports toward it that one is the first.
    """
    flow = np.arange(src.size)
    group = network.host_group[dst].astype(np.int64)
    port = src
    delivers = np.zeros(src.size, bool)
    parallel = np.ones(src.size, np.int64)
    while True:
        yield flow, port, delivers, parallel
        going = ~delivers
        if not going.all():
            flow, port, group = flow[going], port[going], group[going]
        if not flow.size:
            return
        switch = network.next_switch(port)
        entry = network.route[network.route_first[switch] + group]
        delivers = (entry & COUNT_MASK) == 0
        parallel = np.maximum(entry & COUNT_MASK, 1)
        local = network.host_port[dst[flow]].astype(np.int64)
        onward = ~delivers
        local[onward] = network.route_ports[entry[onward] >> COUNT_BITS]
        port = network.node_first_port[switch + network.n_hosts] + local
