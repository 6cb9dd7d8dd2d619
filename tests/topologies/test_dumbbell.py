"""The dumbbell: shape, packet times and invalid parameters."""

from __future__ import annotations

from engine_runs import (
    DROP_TAIL,
    acked_ps,
    build,
    counter,
    dumbbell,
    fabric_with,
    fct_ps,
    flow_table,
    run,
)
from raises_input import raises_input

MS = 10**9
G = 10**9
FULL = 4160
"""Bytes of a full packet on the wire."""


def test_left_hosts_are_numbered_before_right_hosts() -> None:
    network = dumbbell(hosts=3, bottleneck_rate="1Gbps", bottleneck_delay="5ms")
    assert (network.n_hosts, network.n_switches) == (6, 2)
    assert network.host_group.tolist() == [0, 0, 0, 1, 1, 1]
    assert [network.candidates(s, g).tolist() for s, g in ((0, 1), (1, 0))] == [[3], [3]]
    path = network.path(0, 5)
    assert network.port_rate_bps[path].tolist() == [100 * G, G, 100 * G]
    assert network.port_delay_ps[path].tolist() == [MS // 100, 5 * MS, MS // 100]
    assert len(network.path(0, 2)) == 2  # neighbors do not cross the bottleneck


def test_packet_and_acknowledgment_times_match_closed_form() -> None:
    """The round trip equals the formula in the topology's docstring, to the picosecond."""
    network = dumbbell(
        hosts=1, host_rate="100Gbps", bottleneck_rate="10Gbps", host_delay="1ms",
        bottleneck_delay="28ms",
    )  # fmt: skip
    fabric = fabric_with("lossless", xoff_bytes=10**7, xon_bytes=10**6)
    engine = run(
        build(network, flow_table([(0, 1, 4096, 0)]), "roce", fabric, params={"rto": "1s"})
    )
    forth = (2 * 80 + 800) * FULL + 30 * MS
    back = (2 * 80 + 800) * 64 + 30 * MS
    assert fct_ps(engine).tolist() == [forth]
    assert acked_ps(engine).tolist() == [forth + back]


def test_bottleneck_drops_packets_beyond_its_buffer() -> None:
    network = dumbbell(hosts=2, bottleneck_delay="1ms")
    flows = flow_table([(0, 2, 400 * 4096, 0), (1, 3, 400 * 4096, 0)])
    assert counter(run(build(network, flows, "datagram", DROP_TAIL)), "drops") == 0
    engine = run(build(network, flows, "datagram", fabric_with(queue_bytes=50 * FULL)))
    left_to_right = 2  # the third port of the left switch, after its two hosts
    first = int(network.node_first_port[network.n_hosts])
    drops = engine.link_counters().drops
    assert int(drops[first + left_to_right]) == int(drops.sum()) > 600


def test_invalid_parameters_are_rejected() -> None:
    for given, message in [
        ({"hosts": 0}, ("topology.hosts", "0")),
        ({}, "topology.hosts"),
        ({"hosts": 2, "host_delay": "0us"}, ("topology.host_delay", "0us")),
        ({"hosts": 2, "bottleneck_delay": 30}, "topology.bottleneck_delay"),
        ({"hosts": 2, "bottleneck_rate": "0Gbps"}, "topology.bottleneck_rate"),
        ({"hosts": 2, "buffer": "1MB"}, "topology.buffer"),
    ]:
        with raises_input(message):
            dumbbell(**given)
