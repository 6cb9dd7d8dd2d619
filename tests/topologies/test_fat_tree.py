"""The two-tier fat tree: shape, ports, topo files and rejected parameters."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
from raises_input import raises_input
from tree_case import GBPS, US, build, ports_of

from netsim.model.builder import NetworkBuilder
from netsim.model.paths import narrowest_bps

TOPO = """\
# two tiers, 128 hosts
Nodes 128
Tiers 2
Podsize 128

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 8
Downlink_Latency_ns 1000
Switch_Latency_ns 0

Tier 1
Downlink_speed_Gbps 200
Radix_Down 16
Downlink_Latency_ns 500
Switch_Latency_ns 50
"""


def test_ports_are_in_the_documented_order() -> None:
    network = build(hosts_per_leaf=2, leaves=3, spines=2, uplinks=4)
    assert network.n_hosts == 6
    assert ports_of(network, "leaf1") == ["h2", "h3", "spine0", "spine0", "spine1", "spine1"]
    assert ports_of(network, "spine1") == ["leaf0", "leaf0", "leaf1", "leaf1", "leaf2", "leaf2"]
    assert network.host_group.tolist() == [0, 0, 1, 1, 2, 2]
    assert network.candidates(0, 2).tolist() == [2, 3, 4, 5]
    assert network.candidates(3, 2).tolist() == [4, 5]
    assert network.diameter == 4


def test_contradictory_parameters_are_rejected() -> None:
    for given, message in [
        ({"oversubscription": 2, "uplinks": 6}, ("8", "6")),
        ({"oversubscription": 3}, ("3", "5.33333", "800 Gbps")),
        ({"uplinks": 6, "spines": 4}, ("6", "4")),
        ({"oversubscription": 1, "spines": 32}, ("16", "32")),
        ({"oversubscription": 0}, ("topology.oversubscription", "0", "0.001")),
        ({"leaves": 0}, ("topology.leaves", "0")),
        ({"host_rate": "0Gbps"}, "topology.host_rate"),
        ({"link_latency": "0us"}, ("h0", "leaf0")),
    ]:
        with raises_input(message):
            build(**({"hosts_per_leaf": 16, "leaves": 4} | given))


def test_missing_sizes_are_rejected() -> None:
    for given, missing in [("hosts_per_leaf", "leaves"), ("leaves", "hosts_per_leaf")]:
        with raises_input(key=f"topology.{missing}", code="missing"):
            build(**{given: 4})


def test_topo_file_defines_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "leaf_spine.topo"
    path.write_text(TOPO)
    network = build(topo_file=str(path))
    assert (network.n_hosts, network.n_switches) == (128, 16 + 8)
    route = network.path(0, 127)
    assert network.port_rate_bps[route].tolist() == [x * GBPS for x in (100, 200, 200, 100)]
    assert network.port_delay_ps[route].tolist() == [US, 550_000, 500_000, US]


def test_topo_file_errors_name_the_line(tmp_path: Path) -> None:
    for old, new, message in [
        ("Radix_Up 8", "Radix_Up eight", "topo:9"),
        ("Radix_Up 8", "Radix_Sideways 8", ("topo:9", "Radix_Sideways")),
        ("Radix_Up 8", "Radix_Up ²", ("topo:9", "Radix_Up")),
        ("Radix_Up 8", f"Radix_Up {'9' * 5000}", "topo:9"),
        ("Radix_Up 8", "Radix_Up 3000000000", ("Radix_Up", "3000000000", "2147")),
        ("Gbps 200", f"Gbps {10**17}", "1125899"),
        ("Radix_Down 16", "Radix_Down 12", "tree"),
        ("Nodes 128", "Nodes 127", "tree"),
        ("Tiers 2", "Tiers 3", "2"),
        ("Podsize 128", "Podsize 64", "64"),
        ("Radix_Up 8", "Radix_Up 8\nradix_up 4", ("topo:10", "radix_up")),
        ("Radix_Up 8", "Radix_Up 8\nBundle 2", ("0", "1")),
        ("Radix_Down 16", "", "1"),
    ]:
        path = tmp_path / "faulty.topo"
        path.write_text(TOPO.replace(old, new))
        with raises_input(message):
            build(topo_file=str(path))


def test_oversized_network_is_rejected_before_allocation() -> None:
    for given, message in [
        ({"spines": 1_000_000}, "1,000,004"),
        ({"oversubscription": 1e-9}, ("1", "09", "0.001")),
        ({"hosts_per_leaf": 40_000, "leaves": 40_000, "spines": 10}, "1,600,000,000"),
        ({"hosts_per_leaf": 1000, "leaves": 60_000, "spines": 1}, ("60,000,000", "36", "GB")),
        ({"planes": 1_000_000, "host_rate": "1Tbps"}, "1,000,000"),
    ]:
        shape = {"hosts_per_leaf": 4, "leaves": 2} | given
        memory = patch("netsim.common.memory.available_bytes", return_value=16 * 10**9)
        cables = AssertionError("cables are built")
        arrays = patch("netsim.model.builder.np.broadcast_arrays", side_effect=cables)
        with memory, arrays, raises_input(message):
            build(**shape)


def test_oversized_builder_is_rejected_without_reserve() -> None:
    """Builder calls check their size before allocating, even if nothing was reserved."""
    with patch("netsim.common.memory.available_bytes", return_value=10**9):
        with raises_input("100,000,000", "20GB", key="topology"):
            NetworkBuilder().add_hosts(10**8)
        builder = NetworkBuilder()
        hosts = builder.add_hosts(4)
        with raises_input("10,000,000", "4GB", key="topology"):
            builder.cables(np.zeros(10**7, np.int8), 1, 10**9, 1)
        switches = builder.add_switches([f"s{i}" for i in range(8000)])
        builder.cables(np.resize(np.arange(hosts.start, hosts.stop), 4), switches[0], 10**9, 1)
        with raises_input("2", "62"):
            builder.cable(0, switches[0], 2**70, 1)


def test_topo_file_conflicts_with_shape_parameters() -> None:
    given = {"leaves": 3, "tiers": 3, "link_latency": {"spine": "2us"}, "host_rate": "1Gbps"}
    for key, value in given.items():
        with raises_input(key, "topo_file"):
            build(topo_file="any.topo", **{key: value})


def test_missing_topo_file_is_rejected() -> None:
    with raises_input("nowhere.topo", code="unreadable"):
        build(topo_file="nowhere.topo")


def test_planes_are_parallel_copies_of_the_tree() -> None:
    one = build(hosts_per_leaf=2, leaves=3, host_rate="200Gbps")
    network = build(hosts_per_leaf=2, leaves=3, host_rate="800Gbps", planes=4)
    assert (network.n_hosts, network.n_host_ports) == (6, 24)
    assert network.host_rate_bps == 4 * one.host_rate_bps
    assert network.n_switches == 4 * one.n_switches
    names = ["leaf0", "leaf1", "leaf2", "spine0"]
    assert [*network.switch_names[:4]] == [f"plane0.{name}" for name in names]
    assert (network.port_rate_bps[:24] == one.host_rate_bps).all()
    assert network.route.size == one.route.size  # stored once
    assert network.diameter == one.diameter
    assert [narrowest_bps(network, k) for k in range(4)] == [narrowest_bps(one, 0)] * 4


def test_host_rate_must_divide_evenly_among_planes() -> None:
    with raises_input("800", "3", key="topology.planes"):
        build(hosts_per_leaf=2, leaves=3, host_rate="800Gbps", planes=3)
