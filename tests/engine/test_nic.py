"""NIC processing: a server for each kind of packet delays what a host's port receives."""

from typing import Any

import numpy as np
import pytest
from engine_runs import (
    DROP_TAIL,
    LOSSLESS,
    NS,
    PACKET,
    US,
    acked_ps,
    build,
    changed,
    counter,
    fct_ps,
    flow_table,
    keep_sent,
    packets_sent,
    run,
)
from small_networks import rails

from netsim.engine.engine import Engine
from netsim.engine.kernels.packets import CNP
from netsim.model.fabric import Ecn, Fabric, Nic, PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.model.ideal import ideal_times

DELAY = 500 * NS
PACKET_PS = PACKET * 80  # at 100 Gbps
CONTROL_PS = 64 * 80
PATH_PS = 2 * PACKET_PS + 2 * DELAY  # of a full packet over one switch
BACK_PS = 2 * CONTROL_PS + 2 * DELAY
NETWORK = rails(3, [100], DELAY)


def engine_with(
    nic: Nic | None,
    rows: list[tuple[int, int, int, int]],
    transport: str = "datagram",
    fabric: Fabric = DROP_TAIL,
    **more: Any,
) -> Engine:
    packets = PacketFormat(nic=nic)
    return build(NETWORK, flow_table(rows), transport, fabric, packets=packets, jit=False, **more)


def test_interval_and_delay_of_each_kind_add_to_the_round_trip() -> None:
    nic = Nic(7 * NS, 100 * NS, 3 * NS, 40 * NS)
    engine = run(engine_with(nic, [(0, 1, 4096, 0)], "roce"))
    there, back = PATH_PS + 107 * NS, BACK_PS + 43 * NS
    assert fct_ps(engine)[0] == there
    assert acked_ps(engine)[0] == there + back
    assert engine.state.hosts.tx[0].base_rtt_ps == there + back


@pytest.mark.parametrize("gap_ps", [PACKET_PS // 2, 2 * PACKET_PS])
@pytest.mark.parametrize("multipath", [False, True])
def test_packets_are_processed_at_the_slower_of_link_and_server(
    gap_ps: int, multipath: bool
) -> None:
    n, nic = 30, Nic(data_interval_ps=gap_ps, data_delay_ps=US)
    engine = run(engine_with(nic, [(0, 1, n * 4096, 0)]))
    expected = PATH_PS + (n - 1) * max(gap_ps, PACKET_PS) + gap_ps + US
    assert fct_ps(engine)[0] == expected
    packets = PacketFormat(nic=nic)
    ideal = ideal_times(NETWORK, engine.flows, packets, multipath=multipath)
    assert ideal.fct_ps[0] == expected


def test_port_has_one_server_for_data_of_all_flows() -> None:
    """Two flows to one host whose NIC takes 1.5 times as long for a packet as its link."""
    n, gap_ps = 20, 3 * PACKET_PS // 2
    rows = [(0, 2, n * 4096, 0), (1, 2, n * 4096, 0)]
    engine = run(engine_with(Nic(data_interval_ps=gap_ps), rows))
    assert fct_ps(engine).max() == PATH_PS + 2 * n * gap_ps


def test_acks_do_not_wait_for_data() -> None:
    """Host 0 has a backlog of data to process when the ACK for its own packet arrives."""
    nic = Nic(data_interval_ps=10 * PACKET_PS)
    rows = [(1, 0, 50 * 4096, 0), (0, 2, 4096, 20 * PACKET_PS)]
    engine = run(engine_with(nic, rows, "roce"))
    wait_ps = acked_ps(engine)[1] - fct_ps(engine)[1]
    # It may wait for the packet that the switch is sending to host 0.
    assert BACK_PS <= wait_ps <= BACK_PS + PACKET_PS


def test_cnps_have_a_server_of_their_own() -> None:
    """The first CNP of a marked packet arrives later by the server's interval and delay."""
    marks = changed(LOSSLESS)
    marks = Fabric(marks.queue, n_traffic_classes=3, ecn=Ecn(PACKET, PACKET, 1.0, "dequeue"))
    rows = [(0, 2, 40 * 4096, 0), (1, 2, 40 * 4096, 0)]
    first = []
    for nic in (None, Nic(cnp_interval_ps=30 * NS, cnp_delay_ps=2 * US)):
        engine = run(keep_sent(engine_with(nic, rows, "dcqcn", marks)), 60 * US)
        ports = [int(NETWORK.port_peer[host]) for host in range(2)]
        cnps = [pkt for port in ports for pkt in packets_sent(engine, port) if pkt["kind"] == CNP]
        first.append(min(int(pkt["time"]) for pkt in cnps))
    assert first[1] - first[0] == 2030 * NS


def test_lost_packets_take_no_server() -> None:
    """The link to host 1 loses the first 5 of 12 packets."""
    n, gap_ps, out = 12, 2 * PACKET_PS, int(NETWORK.port_peer[1])
    begin_ps = PACKET_PS + DELAY  # of the first transmission on that link
    fault = LinkFault(np.array([out]), loss=1.0, until_ps=begin_ps + 5 * PACKET_PS)
    faults = combine([fault], NETWORK.n_ports)
    engine = engine_with(Nic(data_interval_ps=gap_ps), [(0, 1, n * 4096, 0)], faults=faults)
    run(engine)
    assert counter(engine, "lost_packets") == 5
    assert engine.state.links.nic_busy[out, 0] == PATH_PS + 5 * PACKET_PS + 7 * gap_ps


def test_without_processing_no_servers_are_stored() -> None:
    assert engine_with(None, [(0, 1, 4096, 0)]).state.links.nic_busy.shape[0] == 1
