"""Routing policies: the table of each packet, its routes, and validation."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from engine_runs import DROP_TAIL, acked_ps, build, fct_ps, flow_table, run
from hybrids import CIRCUITS, FIBER, PACKETS, TO_RACK, TO_SPINE, US, hybrid
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from small_networks import networks
from traffic_cases import make, star

from netsim.flows import FlowTable
from netsim.model.fabric import PacketFormat
from netsim.model.ideal import ideal_times
from netsim.model.inventory import inventory
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of
from netsim.model.routing import NO_ROUTE, RoutingTable, Wiring, shortest_paths
from netsim.network import NamedRouting, NetworkBuilder, RoutingPolicy

SIZES = PacketFormat(payload_bytes=936, header_bytes=64, control_bytes=64)
FULL_PS, SMALL_PS = 80_000, 5_120
"""A full packet and a control packet at 100 Gbps; ten times as long at 10 Gbps."""
JOINED, APART = (0, 3), (0, 1)
"""Racks joined by the first round-robin matching of four racks, and racks that are not."""


def taken(network: Network, *flows: tuple[int, int, int]) -> list[tuple[str, str, str]]:
    """Return the tables of each flow (src, dst, size): data, control to dst, control back."""
    port_pairs = port_pairs_of(network, flow_table([(*flow, 0) for flow in flows]))
    columns = port_pairs.data_to, port_pairs.control_to, port_pairs.control_back
    return [
        tuple(network.table_name(one) for one in row)
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]


def test_policy_selects_tables_for_large_small_and_control_packets() -> None:
    for rule, large, small in [
        ({}, "ccc", "ccc"),
        ({"large_min_bytes": 1000}, "ccc", "ccc"),
        ({"large_min_bytes": 1000, "small_table": "packets"}, "ccc", "ppp"),
        ({"control_table": "packets"}, "cpp", "cpp"),
        ({"large_min_bytes": 1000, "small_table": "packets", "control_table": "circuits"},
         "ccc", "pcc"),
    ]:  # fmt: skip
        names = {"c": "circuits", "p": "packets"}
        found = taken(hybrid(**rule), (*JOINED, 1000), (*JOINED, 999))
        assert found == [tuple(names[one] for one in of) for of in (large, small)]


def test_flow_table_name_overrides_the_policy_rule() -> None:
    """A flow's own name takes precedence over the network's rule; the fallback still applies."""
    flows = flow_table([(*JOINED, 1000, 0)] * 3 + [(*APART, 1000, 0)])
    tables = [0, 1, 0, 2]
    flows.use_tables(tables, ["", "packets", "circuits"])

    def rule(flows: FlowTable) -> np.ndarray:
        return np.where(np.arange(len(flows)) == 2, 1, -1)

    network = hybrid(fallback="packets", table_of=rule)
    for these in (flows, FlowTable.join([flows, flow_table([(*JOINED, 1, 0)])])):
        port_pairs = port_pairs_of(network, these)
        found = [network.table_name(one) for one in port_pairs.data_to.tolist()]
        assert found[:4] == ["circuits", "packets", "packets", "packets"]
        assert found[4:] == ["circuits"][: len(these) - 4]
        assert port_pairs.control_to.tolist() == port_pairs.data_to.tolist()
    flows.use_tables(0, ["packts"])
    with raises_input("flow 0", "packts", "packets"):
        port_pairs_of(network, flows)
    with raises_input("flow 0", "packts", "one table"):
        port_pairs_of(star(5), flows)
    with raises_input("table_of", "2"):
        taken(hybrid(table_of=lambda flows: np.full(len(flows), 2)), (*JOINED, 1))
    with raises_input("table 1", "no name"):
        flows.use_tables(1, ["packets"])


def test_traffic_selects_routing_tables_by_parameter_or_column(tmp_path: Path) -> None:
    """`routing_table` names one table for all flows or "random"; a flow list has a column."""
    network = hybrid(fallback="packets")
    given = {"network": network, "pattern": "bit_complement"}
    one = make("pattern", 4, **given, routing_table="packets")
    assert one.named_tables()[1] == ("packets",)
    drawn = make("pattern", 4, **given, steps=50, routing_table="random")
    index, names = drawn.named_tables()
    assert names == ("circuits", "packets")
    assert 70 < np.count_nonzero(index) < 130
    assert drawn.dst.tolist() == make("pattern", 4, **given, steps=50).dst.tolist()
    text = "src,dst,size_bytes,routing_table\n0,3,9,\n0,3,9,packets\n0,3,9,circuits\n"
    (tmp_path / "f.csv").write_text(text)
    listed = make("flow_list", 4, network=network, directory=tmp_path, file="f.csv")
    names = listed.named_tables()[1]
    assert [names[k] for k in listed.table] == ["", "packets", "circuits"]
    columns = {"src": [0], "dst": [3], "size_bytes": [9], "routing_table": ["packets"]}
    pl.DataFrame(columns).write_parquet(tmp_path / "f.parquet")
    listed = make("flow_list", 4, network=network, directory=tmp_path, file="f.parquet")
    assert listed.named_tables()[1][listed.table[0]] == "packets"
    (tmp_path / "f.csv").write_text(text.replace("packets", "packts"))
    with raises_input("f.csv:3", "packts", "circuits, packets"):
        make("flow_list", 4, network=network, directory=tmp_path, file="f.csv")
    for network_, name, message in [
        (network, "packts", "packets"),
        (star(4), "random", "only one"),
    ]:
        with raises_input("traffic.routing_table", message):
            make("pattern", 4, network=network_, routing_table=name)


def test_flows_take_the_ring_direction_of_their_table() -> None:
    """There is one table per direction; a flow crosses 3 or 5 cables of a ring of 8."""
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(8))
    ring = np.array(builder.add_switches([f"s{k}" for k in range(8)]))
    builder.cables(hosts, ring, 10**11, US)
    builder.cables(ring, np.roll(ring, -1), 10**11, US)

    def around(step: int) -> Any:
        def routing(wiring: Wiring) -> RoutingTable:
            end = wiring.port_node[wiring.port_peer]
            return shortest_paths(wiring.only((end - wiring.port_node) % 8 == step % 8))

        return routing

    tables = [NamedRouting("clockwise", around(1)), NamedRouting("back", around(-1))]
    network = builder.build("ring", policy=RoutingPolicy(tables))
    flows = flow_table([(k, (k + 3) % 8, 936, 100 * US * k) for k in range(4)])
    flows.use_tables([0, 1, 1, 0], ["clockwise", "back"])
    engine = run(build(network, flows, "datagram", DROP_TAIL, packets=SIZES, jit=False))
    assert fct_ps(engine).tolist() == [n * (FULL_PS + US) for n in (5, 7, 7, 5)]


def test_flow_times_match_their_routing_tables() -> None:
    """Single flows over the circuit or the spine match closed forms, as do their acks."""
    network = hybrid(
        large_min_bytes=900, small_table="packets", control_table="packets", fallback="packets"
    )
    flows = [(*JOINED, 936, 0), (*JOINED, 836, 100 * US), (*APART, 936, 200 * US)]
    engine = build(network, flow_table(flows), "roce", DROP_TAIL, packets=SIZES, jit=False)
    run(engine)
    by_circuit = 2 * TO_RACK + 2 * FIBER + 3 * FULL_PS
    by_spine = 2 * TO_RACK + 2 * TO_SPINE
    small_ps = FULL_PS * 900 // 1000
    back = by_spine + 22 * SMALL_PS
    expected = [by_circuit, by_spine + 22 * small_ps, by_spine + 22 * FULL_PS]
    assert fct_ps(engine).tolist() == expected
    assert acked_ps(engine).tolist() == [one + back for one in expected]
    ideal = ideal_times(network, engine.flows, SIZES)
    assert ideal.fct_ps.tolist() == expected
    assert ideal.acked_ps.tolist() == [one + back for one in expected]
    round_trips = engine.flow_states().base_rtt_ps.tolist()
    assert round_trips == [by_circuit + back, expected[2] + back, expected[2] + back]


def only(ports: np.ndarray) -> Any:
    def routing(wiring: Wiring) -> RoutingTable:
        return shortest_paths(wiring.only(ports))

    return routing


@given(networks(), st.data())
@settings(max_examples=40, deadline=None)
def test_combined_tables_keep_the_routes_of_each_table(
    network: Network, data: st.DataObject
) -> None:
    """Compare every entry of the combined table with two tables over random ports."""
    some = st.lists(st.booleans(), min_size=network.n_ports, max_size=network.n_ports)
    chosen = [np.array(data.draw(some)) for _ in range(2)]
    named = [NamedRouting(name, only(ports)) for name, ports in zip("ab", chosen, strict=True)]
    policy = RoutingPolicy([*named, NamedRouting("all")])
    joined = policy(network.wiring())
    first = np.append(network.wiring().route_first, network.wiring().n_entries)
    for number, one in enumerate([*map(only, chosen), shortest_paths]):
        alone = one(network.wiring())
        entries_alone = alone.dense(network.wiring())
        for switch in range(network.n_switches):
            begin, end = first[switch : switch + 2].tolist()
            for group in range(end - begin):
                entries = (
                    (alone, int(entries_alone[begin + group])),
                    (joined, int(joined.route[3 * begin + number * (end - begin) + group])),
                )
                lists = [
                    entry if entry == NO_ROUTE
                    else table.route_ports[entry >> 16 :][: entry & 0xFFFF].tolist()
                    for table, entry in entries
                ]  # fmt: skip
                assert lists[0] == lists[1]


def test_inventory_reports_path_diversity_per_table() -> None:
    (row,) = inventory(hybrid()).networks
    assert [(one.by, one.links, one.fewest) for one in row.path_diversity] == [
        ("circuits", 3, 1),
        ("packets", 4, 1),
    ]
    assert [one.share for one in row.path_diversity] == [pytest.approx(1 / 3), 1]


def test_invalid_routing_policies_are_rejected() -> None:
    for routings, rule, message in [
        ((), {}, "network"),
        ((CIRCUITS, CIRCUITS), {}, ""),
        ((CIRCUITS, PACKETS), {"small_table": "packet"}, "packets"),
        ((CIRCUITS, PACKETS), {"fallback": "spine"}, "spine"),
    ]:
        with raises_input(message):
            RoutingPolicy(routings, **rule)


def test_network_with_a_routing_policy_cannot_be_a_subnetwork() -> None:
    builder = NetworkBuilder()
    hosts = builder.add_hosts(4)
    with raises_input("route"):
        builder.add_network(hybrid(), np.array(hosts))
