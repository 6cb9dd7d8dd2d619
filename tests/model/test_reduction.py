"""In-network reduction units: their place in the network, and the traffic that uses them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from raises_input import mentions, raises_input
from topology_of import check_routes, topology_of

from netsim.experiment import Experiment
from netsim.experiment.scenario import Scenario, network_of, prepare
from netsim.network import Network

GBPS = 10**9
LEAVES = {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2, "host_rate": "200Gbps"}
RAIL = {"kind": "fat_tree", "hosts_per_leaf": 3, "leaves": 1, "host_rate": "100Gbps"}
RACKS = {"kind": "multi_rail", "gpus_per_rack": 4, "scale_up_planes": 2, "rail": RAIL}


def point(tree: dict[str, Any], **tables: Any) -> Any:
    whole = {"transport": "datagram", "topology": tree, **tables}
    return Experiment.from_tree(whole, "e.toml", Path()).points()[0]


def scenario(tree: dict[str, Any], **tables: Any) -> Scenario:
    return prepare(point({**tree, "reduction_delay": "150ns"}, **tables))


def test_reduction_units_follow_the_hosts_and_match_switch_capacity() -> None:
    for tree, per_unit, ports, rate_bps in [
        (LEAVES, 4, 1, 8 * 200 * GBPS),
        ({**LEAVES, "planes": 2}, 4, 2, 8 * 100 * GBPS),
        (RACKS, 4, 2, 4 * 7200 * GBPS),
    ]:
        network = topology_of({**tree, "reduction_delay": "150ns"})
        assert network.reduction is not None
        whole, n = network.reduction.network, network.n_hosts
        assert whole.n_switches == network.n_switches
        check_routes(whole)
        units = np.arange(n, whole.n_hosts)
        np.testing.assert_array_equal(network.reduction.unit, n + np.arange(n) // per_unit)
        assert units.size == n // per_unit
        own = np.flatnonzero(np.isin(whole.port_node, units))
        assert own.size == ports * units.size
        for side in (own, whole.port_peer[own]):
            assert (whole.port_rate_bps[side] == rate_bps).all()
            assert (whole.port_delay_ps[side] == 150_000).all()
        # All other ports keep their names.
        names = [[one.port_name(port) for port in range(one.n_ports)] for one in (network, whole)]
        assert set(names[0]) <= set(names[1])
        assert len(names[1]) - len(names[0]) == 2 * own.size


@pytest.mark.parametrize("tree", [LEAVES, RACKS])
@pytest.mark.parametrize(
    "traffic", ["permutation", "all_to_all", {"kind": "collective", "group_size": 4}]
)
def test_ordinary_traffic_ignores_reduction_units(tree: dict[str, Any], traffic: Any) -> None:
    made, plain = scenario(tree, traffic=traffic), prepare(point(tree, traffic=traffic))
    assert made.network.n_nodes == plain.network.n_nodes
    for name in ("src", "dst", "size_bytes"):
        np.testing.assert_array_equal(getattr(made.flows, name), getattr(plain.flows, name))
    np.testing.assert_array_equal(made.ideal.fct_ps, plain.ideal.fct_ps)


ALL_REDUCE = {"kind": "collective", "algorithm": "in_network", "size": "1MB", "group_size": 4}


def test_in_network_collective_sends_through_reduction_units() -> None:
    for tree in [LEAVES, {**LEAVES, "planes": 2}, RACKS]:
        given = {"traffic": {**ALL_REDUCE, "chunk": "64KiB"}, "fabric": {"queue_bytes": "1000pkt"}}
        made = scenario(tree, **given)
        network = network_of(point({**tree, "reduction_delay": "150ns"}, **given))
        assert network.reduction is not None
        assert made.network.n_hosts == network.reduction.network.n_hosts > network.n_hosts
        assert made.segments is None
        units = np.unique(np.concatenate([made.flows.src, made.flows.dst]))[network.n_hosts :]
        np.testing.assert_array_equal(units, np.unique(network.reduction.unit))
        assert mentions(made.load.notes[0], "in_network")


def test_in_network_all_reduce_takes_the_time_of_its_note() -> None:
    tree = {**LEAVES, "uplinks": 1, "fabric_rate": "1Gbps", "link_latency": "150ns"}
    made = scenario(tree, traffic={**ALL_REDUCE, "size": "1MiB", "chunk": "64KiB"})
    assert mentions(made.load.notes[0], "46.19us")
    network, flows = made.network, made.flows
    engine = build(network, flows, "datagram", DROP_TAIL, tasks=made.load.tasks, jit=False)
    end_ps = int(run(engine).task_states().end_ps.max())
    assert end_ps == pytest.approx(46.19e6, rel=1e-3)


def test_invalid_in_network_reductions_are_rejected() -> None:
    with raises_input(key="traffic.algorithm"):
        prepare(point(LEAVES, traffic=ALL_REDUCE))
    with raises_input("host", key="traffic.algorithm"):
        scenario(LEAVES, traffic={**ALL_REDUCE, "groups": "strided"})
    with raises_input("network"):
        topology_of(
            {"kind": "multi_plane", "planes": 2, "plane": {**LEAVES, "reduction_delay": "1us"}}
        )
    with raises_input(key="topology.reduction_delay", code="out_of_range"):
        topology_of({**LEAVES, "reduction_delay": "0ns"})


def test_relay_rule_excludes_reduction_units() -> None:
    network: Network = topology_of({**RACKS, "reduction_delay": "150ns"})
    assert network.reduction is not None
    assert network.relays is not None
    assert network.relays.hosts is None
    rule = network.reduction.network.relays
    assert rule is not None
    assert rule.hosts == network.n_hosts
