"""Flow lists of other simulators, as a table on a network."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from netsim.flows import FlowTable, TrafficContext
from netsim.network import Network
from netsim.workloads.importers.flow_text import ListedFlows

AS_WRITTEN, ZERO = BEGIN = ("as_given", "from_zero")
"""Whether starts are as in the file, or shifted so that the first is 0."""


def flow_table(
    listed: ListedFlows, network: Network, context: TrafficContext, begin: str, cls: ArrayLike = 0
) -> FlowTable:
    """Return the flows; node k is host k. Raises InputError with a line."""
    context.reserve(len(listed.src), key="traffic.file")
    for what, host in (("source", listed.src), ("destination", listed.dst)):
        for flow in np.flatnonzero((host < 0) | (host >= network.n_hosts))[:1].tolist():
            last = network.n_hosts - 1
            raise listed.error(flow, f"{what} {host[flow]} does not exist (hosts are 0..{last})")
    first = listed.start_ps.min() if begin == ZERO else 0
    return FlowTable(listed.src, listed.dst, listed.size_bytes, listed.start_ps - first, cls=cls)
