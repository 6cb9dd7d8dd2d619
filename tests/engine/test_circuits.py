"""Circuits against closed forms: waiting times, packets per day, and losses at circuit ends."""

from dataclasses import replace

import numpy as np
import pytest
from circuit_racks import FAR, FULL_PS, GBPS, NEAR, PACKETS, racks
from engine_runs import DROP_TAIL, LOSSLESS, NS, US, build, counter, fct_ps, flow_table, run
from raises_input import raises_input

from netsim.engine.engine import Engine
from netsim.model.circuits import NONE
from netsim.model.fabric import CircuitRules, Fabric
from netsim.model.ideal import ideal_times
from netsim.model.network import Network
from netsim.network import NetworkBuilder, Schedule, round_robin_matchings

SLOT, DARK = 20 * US, 2 * US


def rotor(n: int = 4, **given: int) -> Network:
    return racks(Schedule(SLOT, round_robin_matchings(n), reconfiguration_delay_ps=DARK, **given))


def on(network: Network, flows: list[tuple[int, int, int, int]], **rules: object) -> Engine:
    """An engine in plain Python for datagrams, with queues that never overflow."""
    fabric = replace(DROP_TAIL, circuits=CircuitRules(**rules)) if rules else DROP_TAIL
    return build(network, flow_table(flows), "datagram", fabric, packets=PACKETS, jit=False)


def test_permanent_circuit_equals_a_cable() -> None:
    always = racks(Schedule(SLOT, [[1, 0]] * 3, reconfiguration_delay_ps=DARK))
    builder = NetworkBuilder()
    builder.add_hosts(2)
    edges = builder.add_switches(["tor0", "tor1"])
    for host, edge in enumerate(edges):
        builder.cable(host, edge, 100 * GBPS, US)
    builder.cable(*edges, 100 * GBPS, NEAR + FAR)
    flows = [(0, 1, 100_000, 0), (1, 0, 50_000, 7)]
    found = [run(on(one, flows)) for one in (always, builder.build("cable"))]
    assert found[0].digest() == found[1].digest()
    assert not found[0].feature_set.circuits
    table = flow_table(flows)
    assert fct_ps(found[0]).tolist() == ideal_times(always, table, PACKETS).fct_ps.tolist()


def test_directions_of_a_circuit_may_have_different_slots() -> None:
    """0 to 1 is up in the first slot, 1 to 0 in the second; each packet waits for its own."""
    network = racks(
        Schedule(SLOT, [[1, NONE], [NONE, 0]], bidirectional=False, reconfiguration_delay_ps=DARK)
    )
    engine = run(on(network, [(0, 1, 936, 0), (1, 0, 936, 0)]))
    rest = FULL_PS + NEAR + FAR + FULL_PS + US
    assert fct_ps(engine).tolist() == [DARK - NEAR + rest, SLOT + DARK - FAR + rest]


def test_single_packet_waits_for_its_slot() -> None:
    """From host 0 to each other host, at random phases of the period."""
    for rules in [{"guard_ps": 500 * NS}, {"at_circuit_end": "drop"}]:
        network = rotor(offset_ps=3 * US)
        period = 3 * SLOT
        rng = np.random.Generator(np.random.Philox(1))
        # Two periods apart, so that no packet delays another.
        phases = rng.integers(0, period, 60).tolist()
        flows = [
            (0, int(rng.integers(1, 4)), 936, k * 2 * period + t) for k, t in enumerate(phases)
        ]
        engine = run(on(network, flows, **rules))
        guard = int(rules.get("guard_ps", 0))
        held = rules.get("at_circuit_end") != "drop"
        slot_of = {int(row[0]): slot for slot, row in enumerate(round_robin_matchings(4))}
        expected = []
        for _, dst, _, start in flows:
            there = start + FULL_PS + US  # at the queue of the circuit
            opens = 3 * US + slot_of[dst] * SLOT + DARK + guard
            shuts = 3 * US + (slot_of[dst] + 1) * SLOT - guard
            if held:
                opens, shuts = opens - NEAR, shuts - NEAR - FULL_PS + 1
            wait = (opens - there) % period
            if (there - opens) % period < shuts - opens:
                wait = 0
            ends = 3 * US + (slot_of[dst] + 1) * SLOT
            in_time = (ends - there - wait) % period >= FULL_PS + NEAR
            expected.append(2 * US + NEAR + FAR + 3 * FULL_PS + wait if in_time else -1)
        assert fct_ps(engine).tolist() == expected
        assert counter(engine, "no_circuit_packets") == expected.count(-1)
        assert (expected.count(-1) > 0) == (not held)


GUARDS = [(0, 0), (1, 400 * NS), (500 * NS, 400 * NS)]


def test_day_carries_as_many_packets_as_fit() -> None:
    """Rack 0 always has packets for rack 1, so a day carries (day - 2 guards) div packet."""
    for guard_ps, clock_offset_ps in GUARDS:
        network = rotor()
        flows = [(0, 1, 936 * 1200, 0)]
        engine = on(network, flows, guard_ps=guard_ps, clock_offset_ps=clock_offset_ps)
        port = int(network.path(0, 1)[1])
        sent = []
        for slot in range(1, 6):
            # Between two days, where a clock offset does not matter.
            run(engine, slot * 3 * SLOT - SLOT)
            sent.append(int(engine.link_counters().sent_packets[port]))
        a_day = (SLOT - DARK - 2 * guard_ps) // FULL_PS
        assert np.diff(sent).tolist() == [a_day] * 4
        dark = int(engine.link_counters().no_circuit_packets[port])
        assert (dark > 0) == (clock_offset_ps > guard_ps)


@pytest.mark.parametrize("near_ps", [NEAR, FAR])
def test_packets_in_flight_at_circuit_end_are_dropped(near_ps: int) -> None:
    """Each day loses exactly what is on the fiber to the circuit switch at line rate."""
    network = rotor()
    src, dst = (0, 1) if near_ps == NEAR else (1, 0)
    days = 2
    engine = run(on(network, [(src, dst, 936 * 500, 0)], at_circuit_end="drop"), days * 3 * SLOT)
    counters = engine.link_counters()
    port = int(network.path(src, dst)[1])
    on_fiber = -(-near_ps // FULL_PS)
    assert (SLOT - DARK) % FULL_PS == 0
    assert counters.no_circuit_packets[port] == days * on_fiber
    assert counters.no_circuit_bytes[port] == counters.lost_bytes[port] == days * on_fiber * 1000
    assert near_ps != NEAR or on_fiber * 1000 == 100 * GBPS * NEAR // (8 * 10**12)
    assert counters.sent_packets[port] == days * (SLOT - DARK) // FULL_PS
    assert engine.conservation().packets.missing == 0


def test_all_to_all_time_follows_duty_cycle_and_share() -> None:
    """Each pair has its circuit for nine tenths of a third of the time."""
    network = racks(
        Schedule(SLOT, round_robin_matchings(3), reconfiguration_delay_ps=DARK), host_gbps=400
    )
    packets = 3 * (SLOT - DARK) // FULL_PS
    flows = [(a, b, 936 * packets, 0) for a in range(3) for b in range(3) if a != b]
    engine = run(on(network, flows))
    share = (SLOT - DARK) / (3 * SLOT)
    assert fct_ps(engine).max() == pytest.approx(packets * FULL_PS / share, rel=0.02)
    assert counter(engine, "lost_packets") == 0


def test_lossless_fabric_is_rejected() -> None:
    fabric: Fabric = LOSSLESS
    with raises_input("circuit", key="fabric.queue_discipline"):
        build(rotor(), flow_table([(0, 1, 936, 0)]), "roce", fabric, jit=False)
