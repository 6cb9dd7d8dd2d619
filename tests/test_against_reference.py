"""The engine matches the slow reference simulator, packet by packet and picosecond by picosecond.

Random small networks often overflow queues, trim packets and pause links. They combine all features
of a case (`reference/cases.py`): transports, queue disciplines, load balancing, hosts with several
ports, faults, route changes, tasks, programs, series. They run with shorter windows, growing rings
and resumed engines, too (`agreement.py`).

The engine runs as plain Python here, since every fabric would otherwise need compiling;
``engine/test_compiled.py`` tests that compiled code with any number of threads does the same.
"""

import itertools
from functools import cache
from typing import Any

import pytest
from agreement import Way, check, compare
from engine_case import NARROW, engine_for
from reference.cases import FEATURES, PAIRS, PLANE_BALANCING, ROUTING, random_case
from reference.random_features import VIA
from reference.small import FULL, PAYLOAD, cable, case, fabric

from netsim.engine.kernels.layout import RUNNING

CASES = 800  # number of random cases to choose from ...
RARE = (800, 2548)  # ... and others, with pairs that these lack: LLR with valiant, with trim_return
LONGER = 276  # number of longer cases of the slow test
MORE_CASES = 6000  # first case number beyond the slow test
AT_ONCE = 12  # cases per slow test
PARTS = 4  # number of tests that share the chosen cases
SHORT = 300  # number of transmissions after which a quick case ends


def pairs_of(seed: int, *, quick: bool = False) -> set[tuple[str | None, str | None]]:
    """Return pairs of a case's features, transport, discipline, planes and routing; all pairs, or
    those that need few cases. Each case has one pair of routing and discipline, so all of them need
    many."""
    case = random_case(seed)
    features = {name for name in FEATURES if getattr(case, name)}
    routing, planes = case.fabric["routing"], case.fabric.get("plane_balancing")
    kinds = {case.transport, case.fabric["queue_discipline"], planes}
    everything = {routing, *kinds, *features}
    if quick:
        pairs = {*itertools.product(features, everything), *itertools.product(kinds, kinds)}
        return {(routing, routing), *pairs}
    return set(itertools.product(everything, everything))


@cache
def chosen(*, quick: bool = True) -> list[int]:
    """Return few cases that cover all pairs: repeatedly the case with the most missing pairs."""
    pairs = {seed: pairs_of(seed, quick=quick) for seed in (*range(CASES), *RARE)}
    missing, found = set().union(*pairs.values()), []
    while missing:
        found.append(max(pairs, key=lambda seed: len(pairs[seed] & missing)))
        missing -= pairs[found[-1]]
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_engine_matches_the_reference(part: int) -> None:
    for seed in chosen()[part::PARTS]:
        check(seed, SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_engine_matches_the_reference_in_all_pairs(part: int) -> None:
    for seed in sorted({*chosen(quick=False)} - {*chosen()})[part::PARTS]:
        check(seed, SHORT)


@pytest.mark.parametrize("planes", [None, "hash", "entropy"])
def test_three_tier_trees_match_the_reference(planes: str | None) -> None:
    """More such trees than among the chosen cases."""
    for seed in range(4):
        check(seed, SHORT, trees=True, planes=planes)


def test_circuit_only_racks_match_the_reference() -> None:
    """Racks connected only by circuits, with opportunistic or Valiant routing."""
    for seed in range(8):
        check(seed, SHORT, racks=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "given"),
    [
        *((first, {}) for first in range(CASES, MORE_CASES, AT_ONCE)),
        *((first, {"transmissions": 20_000}) for first in range(0, LONGER, AT_ONCE)),
        *((first, {"racks": True}) for first in range(8, 1200, AT_ONCE)),
        *((first, {"llr": True}) for first in range(0, 600, AT_ONCE)),
    ],
)
def test_many_cases_match_the_reference(first: int, given: dict[str, Any]) -> None:
    for seed in range(first, first + AT_ONCE):
        check(seed, **given)


def test_chosen_cases_cover_all_feature_pairs() -> None:
    """All pairs of features occur, and each feature with each discipline and transport."""
    met = set().union(*map(pairs_of, chosen()))
    kinds = {*itertools.chain(*PAIRS), *ROUTING, *PLANE_BALANCING, *FEATURES}
    refused = {("policy", routing) for routing in VIA}
    assert set(itertools.product(FEATURES, kinds)) - refused <= met


@pytest.mark.parametrize("sizes", [(20, 20), (40, 10, 25), (5, 5, 5, 5, 30)])
def test_flow_finishing_on_a_paused_port_matches_the_reference(sizes: tuple[int, ...]) -> None:
    """Flows of a host with two ports share a slow link, so its ports are paused."""
    lossless = fabric(
        "lossless", plane_balancing="least_loaded", xoff_bytes=4 * FULL, xon_bytes=FULL
    )
    flows = [(0, 1, n * PAYLOAD, i * 600_000) for i, n in enumerate(sizes)]
    cables = [cable(0, 2), cable(0, 2), cable(1, 2, 50)]
    slow = case(2, cables, flows, "roce", {"rto_ps": 10**7}, lossless, until_ps=10**8)
    compare(slow, Way(None, None, pieces=False))


def test_advance_simulates_one_window_even_if_rings_grow() -> None:
    case = random_case(0, transport="roce", model="lossless", planes=None)
    engine = engine_for(case, trace=False, jit=False, sizes=NARROW)
    assert case.until_ps is not None
    for done in range(1, 200):
        if engine.advance(1, case.until_ps) != RUNNING:
            break
        assert engine.counts.windows == done
    assert done > 20
