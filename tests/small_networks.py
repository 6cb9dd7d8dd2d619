"""Networks of known shape, for tests of inventories and drawings."""

import numpy as np

from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network

GBPS = 10**9
METER_PS = 5_000


def three_tiers(radix: int, rate_bps: int = 800 * GBPS) -> Network:
    """Return a three-tier fat tree of switches of radix k: k pods, k^3 / 4 hosts.

    Cables are 2 m to hosts, 20 m in a pod, 200 m to the core; leaves and aggregation switches have
    a latency of 300 ns, the core of 400 ns.
    """
    half = radix // 2
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(radix * half * half))
    places = [(pod, i) for pod in range(radix) for i in range(half)]
    leaves = np.array(builder.add_switches([f"pod{p}.leaf{i}" for p, i in places], 0, 300_000))
    middle = np.array(builder.add_switches([f"pod{p}.agg{i}" for p, i in places], 1, 300_000))
    core = np.array(builder.add_switches([f"core{i}" for i in range(half * half)], 2, 400_000))
    builder.cables(hosts, np.repeat(leaves, half), rate_bps, 2 * METER_PS)
    for pod in range(radix):
        low, high = (these[pod * half : (pod + 1) * half] for these in (leaves, middle))
        builder.cables(np.repeat(low, half), np.tile(high, half), rate_bps, 20 * METER_PS)
        builder.cables(np.repeat(high, half), core, rate_bps, 200 * METER_PS)
    return builder.build(f"three_tiers_{radix}")


def rail_racks(racks: int, gpus: int, planes: int = 2, spines: int = 2) -> Network:
    """Return racks with a scale-up switch (NIC 0) and one multi-plane rail per GPU of a rack
    (NIC 1): trees with a leaf for every two racks."""
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(racks * gpus)).reshape(racks, gpus)
    for rack in range(racks):
        up = builder.add_switch(f"rack{rack}.up")
        builder.cables(hosts[rack], np.full(gpus, up), 7200 * GBPS, METER_PS)
    n_leaves = -(-racks // 2)
    for rail in range(gpus):
        for plane in range(planes):
            name = f"rail{rail}.plane{plane}"
            leaves = np.array(builder.add_switches([f"{name}.leaf{i}" for i in range(n_leaves)]))
            top = np.array(builder.add_switches([f"{name}.spine{i}" for i in range(spines)], 1))
            leaf_of = leaves[np.arange(racks) // 2]
            builder.cables(hosts[:, rail], leaf_of, 200 * GBPS, 20 * METER_PS, nic=1)
            ends = np.repeat(leaves, spines), np.tile(top, n_leaves)
            builder.cables(*ends, 200 * GBPS, 60 * METER_PS)
    return builder.build(f"rail_racks_{racks}x{gpus}")
