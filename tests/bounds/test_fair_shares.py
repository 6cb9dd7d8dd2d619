"""Max-min fair shares of single-path flows against hand calculation, fluid simulation and runs."""

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from engine_runs import fat_tree as tree_of
from raises_input import raises_input

from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.ideal import (
    NO_LINK,
    ecmp_paths,
    hashed_paths,
    hashed_times,
    ideal_times,
    max_min_rates,
)
from netsim.model.port_pairs import pairs_used, port_pairs_of
from netsim.plugins.registry import find

G = 10**9
PACKETS = PacketFormat()


def fat_tree(leaves, hosts_per_leaf, spines, rate=100 * G, fabric_rate=100 * G):
    builder = NetworkBuilder()
    hosts = builder.add_hosts(leaves * hosts_per_leaf)
    tops = [builder.add_switch(f"leaf{i}", 0) for i in range(leaves)]
    middle = [builder.add_switch(f"spine{i}", 1) for i in range(spines)]
    for host in hosts:
        builder.cable(host, tops[host // hosts_per_leaf], rate_bps=rate, delay_ps=10**6)
    for leaf in tops:
        for spine in middle:
            builder.cable(leaf, spine, rate_bps=fabric_rate, delay_ps=10**6)
    return builder.build("tree")


def permutation(network, rng, load=1.0):
    params = {"size": 2_000_000, "load": load}
    return find("traffic", "permutation").module.flows(params, network, rng, None)


def test_max_min_rates_match_a_hand_computed_example():
    # Three flows share link 0, and link 1 limits one of them; link 2 has spare capacity.
    links = np.array([[0, NO_LINK], [0, 2], [0, 1], [1, NO_LINK], [1, NO_LINK]])
    rates = max_min_rates(links, np.array([10.0, 6.0, 100.0]))
    np.testing.assert_allclose(rates, [4, 4, 2, 2, 2])


def test_every_flow_has_a_max_min_bottleneck():
    """Every flow crosses a full link on which no flow is faster, which defines the optimum."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        capacity = rng.uniform(1, 10, 12)
        links = np.array([rng.choice(12, 4, replace=False) for _ in range(60)])
        links[rng.random(links.shape) < 0.3] = NO_LINK
        links[:, 0] = rng.integers(0, 12, 60)
        links[:, 1:][links[:, 1:] == links[:, :1]] = NO_LINK
        rates = max_min_rates(links, capacity)
        used = np.array([rates[(links == link).any(axis=1)].sum() for link in range(12)])
        fastest = np.array([rates[(links == link).any(axis=1)].max() for link in range(12)])
        assert (used <= capacity * (1 + 1e-9)).all()
        full = used >= capacity * (1 - 1e-9)
        for flow, rate in enumerate(rates):
            crossed = links[flow][links[flow] != NO_LINK]
            assert any(full[link] and rate >= fastest[link] * (1 - 1e-9) for link in crossed)


def test_equal_size_flow_times_match_a_fluid_simulation():
    """The fluid simulation recomputes the shares whenever a flow ends; the times are equal."""
    network = fat_tree(8, 8, 8, fabric_rate=60 * G)
    rng = np.random.default_rng(3)
    flows = permutation(network, rng)
    paths = ecmp_paths(network, flows.src.astype(np.int64), flows.dst.astype(np.int64), rng)
    capacity = network.port_rate_bps / network.host_rate_bps
    left, done, now = np.ones(len(flows)), np.zeros(len(flows)), 0.0
    while (left > 0).any():
        going = np.flatnonzero(left > 0)
        rates = max_min_rates(paths[going], capacity)
        step = (left[going] / rates).min()
        now += step
        left[going] -= step * rates
        left[left < 1e-9] = 0
        done[going[left[going] == 0]] = now
    assert np.unique(done.round(6)).size > 4
    np.testing.assert_allclose(done, 1 / max_min_rates(paths, capacity))


def test_ecmp_paths_are_shortest_and_use_every_spine():
    network = fat_tree(4, 2, 4)
    src, dst = np.zeros(400, np.int64), np.full(400, 7)
    paths = ecmp_paths(network, src, dst, np.random.default_rng(1))
    assert paths.shape == (400, 4)
    assert np.unique(paths[:, 1], return_counts=True)[1].min() > 60
    to = network.port_node[network.port_peer[paths]]
    assert (network.port_node[paths][:, 1:] == to[:, :-1]).all()
    assert (to[:, -1] == 7).all()
    (same_leaf,) = ecmp_paths(network, np.array([0]), np.array([1]), np.random.default_rng(1))
    assert same_leaf.tolist() == [0, network.port_peer[1]]


@pytest.mark.parametrize("planes", [1, 2])
def test_hashed_paths_match_the_links_used_in_a_run(planes):
    """Datagrams have no acks, so each link sends only the packets of the flows that cross it."""
    network = tree_of(4, 4, "100Gbps", planes=planes)
    rng = np.random.default_rng(2)
    flows = FlowTable(rng.integers(0, 8, 60), rng.integers(8, 16, 60), 4 * 4096)
    port_pairs = pairs_used(network, flows, "hash", seed=7)
    engine = run(build(network, flows, "datagram", DROP_TAIL, seed=7, jit=False))
    paths = hashed_paths(network, port_pairs, seed=7)
    crossed = np.bincount(paths[paths != NO_LINK], minlength=network.n_ports)
    assert engine.link_counters().sent_packets.tolist() == (4 * crossed).tolist()
    times = hashed_times(network, flows, PACKETS, port_pairs, seed=7)
    assert (
        times.max() > 3 * ideal_times(network, flows, PACKETS, port_pairs=port_pairs).fct_ps.max()
    )


@pytest.mark.parametrize("flows", [
    FlowTable([0, 1], [2, 3], [1000, 2000]),
    FlowTable([0, 1], [2, 3], 1000, start_ps=[0, 5]),
])  # fmt: skip
def test_flows_of_different_size_or_start_are_rejected(flows):
    with raises_input("size"):
        network = fat_tree(2, 2, 1)
        hashed_times(network, flows, PACKETS, port_pairs_of(network, flows), seed=1)
