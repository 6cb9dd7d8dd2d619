"""Random cases of everything, compiled: as the reference says, with any threads, and in pieces.

Each is compiled by itself, so that these are slow tests; what is compiled once serves several cases
that differ in their seed and in the sizes of flows.
"""

from __future__ import annotations

import random

import pytest
from agreement import compare_totals, variants, way_of
from engine_case import NARROW, engine_for, run, run_in_pieces
from reference.cases import random_case
from reference.model import Case
from reference.simulator import simulate
from series_case import equal, reading

from netsim.engine.engine import Engine

FIRST = 10_000
POINTS = 12


@pytest.mark.slow
@pytest.mark.parametrize("rng_seed", range(FIRST, FIRST + POINTS))
def test_compiled_as_the_reference_with_any_threads_and_in_pieces(rng_seed: int) -> None:
    rng = random.Random(rng_seed)
    drawn = random_case(rng_seed)
    sampling = way_of(drawn, rng).sampling
    for case in variants(drawn, rng):
        expected = simulate(case)

        def ran(given: Case = case, **options: object) -> Engine:
            engine = engine_for(given, trace=False, sampling=sampling, **options)
            return run(engine, given.until_ps)

        one = ran()
        compare_totals(one, expected)
        threads = rng.choice((2, 3, 4))
        others = [
            ran(threads=threads),
            ran(threads=threads, sizes=NARROW),
            run_in_pieces(
                case, case.seed, one.counts.windows, jit=True, threads=2, sampling=sampling
            ),
        ]
        for other in others:
            assert other.digest() == one.digest()
            assert other.counts == one.counts
            if sampling is not None:
                equal(reading(other), reading(one))
