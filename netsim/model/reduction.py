"""In-network reduction: switches that add up what hosts send, and multicast the result.

Such a switch has a *reduction unit*. The simulation models it as an additional host, after all
others, on a link as fast as all ports of its switch together, with its own queue at the switch. The
link is inside the switch: reports of the network count neither units nor their links, and only a
workload that sends to units is simulated on the network that has them.

The model covers what is sent when, and its time on the hosts' links. Transport is end to end
between host and unit, so loss, acknowledgments and congestion are as usual. It does not limit the
number of concurrent sums in a switch, and adding takes no time beyond `latency_ps`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network, Reduction


def with_reduction(network: Network, latency_ps: int) -> Network:
    """Return the network with a reduction unit for the switches that NIC 0 of hosts leads to.

    Hosts share a unit if that NIC leads them to the same switches: one, or one in each of several
    planes, where the unit also has a port. `latency_ps` is the delay between switch and unit, each
    way. Raises InputError for hosts whose NICs have different numbers of ports, or as
    `NetworkBuilder.build`.
    """
    ports = np.flatnonzero(network.port_nic == 0)
    per_host = np.bincount(network.port_node[ports], minlength=network.n_hosts)
    if (per_host != per_host[0]).any():
        message = "reduction units need the same number of ports of NIC 0 at every host"
        raise InputError(message)
    switch = np.sort(network.next_switch(ports).reshape(network.n_hosts, -1), axis=1)
    switches, of_host = np.unique(switch, axis=0, return_inverse=True)
    capacity = np.zeros(network.n_nodes, np.int64)
    np.add.at(capacity, network.port_node, network.port_rate_bps)

    builder = NetworkBuilder()
    hosts = builder.add_hosts(network.n_hosts + len(switches))
    nodes = builder.add_network(network, np.arange(network.n_hosts))
    for unit, own in zip(hosts[network.n_hosts :], switches.tolist(), strict=True):
        for one in own:
            rate_bps = int(capacity[network.n_hosts + one])
            builder.cable(unit, nodes[one], rate_bps, latency_ps)
    relays = network.relays
    if relays is not None:
        relays = replace(relays, hosts=network.n_hosts)
    made = replace(builder.build(network.name), relays=relays)
    return replace(
        network, reduction=Reduction(made, network.n_hosts + of_host.reshape(-1).astype(np.int64))
    )
