"""Which rows of the state are built: all, or those that one part of the network needs.

Every part has arrays with a row for each node, port or flow of the whole network, so a row has the
same number in all parts. Memory that is never written is not allocated. So a part writes only its
own rows, those of the ports at the other ends of its cables, and those of flows that its transports
set up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from netsim.engine.kernels.fields import Array
from netsim.engine.records import aligned_zeros, untouched_zeros
from netsim.engine.simulation import Simulation

Rows = Array | slice
"""Numbers of rows, or all."""

ALL = slice(None)

LARGE_BYTES = 1 << 26
"""Size of arrays from which small pages, with which runs are slower, save much memory."""


class Share(NamedTuple):
    """Rows to build.

    Attributes:
        of_node: int32[n_nodes], the part of each node; None: there is one part.
        ports, links: own ports; these and the other ends of their cables.
        hosts, host_ports, nics: own hosts, their ports and NICs.
        sent, received: flows from own hosts, and to them.
        flows, sources: flows that transports set up here, and NICs of their sources and own hosts.
    """

    of_node: Array | None = None
    ports: Rows = ALL
    links: Rows = ALL
    hosts: Rows = ALL
    host_ports: Rows = ALL
    nics: Rows = ALL
    sent: Rows = ALL
    received: Rows = ALL
    flows: Rows = ALL
    sources: Rows = ALL

    def zeros(self, n: int, dtype: np.dtype) -> np.ndarray:
        """Return ``n`` zeroed records, of which a part writes only some. Large arrays are in small
        pages, so that fewer bytes are allocated for scattered rows."""
        if self.of_node is None or n * dtype.itemsize < LARGE_BYTES:
            return aligned_zeros(n, dtype)
        return untouched_zeros(n, dtype, large_pages=False)

    def queues(self, n_traffic_classes: int) -> Rows:
        """Return the queues of own ports."""
        if isinstance(self.ports, slice):
            return self.ports
        return rows_of(self.ports * n_traffic_classes, n_traffic_classes)


WHOLE = Share()


def share_of(simulation: Simulation, of_node: Array, part: int) -> Share:
    """Return the share of one part of the network; ``of_node`` is the part of each node.

    A transport sets up a flow's receiver together with its sender, at the source host. So that the
    host is then as in one process, all its flows are set up here. Flows that wait for others, and
    those of programs, may need the records of any other.
    """
    network, flows = simulation.network, simulation.flows
    mine = of_node == part
    ports = np.flatnonzero(mine[network.port_node])
    sent, received = mine[flows.src], mine[flows.dst]
    sources = np.zeros(network.n_hosts, bool)
    sources[flows.src[sent | received]] = True
    set_up = sources[flows.src]
    depends = flows.after_ptr is not None or simulation.tasks is not None
    if depends or simulation.program is not None or simulation.feature_set.phase_driven:
        set_up[:] = sources[:] = True
    hosts, n_nics = mine[: network.n_hosts], np.diff(network.first_nic)
    return Share(
        of_node=of_node,
        ports=ports,
        links=np.union1d(ports, network.port_peer[ports]),
        hosts=np.flatnonzero(hosts),
        host_ports=ports[ports < network.n_host_ports],
        nics=np.flatnonzero(np.repeat(hosts, n_nics)),
        sent=np.flatnonzero(sent),
        received=np.flatnonzero(received),
        flows=np.flatnonzero(set_up),
        sources=np.flatnonzero(np.repeat(hosts | sources, n_nics)),
    )


def rows_of(first: Array, counts: Array | int) -> Array:
    """Return the numbers of ``counts`` rows from each of ``first`` on."""
    counts = np.broadcast_to(counts, first.shape)
    begin = np.cumsum(counts) - counts
    rows: Array = np.repeat(first - begin, counts) + np.arange(int(counts.sum()))
    return rows


def ranks_within(counts: Array) -> Array:
    """Return 0 to ``count`` - 1 for each of ``counts``, concatenated."""
    return rows_of(np.zeros(counts.size, np.int64), counts)


def rank_of_each(owner: Array, counts: Array) -> Array:
    """Return the rank of each entry among its owner's entries; ``counts`` are their numbers."""
    ranks = np.empty(owner.size, np.int64)
    ranks[np.argsort(owner, kind="stable")] = ranks_within(counts)
    return ranks
