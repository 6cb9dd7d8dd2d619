"""Which share of a workload's bytes goes by which of a network's networks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netsim.inventory.inventory import common_name
from netsim.inventory.symmetry import kinds_of_networks
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import PortPairs


def shares_of_networks(
    network: Network, flows: FlowTable, port_pairs: PortPairs
) -> Iterator[tuple[str, float]]:
    """What each kind of networks is called, and its share of all bytes; none if there is one kind.

    Equal networks, such as the rails, are one kind. A flow has even shares on its port pairs.
    """
    if network.first_group.size <= 2:
        return
    kinds = kinds_of_networks(network)
    if len(kinds) == 1:
        return
    part = np.repeat(flows.size_bytes / np.maximum(port_pairs.counts, 1), port_pairs.counts)
    n_bytes = np.bincount(
        network.port_network[port_pairs.src_port], part, network.first_group.size - 1
    )
    for alike in kinds:
        names = np.flatnonzero(network.switch_network == alike[0]).tolist()
        name = common_name([network.switch_names[one] for one in names])
        more = f" and {alike.size - 1} alike" if alike.size > 1 else ""
        nics = np.unique(network.port_nic[np.isin(network.port_network, alike)]).tolist()
        nic = f" (NIC {', '.join(map(str, nics))})"
        yield name + more + nic, float(n_bytes[alike].sum() / max(n_bytes.sum(), 1))
