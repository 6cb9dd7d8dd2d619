"""Find where throughput saturates, from rows of a sweep."""

from __future__ import annotations

import math

import pytest

from netsim.results.saturation import Saturation, is_saturated, next_loads, saturation_of

GRID = [0.05, 0.3, 0.55, 0.8]


def row(offered: float, accepted: float, interval: float = 0.001, status: str = "measured"):
    excess = {"excess_load": offered - accepted, "excess_interval": interval}
    return {"offered_load": offered, "status": status, **excess}


@pytest.mark.parametrize(
    ("rows", "saturated"),
    [
        ([row(0.5, 0.496)], False),  # within 1 %
        ([row(0.5, 0.494)], True),
        ([row(0.5, 0.494, interval=0.007)], False),  # within the confidence interval
        ([row(0.5, 0.494, interval=0.007)] * 4, True),
        ([row(0.5, 0.51)], False),
        ([{"status": "stalled"}, row(0.5, 0.5)], True),
        ([{"status": "interrupted"}], None),
        ([], None),
    ],
)
def test_load_is_saturated_if_its_backlog_grows(rows, saturated) -> None:
    assert is_saturated(rows) is saturated


@pytest.mark.parametrize("limit", [0.0125, 0.2, 0.4375, 0.7, 0.9])
def test_search_halves_the_interval_to_the_tolerance(limit: float) -> None:
    measured, rounds = {}, 0
    while loads := next_loads(measured, GRID, 0.005):
        rounds += 1
        measured |= {load: [row(load, min(load, limit))] for load in loads}
    found = saturation_of(measured)
    if limit < GRID[0]:
        assert (found, str(found), rounds) == (Saturation(None, 0.05), "below 0.05", 1)
    elif limit > GRID[-1]:
        assert (found, str(found), rounds) == (Saturation(0.8, None), "above 0.8", 1)
    else:
        assert found.low is not None
        assert found.high is not None
        assert found.low * 0.99 <= limit < found.high
        assert 0.005 < found.high - found.low <= 0.01
        assert rounds == 1 + math.ceil(math.log2(0.25 / 0.01))
        assert str(found) == f"{found.load:.3f} ± 0.004"
