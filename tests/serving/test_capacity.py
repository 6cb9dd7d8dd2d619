"""What failures leave of the GPUs: by formula, against draws, and from a log."""

from __future__ import annotations

import numpy as np
import pytest
from serving_case import log_of, mixed_plan, row

from netsim.model.serving import DOWN, UP
from netsim.serving.capacity import capacity_figures, expected_capacity
from netsim.serving.failures import Policy, draw_outages

MTBF, REPAIR, UNTIL = 8_000_000, 300_000, 20_000_000_000


@pytest.mark.parametrize(
    "policy",
    [
        Policy(MTBF, REPAIR, swap_ps=30_000),
        Policy(MTBF, 5 * REPAIR, swap_ps=30_000, spares=1),
        Policy(MTBF, 5 * REPAIR, swap_ps=30_000, spares=3),
        Policy(MTBF, REPAIR, swap_ps=9_000, on_failure="shrink", restart_ps=30_000),
    ],
)
@pytest.mark.parametrize("gpus", [1, 4])
def test_formulas_against_draws(policy: Policy, gpus: int) -> None:
    machines = 6
    found = draw_outages(policy, np.full(machines, gpus), UNTIL, np.random.default_rng(5))
    down, short = (float(one.mean()) for one in found.shares(machines, UNTIL))
    expected = expected_capacity(policy, gpus, machines)
    assert expected is not None
    assert down + short / gpus == pytest.approx(1 - expected, rel=0.08)


def test_there_is_no_formula_for_spares_of_machines_that_shrink() -> None:
    policy = Policy(MTBF, REPAIR, spares=1, on_failure="shrink", restart_ps=1)
    assert expected_capacity(policy, 4, 2) is None


def test_a_log_of_failures() -> None:
    plan = mixed_plan([(100, 10, 3)], machines=3)
    host, size = int(plan.machines.leader[0]), int(plan.machines.size[0])
    every = int(plan.machines.size.sum())
    rows = [
        row(host, 200, DOWN, tokens=0),
        row(host, 300, UP, tokens=size - 1),
        row(host, 700, UP, tokens=size),
        row(host, 1000, DOWN, tokens=0),
        row(host, 5000, UP, tokens=size),
    ]
    found = capacity_figures(plan, log_of(rows), 100, 1100)
    assert found["count"] == 2
    lost = size * 100 + 400 + size * 100
    assert found["capacity"] == pytest.approx(1 - lost / (1000 * every))
    assert capacity_figures(plan, log_of([]), 100, 1100) == {"count": 0, "capacity": 1.0}
