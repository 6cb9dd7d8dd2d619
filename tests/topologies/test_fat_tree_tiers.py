"""Fat trees of three and four tiers: shape, derived parameters and rejected ones."""

import time
from pathlib import Path

import numpy as np
from raises_input import mentions, raises_input
from tree_case import GBPS, US, build, ports_of, tree_params

from netsim.model.paths import narrowest_bps
from netsim.model.trees import Tree
from netsim.topologies import fat_tree

TOPO = """\
# three tiers, 432 hosts in 12 pods, which are far apart
Nodes 432
Tiers 3
Podsize 36
Tier 0
Downlink_speed_Gbps 100
Radix_Down 6
Radix_Up 6
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 200
Radix_Down 6
Radix_Up 6
Downlink_Latency_ns 2000
Switch_Latency_ns 50
Tier 2
Downlink_speed_Gbps 400
Radix_Down 36
Downlink_Latency_ns 600000
Bundle 3
"""


def settle(**given) -> Tree:
    return fat_tree.settle(tree_params(**given))


def test_three_tiers_are_wired_as_documented() -> None:
    network = build(tiers=3, hosts_per_leaf=2, leaves=2, pods=3, cores=4, bundle={"spine": 2})
    assert network.n_hosts == 12
    assert ports_of(network, "leaf3") == ["h6", "h7", "spine2", "spine3"]
    assert ports_of(network, "spine2") == ["leaf2", "leaf3", "core0", "core0", "core1", "core1"]
    assert ports_of(network, "spine3") == ["leaf2", "leaf3", "core2", "core2", "core3", "core3"]
    assert ports_of(network, "core2") == ["spine1"] * 2 + ["spine3"] * 2 + ["spine5"] * 2
    assert network.diameter == 6
    assert [network.port_name(port) for port in network.path(0, 11)] == [
        "h0:0", "leaf0:2", "spine0:2", "core0:4", "spine4:1", "leaf5:1",
    ]  # fmt: skip


def test_radix_gives_a_full_tree() -> None:
    for tiers, radix, hosts in [(2, 16, 128), (3, 16, 1024), (4, 8, 512)]:
        network = build(tiers=tiers, radix=radix)
        assert network.n_hosts == hosts
        assert set(np.diff(network.node_first_port[hosts:]).tolist()) == {radix}
        assert narrowest_bps(network, 0) == hosts * 800 * GBPS


def test_hosts_choose_the_smallest_radix_that_fits() -> None:
    for given, radix, leaves, tops in (
        ({"hosts": 64}, 16, 8, 4),
        ({"hosts": 64, "tiers": 3}, 8, 16, 8),
        ({"hosts": 8192, "tiers": 3}, 32, 512, 256),
        ({"hosts": 48, "oversubscription": 3}, 8, 8, 2),
        ({"hosts": 64, "radix": 64}, 64, 2, 1),
    ):
        network = build(**given)
        assert network.n_hosts == given["hosts"]
        ports = np.diff(network.node_first_port[network.n_hosts :])
        assert set(ports.tolist()) == {radix}
        assert np.bincount(network.tier[network.n_hosts :])[[0, -1]].tolist() == [leaves, tops]
        assert mentions(network.note, radix, leaves, tops)
    for given, key in (({"hosts": 67}, "hosts"), ({"hosts": 64, "leaves": 2}, "leaves")):
        with raises_input(key=f"topology.{key}"):
            build(**given)


def test_each_tier_has_its_own_rates_and_delays() -> None:
    network = build(
        tiers=3, radix=8, host_rate="400Gbps", planes=2, fabric_rate={"spine": "600Gbps"},
        oversubscription={"leaf": 1, "spine": "none"}, host_link_latency="500ns",
        link_latency={"leaf": "2us", "spine": "3us"},
        switch_latency={"leaf": "100ns", "core": "300ns"},
    )  # fmt: skip
    path = network.path(0, 2 * network.n_hosts - 2)
    rates = [200, 200, 600, 600, 200, 200]
    assert network.port_rate_bps[path].tolist() == [rate * GBPS for rate in rates]
    delays = [600_000, 2 * US, 3 * US + 300_000, 3 * US, 2 * US + 100_000, 500_000]
    assert network.port_delay_ps[path].tolist() == delays


COUNTS = {"tiers": 3, "hosts_per_leaf": 4, "leaves": 8, "pods": 4}


def test_contradictory_parameters_are_rejected() -> None:
    for given, message in [
        ({"tiers": 5}, ("topology.tiers", "5", "4")),
        ({"tiers": 1}, ("topology.tiers", "1", "2")),
        ({"tiers": 3, "hosts_per_leaf": 4, "leaves": 8}, "16"),
        ({"tiers": 4} | COUNTS | {"tiers": 4}, "topology.zones"),
        (COUNTS | {"tiers": 2}, ("topology.pods", "2", "3")),
        (COUNTS | {"zones": 2}, ("topology.zones", "3", "4")),
        (COUNTS | {"supercores": 2}, ("3", "4")),
        (COUNTS | {"cores": 6}, ("topology.cores", "6", "4")),
        (COUNTS | {"oversubscription": {"spine": 3}}, ("3", "2.66667", "800 Gbps", "6400 Gbps")),
        (COUNTS | {"uplinks": {"spine": 5}, "oversubscription": {"spine": 2}},
         ("topology.uplinks", "2", "4", "5")),
        (COUNTS | {"uplinks": {"spine": 6}, "cores": 16}, ("6", "4")),
        (COUNTS | {"uplinks": {"spine": 6}, "bundle": {"spine": 4}}, ("topology.bundle", "6", "4")),
        (COUNTS | {"uplinks": {"spine": 8}, "cores": 8, "bundle": {"spine": 2}}, ("8", "2")),
        (COUNTS | {"fabric_rate": {"core": "1Tbps"}}, ("topology.fabric_rate.core", "3", "4")),
        (COUNTS | {"switch_latency": {"supercore": "1us"}}, ("switch_latency.supercore", "3", "4")),
        (COUNTS | {"radix": 8}, "topology.hosts_per_leaf"),
        ({"radix": 8, "uplinks": {"leaf": 4}}, "topology.uplinks"),
        ({"radix": 7}, ("topology.radix", "7", "3.5")),
        ({"radix": 8, "tiers": 3, "oversubscription": {"spine": 2}},
         ("topology.radix", "8", "2.66667")),
        ({"radix": 8, "bundle": 3}, ("topology.bundle", "4", "3")),
        ({"radix": 16, "tiers": 3, "bundle": 8, "oversubscription": {"spine": 3}},
         ("topology.bundle", "4", "8")),
        ({"radix": 70_000}, ("70,000", "65,535")),
        ({"radix": 65_534, "tiers": 4}, "cable"),
    ]:  # fmt: skip
        with raises_input(message):
            build(**given)


def test_topo_file_defines_three_tiers(tmp_path: Path) -> None:
    path = tmp_path / "regions.topo"
    path.write_text(TOPO)
    network = build(topo_file=str(path))
    assert (network.n_hosts, network.n_switches) == (432, 72 + 72 + 12)
    route = network.path(0, 431)
    rates = [100, 200, 400, 400, 200, 100]
    assert network.port_rate_bps[route].tolist() == [rate * GBPS for rate in rates]
    assert ports_of(network, "spine0")[6:] == ["core0"] * 3 + ["core1"] * 3
    delays = [US, 2 * US + 50_000, 600 * US, 600 * US + 50_000, 2 * US, US]
    assert network.port_delay_ps[route].tolist() == delays


def test_faulty_three_tier_topo_file_is_rejected(tmp_path: Path) -> None:
    for old, new, message in [
        ("Podsize 36", "", "host"),
        ("Podsize 36", "Podsize 40", "tree"),
        ("Bundle 3", "Bundle 4", "tree"),
        ("Nodes 432", "Nodes 430", ("430", "6", "36")),
        ("Tiers 3", "Tiers 2", ("2", "3")),
    ]:
        path = tmp_path / "faulty.topo"
        path.write_text(TOPO.replace(old, new))
        with raises_input(message):
            build(topo_file=str(path))


def test_65536_hosts_build_in_seconds() -> None:
    begin = time.process_time()
    network = build(tiers=3, radix=64)
    assert time.process_time() - begin < 10
    assert network.n_hosts == 65_536
    assert network.n_switches == 5 * 65_536 // 64
    assert network.n_links == 2 * 3 * 65_536
    assert network.route_ports.size < 10_000  # equal lists are stored once
