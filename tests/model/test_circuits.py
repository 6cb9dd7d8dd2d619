"""Circuit switches: schedule validation, the days of each pair, and the circuit ports."""

from contextlib import nullcontext
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input

from netsim.model.checks import check_symmetric
from netsim.model.circuit_times import check_rules
from netsim.model.circuits import NONE, Schedule, days_of, round_robin_matchings
from netsim.model.fabric import CircuitRules, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of
from netsim.network import NetworkBuilder

GBPS = 10**9
NS, US = 10**3, 10**6
SWAP = [[1, 0, NONE], [2, NONE, 0], [NONE, 2, 1]]
"""Three ports; each of the three slots joins two of them."""


def network_with(schedule: Schedule, rate_bps: int = 100 * GBPS) -> Network:
    """Build racks of one host on a circuit switch, with fibers of 1 us, 2 us, ..."""
    builder = NetworkBuilder()
    n = schedule.n_ports
    builder.add_hosts(n)
    edges = builder.add_switches([f"tor{k}" for k in range(n)], latency_ps=300 * NS)
    circuits = builder.add_circuit_switch("ocs", schedule)
    for k, edge in enumerate(edges):
        builder.cable(k, edge, 100 * GBPS, US)
        assert builder.fiber(edge, circuits, rate_bps, (k + 1) * US) == k
    return builder.build("circuits")


def test_round_robin_matchings_join_every_pair_once() -> None:
    for n in range(1, 12):
        matchings = round_robin_matchings(n)
        assert matchings.shape == (n - 1 if n % 2 == 0 else n, n)
        Schedule(1, matchings)
        for port in range(n):
            met = sorted(matchings[:, port].tolist())
            alone = [NONE] if n % 2 else []
            assert met == alone + [other for other in range(n) if other != port]


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    n = draw(st.integers(1, 5))
    bidirectional = draw(st.booleans())
    matchings = []
    for _ in range(draw(st.integers(1, 6))):
        matching = np.full(n, NONE)
        ports = draw(st.permutations(range(n)))
        pairs = zip(ports[::2], ports[1::2], strict=False) if bidirectional else enumerate(ports)
        for a, b in pairs:
            if draw(st.booleans()):
                matching[a] = b
                if bidirectional:
                    matching[b] = a
        matchings.append(matching)
    dark = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    lengths = [sum(dark) + draw(st.integers(1, 5)) for _ in matchings]
    times = {"reconfiguration_delay_ps": dark[0], "sync_delay_ps": dark[1]}
    times |= {"offset_ps": draw(st.integers(0, 9)), "repeats": draw(st.booleans())}
    return Schedule(lengths, matchings, bidirectional=bidirectional, **times)


def lit(schedule: Schedule, pair: tuple[int, int], end_ps: int) -> list[bool]:
    """Return whether a circuit is up in each picosecond, one by one."""
    found = []
    ends = np.cumsum(schedule.slots_ps)
    since = None
    begin_ps = -3 * int(ends[-1])
    for now in range(begin_ps, end_ps):
        at = now - schedule.offset_ps
        slot = int(np.searchsorted(ends, at % ends[-1], side="right"))
        joined = schedule.matchings[slot, pair[0]] == pair[1]
        if not schedule.repeats:
            slot = min(int(np.searchsorted(ends, at, side="right")), len(ends) - 1)
            joined = at >= 0 and bool(schedule.matchings[slot, pair[0]] == pair[1])
        if not joined:
            since = None
        elif since is None:
            since = now
        # A pair joined since before the first sample stays joined for a period or permanently.
        was = since == begin_ps or (since is not None and now - since >= schedule.night_ps)
        if now >= 0:
            found.append(joined and was)
    return found


@given(schedules())
@settings(max_examples=150, deadline=None)
def test_days_match_a_per_picosecond_simulation_of_the_circuit(schedule: Schedule) -> None:
    days = days_of(schedule)
    pairs = [tuple(pair) for pair in days.pairs.tolist()]
    joined = schedule.matchings
    slots, ports = np.nonzero(
        joined > (np.arange(schedule.n_ports) if schedule.bidirectional else NONE)
    )
    assert pairs == sorted({(p, int(joined[s, p])) for s, p in zip(slots, ports, strict=True)})
    end_ps = 4 * int(schedule.slots_ps.sum())
    for number, pair in enumerate(pairs):
        own = days.days_ps[days.first_day[number] : days.first_day[number + 1]]
        assert (own[:, 0] < own[:, 1]).all()
        assert (own[1:, 0] >= own[:-1, 1]).all()
        up = np.full(end_ps, not len(own))
        for shift in range(-schedule.offset_ps - 2, 5):
            for begin, end in (own + shift * schedule.period_ps).tolist():
                up[max(0, begin) : max(0, end)] = True
        assert up.tolist() == lit(schedule, pair, end_ps)


@given(schedules())
@settings(max_examples=60, deadline=None)
def test_circuit_routes_are_shortest_directed_paths(schedule: Schedule) -> None:
    network = network_with(schedule)
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(schedule.n_ports))
    for matching in schedule.matchings.tolist():
        graph.add_edges_from((port, to) for port, to in enumerate(matching) if to != NONE)
    for src in graph:
        for dst in graph:
            if network.port_network[src] != network.port_network[dst]:
                assert not networkx.has_path(graph, src, dst)
                continue
            there = networkx.has_path(graph, src, dst)
            assert network.reaches(np.array([src]), np.array([dst])).item() == there
            if there:
                hops = networkx.shortest_path_length(graph, src, dst)
                assert len(network.path(src, dst)) == hops + 2


@pytest.mark.parametrize(
    ("flow", "message"),
    [((0, 2), ("flow 0", "host 2", "host 0")), ((2, 1), ("flow 0", "host 2", "host 1"))],
)
def test_flow_without_a_route_is_rejected(flow: tuple[int, int], message: str) -> None:
    network = network_with(Schedule(10 * US, [[1, 2, NONE], [NONE, 0, NONE]], bidirectional=False))
    with raises_input(message):
        port_pairs_of(network, FlowTable([flow[0]], [flow[1]], 1))
    assert port_pairs_of(network, FlowTable([0, 1], [1, 0], 1)).dst_port.tolist() == [1, 0]


def test_flow_between_racks_without_a_static_circuit_is_rejected() -> None:
    network = network_with(Schedule(10 * US, [[1, 0, 3, 2]]))
    port_pairs_of(network, FlowTable([0], [1], 1))
    with raises_input("flow 0", "host 1", "host 2", key="topology") as e:
        port_pairs_of(network, FlowTable([1], [2], 1))
    assert "matching" in str(e.value.hint)


def test_symmetric_ecmp_requires_bidirectional_circuits() -> None:
    check_symmetric(network_with(Schedule(10 * US, [[1, 0, NONE], [NONE, 2, 1]])))
    with raises_input("tor0:2", key="fabric.routing"):
        check_symmetric(network_with(Schedule(10 * US, [[1, 2, 0]], bidirectional=False)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"matchings": [[2, 2, 1]], "bidirectional": False}, ("port 0", "port 1", "port 2")),
        ({"matchings": [[1, 2, 0]]}, ("slot 0", "port 0", "port 1", "port 2")),
        ({"matchings": [[1, NONE]]}, ("slot 0", "port 0", "port 1")),
        ({"matchings": [[1, 0], [2, 0]]}, ("slot 1", "port 0", "port 2")),
        ({"matchings": [[-2, 0]]}, ("slot 0", "port 0", "-2")),
        ({"matchings": [1, 0]}, "table"),
        ({"matchings": [[1.0, 0.0]]}, "table"),
        ({"matchings": [[1, 0], [0]]}, "table"),
        ({"matchings": np.zeros((0, 2), int)}, "table"),
        ({"slots_ps": [US, US]}, ("2", "1")),
        ({"slots_ps": 0}, "0 ps"),
        ({"slots_ps": 1.5}, ""),
        ({"reconfiguration_delay_ps": US}, ("slot 0", "1us")),
        ({"sync_delay_ps": -1}, ("sync_delay_ps", "-1")),
        ({"offset_ps": 0.5}, ("offset_ps", "0.5")),
        ({"slots_ps": 2**56 - 1, "offset_ps": 1}, ""),
    ],
)
def test_invalid_schedules_are_rejected(given: dict[str, Any], message: str) -> None:
    with raises_input(message):
        Schedule(**{"slots_ps": US, "matchings": [[1, 0]], **given})


def test_invalid_fibers_are_rejected() -> None:
    builder = NetworkBuilder()
    builder.add_hosts(2)
    edge, other = builder.add_switch("edge"), builder.add_switch("other")
    for host in range(2):
        builder.cable(host, edge, 100 * GBPS, US)
    circuits = builder.add_circuit_switch("ocs", Schedule(US, [[1, 0]]))
    for fiber, message in (
        ((0, circuits, 100 * GBPS, US), "host 0"),
        ((9, circuits, 100 * GBPS, US), "node 9"),
        ((edge, circuits, 0, US), ("0", "bit/s")),
        ((edge, circuits, 100 * GBPS, 0), "0 ps"),
    ):
        with raises_input(message):
            builder.fiber(*fiber)
    builder.fiber(edge, circuits, 100 * GBPS, US)
    with raises_input("50Gbps", "100Gbps"):
        builder.fiber(other, circuits, 50 * GBPS, US)
    with raises_input("port 1"):
        builder.build("one fiber")
    builder.fiber(edge, circuits, 100 * GBPS, US)
    with raises_input("2"):
        builder.fiber(other, circuits, 100 * GBPS, US)
    with raises_input("0", "1"):
        builder.build("a loop")


def test_circuit_switch_and_packet_switch_names_must_differ() -> None:
    builder = NetworkBuilder()
    builder.add_hosts(1)
    edge = builder.add_switch("core")
    builder.cable(0, edge, 100 * GBPS, US)
    circuits = builder.add_circuit_switch("core", Schedule(US, [[0]]))
    builder.fiber(edge, circuits, 100 * GBPS, US)
    with raises_input("core"):
        builder.build("twice")


FULL = PacketFormat()
FULL_PS = 4160 * 80  # a full packet at 100 Gbps, in ps


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        # Days of 9 us, nights of 1 us.
        (CircuitRules(guard_ps=(9 * US - FULL_PS) // 2), None),
        (CircuitRules(guard_ps=(9 * US - FULL_PS) // 2 + 1), ""),
        (CircuitRules(at_circuit_end="drop"), None),
        (CircuitRules(guard_ps=9 * US // 2, at_circuit_end="drop"), "9us"),
    ],
)
def test_circuit_rules_that_leave_no_time_to_send_are_rejected(
    rules: CircuitRules, message: str | None
) -> None:
    network = network_with(
        Schedule(10 * US, SWAP, reconfiguration_delay_ps=600 * NS, sync_delay_ps=400 * NS)
    )
    with nullcontext() if message is None else raises_input(message):
        check_rules(network, rules, FULL)


def test_drop_at_circuit_end_requires_a_night_of_one_packet() -> None:
    for night_ps, fits in ((FULL_PS, True), (FULL_PS - 1, False)):
        network = network_with(Schedule(10 * US, SWAP, reconfiguration_delay_ps=night_ps))
        rules = CircuitRules(at_circuit_end="drop")
        with nullcontext() if fits else raises_input(key="fabric.circuits.at_circuit_end"):
            check_rules(network, rules, FULL)
        check_rules(network, CircuitRules(guard_ps=1, at_circuit_end="drop"), FULL)
        check_rules(network, CircuitRules(), FULL)


def test_circuit_rules_without_circuits_are_rejected() -> None:
    network = network_with(Schedule(10 * US, [[1, 0]]))
    check_rules(network, None, FULL)
    with raises_input("circuit", key="fabric.circuits"):
        check_rules(network, CircuitRules(), FULL)
