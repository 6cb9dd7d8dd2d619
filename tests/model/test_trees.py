"""Trees of any size against closed forms."""

from math import prod

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_of import check_routes
from tree_case import tree_params

from netsim.errors import InputError
from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.model.paths import narrowest_bps
from netsim.model.routing import COUNT_MASK
from netsim.model.trees import (
    Tree,
    add_tree,
    fabric_cables_needed,
    most_hosts,
    reserve_trees,
    switches_needed,
)
from netsim.topologies import fat_tree

GBPS = 10**9
NS = 10**3
MAX_HOSTS = 36


def build(tree: Tree, planes: int = 1) -> Network:
    builder = NetworkBuilder()
    reserve_trees(builder, tree, planes)
    hosts = np.array(builder.add_hosts(tree.n_hosts))
    for plane in range(planes):
        add_tree(builder, tree, hosts, f"plane{plane}.")
    return builder.build("tree")


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Draw trees of two to four tiers with two or more children and up to MAX_HOSTS hosts."""
    tiers = draw(st.integers(2, 4))
    children: list[int] = []
    for tier in range(tiers):
        room = MAX_HOSTS // (prod(children) * 2 ** (tiers - tier - 1))
        children.append(draw(st.integers(2, max(2, min(4, room)))))
    counts = st.lists(st.integers(1, 3), min_size=tiers - 1, max_size=tiers - 1).map(tuple)
    rates = st.sampled_from([100 * GBPS, 200 * GBPS, 400 * GBPS])
    times = st.integers(1, 5000 * NS)
    of_tiers = [
        tuple(draw(st.lists(values, min_size=tiers, max_size=tiers)))
        for values in (rates, times, times)
    ]
    return Tree(tuple(children), draw(counts), draw(counts), *of_tiers)


@given(trees(), st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_built_tree_has_the_specified_counts_degrees_and_delays(tree: Tree, planes: int) -> None:
    network = build(tree, planes)
    graph = network.to_networkx()
    tier = network.tier[network.n_hosts :]
    assert network.n_host_ports == planes * tree.n_hosts
    assert np.bincount(tier).tolist() == [planes * count for count in tree.switches]
    for node in range(network.n_hosts, network.n_nodes):
        assert graph.degree(node) == tree.ports[network.tier[node]]
    found = [0] * tree.tiers
    for a, b, cable in graph.edges(data=True):
        lower, upper = sorted((a, b), key=lambda node: network.tier[node])
        level = int(network.tier[upper])
        assert network.tier[lower] == level - 1
        found[level] += 1
        assert cable["rate_bps"] == tree.rates_bps[level]
        up, down = sorted(cable["ports"], key=lambda port: network.port_node[port] != lower)
        below = tree.latencies_ps[level - 1] if level else 0
        assert network.port_delay_ps[up] == tree.delays_ps[level] + tree.latencies_ps[level]
        assert network.port_delay_ps[down] == tree.delays_ps[level] + below
    assert found == [planes * count for count in tree.cables]


@given(trees(), st.data())
@settings(max_examples=80, deadline=None)
def test_tree_routes_are_all_shortest_paths(tree: Tree, data: st.DataObject) -> None:
    """Remove and add cables, so that the network may no longer be a tree."""
    plan = build(tree).plan
    own, fabric = (
        [row[:2] for row in rows.tolist()] for rows in np.split(plan.cables, [tree.n_hosts])
    )
    gone = data.draw(st.sets(st.integers(0, len(fabric) - 1), max_size=3))
    switch = st.integers(tree.n_hosts, tree.n_hosts + sum(tree.switches) - 1)
    new = data.draw(
        st.lists(st.tuples(switch, switch).filter(lambda ends: len({*ends}) > 1), max_size=2)
    )
    builder = NetworkBuilder()
    builder.add_hosts(tree.n_hosts)
    builder.add_switches(plan.names)
    kept = [ends for number, ends in enumerate(fabric) if number not in gone]
    for a, b in [*own, *kept, *new]:
        builder.cable(a, b, GBPS, NS)
    try:
        network = builder.build("tree")
    except InputError:  # a switch is cut off
        return
    check_routes(network)


@given(trees())
@settings(max_examples=40, deadline=None)
def test_routes_go_up_all_uplinks_and_down_one_bundle(tree: Tree) -> None:
    network = build(tree)
    switch = 0
    for tier, count in enumerate(tree.switches):
        below = prod(tree.children[1 : tier + 1])  # leaves of a subtree
        for place in range(count):
            subtree = place // prod(tree.parents[:tier])
            first = int(network.route_first[switch])
            ways = network.route[first : first + network.n_groups] & COUNT_MASK
            own = np.arange(network.n_groups) // below == subtree
            assert (ways[own] == (tree.bundles[tier - 1] if tier else 0)).all()
            assert own.all() if tier == tree.tiers - 1 else (ways[~own] == tree.uplinks[tier]).all()
            switch += 1


@given(trees(), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_edge_disjoint_paths_match_planes_and_narrowest_tier(tree: Tree, planes: int) -> None:
    """Hosts have one disjoint path per plane; leaves as many as the narrowest tier allows."""
    network = build(tree, planes)
    cables = networkx.Graph()
    for a, b in network.to_networkx().edges():
        more = cables.get_edge_data(a, b, {"capacity": 0})["capacity"]
        cables.add_edge(a, b, capacity=more + 1)
    assert networkx.maximum_flow_value(cables, 0, tree.n_hosts - 1) == planes
    cables.remove_nodes_from(range(network.n_hosts))
    leaf, last = network.n_hosts, network.n_hosts + tree.switches[0] - 1
    through = [prod(tree.parents[:tier]) * up for tier, up in enumerate(tree.uplinks)]
    spread = networkx.maximum_flow_value(cables, leaf, last)
    assert spread == min(tree.uplinks[0], *through)


@given(trees())
@settings(max_examples=40, deadline=None)
def test_bisection_equals_max_flow_between_host_halves(tree: Tree) -> None:
    """With an even number of top subtrees the cut is the full top tier."""
    network = build(tree)
    flat = networkx.DiGraph()
    for a, b, cable in network.to_networkx().edges(data=True):
        for one, other in ((a, b), (b, a)):
            more = flat.get_edge_data(one, other, {"capacity": 0})["capacity"]
            flat.add_edge(one, other, capacity=more + cable["rate_bps"])
    half = tree.n_hosts // tree.children[-1] * (tree.children[-1] // 2)
    for host in range(tree.n_hosts):
        flat.add_edge(*(("from", host) if host < half else (host, "to")))  # unlimited
    flow = networkx.maximum_flow_value(flat, "from", "to")
    if tree.children[-1] % 2 == 0:
        assert flow == narrowest_bps(network, 0) // 2
    by_tier = [a * b for a, b in zip(tree.cables, tree.rates_bps, strict=True)]
    assert narrowest_bps(network, 0) == min(by_tier)


GPUS = 800_000


def tiers_needed(hosts: int, radix: int) -> int:
    """Return the fewest tiers of switches with `radix` ports (even, at least 4) for the hosts."""
    tiers = 1
    while most_hosts(tiers, radix) < hosts:
        tiers += 1
    return tiers


def whole_switches_needed(hosts: int, tiers: int, radix: int) -> int:
    """Return the sum over tiers of whole switches; those at the top have twice the ports down."""
    lower = -(-2 * hosts // radix)
    return (tiers - 1) * lower + -(-lower // 2)


def test_paper_cluster_on_one_plane_needs_four_tiers() -> None:
    assert most_hosts(3, 64) == 65_536 < GPUS <= most_hosts(4, 64) == 2_097_152
    assert tiers_needed(GPUS, 64) == 4
    assert switches_needed(GPUS, 4, 64) == 87_500
    assert fabric_cables_needed(GPUS, 4) == 2_400_000


def test_four_planes_save_one_tier_and_a_third_of_the_cables() -> None:
    """A 64 x 800G switch chip has 256 ports of 200G; four of their cables equal one of 800G."""
    assert tiers_needed(GPUS, 256) == 3
    assert 4 * switches_needed(GPUS, 3, 256) == 62_500
    assert fabric_cables_needed(GPUS, 3) * 3 == fabric_cables_needed(GPUS, 4) * 2


def test_rails_need_three_tiers_or_two_with_four_planes() -> None:
    """With 76 rails, the paper's 39K chips follow from 76 * 11,000 GPUs instead of 800,000."""
    rail = GPUS // 72
    assert rail == 11_111
    assert tiers_needed(rail, 64) == 3
    assert tiers_needed(GPUS // 76, 256) == 2
    assert 4 * switches_needed(76 * 11_000, 2, 256) == 39_187.5
    assert 4 * 76 * whole_switches_needed(11_044, 2, 256) == 39_824
    assert fabric_cables_needed(GPUS, 2) == GPUS
    assert fabric_cables_needed(GPUS, 2) * 3 == fabric_cables_needed(GPUS, 4)


@pytest.mark.parametrize("tiers", [2, 3, 4])
@pytest.mark.parametrize("radix", [4, 6, 32, 64])
def test_formulas_match_the_counts_of_built_full_trees(tiers: int, radix: int) -> None:
    tree = fat_tree.settle(tree_params(tiers=tiers, radix=radix))
    hosts = tree.n_hosts
    assert hosts == most_hosts(tiers, radix)
    assert (tiers_needed(hosts, radix), tiers_needed(hosts + 1, radix)) == (tiers, tiers + 1)
    assert sum(tree.switches) == switches_needed(hosts, tiers, radix)
    assert sum(tree.switches) == whole_switches_needed(hosts, tiers, radix)
    assert sum(tree.cables) == hosts + fabric_cables_needed(hosts, tiers)
    assert set(tree.ports) == {radix}
