"""Port pairs, sizes of single ports, and demand between switches."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from engine_runs import fat_tree
from hypothesis import given, settings
from raises_input import mentions, raises_input
from small_networks import networks, rails, two_nics

from netsim.errors import InputError
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import (
    Ecn,
    Fabric,
    PacketFormat,
    _pairs,
    base_round_trips,
    longest_paths,
    port_sizes,
    queue_spec,
    settle_sizes,
)
from netsim.model.flows import FlowTable
from netsim.model.port_pairs import port_pairs_of
from netsim.units import Bdp

GBPS = 10**9
US = 10**6


def named(network, port_pairs):
    """Return the port pairs of each flow as port names."""
    ports = zip(port_pairs.src_port.tolist(), port_pairs.dst_port.tolist(), strict=True)
    names = [(network.port_name(a), network.port_name(b)) for a, b in ports]
    return [names[a:b] for a, b in zip(port_pairs.first[:-1], port_pairs.first[1:], strict=True)]


def test_parallel_planes_are_separate_networks():
    network = rails(n_hosts=4, rates=(100, 100, 100))
    assert network.n_host_ports == 12
    assert network.port_network[:3].tolist() == [0, 1, 2]
    assert network.port_nic.tolist() == [0] * 12
    assert network.first_nic.tolist() == [0, 1, 2, 3, 4]
    assert network.host_rate_bps == 300 * GBPS
    one = rails(n_hosts=4, rates=(100,))
    assert network.route.size == one.route.size  # stored once
    for plane in range(3):
        ports = network.path(plane, 9 + plane)  # from host 0 to host 3
        assert network.port_peer[ports[-1]] == 9 + plane
        assert {network.node_name(network.port_node[p]) for p in ports[1:]} == {f"plane{plane}"}


def test_flow_has_one_port_pair_per_plane():
    network = rails(n_hosts=3, rates=(100, 100))
    port_pairs = port_pairs_of(network, FlowTable([0, 2], [1, 0], 1))
    assert named(network, port_pairs) == [
        [("h0:0", "h1:0"), ("h0:1", "h1:1")],
        [("h2:0", "h0:0"), ("h2:1", "h0:1")],
    ]


def test_flow_uses_the_named_or_lowest_connected_nic():
    network = two_nics()  # NIC 0 joins hosts 0, 1 and hosts 2, 3; NIC 1 joins all
    flows = FlowTable([0, 0, 0], [1, 2, 1], 1)
    flows.use_nics([-1, -1, 1])
    found = named(network, port_pairs_of(network, flows))
    assert found == [[("h0:0", "h1:0"), ("h0:1", "h1:1")], [("h0:2", "h2:2")], [("h0:2", "h1:2")]]


@pytest.mark.parametrize(
    ("nic", "message"),
    [(0, ("flow 1", "NIC 0", "host 0", "host 2")), (2, ("flow 1", "NIC 2", "host 0", "0", "1"))],
)
def test_named_nic_without_a_route_is_rejected(nic, message):
    flows = FlowTable([0, 0], [1, 2], 1)
    flows.use_nics([-1, nic])
    with raises_input(message):
        port_pairs_of(two_nics(), flows)


def test_flow_between_disconnected_hosts_is_rejected():
    builder = NetworkBuilder()
    builder.add_hosts(4)
    for name in ("left", "right"):
        builder.add_switch(name)
    for host in range(4):
        builder.cable(host, 4 + host // 2, GBPS, US)
    network = builder.build("apart")
    with raises_input("flow 1", "host 1", "host 2", key="topology"):
        port_pairs_of(network, FlowTable([0, 1], [1, 2], 1))
    flows = FlowTable([0], [1], 1)
    flows.use_nics(1)
    with raises_input("flow 0", "NIC 1", "host 0", "NIC 0"):
        port_pairs_of(network, flows)


@pytest.mark.parametrize(
    ("cables", "message"),
    [
        ([(0, 0), (1, 2)], ("host 1", "NIC 2", "NIC 1")),
        ([(0, 16)], "NIC 16"),
        ([(0, -1)], ("NIC", "-1")),
    ],
)
def test_invalid_nic_numbers_are_rejected(cables, message):
    builder = NetworkBuilder()
    builder.add_hosts(2)
    switch = builder.add_switch()
    builder.cables([0, 1], switch, GBPS, US)

    def build():
        for host, nic in cables:
            builder.cable(host, switch, GBPS, US, nic=nic)
        builder.build("x")

    with raises_input(message):
        build()


PACKETS = PacketFormat()
ONE = Bdp(Fraction(1))


def fabric(**sizes) -> Fabric:
    ecn = Ecn(sizes.pop("kmin_bytes", 1000), sizes.pop("kmax_bytes", 2000))
    return Fabric(queue_spec("drop_tail", **sizes), ecn=ecn)


@given(network=networks())
@settings(max_examples=60, deadline=None)
def test_longest_paths_match_a_search_of_all_host_pairs(network):
    quotient = byte_quotient(network.port_rate_bps)
    longest = [0] * (network.first_group.size - 1)
    for src in range(network.n_host_ports):
        for dst in range(network.n_host_ports):
            number = int(network.port_network[src])
            if network.port_network[dst] == number:
                path = network.path(src, dst)
                way = sum(
                    send_time(4160, int(quotient[port])) + int(network.port_delay_ps[port])
                    for port in path
                )
                longest[number] = max(longest[number], way)
    assert longest_paths(network, 4160).tolist() == longest


def test_bdp_sizes_scale_with_each_link_rate():
    network = fat_tree(4, 4, "100Gbps", fabric_rate="400Gbps", spines=1, link_latency="1us")
    # Sending 4160 bytes takes 332.8 ns on a host's link and 83.2 ns between switches;
    # 64 bytes take 5.12 and 1.28 ns.
    data_ps = 2 * (332_800 + 83_200) + 4 * 10**6
    control_delay_ps = 2 * (5_120 + 1_280) + 4 * 10**6
    assert base_round_trips(network, PACKETS).tolist() == [data_ps + control_delay_ps]
    sizes = port_sizes(fabric(queue_bytes=ONE, kmin_bytes=Bdp(Fraction(1, 5))), network, PACKETS)
    assert sizes.rate_bps == (100 * GBPS, 400 * GBPS)
    rtt_ps = data_ps + control_delay_ps
    assert [one.queue.params["queue_bytes"] for one in sizes.fabrics] == [
        rtt_ps * 100 // 8000,  # divides evenly
        rtt_ps * 400 // 8000,
    ]
    assert sizes.fabrics[0].ecn == Ecn(rtt_ps * 100 // 40_000, 2000)
    switch_ports = network.port_rate_bps[network.n_host_ports :]
    assert (sizes.kind[network.n_host_ports :] == (switch_ports == 400 * GBPS)).all()


def test_each_network_of_a_host_has_its_own_base_rtt():
    builder = NetworkBuilder()
    hosts = builder.add_hosts(2)
    near, far = builder.add_switch("near"), builder.add_switch("far")
    for host in hosts:
        builder.cable(host, near, 100 * GBPS, 10_000)
        builder.cable(host, far, 100 * GBPS, 5_000_000)
    network = builder.build("two")
    both = 2 * (332_800 + 5_120)
    assert base_round_trips(network, PACKETS).tolist() == [both + 40_000, both + 20_000_000]
    sizes = port_sizes(fabric(queue_bytes=ONE), network, PACKETS)
    assert sizes.kind[4:].tolist() == [0, 0, 1, 1]
    assert sizes.round_trip_ps == (both + 40_000, both + 20_000_000)


def test_large_networks_are_measured_from_some_edge_switches(monkeypatch):
    network = fat_tree(1, 7, "100Gbps", spines=3, host_link_latency="2us")
    whole = longest_paths(network, 100)
    monkeypatch.setattr("netsim.model.fabric.MAX_PAIRS", 14)  # of 49: from switches 0 and 4
    assert sorted({int(k) for _, _, src, _ in _pairs(network) for k in src}) == [0, 4]
    assert np.array_equal(longest_paths(network, 100), whole)


def test_last_hop_false_disables_ecn_at_host_ports():
    network = fat_tree(2, 2, "100Gbps")
    wanted = replace(fabric(queue_bytes=5000), ecn=Ecn(1000, 2000, last_hop=False))
    settled, sizes = settle_sizes(wanted, network, PACKETS)
    assert settled == wanted
    assert sizes is not None
    to_host = network.port_peer[network.n_host_ports :] < network.n_host_ports
    marks = [one.ecn.kmax_bytes == 2000 for one in sizes.fabrics]
    assert (np.array(marks)[sizes.kind[network.n_host_ports :]] == ~to_host).all()
    assert {one.queue.params["queue_bytes"] for one in sizes.fabrics} == {5000}


def test_overflowing_bdp_is_rejected():
    with pytest.raises(InputError) as caught:
        Bdp(Fraction(10**12)).at(800 * GBPS, 10**7)
    assert mentions(str(caught.value), "1000000000000", "800Gbps")
