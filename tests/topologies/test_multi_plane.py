"""Multi-plane networks: each plane equals a separate network; the last may be slower or failed."""

from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from experiment_text import load, messages, text
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import mentions, raises_input
from small_networks import networks
from topology_of import check_routes, topology_of

from netsim.experiment.scenario import prepare
from netsim.model import routing
from netsim.network import Network, NetworkBuilder

GBPS = 10**9
TREE = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 3, "host_rate": "200Gbps"}
TOML = """
kind = "multi_plane"
planes = 2
[topology.plane]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
"""


def planes(n: int, plane: Any, **given: Any) -> Network:
    return topology_of({"kind": "multi_plane", "planes": n, "plane": plane, **given})


def arrays(network: Network) -> dict[str, Any]:
    """Return all fields of a network except its name and derived tables."""
    kept = {f.name: getattr(network, f.name) for f in fields(network)}
    return {k: v for k, v in kept.items() if k not in ("name", "plan", "routing")}


def assert_equal(one: Network, other: Network) -> None:
    for name, value in arrays(one).items():
        np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)


@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)
)
@settings(max_examples=25, deadline=None)
def test_planes_of_trees_equal_fat_tree_planes(
    n: int, hosts_per_leaf: int, leaves: int, spines: int, parallel: int
) -> None:
    shape = {"hosts_per_leaf": hosts_per_leaf, "leaves": leaves}
    shape |= {"spines": spines, "uplinks": spines * parallel}
    tree = {"kind": "fat_tree", **shape}
    side_by_side = planes(n, {**tree, "host_rate": "100Gbps"})
    own = topology_of({**tree, "planes": n, "host_rate": f"{100 * n}Gbps"})
    if n > 1:
        assert_equal(side_by_side, own)
    check_routes(side_by_side)
    assert np.diff(side_by_side.node_first_port)[: own.n_hosts].tolist() == [n] * own.n_hosts


@given(networks(), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_add_network_preserves_wiring_and_routes(part: Network, n: int) -> None:
    builder = NetworkBuilder()
    hosts = builder.add_hosts(part.n_hosts)
    for number in range(n):
        builder.add_network(part, hosts, prefix=f"{number}.")
    network = builder.build("several")
    check_routes(network)
    for number in range(n):
        of_plane = np.flatnonzero(network.switch_network == number)
        assert [network.switch_names[s] for s in of_plane] == [
            f"{number}.{name}" for name in part.switch_names
        ]
        ports = np.isin(network.port_node, of_plane + network.n_hosts)
        own = part.port_node >= part.n_hosts
        for name in ("port_rate_bps", "port_delay_ps"):
            assert getattr(network, name)[ports].tolist() == getattr(part, name)[own].tolist()
        for group in range(part.n_groups):
            for k, switch in enumerate(of_plane.tolist()):
                wanted = part.candidates(k, group).tolist()
                assert network.candidates(switch, group).tolist() == wanted


@given(st.lists(networks(), min_size=1, max_size=2), st.data())
@settings(max_examples=60, deadline=None)
def test_shared_route_search_matches_separate_searches(
    kinds: list[Network], data: st.DataObject
) -> None:
    parts = data.draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=5))
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(max(part.n_hosts for part in parts)))
    for number, part in enumerate(parts):
        builder.add_network(part, hosts[: part.n_hosts], prefix=f"{number}.")
    network = builder.build("several")
    usable = np.ones(network.n_ports, bool)
    usable[data.draw(st.lists(st.integers(0, network.n_ports - 1), max_size=4))] = False
    for wiring in (network.wiring(), network.wiring(usable)):
        found = routing.shortest_paths(wiring)
        with mock.patch.object(routing, "_cabling", lambda _, one: (b"%d" % one,)):
            # As if no two networks were wired identically.
            separate = routing.shortest_paths(wiring)
        np.testing.assert_array_equal(found.dense(wiring), separate.dense(wiring))
        np.testing.assert_array_equal(found.route_ports, separate.route_ports)


def test_degraded_plane_is_slower_and_failed_plane_is_absent() -> None:
    slow = planes(3, TREE, last_plane_rate_fraction=0.25)
    ports = np.arange(3)
    assert slow.port_rate_bps[ports].tolist() == [200 * GBPS, 200 * GBPS, 50 * GBPS]
    last = np.flatnonzero(slow.switch_network == 2)[0] + slow.n_hosts
    assert (slow.port_rate_bps[slow.port_node == last] == 50 * GBPS).all()
    assert_equal(planes(3, TREE, last_plane_rate_fraction=0), planes(2, TREE))
    with raises_input(key="topology.last_plane_rate_fraction"):
        planes(1, TREE, last_plane_rate_fraction=0)


def test_inner_topology_errors_are_reported(tmp_path: Path) -> None:
    def wrong(toml: str, *overrides: str) -> list[str]:
        return messages(tmp_path, text(topology=toml), *overrides)

    words = "e.toml", "topology.plane.spins", "spines", "topology.plane.host_rate", "800Gbps"
    assert mentions(wrong(TOML + 'spins = 3\nhost_rate = "fast"'), words, "fast")
    words = "e.toml", "topology.plane", "fat_three", "fat_tree"
    assert mentions(wrong(TOML.replace("fat_tree", "fat_three")), words)
    without = TOML.replace('kind = "fat_tree"', "")
    assert mentions(wrong(without)[0], "e.toml", "topology.plane.kind")
    assert mentions(wrong(TOML, "topology.plane=7")[0], "--set", "topology.plane", "7")
    assert mentions(wrong('kind = "multi_plane"\nplanes = 2')[0], "topology.plane")


def test_expresspass_rejects_asymmetric_plane_balancing(tmp_path: Path) -> None:
    """ExpressPass credits reserve capacity on their plane, so data must use the same plane."""
    content = text(top='transport = "expresspass"', topology=TOML)
    for way in ("hash", "entropy"):
        prepare(load(tmp_path, content, f"fabric.plane_balancing={way}").points()[0])
    point = load(tmp_path, content, "fabric.plane_balancing=round_robin").points()[0]
    with raises_input("e.toml", "ecmp_symmetric", key="fabric.plane_balancing"):
        prepare(point)
