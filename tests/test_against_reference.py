"""The engine against the slow reference simulator, packet by packet and picosecond by picosecond.

Random small networks in which queues overflow, packets are trimmed and links are paused often, of
all that a case may have (`reference/cases.py`), alone and together: transports, queue disciplines,
load balancing, hosts with several ports, faults, routes that change, tasks, programs, series.
Shorter windows, rings that grow and runs in pieces are among the ways to run them (`agreement.py`).

The engine's code runs as plain Python here, since every fabric would otherwise be compiled; that
compiled code does the same, with any number of threads, is tested in ``engine/test_compiled.py``.
"""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from agreement import Way, check, compare
from engine_case import NARROW, engine_for
from reference.cases import FEATURES, PAIRS, PLANE_BALANCING, ROUTING, random_case
from reference.random_routing import VIA
from reference.small import FULL, PAYLOAD, cable, case, fabric

from netsim.engine.kernels.layout import RUNNING

CASES = 800
"""Random cases of everything."""
LONGER = 276
"""Up to which number those of the slow test of longer ones go."""
MORE_CASES = 6000
"""Up to which number those of the slow test go."""
AT_ONCE = 12
"""Cases of one slow test."""
PARTS = 7
"""Tests of the chosen cases."""
SHORT = 300
"""After about so many transmissions each of the first ones ends."""


def pairs_of(seed: int) -> set[tuple[str | None, str | None]]:
    """Each two of a case's features, transport, discipline, load balancing and planes."""
    case = random_case(seed)
    kinds = (
        case.transport,
        case.fabric["queue_discipline"],
        case.fabric["routing"],
        case.fabric.get("plane_balancing"),
    )
    found = {*kinds, *(name for name in FEATURES if getattr(case, name))}
    return set(itertools.product(found, repeat=2))


@cache
def chosen() -> list[int]:
    """Those of the cases that have a pair which none before has."""
    met: set[tuple[str | None, str | None]] = set()
    return [seed for seed in range(CASES) if len(met) < len(met := met | pairs_of(seed))]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_departure(part: int) -> None:
    for seed in chosen()[part::PARTS]:
        check(seed, SHORT)


@pytest.mark.parametrize("planes", [None, "hash", "entropy"])
def test_trees_of_three_tiers_and_several_of_them(planes: str | None) -> None:
    """They are among the cases above as well."""
    for seed in range(4):
        check(seed, SHORT, trees=True, planes=planes)


def test_racks_that_circuits_alone_join() -> None:
    """Where ports send packets for each other, or packets take any circuit."""
    for seed in range(8):
        check(seed, SHORT, racks=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 1200, AT_ONCE))
def test_racks_that_circuits_alone_join_of_many(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check(seed, racks=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(CASES, MORE_CASES, AT_ONCE))
def test_every_departure_of_many(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, LONGER, AT_ONCE))
def test_every_departure_of_longer_ones(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check(seed, 20_000)


def test_cases_have_everything_together() -> None:
    """Each two features, and each feature with each discipline, transport, balancing and planes."""
    met = set().union(*map(pairs_of, chosen()))
    kinds = {*itertools.chain(*PAIRS), *ROUTING, *PLANE_BALANCING, *FEATURES}
    refused = {("policy", routing) for routing in VIA}
    assert set(itertools.product(FEATURES, kinds)) - refused <= met


@pytest.mark.parametrize("sizes", [(20, 20), (40, 10, 25), (5, 5, 5, 5, 30)])
def test_a_finished_flow_leaves_as_its_port_comes_to_it_paused_or_not(
    sizes: tuple[int, ...],
) -> None:
    """Flows of two ports, which take the one with the fewer of them, into a slow one."""
    lossless = fabric(
        "lossless", plane_balancing="least_loaded", xoff_bytes=4 * FULL, xon_bytes=FULL
    )
    flows = [(0, 1, n * PAYLOAD, i * 600_000) for i, n in enumerate(sizes)]
    cables = [cable(0, 2), cable(0, 2), cable(1, 2, 50)]
    slow = case(2, cables, flows, "roce", {"rto_ps": 10**7}, lossless, until_ps=10**8)
    compare(slow, Way(None, None, pieces=False))


def test_a_call_simulates_no_more_windows_than_asked_for_however_often_rings_grow() -> None:
    case = random_case(0, transport="roce", model="lossless", planes=None)
    engine = engine_for(case, trace=False, jit=False, sizes=NARROW)
    assert case.until_ps is not None
    for done in range(1, 200):
        if engine.advance(1, case.until_ps) != RUNNING:
            break
        assert engine.counts.windows == done
    assert done > 20
