"""Phase-driven circuit switches against closed forms and against timed schedules."""

from dataclasses import replace

import pytest
from circuit_racks import FAR, FULL_PS, NEAR, PACKETS, racks
from engine_runs import DROP_TAIL, NS, US, build, counter, fct_ps, flow_table, run
from raises_input import mentions, raises_input

from netsim.engine.engine import Engine
from netsim.model.circuit_times import check_control, check_phases, least_control_ps
from netsim.model.circuits import Schedule
from netsim.model.fabric import CircuitRules, routing_spec
from netsim.model.ideal import ideal_times
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of
from netsim.network import NamedRouting, RoutingPolicy, routes_in_slot

CONTROL, SWITCHING, SYNC = 10 * US, 3 * US, 500 * NS
DARK = SWITCHING + SYNC
PAIRS = [[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
"""The peer of each of four ports in each of three slots."""
SIZE = 936 * 40


def phase_driven(matchings: list[list[int]], control_delay_ps: int = CONTROL) -> Network:
    """Return racks at a phase-driven circuit switch; connected ports are reconfigured together."""
    given = {"reconfiguration_delay_ps": SWITCHING, "sync_delay_ps": SYNC}
    return racks(Schedule(None, matchings, control_delay_ps=control_delay_ps, **given))


def on(
    network: Network, flows: list[tuple[int, int, int, int]], phases: list[int], **rules: object
) -> Engine:
    fabric = replace(DROP_TAIL, circuits=CircuitRules(**rules)) if rules else DROP_TAIL
    with_phases = network.with_phases(phases)
    return build(with_phases, flow_table(flows), "datagram", fabric, packets=PACKETS, jit=False)


@pytest.mark.parametrize("at_circuit_end", ["wait", "drop"])
@pytest.mark.parametrize("guard_ps", [0, 700 * NS])
def test_slot_begins_when_the_phase_before_it_is_over(at_circuit_end: str, guard_ps: int) -> None:
    """Each of four hosts sends to all others, one per phase; all flows are ready at time 0."""
    flows = [(a, b, SIZE, 0) for row in PAIRS for a, b in enumerate(row)]
    phases = [phase for phase in range(3) for _ in range(4)]
    network = phase_driven(PAIRS)
    engine = run(on(network, flows, phases, guard_ps=guard_ps, at_circuit_end=at_circuit_end))
    alone = ideal_times(network, flow_table(flows), PACKETS).fct_ps
    # The packets of a host's three flows leave alternately, so that those of the second and third
    # phase wait at the circuit before it is up.
    wait = [0, 0, 0]
    over, begins = 0, [0]
    for phase in range(3):
        ends = []
        for flow in range(4 * phase, 4 * phase + 4):
            src, dst, *_ = flows[flow]
            near = FAR if src else NEAR
            if phase == 0:
                ends.append(int(alone[flow]) + 2 * (SIZE // 936 - 1) * FULL_PS)
                continue
            opens = begins[phase] + DARK + guard_ps - (near if at_circuit_end == "wait" else 0)
            left = SIZE // 936 * FULL_PS + opens  # when the last packet has left
            between = NEAR + FAR if 0 in (src, dst) else 2 * FAR
            ends.append(left + between + FULL_PS + US)
        assert fct_ps(engine)[4 * phase : 4 * phase + 4].tolist() == ends
        over, lit = max(ends), begins[phase] + (DARK if phase else 0)
        assert over > lit
        begins.append(over + CONTROL)
        wait[phase] = over
    states = engine.slot_states()
    assert states.begin_ps.tolist() == begins[:3]
    assert states.up_ps.tolist() == [0, begins[1] + DARK, begins[2] + DARK]
    assert states.done_ps.tolist() == wait
    assert not states.waits_for.any()
    assert counter(engine, "no_circuit_packets") == 0


def test_undeliverable_flow_blocks_all_later_slots() -> None:
    network = phase_driven(PAIRS)
    engine = run(on(network, [(0, 2, 936, 0), (0, 1, 936, 0), (1, 3, 936, 0)], [0, 0, 1]))
    assert engine.slot_states().begin_ps.tolist() == [0, -1, -1]
    assert engine.slot_states().waits_for.tolist() == [1, 1, 0]
    assert (fct_ps(engine) >= 0).tolist() == [False, True, False]


def test_control_delay_below_the_minimum_is_rejected() -> None:
    network = phase_driven(PAIRS)
    rules = CircuitRules(guard_ps=200 * NS, clock_offset_ps=50 * NS)
    least = least_control_ps(network, rules, PACKETS)
    assert least == 2 * FAR + NEAR + FULL_PS + 450 * NS
    check_control(phase_driven(PAIRS, least), rules, PACKETS)
    with raises_input(key="topology") as caught:
        check_control(phase_driven(PAIRS, least - 1), rules, PACKETS)
    assert "at least" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        (None, "flow"),
        ([0], ("1", "2")),
        ([0, 1], ("flow 1", "host 0", "host 3", "phase 1", "slot 2")),
        ([0, 2], None),
        ([-1, -1], None),
    ],
)
def test_phases_without_a_matching_circuit_are_rejected(
    phases: list[int] | None, message: str | None
) -> None:
    network = phase_driven(PAIRS)
    flows = flow_table([(0, 1, 936, 0), (0, 3, 936, 0)])
    if phases is not None:
        network = network.with_phases(phases)
    if message is None:
        check_phases(network, flows, port_pairs_of(network, flows))
        return
    with raises_input(message):
        check_phases(network, flows, port_pairs_of(network, flows))


def test_phases_must_be_slot_numbers() -> None:
    with raises_input("flow 1", "phase 3") as caught:
        phase_driven(PAIRS).with_phases([0, 3])
    assert mentions(caught.value.hint, "0", "2", "-1")
    with raises_input():
        phase_driven(PAIRS).with_phases([0.5])
    with raises_input("circuit"):
        racks(Schedule(20 * US, PAIRS)).with_phases([0])


TURNS = [[[1, 0, 3, 2], [2, 3, 0, 1]], [[2, 3, 0, 1], [1, 0, 3, 2]]]
"""Matchings of two circuit switches, which swap them in the second slot."""


def two_switches(policy: RoutingPolicy | None) -> Network:
    """Return racks at two circuit switches that alternately connect the same pairs."""
    times = {"control_delay_ps": CONTROL, "reconfiguration_delay_ps": SWITCHING}
    schedules = [Schedule(None, matchings, **times) for matchings in TURNS]
    return racks(*schedules, fiber_ps=FAR, policy=policy)


BY_SLOT = RoutingPolicy(
    [NamedRouting(f"slot {k}", routes_in_slot(k)) for k in range(2)], by_phase=True
)


@pytest.mark.parametrize("policy", [None, BY_SLOT])
def test_routes_by_phase_use_the_circuit_that_is_up(policy: RoutingPolicy | None) -> None:
    """Two racks have a circuit in both slots, but through different switches. If packets are
    sprayed over both switches, each phase waits for a circuit of the other, forever."""
    network = two_switches(policy)
    flows = [(a, b, SIZE, 0) for a, b in [(0, 1), (1, 0), (0, 1), (2, 0)]]
    with_phases = network.with_phases([0, 0, 1, 1])
    fabric = replace(DROP_TAIL, routing=routing_spec("spray_round_robin"))
    table = flow_table(flows)
    engine = run(build(with_phases, table, "datagram", fabric, packets=PACKETS, jit=False))
    done = fct_ps(engine) >= 0
    assert done.all() == (policy is not None)
    if policy is not None:
        port_pairs = port_pairs_of(with_phases, table)
        assert [with_phases.table_name(to) for to in port_pairs.data_to.tolist()] == [
            *("slot 0", "slot 0", "slot 1", "slot 1")
        ]
        # The route of phase 1 crosses only the second switch.
        through = with_phases.circuits.of_port[with_phases.path(0, 1, 1)[1]]
        assert through == 1
        assert engine.slot_states().begin_ps[1] > 0
        with raises_input("0", "1"):
            two_switches(replace(BY_SLOT, routings=BY_SLOT.routings[:1])).with_phases([0])
