"""Test networks, of 100 Gbps and cables of 1 us, and flows between their hosts."""

from __future__ import annotations

import numpy as np

from netsim.model.builder import NetworkBuilder, build_topology
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.trees import Tree, add_tree

PACKET = PacketFormat().payload_bytes
HOSTS = 8
RATE_BPS = 100 * 10**9
DELAY_PS = 1_000_000
STEP_PS = 13_577


def tree(leaves: int = 4, per_leaf: int = 2) -> Network:
    """Return leaves with hosts, and as many spines as hosts per leaf: at least two paths."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(leaves * per_leaf)
    edge = [builder.add_switch(f"leaf{i}", 0) for i in range(leaves)]
    core = [builder.add_switch(f"spine{i}", 1) for i in range(per_leaf)]
    for host in hosts:
        builder.cable(host, edge[host // per_leaf], RATE_BPS, DELAY_PS)
    for leaf in edge:
        for spine in core:
            builder.cable(leaf, spine, RATE_BPS, DELAY_PS)
    return builder.build(f"tree_{leaves * per_leaf}")


def three_tiers() -> Network:
    """Return two pods with four hosts, two leaves and two spines each, and two cores per spine."""
    rates_bps, delays_ps = (RATE_BPS,) * 3, (DELAY_PS,) * 3
    shape = Tree((2, 2, 2), (2, 2), (1, 1), rates_bps, delays_ps, latencies_ps=(0, 0, 0))
    builder = NetworkBuilder()
    add_tree(builder, shape, np.array(builder.add_hosts(shape.n_hosts)))
    return builder.build(f"three_tiers_{shape.n_hosts}")


def planes(last: float = 1.0) -> Network:
    """Return two `tree`s with the same hosts; ``last`` scales the second one's rates."""
    plane = tree()
    builder = NetworkBuilder()
    hosts = builder.add_hosts(plane.n_hosts)
    for number, rate in enumerate((1.0, last)):
        builder.add_network(plane, hosts, prefix=f"plane{number}.", rate=rate)
    return builder.build(f"two_planes_{plane.n_hosts}")


def dumbbell(pairs: int) -> Network:
    """Return `pairs` hosts on the left, then as many on the right, and one cable between the sides.

    Delays of host cables differ by some nanoseconds. Otherwise flows would stay in lockstep, and
    the same flow would always reach a full queue first.
    """
    builder = NetworkBuilder()
    hosts = builder.add_hosts(2 * pairs)
    left, right = builder.add_switch("left"), builder.add_switch("right")
    for host in hosts:
        delay_ps = DELAY_PS + host * STEP_PS
        builder.cable(host, left if host < pairs else right, RATE_BPS, delay_ps)
    builder.cable(left, right, RATE_BPS, DELAY_PS)
    return builder.build(f"dumbbell_{pairs}")


def dragonfly() -> Network:
    """Return three groups of two switches, each with a host."""
    return build_topology(
        "dragonfly", switches_per_group=2, hosts_per_switch=1, host_rate="100Gbps"
    )


def torus(shape: str = "4x4") -> Network:
    """Return a grid of switches, each with a host."""
    return build_topology("torus", shape=shape, host_rate="100Gbps")


def star(n_hosts: int, rate_bps: int = RATE_BPS, delay_ps: int = DELAY_PS) -> Network:
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    hub = builder.add_switch("hub")
    for host in hosts:
        builder.cable(host, hub, rate_bps, delay_ps)
    return builder.build(f"star_{n_hosts}")


def permutation_of(n_bytes: int, start_ps: int = 0) -> FlowTable:
    """Return a flow from every host to a host on another leaf."""
    src = np.arange(HOSTS)
    return FlowTable(src, (src + 3) % HOSTS, n_bytes, start_ps)


def incast_of(n_bytes: int) -> FlowTable:
    """Return flows from all other hosts to host 0."""
    return FlowTable(np.arange(1, HOSTS), 0, n_bytes)


def incast_in_classes(n_packets: int, n_traffic_classes: int) -> FlowTable:
    """Return two flows from each of seven hosts to one, at once and in all classes."""
    src = np.repeat(np.arange(1, HOSTS), 2)
    n = np.arange(src.size)
    return FlowTable(src, 0, n_packets * PACKET - 1000 * (n % 3), cls=n % n_traffic_classes)


def everybody(
    n_hosts: int, n_packets: int, *, n_traffic_classes: int = 1, start_ps: int = 0
) -> FlowTable:
    """Return a flow from every host to every other, in all classes, at slightly different times."""
    src, dst = np.divmod(np.arange(n_hosts**2), n_hosts)
    src, dst = src[src != dst], dst[src != dst]
    n = np.arange(src.size)
    size = n_packets * PACKET - 777 * (n % 5)
    return FlowTable(src, dst, size, start_ps + n % 7 * 100_000, cls=n % n_traffic_classes)


def two_of_each(n_hosts: int, n_packets: int, n_traffic_classes: int) -> FlowTable:
    """Return flows from every host to two others, in all classes."""
    src = np.repeat(np.arange(n_hosts), 2)
    dst = (src + np.tile([5, 16], n_hosts)) % n_hosts
    cls = np.arange(src.size) % n_traffic_classes
    return FlowTable(src, dst, n_packets * PACKET + 9, cls=cls)
