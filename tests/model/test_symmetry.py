"""`ecmp_symmetric`: the networks that it accepts, and paths equal in both directions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from raises_input import mentions, raises_input
from random_networks import networks
from several_ports import rails

from netsim.errors import InputError
from netsim.model.builder import NetworkBuilder
from netsim.model.checks import check_symmetric, heights
from netsim.model.network import Network
from netsim.model.port_pairs import PLANE_BALANCING

RATE, DELAY = 100 * 10**9, 10**6


def network_of(n_hosts: int, cables: Iterable[tuple[int, int]]) -> Network:
    cables = list(cables)
    builder = NetworkBuilder()
    builder.add_hosts(n_hosts)
    for _ in range(max(map(max, cables)) + 1 - n_hosts):
        builder.add_switch()
    for a, b in cables:
        builder.cable(a, b, RATE, DELAY)
    return builder.build("test")


def two_tiers(leaves: int, spines: int, hosts_per_leaf: int = 2) -> list[tuple[int, int]]:
    n = leaves * hosts_per_leaf
    cables = [(h, n + h // hosts_per_leaf) for h in range(n)]
    return cables + [(n + i, n + leaves + j) for i in range(leaves) for j in range(spines)]


def three_tiers() -> list[tuple[int, int]]:
    """Return two pods of two leaves and two aggregation switches, joined to two of four cores each.

    Hosts 0 to 3, leaves 4 to 7, aggregation switches 8 to 11, cores 12 to 15.
    """
    cables = [(h, 4 + h) for h in range(4)]
    cables += [(4 + leaf, 8 + 2 * (leaf // 2) + j) for leaf in range(4) for j in range(2)]
    return cables + [
        (8 + 2 * pod + j, 12 + 2 * j + c) for pod in (0, 1) for j in (0, 1) for c in (0, 1)
    ]


def cables_used(network: Network, src: int, dst: int, draws: dict[int, float]) -> list[int]:
    """Return the ports crossed from host to host if a switch's choice depends on its height."""
    height = heights(network)
    used = [src]
    while (node := int(network.port_node[network.port_peer[used[-1]]])) != dst:
        switch, group = node - network.n_hosts, int(network.host_group[dst])
        candidates = network.candidates(switch, group)
        if len(candidates):
            local = candidates[int(draws[int(height[switch])] * len(candidates))]
        else:
            local = network.host_port[dst]
        used.append(int(network.node_first_port[node]) + int(local))
    return used


def assert_symmetric(network: Network, rng: random.Random) -> None:
    for src, dst in itertools.combinations(range(network.n_hosts), 2):
        draws = {height: rng.random() for height in range(1, network.n_switches + 1)}
        there = cables_used(network, src, dst, draws)
        back = cables_used(network, dst, src, draws)
        assert [int(network.port_peer[port]) for port in back[::-1]] == there


@pytest.mark.parametrize(
    ("n_hosts", "cables"),
    [(8, two_tiers(4, 3)), (4, three_tiers()), (2, [(0, 2), (1, 3), (2, 3)])],
    ids=["two tiers", "three tiers", "no choice"],
)
def test_trees_pass_the_check_and_have_symmetric_paths(n_hosts, cables) -> None:
    network = network_of(n_hosts, cables)
    check_symmetric(network)
    for seed in range(20):
        assert_symmetric(network, random.Random(seed))


@given(networks())
@settings(max_examples=200, deadline=None)
def test_random_networks_that_pass_have_symmetric_paths(network: Network) -> None:
    try:
        check_symmetric(network)
    except InputError:
        return
    for seed in range(5):
        assert_symmetric(network, random.Random(seed))


def rejection(n_hosts: int, cables: Iterable[tuple[int, int]]) -> str:
    with pytest.raises(InputError) as caught:
        check_symmetric(network_of(n_hosts, cables))
    assert caught.value.key == "fabric.routing"
    return str(caught.value)


def test_asymmetric_networks_are_rejected() -> None:
    leaf_spine = two_tiers(2, 2)  # hosts 0 to 3, leaves 4 and 5, spines 6 and 7
    assert mentions(rejection(4, [*leaf_spine, (4, 6), (5, 6)]), "s0", "s2")
    assert mentions(rejection(4, [*leaf_spine[:-2], (5, 7), (5, 6)]), "s0", "s1")
    ring = [(0, 3), (1, 4), (2, 5), (3, 4), (4, 5), (5, 6), (6, 3)]
    assert mentions(rejection(3, [*ring, (3, 5)]), "host")
    crossed = [pair for pair in three_tiers() if pair not in ((10, 12), (10, 13))]
    assert mentions(rejection(4, [*crossed, (10, 13), (10, 12)]), "s0", "s2")
    diamond = [(0, 2), (1, 3), (2, 4), (2, 5), (4, 6), (5, 6), (6, 7), (3, 7), (3, 8), (8, 6)]
    assert "path" in rejection(2, diamond)


def test_symmetric_ecmp_rejects_per_end_plane_choice() -> None:
    for way in PLANE_BALANCING:
        several = rails(2, [100, 100])
        if way in ("hash", "entropy"):
            check_symmetric(several, way)
        else:
            with raises_input(way, key="fabric.plane_balancing") as caught:
                check_symmetric(several, way)
            assert caught.value.key == "fabric.plane_balancing"
        check_symmetric(two_nics_of_a_port(), way)


def two_nics_of_a_port() -> Network:
    """Build two hosts with two NICs, one to each of two switches."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(2)
    for nic in range(2):
        switch = builder.add_switch()
        for host in hosts:
            builder.cable(host, switch, RATE, DELAY, nic=nic)
    return builder.build("two NICs")
