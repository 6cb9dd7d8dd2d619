"""Test networks: 100 Gbps, cables of 1 us."""

from __future__ import annotations

import numpy as np

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.model.parts import build_topology
from netsim.model.trees import Tree, add_tree

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
    """Return hosts 0 to pairs - 1 on the left, as many on the right, and one cable between.

    Delays of host cables differ by some nanoseconds. Otherwise flows would stay in step, and the
    same one would always reach a full queue first.
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


def star(n_hosts: int) -> Network:
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    hub = builder.add_switch("hub")
    for host in hosts:
        builder.cable(host, hub, RATE_BPS, DELAY_PS)
    return builder.build(f"star_{n_hosts}")
