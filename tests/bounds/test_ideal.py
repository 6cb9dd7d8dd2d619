"""Closed forms of ideal completion times against packet-by-packet calculation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import networks

from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import PacketFormat, packet_counts
from netsim.model.flows import FlowTable
from netsim.model.ideal import ideal_times
from netsim.model.network import Network

GBPS = 10**9
US = 10**6

formats = st.builds(
    PacketFormat,
    payload_bytes=st.sampled_from([1, 100, 1000, 4096]),
    header_bytes=st.integers(0, 100),
    control_bytes=st.integers(1, 100),
)


@st.composite
def chains(draw: st.DrawFn) -> Network:
    """Draw two hosts joined by 1 to 4 switches in a row, with random rates and delays."""
    n_switches = draw(st.integers(1, 4))
    builder = NetworkBuilder()
    builder.add_hosts(2)
    switches = [builder.add_switch(latency_ps=draw(st.integers(0, 500))) for _ in range(n_switches)]
    nodes = [0, *switches, 1]
    for a, b in pairwise(nodes):
        builder.cable(a, b, draw(st.integers(1, 800)) * GBPS, draw(st.integers(1, 10**5)))
    return builder.build("chain")


def wire_sizes(size: int, packets: PacketFormat) -> list[int]:
    full, rest = divmod(size, packets.payload_bytes)
    payloads = [packets.payload_bytes] * full + ([rest] if rest else [])
    return [payload + packets.header_bytes for payload in payloads]


def follow_in_order(network: Network, ports: list[int], sizes: list[int]) -> int:
    """Return when the last packet arrives if all queue at every port in order."""
    arrivals = [0] * len(sizes)
    for port in ports:
        quotient = round(8e12 * 2**20 / int(network.port_rate_bps[port]))
        free = 0
        for index, size in enumerate(sizes):
            free = max(free, arrivals[index]) + ((size * quotient) >> 20)
            arrivals[index] = free + int(network.port_delay_ps[port])
    return arrivals[-1]


def follow_sprayed(network: Network, ports: list[int], sizes: list[int]) -> int:
    """Return when all packets have arrived if they queue only at the first and last port."""
    quotients = [round(8e12 * 2**20 / int(network.port_rate_bps[port])) for port in ports]
    delays = [int(network.port_delay_ps[port]) for port in ports]
    free, at_last = 0, []
    for size in sizes:
        free += (size * quotients[0]) >> 20
        inside = zip(quotients[1:-1], delays[1:-1], strict=True)
        crossing = sum(((size * quotient) >> 20) + delay for quotient, delay in inside)
        at_last.append((free + delays[0] + crossing, size))
    free = 0
    for arrival, size in sorted(at_last):
        free = max(free, arrival) + ((size * quotients[-1]) >> 20)
    return free + delays[-1]


def fabric_bound(network: Network, ports: list[int], sizes: list[int]) -> int:
    """Return the bound of the fabric links: the busiest link of a hop carries its whole share."""
    bounds = [0]
    width = 1
    for at in range(1, len(ports) - 1):
        switch = int(network.port_node[ports[at]]) - network.n_hosts
        group = int(network.host_group[int(network.port_node[network.port_peer[ports[-1]]])])
        width *= len(network.candidates(switch, group))
        share = -(-len(sizes) // width)
        crossing = follow_in_order(network, ports[:at], sizes[:1])
        busy = follow_in_order(network, [ports[at]], sizes[:1] * (share - 1) + sizes[-1:])
        bounds.append(crossing + busy + follow_in_order(network, ports[at + 1 :], sizes[-1:]))
    return max(bounds)


def follow_spread(network: Network, ports: list[int], sizes: list[int]) -> int:
    return max(follow_sprayed(network, ports, sizes), fabric_bound(network, ports, sizes))


@given(chains(), formats, st.integers(1, 20_000))
@settings(max_examples=300)
def test_single_path_ideal_time_matches_packet_by_packet_calculation(
    network, packets, size
) -> None:
    size = min(size, 40 * packets.payload_bytes)
    times = ideal_times(network, FlowTable([0], [1], size), packets)
    expected = follow_in_order(network, network.path(0, 1), wire_sizes(size, packets))
    assert times.fct_ps[0] == expected
    back = follow_in_order(network, network.path(1, 0), [packets.control_bytes])
    assert times.acked_ps[0] == expected + back


@given(chains(), formats, st.integers(1, 20_000))
@settings(max_examples=500)
def test_multipath_ideal_time_matches_packet_by_packet_calculation(network, packets, size) -> None:
    size = min(size, 40 * packets.payload_bytes)
    times = ideal_times(network, FlowTable([0], [1], size), packets, multipath=True)
    expected = follow_spread(network, network.path(0, 1), wire_sizes(size, packets))
    assert times.fct_ps[0] == expected
    in_order = ideal_times(network, FlowTable([0], [1], size), packets)
    assert times.fct_ps[0] <= in_order.fct_ps[0]


@given(networks(), formats, st.data())
@settings(max_examples=100)
def test_ideal_time_ignores_other_flows(network, packets, data) -> None:
    if network.n_hosts < 2:
        return
    hosts = st.integers(0, network.n_hosts - 1)
    pairs = data.draw(
        st.lists(st.tuples(hosts, hosts).filter(lambda p: p[0] != p[1]), min_size=1, max_size=20)
    )
    sizes = [data.draw(st.integers(1, 20 * packets.payload_bytes)) for _ in pairs]
    src, dst = zip(*pairs, strict=True)
    for multipath, follow in ((False, follow_in_order), (True, follow_spread)):
        times = ideal_times(network, FlowTable(src, dst, sizes), packets, multipath=multipath)
        for flow, (a, b) in enumerate(pairs):
            expected = follow(network, network.path(a, b), wire_sizes(sizes[flow], packets))
            assert times.fct_ps[flow] == expected


@given(st.integers(1, 10**7), st.integers(1, 9000))
def test_packet_count_matches_the_list_of_packets(size: int, payload: int) -> None:
    packets = PacketFormat(payload_bytes=payload)
    assert packet_counts(np.array([size]), packets)[0] == len(wire_sizes(size, packets))


def test_fabric_bottleneck_bounds_sprayed_flows() -> None:
    """Two hosts at 100 Gbps joined over two switches by two parallel cables of 10 Gbps."""
    builder = NetworkBuilder()
    builder.add_hosts(2)
    left, right = builder.add_switch("left"), builder.add_switch("right")
    builder.cable(0, left, rate_bps=100 * GBPS, delay_ps=US)
    builder.cable(1, right, rate_bps=100 * GBPS, delay_ps=US)
    for _ in range(2):
        builder.cable(left, right, rate_bps=10 * GBPS, delay_ps=US)
    network = builder.build("narrow")
    n = 1000
    times = ideal_times(network, FlowTable([0], [1], n * 4096), PacketFormat(), multipath=True)
    slot_ps = 4160 * 8 * 1000 // 10  # one packet on one of the parallel cables
    # Each cable carries every other packet; the first one arrives after its time at 100 Gbps.
    assert times.fct_ps[0] == slot_ps // 10 + US + n // 2 * slot_ps + US + slot_ps // 10 + US
