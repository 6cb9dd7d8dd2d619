"""Sizes in BDP: the base round trip, and the resulting bytes at each kind of port."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from engine_runs import fat_tree
from hypothesis import given, settings
from raises_input import mentions
from random_networks import networks

from netsim.errors import InputError
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Ecn, Fabric, PacketFormat, queue_spec
from netsim.model.port_sizes import (
    _pairs,
    base_round_trips,
    longest_paths,
    port_sizes,
    settle_sizes,
)
from netsim.units import Bdp

GBPS = 10**9
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
    monkeypatch.setattr("netsim.model.port_sizes.MAX_PAIRS", 14)  # of 49: from switches 0 and 4
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
