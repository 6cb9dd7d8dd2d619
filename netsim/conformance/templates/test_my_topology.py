"""Tests of my_topology: pytest test_my_topology.py

To install pytest: pip install pytest
"""

from pathlib import Path

import networkx
import pytest

from netsim.conformance import Testbed
from netsim.errors import InputError
from netsim.flows import FlowTable
from netsim.network import Network, build_topology

TOPOLOGY = Path(__file__).with_name("my_topology.py")
PACKET = 4096 + 64  # bytes on the wire


def build(**params: object) -> Network:
    return build_topology(TOPOLOGY, **params)


def test_size() -> None:
    network = build(switches=6, hosts_per_switch=2)
    assert (network.n_hosts, network.n_switches) == (12, 6)
    assert network.n_links == 2 * (12 + 6)
    assert network.diameter == 5  # two to and from hosts, three in the ring


def test_routes_are_all_shortest_paths() -> None:
    """The candidate ports start exactly the shortest paths that networkx finds."""
    network = build(switches=6, hosts_per_switch=1)
    graph = network.to_networkx()
    for src in range(6):
        for dst in set(range(6)) - {src}:
            paths = networkx.all_shortest_paths(graph, 6 + src, 6 + dst)
            expected = {path[1] for path in paths}
            first = int(network.node_first_port[6 + src])
            ports = first + network.candidates(src, dst)
            assert set(network.port_node[network.port_peer[ports]].tolist()) == expected


def test_latency_of_a_single_packet() -> None:
    """Two host links at 100 Gbps and two ring links at 400 Gbps, of 1 us each."""
    network = build(switches=4, hosts_per_switch=1)
    flows = FlowTable(src=[0], dst=[2], size_bytes=[4096])
    run = Testbed.of("datagram").run(flows, network)
    assert run.fct_ps().tolist() == [PACKET * (2 * 80 + 2 * 20) + 4 * 1_000_000]


def test_ring_with_a_failed_link() -> None:
    assert build(switches=6, broken=5).diameter == 7
    with pytest.raises(InputError, match="there is no switch 6"):
        build(switches=6, broken=6)
