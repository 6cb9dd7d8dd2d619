"""Loss of carrier: when hosts know that a port of theirs, or of another host, is down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from netsim.model.network import Network

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CarrierDelays:
    """How long after a change hosts know of it: at a port of their own, and at another host's.

    `NEVER` of another host's: they do not.
    """

    own_ps: int
    other_ps: int


def times_without_carrier(
    network: Network, outage_ptr: Ints, outages_ps: Ints
) -> tuple[Ints, Ints]:
    """When the ports of hosts have no carrier, since a link of theirs is down either way.

    The outages of all links are as `LinkFaults` has them. The result is
    int64[n_host_ports + 1], where the rows of each port begin, and int64[k, 2], from when until
    when: in order, without overlaps.
    """
    n = network.n_host_ports
    outages = outages_ps[: outage_ptr[-1]]
    feeding = np.repeat(np.arange(network.n_ports), np.diff(outage_ptr))
    rows = []
    for port in (feeding, network.port_peer[feeding]):
        at_host = port < n
        rows.append(np.column_stack([port[at_host], outages[at_host]]))
    table = np.concatenate(rows).astype(np.int64)
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    first = np.searchsorted(table[:, 0], np.arange(n + 1))
    kept = np.ones(len(table), bool)
    for port in np.unique(table[:, 0]).tolist():
        of_port = table[first[port] : first[port + 1]]
        until = np.maximum.accumulate(of_port[:, 2])
        begins = np.append(True, of_port[1:, 1] > until[:-1])
        at = np.flatnonzero(begins)
        of_port[at, 2] = until[np.append(at[1:], len(of_port)) - 1]
        kept[first[port] : first[port + 1]] = begins
    table = table[kept]
    first = np.searchsorted(table[:, 0], np.arange(n + 1)).astype(np.int64)
    return first, np.ascontiguousarray(table[:, 1:])
