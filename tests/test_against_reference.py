"""The engine against the slow reference simulator, packet by packet and picosecond by picosecond.

Random small networks in which queues overflow, packets are trimmed and links are paused
often, with every transport, switch model and load balancing that go together. The engine's
code runs as plain Python here, since every fabric would otherwise be compiled; that compiled
code does the same is tested in ``engine/test_compiled.py``.
"""

from __future__ import annotations

import pytest
from engine_case import (
    NARROW,
    counters_of,
    departures,
    engine_for,
    flow_results,
    run,
    run_in_pieces,
    task_results,
)
from reference.cases import BESIDES, COMBINATIONS, LOAD_BALANCING, TRANSPORTS, random_case
from reference.model import Case, Counters, Outcome
from reference.simulator import simulate

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import RUNNING
from netsim.model.lanes import PLANES

CASES = 5
"""Random cases for each combination of transport, model and load balancing."""
SEVERAL_PORTS_CASES = 3
"""Of each combination of transport, model and planes."""
MORE_CASES = 60
"""Of the slow tests."""


def compare(case: Case, **options: object) -> None:
    """Run a case on both simulators and compare every departure; ``options`` are the engine's."""
    expected = simulate(case)
    engine = run(engine_for(case, **options), case.until_ps)
    for port in range(engine.network.n_ports):
        assert departures(engine, port) == [tuple(d)[1:] for d in expected.departures[port]]
    compare_totals(engine, expected)


def compare_totals(engine: Engine, expected: Outcome) -> None:
    """Compare what is left of a run when its packets are forgotten: flows and counters."""
    assert flow_results(engine) == [tuple(flow) for flow in expected.flows]
    assert task_results(engine) == [tuple(task) for task in expected.tasks]
    ours = counters_of(engine, expected.end_ps)
    classes = engine.fabric.n_classes
    for (port, c), counters in expected.counters.items():
        assert Counters(**ours[port * classes + c]) == counters, (port, c)
    found, balance = engine.conservation(), expected.balance
    assert found.bytes.sent == balance.sent.bytes
    assert found.packets.received == balance.received.packets
    assert found.bytes.received == balance.received.bytes
    assert engine.counts.hops == sum(map(len, expected.departures.values()))


def shortened(case: Case, divisor: int) -> int | None:
    """A window that is not the longest possible one, or None for that."""
    lookahead = min(min(c.delay_ab_ps, c.delay_ba_ps) for c in case.cables)
    return lookahead // divisor + 1 if divisor > 1 else None


def check(transport: str, model: str, load_balancing: str, seed: int) -> None:
    """One case; its seed also decides in how short windows it is run."""
    case = random_case(seed, transport, model, load_balancing)
    compare(case, jit=False, window_ps=shortened(case, (1, 3, 1, 8)[seed % 4]))


@pytest.mark.parametrize("load_balancing", LOAD_BALANCING)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_every_departure(transport: str, model: str, load_balancing: str) -> None:
    for seed in range(CASES):
        check(transport, model, load_balancing, seed)


@pytest.mark.slow
@pytest.mark.parametrize("load_balancing", LOAD_BALANCING)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_every_departure_of_many(transport: str, model: str, load_balancing: str) -> None:
    for seed in range(CASES, MORE_CASES):
        check(transport, model, load_balancing, seed)


def check_planes(transport: str, model: str, planes: str, seed: int) -> None:
    """Likewise where hosts have several ports; its seed also decides on the load balancing."""
    case = random_case(seed, transport, model, LOAD_BALANCING[seed % len(LOAD_BALANCING)], planes)
    compare(case, jit=False, window_ps=shortened(case, (1, 3, 1, 8)[seed % 4]))


@pytest.mark.parametrize("planes", PLANES)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_every_departure_of_hosts_with_several_ports(
    transport: str, model: str, planes: str
) -> None:
    for seed in range(SEVERAL_PORTS_CASES):
        check_planes(transport, model, planes, seed)


@pytest.mark.slow
@pytest.mark.parametrize("planes", PLANES)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_every_departure_of_many_hosts_with_several_ports(
    transport: str, model: str, planes: str
) -> None:
    for seed in range(SEVERAL_PORTS_CASES, MORE_CASES):
        check_planes(transport, model, planes, seed)


@pytest.mark.parametrize("planes", PLANES)
def test_growth_and_pieces_change_nothing_for_hosts_with_several_ports(planes: str) -> None:
    for seed, (transport, model) in enumerate(COMBINATIONS):
        case = random_case(200 + seed, transport, model, "spray_rr", planes)
        compare_totals(run_in_pieces(case, seed, windows=300), simulate(case))


def check_in_turn(transport: str, model: str, seeds: range) -> None:
    """Cases whose seeds decide on the load balancing, too."""
    for seed in seeds:
        check(transport, model, LOAD_BALANCING[seed % len(LOAD_BALANCING)], seed)


@pytest.mark.parametrize("model", BESIDES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_departure_of_other_disciplines(transport: str, model: str) -> None:
    check_in_turn(transport, model, range(CASES))


@pytest.mark.slow
@pytest.mark.parametrize("model", BESIDES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_departure_of_many_with_other_disciplines(transport: str, model: str) -> None:
    check_in_turn(transport, model, range(CASES, 5 * MORE_CASES))


@pytest.mark.parametrize("model", BESIDES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_other_disciplines_in_narrow_rings_and_in_pieces(transport: str, model: str) -> None:
    for seed in range(100, 101):
        case = random_case(seed, transport, model, LOAD_BALANCING[seed % len(LOAD_BALANCING)])
        expected = simulate(case)
        narrow = engine_for(case, trace=False, sizes=NARROW, jit=False)
        compare_totals(run(narrow, case.until_ps), expected)
        compare_totals(run_in_pieces(case, seed, windows=300), expected)


@pytest.mark.parametrize("load_balancing", LOAD_BALANCING)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_growth_changes_nothing(transport: str, model: str, load_balancing: str) -> None:
    for seed in range(100, 101):
        case = random_case(seed, transport, model, load_balancing)
        engine = run(engine_for(case, trace=False, sizes=NARROW, jit=False), case.until_ps)
        compare_totals(engine, simulate(case))


@pytest.mark.parametrize("load_balancing", LOAD_BALANCING)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_runs_in_pieces(transport: str, model: str, load_balancing: str) -> None:
    for seed in range(102, 103):
        case = random_case(seed, transport, model, load_balancing)
        engine = run_in_pieces(case, seed, windows=300)
        compare_totals(engine, simulate(case))


def test_a_call_simulates_no_more_windows_than_asked_for_however_often_rings_grow() -> None:
    case = random_case(0, "roce", "lossless", "ecmp")
    engine = engine_for(case, trace=False, jit=False, sizes=NARROW)
    assert case.until_ps is not None
    for done in range(1, 200):
        if engine.advance(1, case.until_ps) != RUNNING:
            break
        assert engine.counts.windows == done
    assert done > 20
