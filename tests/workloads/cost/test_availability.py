"""Availability and spares match exact fractional sums and an event simulation."""

import heapq
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from netsim.workloads.cost.compare import (
    availability,
    full_capacity,
    goodput_of_groups,
    spares_for_capacity,
    spares_for_goodput,
    up_shares,
    up_shares_cold,
)


def binomial(n, share):
    return [comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]


def test_up_shares_equal_exact_binomial_sums():
    for n, share in [(1, "1/2"), (8, "9/10"), (40, "1/3"), (64, "999/1000")]:
        exact = binomial(n, Fraction(share))
        found = up_shares(n, float(Fraction(share)))
        assert found == pytest.approx([float(one) for one in exact], rel=1e-10)
        wanted = float(sum(exact[n - 2 :])) if n > 2 else 1.0
        assert full_capacity(found, max(n - 2, 0)) == pytest.approx(wanted, rel=1e-12)


def test_goodput_of_groups_matches_exact_mean():
    exact = binomial(8, Fraction(9, 10))
    stop = sum(share * (k // 4 * 4) for k, share in enumerate(exact)) / 8
    up = up_shares(8, 0.9)
    assert goodput_of_groups(up, 8, 4, "stop") == pytest.approx(float(stop))
    assert goodput_of_groups(up, 8, 4, "shrink") == pytest.approx(0.9)
    assert goodput_of_groups(up, 8, 1, "stop") == pytest.approx(0.9)


def test_spare_count_is_minimal():
    for gpus, group, share, wanted in [
        (64, 8, 0.98, 0.99),
        (32, 32, 0.99, 0.999),
        (512, 8, 0.9, 0.95),
    ]:
        for how in ("stop", "shrink"):
            found = spares_for_goodput(gpus, group, share, wanted, how)
            assert found > 0
            below, there = (
                goodput_of_groups(up_shares(gpus + n, share), gpus, group, how)
                for n in (found - 1, found)
            )
            assert below < wanted <= there
        found = spares_for_capacity(gpus, share, wanted)
        there, below = (full_capacity(up_shares(gpus + n, share), gpus) for n in (found, found - 1))
        assert below < wanted <= there


def test_spares_are_zero_if_unneeded_and_none_if_unreachable():
    assert spares_for_goodput(64, 8, 0.9999, 0.99) == 0
    assert spares_for_capacity(64, 0.9999, 0.99) == 0
    assert spares_for_goodput(64, 8, 0.98, 0.99, "stop", swapped=0.985) is None
    lossless = spares_for_goodput(64, 8, 0.98, 0.99, "stop")
    assert spares_for_goodput(64, 8, 0.98, 0.99, "stop", swapped=0.9905) >= lossless
    assert spares_for_capacity(8, 0.0, 0.99) is None


def test_availability_of_gpu_and_group():
    assert availability(99, 1) == 0.99
    assert availability(800, 10, 8) == availability(100, 10)
    # GPUs of a stopped group do not fail, so it is up more often than independent GPUs would be.
    assert availability(800, 10, 8) > availability(800, 10) ** 8


@pytest.mark.parametrize("fixed", [True, False])
def test_idle_spares_match_event_simulation(fixed):
    """Fixed and exponential repair times with the same mean give the same shares."""
    n, spares, mtbf, repair = 6, 2, 10.0, 8.0
    rng = np.random.default_rng(7)
    now, working, idle, repairs = 0.0, n, spares, []
    time_at = np.zeros(n + spares + 1)
    for _ in range(60_000):
        fails = now + rng.exponential(mtbf / working) if working else np.inf
        back = repairs[0] if repairs else np.inf
        time_at[working + idle] += min(fails, back) - now
        now = min(fails, back)
        if fails < back:
            working -= 1
            heapq.heappush(repairs, now + (repair if fixed else rng.exponential(repair)))
        else:
            heapq.heappop(repairs)
            idle += 1
        moved = min(idle, n - working)
        working, idle = working + moved, idle - moved
    found = time_at / time_at.sum()
    expected = up_shares_cold(n, spares, mtbf, repair)
    assert found == pytest.approx(expected, abs=0.012)
    means = [goodput_of_groups(shares, n, 1) for shares in (found, expected)]
    assert means[0] == pytest.approx(means[1], rel=0.01)
