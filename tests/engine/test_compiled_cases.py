"""Random cases, compiled: equal to the reference, with any number of threads, and in pieces.

Every case compiles code of its own, which is slow; its variants, with other seeds and flow sizes,
share the code.
"""

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
def test_compiled_run_equals_reference_with_threads_and_pieces(rng_seed: int) -> None:
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
