"""TCP loss recovery from `netsim.blocks.tcp`, as CUBIC uses it: exact times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cubic_path import (
    BETA,
    DEEP,
    FULL,
    MS,
    PACKETS,
    PAYLOAD,
    RTT,
    US,
    S,
    lost,
    path,
    sender,
    transfer,
)
from engine_runs import assert_conserved, build, counter, fabric_with, fct_ps, flow_table, run
from shared_link import bottleneck

from netsim.engine.engine import Engine
from netsim.model.faults import LinkFault, combine

FORTH = 30 * MS + 8.64 * US
"""One-way time of a full packet over `path(60)`."""

GAP = 7.2 * US
"""Transmission time of a full packet on the bottleneck."""


def at_bottleneck(sent_ps: float, packet: int = 0) -> tuple[int, int]:
    """Interval in which the bottleneck sends only this packet of a burst that starts at
    `sent_ps`."""
    begin = int(sent_ps + MS + 0.72 * US + (packet + 0.5) * GAP)
    return begin, begin + 1


def burst(*hits: tuple[int, int], packets: int = 100, **params: Any) -> Engine:
    """A flow whose first 100 packets are sent at once."""
    return run(transfer(path(60), [packets], hits=hits, initial_window=100, **params))


def test_burst_without_loss_takes_the_ideal_time() -> None:
    assert fct_ps(burst())[0] == pytest.approx(FORTH + 99 * GAP, abs=10)


def test_single_loss_costs_one_round_trip() -> None:
    """Packet 50 is sent again when the third duplicate ACK, that of packet 53, arrives."""
    engine = burst(at_bottleneck(0, 50))
    assert fct_ps(engine)[0] == pytest.approx(RTT + 53 * GAP + FORTH, abs=10)
    assert (lost(engine), sender(engine, "retransmits")) == (1, 1)
    assert sender(engine, "ssthresh") == pytest.approx(BETA * 50)  # 50 to 99 were in flight


def test_lost_tail_is_repaired_by_a_probe() -> None:
    """RFC 8985, section 7: the probe is sent 2 SRTT after the last ACK and takes a one-way trip."""
    engine = burst(at_bottleneck(0, 99))
    assert fct_ps(engine)[0] == pytest.approx(RTT + 98 * GAP + 2 * RTT + FORTH, abs=10_000)
    assert sender(engine, "retransmits") == 1
    # The probe's ACK reveals the other two losses; PRR sends one packet per ACK.
    three = burst(*(at_bottleneck(0, packet) for packet in (97, 98, 99)))
    assert fct_ps(three)[0] == pytest.approx(RTT + 96 * GAP + 4 * RTT + FORTH, abs=10_000)
    assert sender(three, "retransmits") == 3


def test_lost_tail_without_probes_costs_a_timeout() -> None:
    engine = burst(at_bottleneck(0, 99), tail_loss_probe=False)
    timeout = RTT + 200 * MS
    assert fct_ps(engine)[0] == pytest.approx(RTT + 98 * GAP + timeout + FORTH, abs=10_000)


def test_lost_retransmission_is_detected_without_a_timeout() -> None:
    """RACK detects it one round trip after it was sent, plus at most a quarter for the reordering
    window."""
    again = RTT + 53 * GAP
    engine = transfer(
        path(60), [1000], hits=(at_bottleneck(0, 50), at_bottleneck(again)), initial_window=100
    )
    run(engine, int(again + 0.99 * RTT))
    assert (lost(engine), sender(engine, "retransmits")) == (2, 1)
    run(engine, int(again + 1.3 * RTT))
    assert sender(engine, "retransmits") == 2
    run(engine, int(again + 2.3 * RTT))
    assert sender(engine, "una") > 100
    run(engine)
    assert sender(engine, "retransmits") == 2


def test_retransmission_timeout_doubles() -> None:
    """The link is down for 2.5 s, so the packet goes at 0, 1 s and 3 s."""
    engine = run(transfer(path(60), [1], hits=((0, 2_500 * MS),)))
    assert fct_ps(engine)[0] == pytest.approx(3 * S + FORTH, abs=10)
    assert sender(engine, "retransmits") == 2


def test_window_restarts_at_one_after_a_timeout() -> None:
    """The link is down for the second round of slow start, which starts at 100 packets."""
    down = int(RTT) - 5 * MS, int(2 * RTT) - 5 * MS
    engine = transfer(path(60), [1200], hits=(down,), initial_window=100, tail_loss_probe=False)
    run(engine, int(RTT + 99 * GAP + RTT + 200 * MS) + MS)
    assert sender(engine, "cwnd") == 1
    assert sender(engine, "in_recovery") == 2
    assert sender(engine, "ssthresh") == pytest.approx(BETA * 200, abs=1)
    run(engine)
    assert sender(engine, "retransmits") == lost(engine) == 200


@pytest.mark.slow
def test_lost_acknowledgments_cause_no_retransmissions() -> None:
    """One ACK in ten is lost; the next ACK carries the same information."""
    network = path(60)
    back = int(network.port_peer[bottleneck(network)])
    engine = build(
        network,
        flow_table([(0, 1, 20_000 * PAYLOAD, 0)]),
        "cubic",
        fabric_with(queue_bytes=DEEP),
        packets=PACKETS,
        faults=combine([LinkFault(np.array([back]), loss=0.1)], network.n_ports),
    )
    run(engine)
    assert lost(engine) > 1000
    assert sender(engine, "retransmits") <= 1  # a probe, if the last ACK was lost


@pytest.mark.parametrize("loss", [0.01, 0.3])
@pytest.mark.parametrize("back", [0.0, 0.2])
def test_random_losses_are_all_repaired(loss: float, back: float) -> None:
    """Everything arrives; without lost ACKs no packet that arrived is sent again."""
    network = path(6, hosts=3, rate="1Gbps")
    forward = bottleneck(network)
    links = {forward: loss, int(network.port_peer[forward]): back}
    faults = [LinkFault(np.array([port]), loss=p) for port, p in links.items()]
    engine = build(
        network,
        flow_table([(i, 3 + i, (1, 40, 700)[i] * PAYLOAD - 1, i * MS) for i in range(3)]),
        "cubic",
        fabric_with(queue_bytes=40 * FULL),
        packets=PACKETS,
        faults=combine(faults, network.n_ports),
    )
    run(engine)
    tx = engine.state.hosts.tx
    assert np.array(tx["finished"]).tolist() == [1, 1, 1]
    assert (np.array(tx["n_acked"]) == np.array(tx["n_packets"])).all()
    if back == 0:
        assert int(tx["retransmits"].sum()) == lost(engine) + counter(engine, "drops") > 0


@pytest.mark.slow
def test_slow_start_overshoot_is_repaired_once() -> None:
    """A small buffer drops thousands of packets in one round trip; each is sent again once."""
    engine = run(transfer(path(60), [100_000], buffer_bytes=2000 * FULL))
    assert counter(engine, "drops") > 1000
    assert sender(engine, "retransmits") == counter(engine, "drops")
    assert fct_ps(engine)[0] < 2 * S
    assert_conserved(engine)
