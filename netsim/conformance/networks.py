"""The networks on which plugins are tried: 100 Gbps, cables of 1 us."""

from __future__ import annotations

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network

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
