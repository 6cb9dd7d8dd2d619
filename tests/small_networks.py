"""Networks for tests: of known shape, of hosts with several ports, random ones."""

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

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


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """A connected graph of up to 9 switches with parallel cables, and 1 to 12 hosts on them."""
    n_switches = draw(st.integers(1, 9))
    n_hosts = draw(st.integers(1, 12))
    rates = st.sampled_from([25 * GBPS, 100 * GBPS, 400 * GBPS])
    delays = st.integers(1, 5 * US)
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    switches = [builder.add_switch() for _ in range(n_switches)]
    cables = [(host, draw(st.sampled_from(switches))) for host in hosts]
    cables += [(switches[i], switches[draw(st.integers(0, i - 1))]) for i in range(1, n_switches)]
    pairs = list(itertools.combinations(switches, 2))
    if pairs:
        cables += draw(st.lists(st.sampled_from(pairs), max_size=15))
    for a, b in draw(st.permutations(cables)):
        builder.cable(a, b, draw(rates), draw(delays))
    return builder.build("random")
