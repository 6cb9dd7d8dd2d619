"""Small networks whose hosts have several ports, for tests."""

from collections.abc import Sequence

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network

GBPS = 10**9
US = 10**6


def rails(n_hosts: int, rates: Sequence[int], delay_ps: int = US) -> Network:
    """Return hosts with one NIC and a switch (plane0, ...) per port; rates in Gbit/s."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    for plane, rate in enumerate(rates):
        switch = builder.add_switch(f"plane{plane}")
        for host in hosts:
            builder.cable(host, switch, rate * GBPS, delay_ps)
    return builder.build("rails")


def two_nics(domains: int = 2) -> Network:
    """Return two hosts per domain. NIC 0 has two ports of 400 Gbit/s to the two scale-up switches
    of its domain, NIC 1 has one port of 100 Gbit/s to a scale-out switch for all hosts."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(2 * domains)
    up = [[builder.add_switch(f"up{d}.{k}") for k in range(2)] for d in range(domains)]
    out = builder.add_switch("out")
    for host in hosts:
        for switch in up[host // 2]:
            builder.cable(host, switch, 400 * GBPS, US // 10)
        builder.cable(host, out, 100 * GBPS, US, nic=1)
    return builder.build("two NICs")
