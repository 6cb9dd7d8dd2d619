"""Network inventories against networkx and against closed-form counts."""

from __future__ import annotations

import itertools
from dataclasses import astuple

import networkx
import numpy as np
import pytest
from engine_runs import resolve
from hypothesis import given, settings
from random_networks import networks
from several_ports import two_nics
from small_networks import GBPS, METER_PS, rail_racks, three_tiers
from topology_of import largest_flow_bps

from netsim.model import paths
from netsim.model.builder import NetworkBuilder
from netsim.model.inventory import (
    FIBER,
    HOST,
    SWITCH,
    inventory,
)
from netsim.model.network import Network
from netsim.model.paths import MAX_FLOW, bisection, kinds_of_networks, middle_of
from netsim.network import Schedule
from netsim.plugins import registry


def built(kind: str, **given: object) -> Network:
    """Build a topology from parameters as a user writes them."""
    plugin = registry.find("topology", kind)
    network: Network = plugin.module.build(resolve(plugin, given))
    return network


@given(networks())
@settings(max_examples=60, deadline=None)
def test_bisection_equals_max_flow_between_host_halves(network: Network) -> None:
    if network.n_hosts == 1:
        assert inventory(network).networks[0].bisection is None
        return
    middle = middle_of(network, 0)
    assert middle == network.n_hosts // 2
    assert bisection(network, 0, middle) == (largest_flow_bps(network, middle), MAX_FLOW)


@pytest.mark.parametrize(
    "network",
    [three_tiers(4), rail_racks(5, 3), two_nics(3), built("fat_tree", hosts_per_leaf=3, leaves=5)],
    ids=lambda network: network.name,
)
def test_total_bisection_equals_max_flow_across_all_networks(network: Network) -> None:
    counted = inventory(network)
    assert counted.bisection.rate_bps == largest_flow_bps(network, network.n_hosts // 2)


@given(networks())
@settings(max_examples=60, deadline=None)
def test_path_diversity_counts_all_shortest_paths(network: Network) -> None:
    found = paths.path_diversity(network, 0, paths.path_counts(network, 0))
    graph = network.to_networkx()
    counted: dict[int, list[int]] = {}
    for a, b in itertools.permutations(range(network.n_hosts), 2):
        # Parallel cables are separate paths, but networkx counts paths of nodes.
        ways = networkx.all_shortest_paths(networkx.Graph(graph), a, b)
        each = [
            int(np.prod([graph.number_of_edges(*hop) for hop in itertools.pairwise(way)]))
            for way in ways
        ]
        links = networkx.shortest_path_length(graph, a, b)
        counted.setdefault(links, []).append(sum(each))
    total = sum(map(len, counted.values()))
    assert [way.links for way in found] == sorted(counted)
    for way in found:
        these = counted[way.links]
        assert (way.fewest, way.most) == (min(these), max(these))
        assert way.share == pytest.approx(len(these) / total)


def test_three_tier_inventory_counts_switches_cables_and_paths() -> None:
    k = 8
    counted = inventory(three_tiers(k))
    assert (counted.hosts, counted.switch_count, counted.tiers) == (k**3 // 4, 5 * k * k // 4, 3)
    assert [(row.name, row.ports, row.count) for row in counted.switches] == [
        ("leaf", k, k * k // 2),
        ("agg", k, k * k // 2),
        ("core", k, k * k // 4),
    ]
    assert [row.latency_ps for row in counted.switches] == [300_000, 300_000, 400_000]
    n = counted.hosts
    assert [astuple(row) for row in counted.cables] == [
        (HOST, 800 * GBPS, "rack", n),
        (SWITCH, 800 * GBPS, "row", n),
        (SWITCH, 800 * GBPS, "hall", n),
    ]
    assert counted.bisection == (n // 2 * 800 * GBPS, MAX_FLOW)
    assert (counted.oversubscription, counted.diameter) == (1, 6)
    assert [(way.links, way.most) for way in counted.networks[0].path_diversity] == [
        (2, 1),
        (4, 4),
        (6, 16),
    ]


def test_rail_inventory_separates_rail_and_rack_networks() -> None:
    racks, gpus, planes = 8, 3, 2
    counted = inventory(rail_racks(racks, gpus, planes))
    assert [(nic.nic, nic.ports, nic.hosts) for nic in counted.nics] == [(0, 1, 24), (1, 2, 24)]
    rail, up = counted.networks
    assert (up.name, rail.name) == ("rack0", "rail0.plane0")
    assert (up.count, up.hosts, up.tiers, up.switches) == (racks, gpus, 1, 1)
    assert (rail.count, rail.hosts, rail.tiers, rail.switches) == (gpus * planes, racks, 2, 6)
    # A rack's own network reaches no other rack.
    assert up.across.rate_bps == 0
    assert counted.bisection.rate_bps == rail.count * rail.bisection.rate_bps
    assert rail.bisection.rate_bps == racks // 2 * 200 * GBPS
    assert counted.oversubscription == 1


def test_identical_networks_are_grouped() -> None:
    def kinds(rates: list[int]) -> list[list[int]]:
        builder = NetworkBuilder()
        hosts = builder.add_hosts(4)
        for rate in rates:
            switch = builder.add_switch()
            builder.cables(np.array(hosts), np.full(4, switch), rate * GBPS, METER_PS)
        return [these.tolist() for these in kinds_of_networks(builder.build("planes"))]

    assert kinds([100, 100, 100]) == [[0, 1, 2]]
    assert kinds([100, 50, 100]) == [[0, 2], [1]]


def test_rotor_fibers_are_counted_and_circuits_are_not() -> None:
    network = built(
        "ocs",
        racks=9,
        hosts_per_rack=2,
        circuit_switches=3,
        slot="50us",
        reconfiguration_delay="5us",
        sync_delay="5us",
    )
    counted = inventory(network)
    assert [(row.joins, row.count) for row in counted.cables] == [(HOST, 18), (FIBER, 27)]
    assert [(row.ports, row.count) for row in counted.switches] == [(5, 9)]
    (rotors,) = counted.circuit_switches
    assert (rotors.names, rotors.count, rotors.ports) == (("rotor0", "rotor2"), 3, 9)
    assert (rotors.matchings, rotors.period_ps, rotors.night_ps) == (3, 150 * 10**6, 10 * 10**6)
    # Each matching leaves out one of nine racks, and circuits are up for 40 of 50 us.
    assert rotors.duty == pytest.approx(8 / 9 * 0.8)


def test_static_circuits_have_full_duty_cycle() -> None:
    builder = NetworkBuilder()
    builder.add_hosts(4)
    tors = [builder.add_switch(f"tor{i}") for i in range(4)]
    for host, tor in enumerate(tors):
        builder.cable(host, tor, 100 * GBPS, METER_PS)
    ways = [[[1, 0, 3, 2]], [[2, 3, 0, 1]], [[3, 2, 1, 0], [1, 0, 3, 2]]]
    for name, joined in zip("fgh", ways, strict=True):
        schedule = Schedule(10**7, joined, reconfiguration_delay_ps=10**6, repeats=name != "h")
        one = builder.add_circuit_switch(name, schedule)
        for tor in tors:
            builder.fiber(tor, one, 100 * GBPS, METER_PS)
    rows = inventory(builder.build("fixed")).circuit_switches
    assert [(row.names[0], row.count, row.period_ps) for row in rows] == [("f", 2, 0), ("h", 1, 0)]
    assert [row.duty for row in rows] == [1, 1]
