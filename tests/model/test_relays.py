"""Messages through relays and reduction units."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, fabric_with, run
from raises_input import mentions, raises_input
from topology_of import check_routes, topology_of

from netsim.engine.engine import Engine
from netsim.experiment import Experiment
from netsim.experiment.scenario import Scenario, network_of, prepare
from netsim.flows import COMPUTE, RECEIVE, SEND, FlowTable, TaskTable, Workload
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import PacketFormat
from netsim.model.ideal import hand_over_times, ideal_times
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of
from netsim.model.relays import DESTINATION, SOURCE, RelayRule, RelaySegments, relayed

GBPS = 10**9
US = 10**6
UP_DELAY, OUT_DELAY = US // 10, US
PACKET, WIRE = 4096, 4160
DEEP = fabric_with(queue_bytes=10**9)


def rails(racks: int, gpus: int, up: int = 400, out: int = 100, rail: int = 1) -> Network:
    """Build one switch per rack and one per group of `rail` rails; rates in Gbit/s."""
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(racks * gpus)).reshape(racks, gpus)
    for rack in range(racks):
        builder.cables(hosts[rack], builder.add_switch(f"up{rack}"), up * GBPS, UP_DELAY)
    for first in range(0, gpus, rail):
        switch = builder.add_switch(f"out{first}")
        group = hosts[:, first : first + rail].reshape(-1)
        builder.cables(group, switch, out * GBPS, OUT_DELAY, nic=1)
    return builder.build("rails")


def ser(rate: int) -> int:
    """Return the serialization time of a full packet at a rate in Gbit/s, in ps."""
    return WIRE * 8000 // rate


def alone(packets: int, rate: int, delay: int) -> int:
    """Return the time of a single flow of full packets through one switch, in ps."""
    return packets * ser(rate) + delay + ser(rate) + delay


def go(
    network: Network, load: Workload, rule: RelayRule, **given: Any
) -> tuple[Engine, RelaySegments | None]:
    load.validate(network.n_hosts)
    made, segments = relayed(load, rule)
    given = {"transport": "datagram", "fabric": DEEP, "jit": False, **given}
    engine = run(build(network, made.flows, tasks=made.tasks, **given))
    return engine, segments


def completion(network: Network, rule: RelayRule, packets: int, src: int, dst: int) -> int:
    """Return when a single message that starts at 0 is complete, in ps."""
    load = Workload(FlowTable([src], [dst], packets * PACKET))
    engine, segments = go(network, load, rule)
    assert segments is not None
    return int(segments.latest(engine.flow_states().done_ps)[0])


@pytest.mark.parametrize("at", [SOURCE, DESTINATION])
@pytest.mark.parametrize(("up", "out"), [(400, 100), (100, 100), (50, 200)])
def test_relayed_chunks_are_pipelined(at: str, up: int, out: int) -> None:
    # One chunk crosses the faster segment; all chunks cross the slower one back to back.
    chunks, packets = 5, 3
    rule = RelayRule(3, 1, at, packets * PACKET)
    found = completion(rails(2, 3, up, out), rule, chunks * packets, 1, 5)
    segments = [(up, UP_DELAY), (out, OUT_DELAY)]
    (one, d1), (two, d2) = segments if at == SOURCE else segments[::-1]
    waiting = (chunks - 1) * packets * max(ser(one), ser(two))
    assert found == alone(packets, one, d1) + waiting + alone(packets, two, d2)


def test_relay_peer_shares_the_rail_of_the_other_end() -> None:
    flows = FlowTable([1, 1, 1, 1], [5, 4, 2, 6], 1)
    assert RelayRule(3, 1, SOURCE).peers(flows).tolist() == [2, -1, -1, 0]
    assert RelayRule(3, 1, DESTINATION).peers(flows).tolist() == [4, -1, -1, 7]
    # With rail groups of two, ranks 0, 1 and ranks 2, 3 share a network.
    flows = FlowTable([0, 0, 0], [5, 6, 7], 1)
    assert RelayRule(4, 2, SOURCE).peers(flows).tolist() == [-1, 2, 3]
    flows.use_nics(1)
    assert RelayRule(4, 2, SOURCE).peers(flows).tolist() == [-1, -1, -1]


def test_relayed_messages_are_split_into_chunks_per_segment() -> None:
    load = Workload(FlowTable([0, 0, 3], [4, 1, 1], [10_000, 50, 4_001], [0, 7, 9]))
    made, segments = relayed(load, RelayRule(3, 1, SOURCE, 4_000))
    assert segments is not None
    assert len(made.flows) == 3 + 5 + 3
    assert segments.total(made.flows.size_bytes).tolist() == [20_000, 50, 8_002]
    assert made.flows.size_bytes[segments.chunk == 2].tolist() == [2_000, 2_000]
    # Every chunk goes to the peer and from the peer to the destination.
    for message, peer in ((0, 1), (2, 4)):
        of = segments.message == message
        one, two = of & (segments.segment == 1), of & (segments.segment == 2)
        assert set(made.flows.src[one].tolist()) == {int(load.flows.src[message])}
        assert set(made.flows.dst[one].tolist()) == set(made.flows.src[two].tolist()) == {peer}
        assert set(made.flows.dst[two].tolist()) == {int(load.flows.dst[message])}


def test_tasks_of_relayed_messages_keep_their_labels() -> None:
    tasks = TaskTable([COMPUTE, SEND, RECEIVE], [0, 0, 4], flow=[-1, 0, 0], label=list("abc"))
    load = Workload(FlowTable([0], [4], 6 * PACKET), tasks)
    made, _ = relayed(load, RelayRule(3, 1, SOURCE, 2 * PACKET))
    assert made.tasks is not None
    assert made.tasks.label is not None
    assert list(made.tasks.label[:3]) == list("abc")


def test_ideal_time_of_single_relayed_message_is_a_tight_bound() -> None:
    # A short last chunk may wait up to one packet time for full packets of the previous chunk.
    rng, exact = random.Random(3), 0
    for _ in range(35):
        network = rails(2, 3, rng.choice((40, 100, 400)), rng.choice((40, 100, 400)))
        chunk = rng.choice((None, 5000, 2 * PACKET, 3 * PACKET))
        rule = RelayRule(3, 1, rng.choice((SOURCE, DESTINATION)), chunk)
        load = Workload(FlowTable([0], [rng.choice((4, 5))], rng.randint(1, 60_000)))
        made, segments = relayed(load, rule)
        port_pairs, packets = port_pairs_of(network, made.flows), PacketFormat()
        ideal = ideal_times(network, made.flows, packets, port_pairs=port_pairs)
        engine = run(build(network, made.flows, "datagram", DEEP, tasks=made.tasks, jit=False))
        done = engine.flow_states().done_ps
        assert segments is not None
        left = hand_over_times(network, made.flows, packets, port_pairs)
        least = segments.ideal_ps(ideal.fct_ps, ideal.fct_ps, left)
        late = int((segments.latest(done) - least)[0])
        assert 0 <= late < ser(40)
        exact += late == 0
        if chunk is None:
            assert late == 0
    assert exact > 15


def test_chunked_message_with_a_remote_dependency_is_rejected() -> None:
    flows = FlowTable([1, 0], [2, 4], 10_000)
    flows.wait_for([[], [0]])
    rule = RelayRule(3, 1, SOURCE, 4_000)
    with raises_input("flow 1", key="topology.relay_chunk"):
        relayed(Workload(flows), rule)
    made, _ = relayed(Workload(flows), replace(rule, chunk_bytes=None))
    assert made.flows.awaited(1) == [0]
    assert made.flows.awaited(2) == [1]


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
