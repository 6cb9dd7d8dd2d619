"""Hosts with several ports: NICs, networks, and the port pairs of flows."""

from __future__ import annotations

import pytest
from raises_input import raises_input
from several_ports import rails, two_nics

from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable
from netsim.model.port_pairs import port_pairs_of

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
    assert found == [
        [("h0:0", "h1:0"), ("h0:1", "h1:1")],
        [("h0:2", "h2:2")],
        [("h0:2", "h1:2")],
    ]


@pytest.mark.parametrize(
    ("nic", "message"),
    [
        (0, ("flow 1", "NIC 0", "host 0", "host 2")),
        (2, ("flow 1", "NIC 2", "host 0", "0", "1")),
    ],
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
