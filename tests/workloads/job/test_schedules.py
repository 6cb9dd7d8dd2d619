"""Pipeline schedules against closed forms of their bubble and their micro-batches in flight."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from pipeline_time import work_through
from raises_input import raises_input

from netsim.workloads.job.schedules import (
    BACKWARD,
    BACKWARD_WEIGHT,
    FORWARD,
    SCHEDULES,
    PipelineSchedule,
    bubble_ps,
    in_flight,
    make_schedule,
)

TIMES = [(10, 10, 10), (10, 12, 8), (10, 20, 5), (12, 10, 11), (8, 10, 12), (5, 10, 10)]
"""Forward and backward for input and weights of a chunk (F, B, W); last, W is longer than F."""


@pytest.mark.parametrize("p", [1, 3, 8])
@pytest.mark.parametrize("name", SCHEDULES)
def test_bubble_and_in_flight_match_formulas(name: str, p: int) -> None:
    for v, batches in product((1, 2, 3) if name == "interleaved" else (1,), (p, 2 * p, 5 * p)):
        m = max(batches, 2 * p - 1) if name == "zb_h2" else batches
        schedule = make_schedule(name, p, m, v)
        for f, b, w in TIMES:
            ran = work_through(schedule, f, b, w)
            work = m * v * (f + b + w)
            assert ran.makespan - work == bubble_ps(name, p, v * f, v * b, v * w, v)
            for stage in range(p):
                assert ran.most_in_flight(stage) / v == in_flight(name, p, stage, m, v)


def test_zb_h2_stages_have_no_idle_time() -> None:
    for p in [2, 4, 8]:
        for m in (2 * p - 1, 4 * p):
            ran = work_through(make_schedule("zb_h2", p, m), 10, 10, 10)
            assert [ran.span(stage) for stage in range(p)] == [m * 30] * p


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 9, 11])
def test_makespan_matches_formula_for_any_micro_batch_count(name: str, m: int) -> None:
    ran = work_through(make_schedule(name, 4, m), 10, 12, 8)
    assert ran.makespan == (m + 3) * 30


def _places(schedule: PipelineSchedule) -> np.ndarray:
    return schedule.position[schedule.stage, schedule.chunk]


def test_operations_wait_for_the_adjacent_stage() -> None:
    for name in SCHEDULES:
        schedule = make_schedule(name, 3, 6, 2 if name == "interleaved" else 1)
        place, kind = _places(schedule), schedule.kind
        first, then = schedule.waits()
        last = place.max()
        assert (schedule.micro_batch[first] == schedule.micro_batch[then]).all()
        forward = kind[then] == FORWARD
        assert (kind[first[forward]] == FORWARD).all()
        assert (
            place[then] - place[first] == np.where(forward, 1, np.where(place[then] == last, 0, -1))
        ).all()
        # Each waits for one operation; forwards of the first stage and weight gradients for none.
        waiting = (kind != BACKWARD_WEIGHT) & ~((kind == FORWARD) & (place == 0))
        assert sorted(then) == np.flatnonzero(waiting).tolist()


def test_interleaved_order_matches_published_example() -> None:
    # Two stages, two chunks, four micro-batches: Narayanan et al., figure 4.
    schedule = make_schedule("interleaved", 2, 4, 2)
    of_first = schedule.stage == 0
    order = zip(
        schedule.kind[of_first],
        schedule.micro_batch[of_first],
        schedule.chunk[of_first],
        strict=True,
    )
    f, b = FORWARD, BACKWARD
    assert list(order) == [
        *((f, 0, 0), (f, 1, 0), (f, 0, 1), (f, 1, 1)),
        *((f, 2, 0), (b, 0, 1), (f, 3, 0), (b, 1, 1), (f, 2, 1), (b, 0, 0), (f, 3, 1), (b, 1, 0)),
        *((b, 2, 1), (b, 3, 1), (b, 2, 0), (b, 3, 0)),
    ]


def test_invalid_schedules_are_rejected() -> None:
    for given, message in [
        (("1f2b", 4, 8), "1f2b"),
        (("1f1b", 4, 8, 2), ("2", "1")),
        (("interleaved", 4, 6, 2), ("6", "4")),
        (("gpipe", 4, 0), "0"),
    ]:
        with raises_input(message):
            make_schedule(*given)
