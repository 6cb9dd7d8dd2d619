"""Hosts with several ports against closed forms; random cases run against the reference."""

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import (
    DROP_TAIL,
    PACKET,
    TRIM,
    US,
    assert_conserved,
    bdp_queues,
    build,
    fct_ps,
    flow_table,
    keep_sent,
    packets_sent,
    run,
)
from small_networks import rails, two_nics

from netsim.engine.engine import Engine
from netsim.engine.kernels.packets import PULL
from netsim.engine.simulation import longest_window_ps
from netsim.model.faults import CarrierDelays, LinkFault, combine
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import pairs_used

GBPS = 10**9
SER = PACKET * 80  # ps at 100 Gbps
SPREADING = ("round_robin", "permutation", "least_loaded")


def sent(engine: Engine, ports: range) -> list[int]:
    """Return the packets that each of some ports sent."""
    counted = engine.link_counters().sent_packets.reshape(engine.network.n_ports, -1)
    return [int(counted[p].sum()) for p in ports]


@pytest.mark.parametrize("planes", SPREADING)
@pytest.mark.parametrize("transport", ["datagram", "ndp"])
def test_four_port_pairs_take_a_quarter_of_the_time(planes: str, transport: str) -> None:
    """Two links and a switch in each plane; NDP's pulls keep up with the links."""
    n = 40
    fabric = replace(TRIM if transport == "ndp" else DROP_TAIL, plane_balancing=planes)
    flows = flow_table([(0, 1, n * 4096, 3 * US)])
    engine = run(build(rails(2, (100,) * 4), flows, transport, fabric, jit=False))
    assert fct_ps(engine).tolist() == [n // 4 * SER + SER + 2 * US]
    assert sent(engine, range(4)) == [n // 4] * 4
    assert_conserved(engine)


def test_rate_and_bdp_of_a_flow_cover_all_its_port_pairs() -> None:
    network, flows = rails(2, (100, 100, 200, 200)), flow_table([(0, 1, 4096, 0)])
    spread, single = (
        build(network, flows, "ndp", replace(TRIM, plane_balancing=one), jit=False).state.hosts.tx[
            0
        ]
        for one in ("least_loaded", "hash")
    )
    assert int(spread["ps_per_byte_q20"]) == round(8e12 * 2**20 / (600 * GBPS))
    assert int(single["ps_per_byte_q20"]) in (round(8e12 * 2**20 / (r * GBPS)) for r in (100, 200))
    round_trip = 2 * (SER + US) + 2 * (64 * 80 + US)
    assert int(spread["base_rtt_ps"]) == round_trip
    assert int(spread["bdp_bytes"]) == pytest.approx(round_trip * 600e9 / 8e12, abs=1)


def test_least_loaded_shares_by_rate_and_round_robin_equally() -> None:
    """Of planes with 100, 100 and 25 Gbps, the slow one gets a ninth if least_loaded chooses."""
    fabric = replace(DROP_TAIL, plane_balancing="least_loaded")
    flows = flow_table([(0, 1, 90 * 4096, 0)])
    engine = run(build(rails(2, (100, 100, 25)), flows, "datagram", fabric, jit=False))
    assert sent(engine, range(3)) == [40, 40, 10]
    fabric = replace(DROP_TAIL, plane_balancing="round_robin")
    engine = run(build(rails(2, (100, 100, 25)), flows, "datagram", fabric, jit=False))
    assert sent(engine, range(3)) == [30, 30, 30]


def test_flow_avoids_a_port_without_carrier_until_repair() -> None:
    """A cable of the sender or receiver fails; the sender learns it 2 or 6 us later."""
    for planes, end in [("hash", 0), ("permutation", 1), ("least_loaded", 1)]:
        network, flows = rails(2, (100,) * 4), flow_table([(0, 1, 500 * 4096, 0)])
        port_pair = int(pairs_used(network, flows, planes, seed=1).src_port[0])
        cable = [port_pair + 4 * end, int(network.port_peer[port_pair + 4 * end])]
        down, up, delays = 5 * US, 20 * US, (2 * US, 6 * US)
        found = combine([LinkFault(np.array(cable), outages_ps=((down, up),))], network.n_ports)
        faults = replace(found, carrier=CarrierDelays(*delays))
        fabric = replace(DROP_TAIL, plane_balancing=planes)
        engine = run(keep_sent(build(network, flows, "datagram", fabric, jit=False, faults=faults)))
        starts = packets_sent(engine, port_pair)["time"] - SER - US
        known, back = down + delays[end], up + delays[end]
        assert starts.min() < down - 2 * US
        assert not ((starts > known + SER) & (starts < back)).any()
        assert (starts >= back).any()
        lost = int(engine.link_counters().lost_packets.sum())
        assert 0 < lost <= (delays[end] + 2 * US) // SER + 4
        assert engine.conservation().packets.missing == 0


def alone(network: Network, flows: FlowTable, which: int, transport: str, fabric) -> int:
    """Return the completion time of one flow if all others are one byte and start much later."""
    size, start = np.ones_like(flows.size_bytes), np.full_like(flows.start_ps, 10**10)
    size[which], start[which] = flows.size_bytes[which], flows.start_ps[which]
    one = FlowTable(flows.src, flows.dst, size, start)
    one.use_nics(flows.nic)
    return int(fct_ps(run(build(network, one, transport, fabric, jit=False)))[which])


def test_two_nics_of_a_host_are_independent() -> None:
    """Host 1 receives on both at once; each NIC has its own pulls and ports."""
    network = two_nics()
    flows = flow_table([(0, 1, 100 * 4096, 0), (3, 1, 30 * 4096, 0)])
    fabric = replace(TRIM, plane_balancing="round_robin")
    engine = run(build(network, flows, "ndp", fabric, jit=False))
    assert sent(engine, range(3)) == [50, 50, 0]
    for flow in range(2):
        assert int(fct_ps(engine)[flow]) == alone(network, flows, flow, "ndp", fabric)


def test_receiving_nic_paces_pulls_at_its_own_rate() -> None:
    """All packets of two senders arrive at NIC 1, which has 100 Gbps."""
    flows = flow_table([(2, 1, 60 * 4096, 0), (3, 1, 60 * 4096, 0)])
    engine = run(keep_sent(build(two_nics(), flows, "ndp", TRIM, jit=False)))
    packets = packets_sent(engine, 3 + 2)  # port of host 1's NIC 1
    pulls = np.sort(packets["time"][packets["kind"] == PULL])
    assert pulls.size > 60
    # Pulls may wait behind a few acknowledgments.
    assert (pulls[8:] - pulls[:-8]).min() > 8 * SER - 8 * 64 * 80


@pytest.mark.parametrize("transport", ["nscc", "smartt"])
def test_entropy_decides_the_port_pair_of_each_packet(transport: str) -> None:
    network, flows = rails(2, (100,) * 4), flow_table([(0, 1, 400 * 4096, 0)])
    fabric = replace(bdp_queues(), plane_balancing="entropy")
    engine = run(keep_sent(build(network, flows, transport, fabric, jit=False)))
    for port in range(4):
        assert {*(packets_sent(engine, port)["entropy"] % 4)} == {port}
    assert min(sent(engine, range(4))) > 50


@pytest.mark.parametrize(("transport", "slower"), [("nscc", 1.12), ("smartt", 1.01)])
def test_one_flow_fills_eight_port_pairs_chosen_by_entropy(transport: str, slower: float) -> None:
    """No packet waits long at a busy port while other ports idle. NSCC's receivers acknowledge, and
    REPS reuses, one entropy of four packets, at first of few ports."""
    n = 800
    network, flows = rails(2, (100,) * 8), flow_table([(0, 1, n * 4096, 0)])
    fabric = replace(bdp_queues(), plane_balancing="entropy")
    engine = run(build(network, flows, transport, fabric, jit=False))
    assert int(fct_ps(engine)[0]) < slower * (n // 8 * SER + SER + 2 * US)


def test_window_is_the_shortest_delay_of_used_cables() -> None:
    """The short cables of scale-up networks count only if a flow uses them."""
    network, fabric = two_nics(), replace(DROP_TAIL, plane_balancing="hash")
    away = flow_table([(h, (h + 2) % 4, 30_000, 0) for h in range(4)])
    assert longest_window_ps(network, away) == US
    long, short = (
        run(build(network, away, "datagram", fabric, jit=False, window_ps=window_ps))
        for window_ps in (None, US // 10)
    )
    assert (fct_ps(long) == fct_ps(short)).all()
    assert longest_window_ps(network, flow_table([(0, 1, 1, 0)])) == US // 10
    # A dependency between hosts is signaled one lookahead later, without a cable.
    away.after_ptr, away.after = np.array([0, 0, 0, 0, 1]), np.array([0])
    assert longest_window_ps(network, away) == US // 10
