"""The networks on which plugins are tried: 100 Gbps, cables of 1 us."""

from __future__ import annotations

import numpy as np

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.model.trees import Tree, add_tree

RATE_BPS = 100 * 10**9
DELAY_PS = 1_000_000
STEP_PS = 13_577


def tree(leaves: int = 4, per_leaf: int = 2) -> Network:
    """Hosts under leaves, and as many spines as a leaf has hosts: two paths or more."""
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
    """Two pods of two leaves with two hosts each, two spines in a pod and two cores for each."""
    rates_bps, delays_ps = (RATE_BPS,) * 3, (DELAY_PS,) * 3
    shape = Tree((2, 2, 2), (2, 2), (1, 1), rates_bps, delays_ps, latencies_ps=(0, 0, 0))
    builder = NetworkBuilder()
    add_tree(builder, shape, np.array(builder.add_hosts(shape.n_hosts)))
    return builder.build(f"three_tiers_{shape.n_hosts}")


def planes(last: float = 1.0) -> Network:
    """Two of `tree` with the same hosts; links of the last one have that share of their rate."""
    plane = tree()
    builder = NetworkBuilder()
    hosts = builder.add_hosts(plane.n_hosts)
    for number, rate in enumerate((1.0, last)):
        builder.add_network(plane, hosts, prefix=f"plane{number}.", rate=rate)
    return builder.build(f"two_planes_{plane.n_hosts}")


def dumbbell(pairs: int) -> Network:
    """Hosts 0 to pairs - 1 on the left, as many on the right, one cable between the sides.

    Cables of hosts differ by some nanoseconds, or flows would be in step for ever, and whose
    packet comes first to a full queue would be the same each time.
    """
    builder = NetworkBuilder()
    hosts = builder.add_hosts(2 * pairs)
    left, right = builder.add_switch("left"), builder.add_switch("right")
    for host in hosts:
        delay_ps = DELAY_PS + host * STEP_PS
        builder.cable(host, left if host < pairs else right, RATE_BPS, delay_ps)
    builder.cable(left, right, RATE_BPS, DELAY_PS)
    return builder.build(f"dumbbell_{pairs}")


def star(n_hosts: int) -> Network:
    """Hosts around one switch."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    hub = builder.add_switch("hub")
    for host in hosts:
        builder.cable(host, hub, RATE_BPS, DELAY_PS)
    return builder.build(f"star_{n_hosts}")
