"""Costs: availability, dies, price lists."""

import copy
import heapq
import math
import random
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from marked import values

from netsim.common.inputs import read_toml
from netsim.errors import InputError
from netsim.workloads.cost.costs import (
    availability,
    compare,
    cost_of_good_die_usd,
    cost_tables_from,
    die_yield,
    dies_per_wafer,
    full_capacity,
    goodput_of_groups,
    load_cost_tables,
    salvaged_yield,
    spares_for_capacity,
    spares_for_goodput,
    up_shares,
    up_shares_cold,
)
from netsim.workloads.job.load import load_machine, presets

H100_MM2 = 814.0


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


@pytest.fixture
def tree():
    return read_toml(presets("costs")["lite"])


def rows_by_name(tree):
    return {row.name: row for row in compare(cost_tables_from(tree, "mine", Path.cwd()))}


def test_preset_gpus_match_job_machines():
    costs = load_cost_tables("lite")
    for name, gpu in costs.gpus.items():
        machine = load_machine(name)
        assert (gpu.memory, gpu.rate) == (machine.memory, machine.scale_up.rate), name
        assert gpu.group == machine.domain_gpus


def test_row_cost_is_the_sum_of_its_parts(tree):
    row = rows_by_name(tree)["lite"]
    assert row.usd == pytest.approx(row.die_usd + row.memory_usd + row.package_usd + row.link_usd)
    assert row.die_usd == pytest.approx(16988 / (row.dies * row.die_yield))
    assert (row.silicon, row.gpus, row.mtbf_hours) == (4, 4096, 4 * 86_300)
    assert row.links[2].watts == row.link_watts == pytest.approx(900e9 * 5.7e-12)
    assert row.watts_of_reference == pytest.approx(4 * (175 + row.link_watts) / 700)


def test_break_even_link_price_equalizes_cost(tree):
    price = rows_by_name(tree)["lite"].break_even_usd_per_gbps
    assert price > 0
    tree["link"]["co_packaged"]["usd_per_gbps"] = price
    rows = rows_by_name(tree)
    assert rows["lite"].usd_of_reference == pytest.approx(1)
    assert rows["lite_netbw"].usd_of_reference > 1
    assert (rows["h100"].saved_usd, rows["h100"].usd_of_reference) == (0, 1)


def test_identical_gpu_has_the_reference_values(tree):
    tree["gpu"]["twin"] = tree["gpu"]["h100"]
    rows = rows_by_name(tree)
    for name in ("usd", "watts", "gpus", "group_up", "spares", "failures_a_day"):
        assert getattr(rows["twin"], name) == getattr(rows["h100"], name)


def test_failures_scale_with_area_or_gpu_count(tree):
    by_area = rows_by_name(tree)
    # By area, groups of equal silicon fail equally often and stop equally much of it.
    assert by_area["lite"].failures_a_day == pytest.approx(by_area["h100"].failures_a_day)
    assert by_area["lite"].group_up == pytest.approx(by_area["h100"].group_up)
    assert by_area["lite"].blast_shrink == by_area["h100"].blast_shrink / 4
    tree["failures"]["rate_by"] = "gpu"
    by_gpu = rows_by_name(tree)
    assert by_gpu["lite"].failures_a_day == pytest.approx(4 * by_gpu["h100"].failures_a_day)
    assert by_gpu["lite"].gpu_up == by_gpu["h100"].gpu_up


PATHS = [("wafer",), ("wafer", "usd"), ("wafer", "yield_model"), ("wafer", "edge_mm"), ("fleet",)]
PATHS += [("memory", "usd_per_gb"), ("link", "co_packaged"), ("link", "copper", "pj_per_bit")]
PATHS += [("failures", name) for name in ("mtbf_hours", "repair_hours", "swap_hours", "rate_by")]
PATHS += [("fleet", name) for name in ("gpus", "goodput", "reference")]
GPU_KEYS = ("die_mm2", "memory", "rate", "units", "units_needed", "units_share", "watts", "group")
PATHS += [("gpu", "lite", name) for name in GPU_KEYS]
VALUES = [0, 1, -1, 1e308, 1e-308, 1e-9, 1e9, float("inf"), float("nan"), True, "x", "", [], [0.5]]
VALUES += [{}, {"murphy": 1}, {"negative_binomial": 1e-9}, "poisson", "gpu", 10**30, "1GB", "1Gbps"]


def test_random_changes_are_rejected_or_give_rows(tree):
    rng = random.Random(3)
    outcomes = {"rows": 0, "rejected": 0}
    for _ in range(150):
        changed = copy.deepcopy(tree)
        *above, last = rng.choice(PATHS)
        table = changed
        for name in above:
            table = table[name]
        table[last] = rng.choice(VALUES)
        try:
            rows = rows_by_name(changed)
            assert len(rows) == 6
            assert all(math.isfinite(row.usd_of_reference) for row in rows.values())
            outcomes["rows"] += 1
        except InputError:
            outcomes["rejected"] += 1
    assert min(outcomes.values()) > 10


ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "netsim" / "workloads" / "cost" / "README.md").read_text("utf-8")


def test_numbers_in_page_text_are_current():
    h100, lite, netbw = compare(load_cost_tables("lite"))[:3]
    mm2 = 100 * lite.usd_per_good_mm2 / h100.usd_per_good_mm2
    plain = lite.defect_free / h100.defect_free
    dies = [16988 / one.dies / one.defect_free for one in (h100, lite)]
    package = lite.saved_usd - (h100.die_usd - 4 * lite.die_usd)
    price, twice = (one.break_even_usd_per_gbps for one in (lite, netbw))
    assert values(PAGE) == {
        "sold": f"{lite.die_yield / h100.die_yield:.1f}",
        "mm2": f"{mm2:.0f}",
        "sold-all-defects": f"{plain:.1f}",
        "mm2-all-defects": f"{mm2 * lite.die_yield / h100.die_yield / plain:.0f}",
        "saved": f"{lite.saved_usd:.0f}",
        "saved-all-defects": f"{dies[0] - 4 * dies[1] + package:.0f}",
        "break-even": f"{price:.2f}",
        "break-even-twice": f"{twice:.2f}",
    }
    assert 0.045 < lite.saved_usd / h100.usd < 0.055
    assert (lite.spares[1].full, h100.spares[1].full) == (3, 3)
    by_gpu = compare(load_cost_tables("lite", overrides=["failures.rate_by=gpu"]))[1]
    assert by_gpu.spares[1].full / by_gpu.silicon / h100.spares[1].full == 0.5
    assert (1 - by_gpu.group_up) / (1 - lite.group_up) == pytest.approx(4, rel=0.01)
