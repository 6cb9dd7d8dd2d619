"""Cut-through: switches forward packets once they have the header.

With equal rates, a packet of size s crosses h switches in ser(s) + the delays + h ser(header).
"""

import numpy as np
import pytest
from engine_runs import DROP_TAIL, NS, US, acked_ps, build, counter, fct_ps, flow_table, run

from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import PacketFormat, base_round_trips
from netsim.model.faults import LinkFault, combine
from netsim.model.network import Network

G = 10**9
DELAYS = (100 * NS, 2 * US, 250 * NS, 37 * NS, 5 * NS)


def chain(n_switches: int, gbps: list[int] | None = None) -> Network:
    """Return two hosts joined by a row of switches. Links have 100 Gbps by default."""
    builder = NetworkBuilder()
    builder.add_hosts(2)
    nodes = [0, *(builder.add_switch(latency_ps=300 * NS) for _ in range(n_switches)), 1]
    for i, rate in enumerate(gbps or [100] * (n_switches + 1)):
        builder.cable(nodes[i], nodes[i + 1], rate * G, DELAYS[i])
    return builder.build("chain")


def packets(header: int | None, payload: int = 4096) -> PacketFormat:
    return PacketFormat(payload, 64, 64, header)


def ser(n_bytes: int, gbps: int = 100) -> int:
    """Return the serialization time, which is exact at the rates used here."""
    return n_bytes * 8000 // gbps


def one_packet(network: Network, header: int | None, size: int, **more):
    """Run a flow of one packet of ``size`` bytes on the wire."""
    flows = flow_table([(0, 1, size - 64, 0)])
    given = {"packets": packets(header), "jit": False, **more}
    return run(build(network, flows, "roce", DROP_TAIL, **given))


@pytest.mark.parametrize("h", [1, 2, 4])
@pytest.mark.parametrize("header", [1, 64, 500, 9000])
@pytest.mark.parametrize("size", [65, 500, 4160])
def test_packet_crosses_h_switches_in_one_transmission_and_h_headers(
    h: int, header: int, size: int
) -> None:
    network = chain(h)
    engine = one_packet(network, header, size)
    delays = sum(DELAYS[: h + 1]) + h * 300 * NS
    there = ser(size) + delays + h * ser(min(header, size))
    back = ser(64) + delays + h * ser(min(header, 64))
    assert fct_ps(engine)[0] == there
    assert acked_ps(engine)[0] == there + back
    full = ser(4160) + delays + h * ser(min(header, 4160))
    assert engine.state.hosts.tx[0].base_rtt_ps == full + back
    if h == 2:  # with one switch, a path from the far host to itself is longer
        assert base_round_trips(network, packets(header)) == [full + back]


@pytest.mark.parametrize(
    ("gbps", "links_whole"),
    [
        ([100, 400, 100], [0]),  # the first switch sends faster than the packet comes in
        ([400, 100, 100], []),  # never faster
        ([100, 400, 400], [0]),
        ([400, 400, 100], []),
    ],
)
def test_switch_with_a_faster_port_waits_for_the_whole_packet(
    gbps: list[int], links_whole: list[int]
) -> None:
    engine = one_packet(chain(2, gbps), 64, 4160)
    until_arrival = [
        ser(4160 if i in links_whole or i == 2 else 64, rate) for i, rate in enumerate(gbps)
    ]
    assert fct_ps(engine)[0] == sum(until_arrival) + sum(DELAYS[:3]) + 600 * NS


def test_flow_alone_takes_its_ideal_time_at_line_rate() -> None:
    """The pipeline fills a packet time per switch earlier; the throughput is the same."""
    times = {}
    for header in (None, 64):
        flows = flow_table([(0, 1, 50 * 4096, 0)])
        engine = run(
            build(chain(3), flows, "datagram", DROP_TAIL, packets=packets(header), jit=False)
        )
        times[header] = int(fct_ps(engine)[0])
    assert times[None] - times[64] == 3 * (ser(4160) - ser(64))
    assert times[64] == 50 * ser(4160) + 3 * ser(64) + sum(DELAYS[:4]) + 3 * 300 * NS


@pytest.mark.parametrize("late_ps", [0, 1])
def test_outage_before_the_last_bit_loses_a_packet_whose_header_has_arrived(late_ps: int) -> None:
    """The first link goes down when the last bit has arrived, or 1 ps earlier."""
    last_bit_ps = ser(4160) + DELAYS[0] + 300 * NS
    outage = LinkFault(np.array([0]), outages_ps=((last_bit_ps - late_ps, 10 * US),))
    network = chain(1)
    faults = combine([outage], network.n_ports)
    engine = one_packet(network, 64, 4160, faults=faults, params={"rto": "20us"})
    assert counter(engine, "lost_packets") == late_ps
    assert (fct_ps(engine)[0] > 10 * US) == (late_ps == 1)


def test_slower_link_is_waited_for() -> None:
    """A fault lowers the rate of the first link to 10 Gbps."""
    network = chain(1)
    faults = combine([LinkFault(np.array([0]), rate_bps=10 * G)], network.n_ports)
    engine = one_packet(network, 64, 4160, faults=faults)
    assert fct_ps(engine)[0] == ser(4160, 10) + ser(4160) + sum(DELAYS[:2]) + 300 * NS
