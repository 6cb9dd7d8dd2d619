"""Dies per wafer, yield and cost match geometric counts, limits and textbook values."""

import math

import numpy as np
import pytest

from netsim.workloads.cost.cost_tables import (
    cost_of_good_die_usd,
    die_yield,
    dies_per_wafer,
    salvaged_yield,
)

H100_MM2 = 814.0


def counted(die_mm2, diameter_mm=300.0, steps=8):
    """Count the square dies that fit on a round wafer, for the best of several grid offsets."""
    side, radius = math.sqrt(die_mm2), diameter_mm / 2
    cells = int(radius // side) + 2
    most = 0
    for i in range(steps):
        for j in range(steps):
            here = 0
            for row in range(-cells, cells):
                bottom = (row + i / steps) * side
                far = max(abs(bottom), abs(bottom + side))
                if far > radius:
                    continue
                half = math.sqrt(radius**2 - far**2) / side
                here += max(math.floor(half - j / steps) + math.floor(half + j / steps), 0)
            most = max(most, here)
    return most


def test_dies_per_wafer_matches_known_counts():
    for die_mm2, diameter_mm, dies in [
        (225, 300, 269),
        (100, 300, 640),
        (500, 300, 111),
        (H100_MM2, 300, 63),
        (100, 200, 269),
    ]:
        assert dies_per_wafer(die_mm2, diameter_mm) == dies


def test_yield_models_match_textbook_values():
    at_one = {name: die_yield(100, 1.0, name) for name in ("poisson", "murphy", "seeds")}
    assert at_one["poisson"] == pytest.approx(math.exp(-1))  # 0.37, Flynn, figure 2.20
    assert at_one["murphy"] == pytest.approx((1 - math.exp(-1)) ** 2)
    assert at_one["seeds"] == 0.5
    # If the density is 0.5 or 1.5 of its mean, equally likely, the mean of the two Poisson yields
    # has the same first two terms as a negative binomial with the same variance.
    two = (die_yield(1, 0.5, "poisson") + die_yield(1, 1.5, "poisson")) / 2
    assert die_yield(1, 1.0, "negative_binomial", 4.0) == pytest.approx(two, rel=1e-7)


def test_die_cost_is_wafer_cost_per_good_die():
    assert cost_of_good_die_usd(1000.0, 50, 0.8) == pytest.approx(25)
    assert cost_of_good_die_usd(1000.0, 0, 0.8) == math.inf


MODELS = [("poisson", None), ("murphy", None), ("seeds", None), ("negative_binomial", 3.0)]


def test_poisson_salvaged_yield_is_binomial():
    """Units fail independently; the rest of the die must be free of defects."""
    for units, needed, share in [(36, 33, 0.5), (144, 132, 0.6), (8, 1, 1)]:
        defects = H100_MM2 / 100 * 0.4
        good = math.exp(-defects * share / units)
        found = sum(
            math.comb(units, bad) * (1 - good) ** bad * good ** (units - bad)
            for bad in range(units - needed + 1)
        )
        expected = found * math.exp(-defects * (1 - share))
        assert salvaged_yield(
            H100_MM2, 0.4, "poisson", None, units, needed, share
        ) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("model", "alpha"), MODELS[1:])
def test_salvaged_yield_averages_over_defect_densities(model, alpha):
    """Densities: triangular for Murphy, exponential for Seeds, gamma for negative binomial."""
    rng = np.random.default_rng(4)
    drawn = {
        "murphy": lambda n: rng.triangular(0, 1, 2, n),
        "seeds": lambda n: rng.exponential(1, n),
        "negative_binomial": lambda n: rng.gamma(alpha or 1, 1 / (alpha or 1), n),
    }[model](200_000)
    mean, units, needed, share = 2.0, 12, 10, 0.7
    good = np.exp(-mean * drawn * share / units)
    found = sum(
        math.comb(units, bad) * (1 - good) ** bad * good ** (units - bad)
        for bad in range(units - needed + 1)
    ) * np.exp(-mean * drawn * (1 - share))
    ours = salvaged_yield(200, 1.0, model, alpha, units, needed, share)
    assert ours == pytest.approx(found.mean(), rel=0.005)
