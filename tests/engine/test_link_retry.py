"""Link-level retry against closed forms; other tests compare it with the reference."""

import numpy as np
import pytest
from engine_runs import PACKET, US
from raises_input import raises_input

from netsim.conformance.networks import star
from netsim.engine.engine import Engine
from netsim.experiment.resolve_fabric import resolve_fabric
from netsim.model.builder import NetworkBuilder, build_topology
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.validation.bed import GBPS, Bed, run_until
from netsim.validation.link_level import PAYLOAD, Measured, retry_loss, retry_time

STAR = star(2, 100 * GBPS, US)
FULL_PS, ANSWER_PS = 332_800, 640
LOOP_PS = FULL_PS + 2 * US + ANSWER_PS


def engine_with(
    packets: int, *faults: LinkFault, transport: str = "datagram", **llr: int | str
) -> Engine:
    """Return an engine with a flow of `packets` packets from host 0 to host 1."""
    bed = Bed(transport, STAR, fabric={"llr": llr}, jit=False)
    return bed.engine([(0, 1, packets * PAYLOAD, 0)], faults=combine(faults, STAR.n_ports))


def arrival_us(engine: Engine) -> float:
    run_until(engine, 10_000 * US)
    return int(engine.flow_states().done_ps[0]) / US


@pytest.mark.parametrize(
    "measured",
    [*(retry_time(n, False) for n in range(3)), retry_time(1, True)],
)
def test_a_lost_packet_comes_after_a_nack_or_the_replay_timer(measured: Measured) -> None:
    (row,) = measured
    assert row["ours"] == pytest.approx(row["theirs"])


def test_packets_after_a_lost_one_are_sent_again_in_order() -> None:
    """W packets start until the NACK arrives; then these and the others follow without a gap."""
    lost = LinkFault(np.array([0]), loss=1.0, until_ps=1)
    engine = engine_with(20, lost, transport="roce")
    first_ps = -(-LOOP_PS // FULL_PS) * FULL_PS
    run_until(engine, 10_000 * US)
    states, links = engine.flow_states(), engine.link_counters()
    assert states.done_ps[0] == first_ps + 21 * FULL_PS + 2 * US
    assert states.retransmits[0] == 0  # so no packet was out of order
    assert links.replays.tolist() == [first_ps // FULL_PS, 0, 0, 0]
    assert links.replay_bytes[0] == links.replays[0] * PACKET
    assert links.sent_packets[0] == 20
    assert not links.lost_packets.any()


def test_a_port_gives_up_after_the_last_replay_and_the_transport_repeats() -> None:
    """The first packet is lost three times; one replay is allowed."""
    begun_ps = FULL_PS + 3 * LOOP_PS  # when a second replay would begin
    lost = LinkFault(np.array([0]), loss=1.0, until_ps=begun_ps)
    engine = engine_with(1, lost, transport="ndp", max_replays=1)
    run_until(engine, begun_ps)
    assert not engine.link_counters().lost_packets.any()
    run_until(engine, begun_ps + 1)
    assert engine.link_counters().lost_packets.sum() == 1
    run_until(engine, 100_000 * US)
    assert engine.flow_states().retransmits[0] == 1
    assert engine.flow_states().done_ps[0] > 0


@pytest.mark.parametrize(
    ("packets", "llr"),
    [(1, {"max_frames": 1}), (3, {"max_frames": 3}), (2, {"max_bytes": f"{2 * PACKET}B"})],
)
def test_a_full_replay_buffer_limits_the_rate(packets: int, llr: dict[str, int | str]) -> None:
    """At most `packets` packets start per loop time."""
    rounds = 10
    done = arrival_us(engine_with(packets * rounds, **llr))
    last = (rounds - 1) * LOOP_PS + (packets + 1) * FULL_PS + 2 * US
    assert done == pytest.approx(last / US)


def test_the_default_buffer_limits_nothing_without_losses() -> None:
    assert arrival_us(engine_with(50)) == pytest.approx((51 * FULL_PS + 2 * US) / US)


@pytest.mark.parametrize("limit", ["unlimited", 0])
def test_credits_return_for_all_that_arrives_or_is_given_up(limit: int | str) -> None:
    """The message is larger than all credits, so without them it would not end."""
    (row,) = retry_loss(limit)
    assert row["ours"] == row["theirs"]


def test_pauses_and_retry_together_lose_nothing() -> None:
    """Two hosts send to one over lossy links."""
    builder = NetworkBuilder()
    hosts, hub = builder.add_hosts(3), builder.add_switch()
    for host in hosts:
        builder.cable(host, hub, 100 * GBPS, US)
    network = builder.build("incast")
    faults = combine([LinkFault(np.arange(6), loss=0.02)], 6)
    fabric = {"queue_discipline": "pfc", "llr": {"max_replays": "unlimited"}}
    bed = Bed("roce", network, fabric=fabric, jit=False)
    engine = bed.engine([(k, 2, 300 * PAYLOAD, 0) for k in (0, 1)], faults=faults)
    run_until(engine, 10_000 * US)
    links = engine.link_counters()
    assert links.pfc_pauses.sum() > 0
    assert links.replays.sum() > 0
    assert not links.lost_packets.any()
    assert not links.drops.any()
    assert not engine.flow_states().retransmits.any()


def test_retry_refuses_short_timeouts_and_circuits_with_nights() -> None:
    packets = PacketFormat()
    with raises_input("at least", key="fabric.llr.replay_timeout"):
        resolve_fabric({"llr": {"replay_timeout": "2us"}}, packets).for_network(STAR, packets)
    rotor = build_topology("ocs", racks=4, hosts_per_rack=2, circuit_switches=1)
    with raises_input("circuits", key="fabric.llr"):
        resolve_fabric({"llr": True}, packets).for_network(rotor, packets)
