"""Reduction in the network: switches that add up what hosts send, and send one thing to many.

A switch that can has a *reduction unit*. In the simulation that is one host more, behind all
others, on a link as fast as all ports of its switch together, with a queue of its own at the
switch. The link is inside the switch and no cable: a network counts its units, and their links, for
nothing, and only a workload that sends to units is simulated on the network that has them.

What is modeled is who sends what, when, and what that takes on the hosts' links. Transport is end
to end between host and unit, so that loss, acknowledgments and congestion are as ever. Not
modeled: how many sums a switch has room for, and the time that adding up takes in it, but for what
`latency_ps` stands for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network, Reduction


def with_reduction(network: Network, latency_ps: int) -> Network:
    """The network, with a unit for the switches that NIC 0 of hosts leads to.

    Hosts have a unit in common if that NIC leads them to the same switches: one, or one in each of
    several planes, where the unit has a port, too. From a switch to its unit it takes `latency_ps`,
    and as long back.

    Raises:
        InputError: hosts whose NICs have different numbers of ports, or as `NetworkBuilder.build`.
    """
    ports = np.flatnonzero(network.port_nic == 0)
    per_host = np.bincount(network.port_node[ports], minlength=network.n_hosts)
    if (per_host != per_host[0]).any():
        raise InputError("hosts with different numbers of ports have no reduction units")
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
