"""GPU capacity left by failures: the formula against drawn failures, and metrics from a log."""

from __future__ import annotations

import numpy as np
import pytest
from serving_case import log_of, lost_shares, mixed_plan, row

from netsim.workloads.serving.data import DOWN, UP
from netsim.workloads.serving.failures import Policy, draw_outages
from netsim.workloads.serving.outcome import capacity_metrics, expected_capacity

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
def test_expected_capacity_matches_drawn_failures(policy: Policy, gpus: int) -> None:
    machines = 6
    found = draw_outages(policy, np.full(machines, gpus), UNTIL, np.random.default_rng(5))
    down, short = (float(one.mean()) for one in lost_shares(found, machines, UNTIL))
    expected = expected_capacity(policy, gpus, machines)
    assert expected is not None
    assert down + short / gpus == pytest.approx(1 - expected, rel=0.08)


def test_expected_capacity_is_none_for_shrink_with_spares() -> None:
    policy = Policy(MTBF, REPAIR, spares=1, on_failure="shrink", restart_ps=1)
    assert expected_capacity(policy, 4, 2) is None


def test_capacity_metrics_sum_down_and_shrunk_time() -> None:
    plan = mixed_plan([(100, 10, 3)], instances=3)
    host, size = int(plan.instances.leader[0]), int(plan.instances.size[0])
    every = int(plan.instances.size.sum())
    rows = [
        row(host, 200, DOWN, count=0),
        row(host, 300, UP, count=size - 1),
        row(host, 700, UP, count=size),
        row(host, 1000, DOWN, count=0),
        row(host, 5000, UP, count=size),
    ]
    found = capacity_metrics(plan, log_of(rows), 100, 1100)
    assert found["count"] == 2
    lost = size * 100 + 400 + size * 100
    assert found["available_gpu_share"] == pytest.approx(1 - lost / (1000 * every))
    assert capacity_metrics(plan, log_of([]), 100, 1100) == {"count": 0, "available_gpu_share": 1.0}
