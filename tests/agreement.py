"""Compare every departure of a case on both simulators; how the engine runs must not matter.

The engine runs as plain Python, since every fabric would otherwise need compiling.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

from engine_case import (
    counters_of,
    departures,
    engine_for,
    fabric_of,
    flow_results,
    log_rows,
    run,
    run_in_pieces,
    slot_begins,
    task_results,
)
from network_case import network_of
from reference.cases import random_case
from reference.model import Case, Counters, Outcome
from reference.simulator import Simulator
from series_case import compare_series, equal, reading, sampled

from netsim.engine.engine import Engine
from netsim.engine.series import intervals
from netsim.model.sampling import MIN_INTERVALS, Sampling
from netsim.model.workload import Workload

VARIANTS = 8  # number of cases that share compiled code


@dataclass(frozen=True)
class Way:
    """How the engine runs a case."""

    window_ps: int | None  # None: the longest possible window
    sampling: Sampling | None
    pieces: bool
    """Also run with little scratch memory, in several engines that each resume the one before."""


def way_of(case: Case, rng: random.Random) -> Way:
    """Return a random way to run a case."""
    shorter = shortened(case, rng.choice((1, 1, 3, 8)))
    sampling = _sampling(case, rng) if rng.random() < 0.3 else None
    return Way(shorter, sampling, pieces=rng.random() < 0.5)


def shortened(case: Case, divisor: int) -> int | None:
    """Return a window shorter than the longest possible one, or None for the longest."""
    lookahead = min(min(c.delay_ab_ps, c.delay_ba_ps) for c in case.cables)
    return lookahead // divisor + 1 if divisor > 1 else None


def _sampling(case: Case, rng: random.Random) -> Sampling:
    """Return a sampling of everything; half have a budget so small that intervals grow."""
    assert case.until_ps is not None
    every = case.until_ps // rng.choice((9, 25, 60)) + rng.randrange(3)
    sampling = sampled(case, every)
    if rng.random() < 0.5:
        return sampling
    in_budget = intervals(sampling, network_of(case), fabric_of(case).n_link_classes)
    each = sampling.sample_budget_bytes // in_budget
    return replace(
        sampling, interval_ps=every // 16 + 1, sample_budget_bytes=each * (MIN_INTERVALS + 2)
    )


def cut_short(case: Case, transmissions: int) -> Case:
    """Return the case, ended after this many transmissions."""
    simulator = Simulator(case)
    for _ in simulator.events():
        if sum(len(port.departures) for port in simulator.ports) > transmissions:
            return replace(case, until_ps=simulator.now)
    return case


def variants(case: Case, rng: random.Random) -> list[Case]:
    """Return the case and others that share its compiled code."""
    others = [
        replace(
            case,
            seed=rng.getrandbits(31),
            flows=[(*ends, rng.randint(1, 2 * size), start) for *ends, size, start in case.flows],
        )
        for _ in range(VARIANTS - 1)
    ]
    return [cut_short(each, 20_000) for each in (case, *others)]


def check(rng_seed: int, transmissions: int = 2000, **named: Any) -> tuple[Engine, Simulator]:
    """Compare a random case; keywords are as for `random_case`. The case ends after this many
    transmissions."""
    case = cut_short(random_case(rng_seed, **named), transmissions)
    return compare(case, way_of(case, random.Random(f"way {rng_seed}")))


def compare(
    case: Case, way: Way, load: Workload | None = None, free: int | None = None
) -> tuple[Engine, Simulator]:
    """Run a case on both simulators, compare all results, and return both.

    The engine runs ``load``, if given, instead of the case's flows and tasks.
    Tasks from number ``free`` on may have any order.
    """
    given = {"jit": False, "window_ps": way.window_ps, "sampling": way.sampling, "load": load}
    engine = run(engine_for(case, **given), case.until_ps)
    every_ps = reading(engine).interval_ps if way.sampling else None
    simulator = Simulator(replace(case, sample_ps=every_ps))
    expected = simulator.run()
    assert expected.balance.holds()
    for port in range(engine.network.n_ports):
        assert departures(engine, port) == sorted(tuple(d)[1:] for d in expected.departures[port])
    compare_totals(engine, expected, free)
    if way.sampling:
        compare_series(case, simulator, engine)
    if way.pieces:
        pieces = run_in_pieces(case, case.seed, engine.counts.windows, **given)
        assert pieces.digest() == engine.digest()
        assert pieces.counts == engine.counts
        compare_totals(pieces, expected, free)
        if way.sampling:
            equal(reading(pieces), reading(engine))
    return engine, simulator


def compare_totals(engine: Engine, expected: Outcome, free: int | None = None) -> None:
    """Compare everything except packets: flows, tasks, log, slots and counters."""
    assert flow_results(engine) == [tuple(flow) for flow in expected.flows]
    ours, theirs = task_results(engine), [tuple(task) for task in expected.tasks]
    assert ours[:free] == theirs[:free]
    if free is not None:
        assert sorted(ours[free:]) == sorted(theirs[free:])
    assert log_rows(engine) == expected.log
    if engine.feature_set.phase_driven:  # else no circuit follows the slots
        assert slot_begins(engine, expected.end_ps) == expected.slots
    counted = counters_of(engine, expected.end_ps)
    classes = engine.fabric.n_link_classes
    for (port, c), counters in expected.counters.items():
        assert Counters(**counted[port * classes + c]) == counters, (port, c)
    found, balance = engine.conservation(), expected.balance
    assert found.bytes.sent == balance.sent.bytes
    assert found.packets.received == balance.received.packets
    assert found.bytes.received == balance.received.bytes
    assert engine.counts.hops == sum(map(len, expected.departures.values()))
