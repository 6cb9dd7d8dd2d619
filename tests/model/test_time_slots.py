"""Time-slotted routes: over circuits that stay up, so that small flows never wait."""

import numpy as np
import pytest
from circuit_racks import racks
from engine_runs import DROP_TAIL, build, counter, fct_ps, flow_table, run
from hybrids import FIBER, TO_RACK, US, opera
from raises_input import raises_input

from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, combine, follow_failures
from netsim.model.network import Network
from netsim.model.routing import NO_ROUTE
from netsim.model.routing_policy import CompactSlotTables
from netsim.network import Expander, NamedRouting, RoutingPolicy, Schedule

PACKETS = PacketFormat(payload_bytes=936, header_bytes=64, control_bytes=64)
FULL_PS = 80_000
RACKS, ROTORS, SLOT, DARK, DRAIN = 16, 5, 50 * US, 2 * US, 3 * US
MAX_CIRCUITS = 6
"""Most circuits a packet crosses between 16 racks with at least four circuits up on each."""


@pytest.fixture(scope="module")
def network() -> Network:
    """16 racks on five rotors of three matchings each; one rotor reconfigures every 10 us."""
    return opera(RACKS, ROTORS, slot_ps=SLOT, night_ps=DARK, drain_ps=DRAIN, large_min_bytes=10**6,
                 small_table="expander")  # fmt: skip


def slots_of(network: Network) -> CompactSlotTables:
    assert network.time_slots is not None
    return network.time_slots


def candidates(slots: CompactSlotTables, slot: int, switch: int, place: int) -> list[int] | None:
    """Return the local candidate ports of a switch in a slot; None without a route."""
    entry = int(slots.route[slots.row_first[slot, switch] + place])
    return (
        None if entry == NO_ROUTE else slots.route_ports[entry >> 16 :][: entry & 0xFFFF].tolist()
    )


def lit(network: Network, port: int, begin_ps: int, end_ps: int) -> bool:
    """Return whether the circuit of a port is up between two times."""
    circuits = network.circuits
    assert circuits is not None
    calendar = int(circuits.calendar[port])
    days = circuits.days_ps[slice(*circuits.first_day[calendar : calendar + 2])]
    past = (begin_ps - days[:, 0]) % int(circuits.period_ps[calendar])
    return bool((past + end_ps - begin_ps <= days[:, 1] - days[:, 0]).any())


def test_slots_change_after_each_night_and_before_each_drain(network: Network) -> None:
    slots = slots_of(network)
    period = 3 * SLOT
    assert slots.slots_ps.sum() == period
    begins = set(((slots.offset_ps + np.cumsum(slots.slots_ps)) % period).tolist())
    changes = np.arange(0, period, SLOT // ROTORS)
    assert begins == {*((changes + DARK) % period), *((changes - DRAIN) % period)}


def test_expander_routes_use_only_circuits_up_for_the_whole_slot(network: Network) -> None:
    """Every candidate port is up until the slot has drained and is one hop nearer."""
    slots = slots_of(network)
    ends = slots.offset_ps + np.cumsum(slots.slots_ps)
    port_switch = network.port_node[network.port_peer] - network.n_hosts
    first = network.node_first_port[network.n_hosts :]
    for slot, (end, slot_ps) in enumerate(zip(ends.tolist(), slots.slots_ps.tolist(), strict=True)):
        for group in range(RACKS):
            left = {}
            for switch in range(RACKS):
                ports = candidates(slots, slot, switch, RACKS + group)
                assert ports is not None
                assert (ports == []) == (switch == network.edge_switch[group])
                for port in first[switch] + np.array(ports, int):
                    assert lit(network, port, end - slot_ps, end + DRAIN)
                left[switch] = {int(port_switch[first[switch] + port]) for port in ports}
            # Every candidate is a neighbor one circuit nearer to the destination.
            hops = {int(network.edge_switch[group]): 0}
            while len(hops) < RACKS:
                nearer = {s for s, to in left.items() if to and to <= hops.keys()} - hops.keys()
                assert nearer
                hops |= dict.fromkeys(nearer, 1 + max(hops.values()))
            assert max(hops.values()) <= MAX_CIRCUITS


def test_single_packets_over_the_expander_never_wait(network: Network) -> None:
    """At any phase, a packet takes the time of one to six circuits in a row, to the picosecond."""
    rng = np.random.default_rng(3)
    flows = []
    for k in range(400):
        src, dst = rng.choice(RACKS, 2, replace=False).tolist()
        flows.append((src, dst, 936, k * 50 * US + int(rng.integers(50 * US))))
    table = flow_table(sorted(flows, key=lambda flow: flow[3]))
    engine = run(build(network, table, "datagram", DROP_TAIL, packets=PACKETS, jit=False))
    rest, each = 2 * TO_RACK + 2 * FULL_PS, 2 * FIBER + FULL_PS
    circuits, more = np.divmod(fct_ps(engine) - rest, each)
    assert not more.any()
    assert set(circuits.tolist()) <= set(range(1, MAX_CIRCUITS + 1))
    assert counter(engine, "no_circuit_packets") == counter(engine, "unroutable_packets") == 0


def test_large_flows_wait_for_a_circuit_and_small_ones_do_not(network: Network) -> None:
    flows = flow_table([(0, 5, 10**6, 0), (0, 5, 936, 0)])
    engine = run(build(network, flows, "datagram", DROP_TAIL, packets=PACKETS, jit=False))
    large, small = fct_ps(engine).tolist()
    assert small < 10 * US
    assert large >= 10**6 * 80 + 3 * TO_RACK
    direct = network.path(0, 5)
    assert len(direct) == 3
    sent = engine.link_counters().sent_packets[direct[1]]
    assert sent >= -(-(10**6) // 936)


def test_invalid_expander_schedules_are_rejected() -> None:
    for schedules, message in [
        ([Schedule(US, [[1, 0, 2], [0, 2, 1]])], "circuit"),
        ([Schedule(US, [[1, 0, 2], [0, 2, 1]], repeats=False)], "schedule"),
        ([Schedule(n, [[1, 0, 2], [0, 2, 1]]) for n in (US + 3, US + 1, US)], "20,000"),
    ]:
        with raises_input(message):
            racks(*schedules, policy=RoutingPolicy([NamedRouting("expander", Expander(0))]))


def test_second_time_slotted_table_is_rejected() -> None:
    with raises_input("routing table"):
        RoutingPolicy([NamedRouting("a", Expander(0)), NamedRouting("b", Expander(1))])


def test_rerouting_of_time_slotted_routes_is_rejected(network: Network) -> None:
    faults = combine([LinkFault(np.array([20]), outages_ps=((0, US),))], network.n_ports)
    with raises_input(key="routing.convergence_delay"):
        follow_failures(network, faults, np.zeros(network.n_switches, np.int64))
