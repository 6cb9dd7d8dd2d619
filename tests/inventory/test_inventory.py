"""Inventory of networks: size, bisection, paths, failures, prices."""

import itertools
import re
from dataclasses import astuple
from typing import Any

import networkx
import numpy as np
import pytest
from engine_runs import resolve
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from small_networks import GBPS, METER_PS, networks, rail_racks, rails, three_tiers, two_nics
from topology_of import largest_flow_bps

from netsim.experiment.place_faults import ports_named
from netsim.model import paths
from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable
from netsim.model.inventory import (
    FIBER,
    HOST,
    PARTS,
    SCALE_UP,
    SWITCH,
    bill,
    inventory,
    read_prices,
)
from netsim.model.network import Network
from netsim.model.paths import MAX_FLOW, Failure, bisection, failure, middle_of
from netsim.model.port_pairs import port_pairs_of
from netsim.model.trees import fabric_cables_needed, switches_needed
from netsim.network import Schedule
from netsim.plugins import registry
from netsim.workloads.plots.paper_figures import TOPOLOGIES, counts
from netsim.workloads.plots.paper_figures import stated as value


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


def pairs_of(network: Network, hosts: list[tuple[int, int]]) -> Any:
    """Return the port pairs of one flow for each (src, dst) host pair."""
    src, dst = np.array(hosts).T
    flows = FlowTable(src=src, dst=dst, size_bytes=np.full(len(hosts), 1000))
    return port_pairs_of(network, flows)


def without(network: Network, name: str, hosts: list[tuple[int, int]]) -> Failure:
    return failure(network, name, ports_named(name, network), pairs_of(network, hosts))


def test_failure_report_of_a_core_leaf_host_and_link() -> None:
    network = three_tiers(4)  # two hosts on a leaf, four in a pod
    flows = [(0, 1), (0, 2), (0, 4), (4, 8), (9, 15)]
    core = without(network, "core0", flows)
    assert (core.cables, core.hosts_cut_off, core.hosts_fewer_paths) == (4, 0, 16)
    assert core.paths_left == 0.75
    assert (core.flows_cut_off, core.flows_touched) == (0, 3)
    leaf = without(network, "pod0.leaf0", flows)
    assert (leaf.cables, leaf.hosts_cut_off, leaf.flows_cut_off) == (4, 2, 3)
    assert leaf.flows_touched == 0
    host = without(network, "h0", flows)
    assert (host.cables, host.hosts_cut_off, host.flows_cut_off, host.flows_touched) == (1, 1, 3, 0)
    link = without(network, "pod0.leaf0 - pod0.agg1", flows)
    assert (link.cables, link.hosts_fewer_paths, link.paths_left) == (1, 16, 0.5)
    assert (link.flows_cut_off, link.flows_touched) == (0, 2)


@given(networks(), st.data())
@settings(max_examples=60, deadline=None)
def test_failure_report_matches_networkx(network: Network, data: st.DataObject) -> None:
    if network.n_hosts < 2:
        return
    port = data.draw(st.integers(0, network.n_ports - 1))
    cable = np.array([port, network.port_peer[port]])
    hosts = list(itertools.permutations(range(network.n_hosts), 2))
    found = failure(network, "one", cable, pairs_of(network, hosts))
    graph = network.to_networkx()
    rest = graph.copy()
    a, b = (int(network.port_node[one]) for one in cable)
    key = next(k for k, at in graph[a][b].items() if set(at["ports"]) == set(cable.tolist()))
    rest.remove_edge(a, b, key)
    cut = sum(not networkx.has_path(rest, *pair) for pair in hosts)
    assert found.flows_cut_off == cut
    touched = 0
    for pair in hosts:
        on_it = (a, b) in _hops(graph, pair) or (b, a) in _hops(graph, pair)
        touched += on_it and networkx.has_path(rest, *pair)
    assert found.flows_touched == touched
    parts = [
        {one for one in part if one < network.n_hosts}
        for part in networkx.connected_components(rest)
    ]
    assert found.hosts_cut_off in {network.n_hosts - len(part) for part in parts}


def _hops(graph: Any, pair: tuple[int, int]) -> set[tuple[int, int]]:
    ways = networkx.all_shortest_paths(networkx.Graph(graph), *pair)
    return {hop for way in ways for hop in itertools.pairwise(way)}


def test_unknown_node_is_rejected() -> None:
    with raises_input("core9"):
        ports_named("core9", three_tiers(4))


def test_every_part_has_a_price_with_a_source() -> None:
    prices = read_prices()
    assert set(prices) == set(PARTS)
    for price in prices.values():
        assert re.search(r"assumption|\(\S+\.\w+", price.source)


def test_bill_applies_custom_prices_and_keeps_default_ones(tmp_path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(
        """
        [nic_port]
        usd_per_gbps = 2
        source = "mine"
        [switch_port]
        usd = 10
        watts_per_gbps = 0.5
        source = "mine"
        [cable.rack]
        usd = 3
        watts = 1
        source = "mine"
        """
    )
    rows = {row.part: row for row in bill(inventory(three_tiers(4)), read_prices(path))}
    assert set(rows) == {"nic_port", "switch_port", "cable.rack", "cable.row", "cable.hall"}
    assert (rows["nic_port"].count, rows["nic_port"].usd) == (16, 16 * 800 * 2)
    ports = 20 * 4
    assert (rows["switch_port"].usd, rows["switch_port"].watts) == (10 * ports, 400 * ports)
    assert (rows["cable.rack"].usd, rows["cable.rack"].watts) == (48, 16)
    assert rows["cable.row"].source != "mine"


def test_scale_up_and_scale_out_are_priced_apart_at_their_own_rates() -> None:
    counted = inventory(rail_racks(4, 2, planes=2))
    prices = read_prices()
    rows = {row.part: row for row in bill(counted, prices)}
    assert [(nic.nic, nic.is_scale_up) for nic in counted.nics] == [(0, True), (1, False)]
    assert {row.name: row.is_scale_up for row in counted.networks} == {
        "rail0.plane0": False,
        "rack0": True,
    }
    assert {row.name: row.is_scale_up for row in counted.switches} == {
        "up": True,
        "leaf": False,
        "spine": False,
    }
    assert (rows["scale_up_port"].count, rows["nic_port"].count) == (8, 8 * 2)
    up_usd = prices["scale_up_port"].usd_per_gbps * 8 * 7200
    assert rows["scale_up_port"].usd == pytest.approx(up_usd)
    gbps = 8 * 2 * 200
    assert rows["nic_port"].usd == pytest.approx(prices["nic_port"].usd_per_gbps * gbps)
    # Cables in the rack are part of its ports, whatever their delay.
    out = [row for row in counted.cables if row.length != SCALE_UP]
    cables = sum(row.count * row.rate_bps for row in out) / GBPS
    watts = prices["switch_port"].watts_per_gbps
    assert rows["switch_port"].watts == pytest.approx(watts * (2 * cables - gbps))
    assert sum(row.count for part, row in rows.items() if part.startswith("cable")) == sum(
        row.count for row in out
    )


@pytest.mark.parametrize("network", [three_tiers(4), rails(2, [400, 100])], ids=["tree", "ports"])
def test_one_nic_is_scale_out(network) -> None:
    assert not network.is_scale_up.any()


def tree(**given: Any) -> dict[str, Any]:
    return {"kind": "fat_tree", **given}


def test_clos_formulas_match_built_networks() -> None:
    for params, hosts, radix, tiers, planes in [
        (tree(tiers=2, radix=8), 32, 8, 2, 1),
        (tree(tiers=3, radix=8), 128, 8, 3, 1),
        (tree(tiers=4, radix=4), 32, 4, 4, 1),
        (tree(tiers=2, radix=8, planes=4), 32, 8, 2, 4),
    ]:
        plugin = registry.find("topology", params.pop("kind"))
        counted = inventory(plugin.module.build(resolve(plugin, params)))
        assert (counted.hosts, counted.tiers) == (hosts, tiers)
        assert counted.switch_count == planes * switches_needed(hosts, tiers, radix)
        between = sum(row.count for row in counted.cables if row.joins == SWITCH)
        assert between == planes * fabric_cables_needed(hosts, tiers)


@pytest.mark.parametrize("stated", TOPOLOGIES, ids=lambda one: one.name)
def test_clos_formulas_match_the_paper(stated) -> None:
    for name, ours in zip(stated.figures, counts(stated), strict=True):
        assert not name or ours == pytest.approx(value(name, "").paper, rel=0.05)
