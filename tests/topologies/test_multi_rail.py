"""Multi-rail networks: connectivity, relays, and relayed messages from experiment to results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment_text import load
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from topology_of import check_routes, topology_of

from netsim.flows import FlowTable
from netsim.model.inventory import inventory
from netsim.model.port_pairs import port_pairs_of
from netsim.network import Network
from netsim.results import load_result, write_result
from netsim.running.point import simulate
from netsim.tracing import trace_flow

GBPS = 10**9
TREE = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2, "host_rate": "200Gbps"}
TOML = """
transport = "{transport}"
[topology]
kind = "multi_rail"
gpus_per_rack = 3
relay_at = "{relay_at}"
relay_chunk = "8KiB"
[topology.rail]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
[traffic]
kind = "all_to_all"
size = "20KB"
[fabric]
queue_bytes = "10000pkt"
"""


def rails(gpus: int, rail: Any, **given: Any) -> Network:
    return topology_of({"kind": "multi_rail", "gpus_per_rack": gpus, "rail": rail, **given})


@given(
    st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2), (6, 3)]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 3),
)
@settings(max_examples=20, deadline=None)
def test_ports_lead_to_the_rack_and_to_the_rail(
    gpus: tuple[int, int], racks_per_leaf: int, leaves: int, planes: int
) -> None:
    per_rack, group = gpus
    tree = {**TREE, "hosts_per_leaf": racks_per_leaf * group, "leaves": leaves}
    rail = {"kind": "multi_plane", "planes": planes, "plane": tree}
    network = rails(per_rack, rail, gpus_per_rail=group, scale_up_planes=2)
    racks = racks_per_leaf * leaves
    assert network.n_hosts == racks * per_rack
    assert network.first_group.size - 1 == 2 * racks + planes * per_rack // group
    check_routes(network)
    ports = np.diff(network.node_first_port)[: network.n_hosts]
    assert ports.tolist() == [2 + planes] * network.n_hosts
    assert (
        network.nic_rate_bps.reshape(-1, 2).tolist()
        == [[14_400 * GBPS, planes * 200 * GBPS]] * network.n_hosts
    )
    # Hosts of a rack share the scale-up network, hosts of a rail share the rail, others nothing.
    for a in range(network.n_hosts):
        for b in range(network.n_hosts):
            if a == b:
                continue
            flow = FlowTable([a], [b], 1)
            if a // per_rack == b // per_rack:
                port_pairs = port_pairs_of(network, flow)
                assert port_pairs.counts.tolist() == [2]
                assert network.port_nic[port_pairs.src_port].tolist() == [0, 0]
            elif a % per_rack // group == b % per_rack // group:
                port_pairs = port_pairs_of(network, flow)
                assert port_pairs.counts.tolist() == [planes]
                assert set(network.port_nic[port_pairs.src_port].tolist()) == {1}
            else:
                with raises_input("network", key="topology"):
                    port_pairs_of(network, flow)


def test_rail_only_has_one_switch_per_rack_and_rail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rail-only has a switch per rack and per rank; hosts that differ in both need relays."""
    racks, gpus = 5, 3
    given = {"racks": racks, "gpus_per_rack": gpus, "rail_rate": "200Gbps"}
    network = topology_of({"kind": "rail_only", **given})
    found = inventory(network)
    assert (found.hosts, found.switch_count, found.cable_count) == (15, racks + gpus, 2 * 15)
    assert [(row.count, row.hosts) for row in found.networks] == [(gpus, racks), (racks, gpus)]
    assert (found.diameter, network.shape) == (2, (racks, gpus))
    assert network.switch_names[racks:] == ("rail0.switch", "rail1.switch", "rail2.switch")
    check_routes(network)
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    text = TOML.format(transport="datagram", relay_at="source").replace("multi_rail", "rail_only")
    text = text[: text.index("[topology.rail]")] + "racks = 5\n" + text[text.index("[traffic]") :]
    done = simulate(load(tmp_path, text).points()[0])
    assert done.summary["relays"]["messages"] == 15 * (racks - 1) * (gpus - 1)
    assert (done.flows["fct_ps"] > 0).all()


@pytest.mark.parametrize("relay", ["source", "destination"])
def test_results_report_messages_and_segments(
    tmp_path: Path, relay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    point = load(tmp_path, TOML.format(transport="datagram", relay_at=relay)).points()[0]
    done = simulate(point)
    result = load_result(write_result(tmp_path / "out", point, done))
    assert result.matches_hash()
    flows, segments = result.flows, result.relay_segments
    assert segments is not None
    assert len(flows) == 12 * 11
    assert flows["size_bytes"].unique().to_list() == [20_000]
    messages = segments["flow"].n_unique()
    assert result.summary["relays"] == {"messages": messages, "segments": len(segments)}
    assert messages == 12 * 9 - 12 * 3  # only messages to another rack and another rail
    assert len(segments) == messages * 2 * 3
    assert result.tasks is None
    # A message is complete when its last chunk arrives.
    last = segments.filter(segments["hop"] == 2)
    end = (last["start_ps"] + last["fct_ps"]).to_numpy().reshape(-1, 3).max(axis=1)
    of = flows[last["flow"].to_numpy()[::3].tolist()]
    assert ((of["start_ps"] + of["fct_ps"]).to_numpy() == end).all()
    assert (flows["slowdown"] >= 1).all()
    relayed, direct = int(last["flow"][0]), int(np.setdiff1d(flows["flow"], segments["flow"])[0])
    with raises_input(relayed):
        trace_flow(result, relayed)
    assert trace_flow(result, direct).fct_ps == flows["fct_ps"][direct]
